//! How questions give way to collecting.
#![expect(unsafe_code, reason = "the priority of a thread has no safe form")]

/// What the niceness of questions is: the threads that collect, decode and write have 0.
const NICENESS: i32 = 10;

/// Gives this thread, and those that it starts, less of a busy processor than others get.
pub(crate) fn give_way() {
    // On Linux the priority is that of a thread, and 0 is the calling one; what it starts inherits it. A failure leaves the
    // priority as it was, and answers are the same.
    // SAFETY: the call takes and gives plain numbers
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_its_threads_give_way() {
        // SAFETY: the call takes and gives plain numbers
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        let inside = std::thread::spawn(move || {
            give_way();
            std::thread::spawn(nice).join().expect("a number")
        });
        assert_eq!(inside.join().expect("a number"), NICENESS.max(before));
        assert_eq!(nice(), before);
    }
}
