//! Work in several threads whose results come in order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::QueryError;
use crate::run::reason;

/// Results that may wait to be taken, for each thread.
const WAITING_MAX: usize = 4;

struct State<T> {
    /// Pieces of work that threads have taken, or are about to take.
    begun: usize,
    /// Results that were taken.
    taken: usize,
    /// There are no more pieces than those that were begun.
    is_drained: bool,
    done: BTreeMap<usize, Result<Vec<T>, QueryError>>,
    is_stopped: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    moved: Condvar,
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
        let numbers = AtomicUsize::new(0);
        let next = move || {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            Ok((number < count).then_some((number, number)))
        };
        Self::spawn_from(threads.min(count), next, make, work)
    }

    /// Does `work` for what `next` gives together with its number, until it gives no more. Numbers are given in their
    /// order, from 0 without gaps. Every thread makes a state of its own first.
    pub(crate) fn spawn_from<P, W>(
        threads: usize,
        next: impl Fn() -> Result<Option<(usize, P)>, QueryError> + Send + Sync + 'static,
        make: impl Fn() -> Result<W, QueryError> + Send + Sync + 'static,
        work: impl Fn(&mut W, P) -> Result<Vec<T>, QueryError> + Send + Sync + 'static,
    ) -> Self {
        let is_drained = threads == 0;
        let state = State { begun: 0, taken: 0, is_drained, done: BTreeMap::new(), is_stopped: false };
        let shared = Shared { state: Mutex::new(state), moved: Condvar::new(), waiting_max: WAITING_MAX * threads };
        let shared = Arc::new(shared);
        let work = Arc::new((next, make, work));
        let spawned = (0..threads).map(|_| {
            let (shared, work) = (Arc::clone(&shared), Arc::clone(&work));
            thread::spawn(move || run(&shared, &work.0, &work.1, &work.2))
        });
        let threads = spawned.collect();
        Self { shared, threads, current: Vec::new().into_iter(), is_ended: false }
    }
}

fn run<T, P, W>(
    shared: &Shared<T>,
    next: &impl Fn() -> Result<Option<(usize, P)>, QueryError>,
    make: &impl Fn() -> Result<W, QueryError>,
    work: &impl Fn(&mut W, P) -> Result<Vec<T>, QueryError>,
) {
    let mut made = None;
    loop {
        let mut state = shared.state();
        while !state.is_stopped && !state.is_drained && state.begun >= state.taken + shared.waiting_max {
            state = shared.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped || state.is_drained {
            return;
        }
        // what is given has the number of a piece that was begun, though not always of this one
        state.begun += 1;
        drop(state);
        let mut number = None;
        let result = catch_unwind(AssertUnwindSafe(|| {
            let Some((at, piece)) = next()? else { return Ok(None) };
            number = Some(at);
            let state = match &mut made {
                Some(state) => state,
                none => none.insert(make()?),
            };
            work(state, piece).map(Some)
        }));
        let result = result.unwrap_or_else(|panic| Err(QueryError::Panicked(reason(&*panic))));
        let mut state = shared.state();
        match (number, result) {
            // who has begun a piece by now still gets one or comes here
            (None, Ok(_)) => {
                state.begun -= 1;
                state.is_drained = true;
            }
            (number, result) => {
                let failed = result.is_err();
                let number = number.unwrap_or(usize::MAX);
                let result = result.map(Option::unwrap_or_default);
                state.done.entry(number).or_insert(result);
                state.is_stopped |= failed;
            }
        }
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
            let result = loop {
                let number = state.taken;
                if state.is_drained && state.taken == state.begun {
                    self.is_ended = true;
                    return None;
                }
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
