//! How many questions are answered at once.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Progress, QueryError};

/// How often a question that waits looks whether it was stopped.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Lets so many questions be answered at once; the others wait for their turn, in the order in which they came. Clones
/// are handles of one.
#[derive(Debug, Clone)]
pub struct Admission {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    questions_max: usize,
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// Numbers of those that wait, the first to come first.
    waiting: VecDeque<u64>,
    next_number: u64,
}

/// A question that is being answered, until it is dropped.
#[derive(Debug)]
pub struct Admitted {
    inner: Arc<Inner>,
}

impl Admission {
    /// Lets so many questions in, one at least.
    pub fn new(questions_max: usize) -> Self {
        let (state, left) = (Mutex::default(), Condvar::new());
        Self { inner: Arc::new(Inner { questions_max: questions_max.max(1), state, left }) }
    }

    /// Waits for a turn. Fails only with [`QueryError::Cancelled`].
    pub fn enter(&self, progress: &Progress) -> Result<Admitted, QueryError> {
        let mut state = self.inner.state();
        let number = state.next_number;
        state.next_number += 1;
        state.waiting.push_back(number);
        while state.running >= self.inner.questions_max || state.waiting.front() != Some(&number) {
            if progress.is_stopped() {
                state.waiting.retain(|waiting| *waiting != number);
                self.inner.left.notify_all();
                return Err(QueryError::Cancelled);
            }
            let waited = self.inner.left.wait_timeout(state, LOOK_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.waiting.pop_front();
        state.running += 1;
        // there may be room for the next one, too
        self.inner.left.notify_all();
        Ok(Admitted { inner: Arc::clone(&self.inner) })
    }

    /// Questions that are being answered, and those that wait.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.inner.state();
        (state.running, state.waiting.len())
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // every step under the lock leaves whole values behind
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.inner.state().running -= 1;
        self.inner.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn questions_wait_for_their_turn_in_order() {
        let admission = Admission::new(2);
        let progress = Progress::default();
        let first = admission.enter(&progress).expect("let in");
        let _second = admission.enter(&progress).expect("let in");
        let (told, order) = mpsc::channel();
        let wait = |name: &'static str| {
            let (admission, told) = (admission.clone(), told.clone());
            let waiting = admission.counts().1;
            let thread = thread::spawn({
                let admission = admission.clone();
                move || {
                    let admitted = admission.enter(&Progress::default()).expect("let in");
                    told.send(name).expect("told");
                    drop(admitted);
                }
            });
            while admission.counts().1 == waiting {
                thread::yield_now();
            }
            thread
        };
        let threads = [wait("third"), wait("fourth")];
        assert_eq!(admission.counts(), (2, 2));
        drop(first);
        for thread in threads {
            thread.join().expect("ended");
        }
        assert_eq!(order.try_iter().collect::<Vec<_>>(), ["third", "fourth"]);
        assert_eq!(admission.counts(), (1, 0));
    }

    #[test]
    fn a_question_that_waits_can_be_stopped() {
        let admission = Admission::new(1);
        let _running = admission.enter(&Progress::default()).expect("let in");
        let stopped = Progress::default();
        stopped.stop();
        assert!(matches!(admission.enter(&stopped), Err(QueryError::Cancelled)));
        assert_eq!(admission.counts(), (1, 0));
    }
}
