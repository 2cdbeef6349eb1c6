//! Work in several threads whose results come in order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::QueryError;
use crate::run::reason;

/// Results that may wait to be taken, for each thread.
const WAITING_MAX: usize = 4;

struct State<T> {
    next: usize,
    taken: usize,
    done: BTreeMap<usize, Result<Vec<T>, QueryError>>,
    is_stopped: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    moved: Condvar,
    count: usize,
    waiting_max: usize,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // every step under the lock leaves whole values behind
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The results of numbered pieces of work, in the order of the numbers, while threads work ahead.
pub(crate) struct Ordered<T> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<()>>,
    current: std::vec::IntoIter<T>,
    is_ended: bool,
}

impl<T: Send + 'static> Ordered<T> {
    /// Does `work` for the numbers below `count`. Every thread makes a state of its own first.
    pub(crate) fn spawn<W>(
        threads: usize,
        count: usize,
        make: impl Fn() -> Result<W, QueryError> + Send + Sync + 'static,
        work: impl Fn(&mut W, usize) -> Result<Vec<T>, QueryError> + Send + Sync + 'static,
    ) -> Self {
        let threads = threads.min(count);
        let state = State { next: 0, taken: 0, done: BTreeMap::new(), is_stopped: false };
        let shared =
            Shared { state: Mutex::new(state), moved: Condvar::new(), count, waiting_max: WAITING_MAX * threads };
        let shared = Arc::new(shared);
        let work = Arc::new((make, work));
        let spawned = (0..threads).map(|_| {
            let (shared, work) = (Arc::clone(&shared), Arc::clone(&work));
            thread::spawn(move || run(&shared, &work.0, &work.1))
        });
        let threads = spawned.collect();
        Self { shared, threads, current: Vec::new().into_iter(), is_ended: false }
    }
}

fn run<T, W>(
    shared: &Shared<T>,
    make: &impl Fn() -> Result<W, QueryError>,
    work: &impl Fn(&mut W, usize) -> Result<Vec<T>, QueryError>,
) {
    let mut made = None;
    loop {
        let number = {
            let mut state = shared.state();
            while !state.is_stopped && state.next < shared.count && state.next >= state.taken + shared.waiting_max {
                state = shared.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_stopped || state.next >= shared.count {
                return;
            }
            state.next += 1;
            state.next - 1
        };
        let result = catch_unwind(AssertUnwindSafe(|| {
            let state = match &mut made {
                Some(state) => state,
                none => none.insert(make()?),
            };
            work(state, number)
        }));
        let result = result.unwrap_or_else(|panic| Err(QueryError::Panicked(reason(&*panic))));
        let failed = result.is_err();
        let mut state = shared.state();
        state.done.insert(number, result);
        state.is_stopped |= failed;
        drop(state);
        shared.moved.notify_all();
    }
}

impl<T> Iterator for Ordered<T> {
    type Item = Result<T, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.current.next() {
                return Some(Ok(item));
            }
            if self.is_ended {
                return None;
            }
            let mut state = self.shared.state();
            if state.taken == self.shared.count {
                self.is_ended = true;
                return None;
            }
            let result = loop {
                let number = state.taken;
                if let Some(result) = state.done.remove(&number) {
                    break result;
                }
                // what failed further on has stopped the others: its error is the answer
                if state.is_stopped {
                    let failed = state.done.iter().find(|(_, result)| result.is_err()).map(|(number, _)| *number);
                    let error = failed.and_then(|number| state.done.remove(&number));
                    break error.unwrap_or(Err(QueryError::Cancelled));
                }
                state = self.shared.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            state.taken += 1;
            drop(state);
            self.shared.moved.notify_all();
            match result {
                Ok(items) => self.current = items.into_iter(),
                Err(error) => {
                    self.is_ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl<T> Drop for Ordered<T> {
    /// Stops the threads and waits for them: they may hold the last handle of what the caller wants to close.
    fn drop(&mut self) {
        self.shared.state().is_stopped = true;
        self.shared.moved.notify_all();
        for thread in self.threads.drain(..) {
            // a panic was caught and reported
            let _ = thread.join();
        }
    }
}
