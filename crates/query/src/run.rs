//! Threads that share out work.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::QueryError;

/// What a panic said.
pub(crate) fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason given").to_owned()
}

/// Does `each` for the numbers below `count`, each once, in `threads` threads, and gives what every thread made of it.
/// The first error ends all of it.
pub(crate) fn share_out<W: Send>(
    threads: usize,
    count: usize,
    make: impl Fn() -> Result<W, QueryError> + Sync,
    each: impl Fn(&mut W, usize) -> Result<(), QueryError> + Sync,
) -> Result<Vec<W>, QueryError> {
    let numbers = AtomicUsize::new(0);
    let next = || {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        Ok((number < count).then_some(number))
    };
    share_out_from(threads.min(count), next, make, each)
}

/// Does `each` for what `next` gives, until it gives no more, in `threads` threads, and gives what every thread made of
/// it. The first error ends all of it.
pub(crate) fn share_out_from<T, W: Send>(
    threads: usize,
    next: impl Fn() -> Result<Option<T>, QueryError> + Sync,
    make: impl Fn() -> Result<W, QueryError> + Sync,
    each: impl Fn(&mut W, T) -> Result<(), QueryError> + Sync,
) -> Result<Vec<W>, QueryError> {
    let stopped = AtomicBool::new(false);
    let failure: Mutex<Option<QueryError>> = Mutex::new(None);
    let fail = |error| {
        stopped.store(true, Ordering::Relaxed);
        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    };
    let work = || -> Option<W> {
        let worked = catch_unwind(AssertUnwindSafe(|| {
            let mut made = make()?;
            while !stopped.load(Ordering::Relaxed) {
                let Some(piece) = next()? else { break };
                each(&mut made, piece)?;
            }
            Ok(made)
        }));
        match worked {
            Ok(Ok(made)) => Some(made),
            Ok(Err(error)) => {
                fail(error);
                None
            }
            Err(panic) => {
                fail(QueryError::Panicked(reason(&*panic)));
                None
            }
        }
    };
    let threads = threads.max(1);
    let made = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut made: Vec<Option<W>> = vec![work()];
        made.extend(others.into_iter().map(|other| other.join().ok().flatten()));
        made
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(made.into_iter().flatten().collect()),
    }
}
