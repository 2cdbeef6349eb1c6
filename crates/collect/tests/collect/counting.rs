//! An allocator that counts what each thread has allocated, so that a limit on memory can be tested. Whoever includes this file
//! says which one it hands on to.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use super::Allocator;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// What an allocation takes in addition to what was asked for.
const OVERHEAD_OCTETS: isize = 8;

fn count(octets: isize) {
    // a thread that ends has no counter any more
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + octets);
        let _ = MOST.try_with(|most| most.set(most.get().max(live.get())));
    });
}

#[expect(unsafe_code, reason = "an allocator cannot be written without")]
// SAFETY: everything is handed on to another allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize + OVERHEAD_OCTETS);
        // SAFETY: as required of our caller
        unsafe { Allocator.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize) - OVERHEAD_OCTETS);
        // SAFETY: as required of our caller
        unsafe { Allocator.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as required of our caller
        unsafe { Allocator.realloc(pointer, layout, size) }
    }
}

/// Octets that this thread has allocated and not given back.
pub(crate) fn live() -> isize {
    LIVE.get()
}

/// The most of them since this was last asked.
pub(crate) fn take_most() -> isize {
    MOST.replace(live())
}
