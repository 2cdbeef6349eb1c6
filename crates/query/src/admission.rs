//! How many questions are answered at once.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Progress, QueryError};

/// How often a question that waits looks whether it was stopped.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Rows that a question may have to read which lets others go first for as long as any does.
const ROWS_PATIENT: u64 = 100_000_000;

/// Lets so many questions be answered at once; the others wait for their turn, in the order in which they came, or those that
/// read less first, as long as the others are [patient](Self::patient). Clones are handles of one.
#[derive(Debug, Clone)]
pub struct Admission {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    questions_max: usize,
    patience_max: Duration,
    began: Instant,
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// Those that wait, the next one first: until when it lets others go first, and its number.
    waiting: BTreeSet<(Duration, u64)>,
    next_number: u64,
}

/// A question that is being answered, until it is dropped.
#[derive(Debug)]
pub struct Admitted {
    inner: Arc<Inner>,
}

impl Admission {
    /// Lets so many questions in, one at least, in the order in which they come.
    pub fn new(questions_max: usize) -> Self {
        Self::patient(questions_max, Duration::ZERO)
    }

    /// Lets so many questions in, one at least. One that reads much lets those go first that come later and read less, for this time
    /// at most: nobody is overtaken by one that came that much later.
    pub fn patient(questions_max: usize, patience_max: Duration) -> Self {
        let (began, state, left) = (Instant::now(), Mutex::default(), Condvar::new());
        Self { inner: Arc::new(Inner { questions_max: questions_max.max(1), patience_max, began, state, left }) }
    }

    /// Waits for a turn. Fails only with [`QueryError::Cancelled`].
    pub fn enter(&self, progress: &Progress) -> Result<Admitted, QueryError> {
        self.enter_to_read(0, progress)
    }

    /// Waits for a turn to read so many rows at most. Fails only with [`QueryError::Cancelled`].
    pub fn enter_to_read(&self, rows_max: u64, progress: &Progress) -> Result<Admitted, QueryError> {
        let mut state = self.inner.state();
        let until = self.inner.began.elapsed() + patience(rows_max, self.inner.patience_max);
        let place = (until, state.next_number);
        state.next_number += 1;
        state.waiting.insert(place);
        while state.running >= self.inner.questions_max || state.waiting.first() != Some(&place) {
            if progress.is_stopped() {
                state.waiting.remove(&place);
                self.inner.left.notify_all();
                return Err(QueryError::Cancelled);
            }
            let waited = self.inner.left.wait_timeout(state, LOOK_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.waiting.remove(&place);
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

/// How long a question lets others go first.
fn patience(rows_max: u64, patience_max: Duration) -> Duration {
    patience_max.mul_f64(rows_max.min(ROWS_PATIENT) as f64 / ROWS_PATIENT as f64)
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

    /// The order in which questions go, that come one after the other while another one is answered, by the rows that they read.
    fn order(questions: &[(&'static str, u64)]) -> Vec<&'static str> {
        let admission = Admission::patient(2, Duration::from_mins(10));
        let progress = Progress::default();
        let first = admission.enter(&progress).expect("let in");
        let _second = admission.enter(&progress).expect("let in");
        let (told, order) = mpsc::channel();
        let wait = |&(name, rows_max): &(&'static str, u64)| {
            let (admission, told) = (admission.clone(), told.clone());
            let waiting = admission.counts().1;
            let thread = thread::spawn({
                let admission = admission.clone();
                move || {
                    let admitted = admission.enter_to_read(rows_max, &Progress::default()).expect("let in");
                    told.send(name).expect("told");
                    drop(admitted);
                }
            });
            while admission.counts().1 == waiting {
                thread::yield_now();
            }
            thread
        };
        let threads: Vec<_> = questions.iter().map(wait).collect();
        assert_eq!(admission.counts(), (2, questions.len()));
        drop(first);
        for thread in threads {
            thread.join().expect("ended");
        }
        assert_eq!(admission.counts(), (1, 0));
        order.try_iter().collect()
    }

    #[test]
    fn questions_wait_for_their_turn_in_order() {
        assert_eq!(order(&[("third", 0), ("fourth", 0)]), ["third", "fourth"]);
        let month = 100_000_000;
        assert_eq!(order(&[("month", month), ("minutes", 10_000), ("other", month)]), ["minutes", "month", "other"]);
        // what it reads is not known: as the largest
        assert_eq!(order(&[("statement", u64::MAX), ("hours", month / 10)]), ["hours", "statement"]);
    }

    #[test]
    fn patience_ends() {
        let max = Duration::from_secs(20);
        assert_eq!(patience(0, max), Duration::ZERO);
        assert_eq!(patience(ROWS_PATIENT / 4, max), Duration::from_secs(5));
        assert_eq!(patience(u64::MAX, max), max);
        assert_eq!(patience(u64::MAX, Duration::ZERO), Duration::ZERO);
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
