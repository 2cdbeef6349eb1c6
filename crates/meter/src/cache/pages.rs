//! Tables in large pages of memory.
//!
//! A table of flows is read in no order at all. In pages of 4 KiB nearly every look at it first misses the processor's
//! table of pages, and the system clears and hands over each page by itself; pages of 2 MiB (Linux: transparent huge
//! pages) spare most of both.
#![expect(unsafe_code, reason = "advice on memory has no safe form; its one use says why it may be")]

/// Octets of a large page.
const LARGE: usize = 2 << 20;

/// Asks for large pages for the memory of a list, which is best done before it is written. Small lists are left alone,
/// and systems that have no such pages do as they did.
pub(super) fn make_large<T>(list: &mut Vec<T>) {
    let octets = list.capacity() * size_of::<T>();
    let begin = list.as_mut_ptr().addr().next_multiple_of(LARGE);
    let end = (list.as_mut_ptr().addr() + octets) / LARGE * LARGE;
    #[cfg(target_os = "linux")]
    if octets >= 2 * LARGE && begin < end {
        let first = list.as_mut_ptr().with_addr(begin).cast();
        // SAFETY: whole pages of the list's own memory; the advice changes nothing of what is in them. It is advice:
        // where it is not taken, nothing is lost.
        unsafe { libc::madvise(first, end - begin, libc::MADV_HUGEPAGE) };
    }
}
