//! One limit of memory for all questions that share it.
//!
//! Every buffer that grows with the data belongs to a [`Reservation`] of a [`MemoryPool`], which is asked before the
//! buffer grows and gets the bytes back when it is dropped. Bytes are those of the capacity of a buffer, not of what is
//! in it. The pool is two atomic numbers, so asking costs little, but reservations are meant to grow by thousands of
//! bytes and not row by row. What speaks against one pool is that a large question leaves little for the others: they
//! fail, and are not slowed down.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A limit of memory, and how much of it is in use. Clones are handles of one pool.
#[derive(Debug, Clone)]
pub struct MemoryPool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

/// A pool that does not have as much as is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory for {user}: {wanted_bytes} bytes wanted, {used_bytes} of {limit_bytes} bytes are in use")]
pub struct MemoryError {
    /// What wanted the memory.
    pub user: &'static str,
    /// Bytes wanted.
    pub wanted_bytes: usize,
    /// Bytes in use at that moment, by all users of the pool.
    pub used_bytes: usize,
    /// Bytes that all users of the pool may have together.
    pub limit_bytes: usize,
}

impl MemoryPool {
    /// A pool of this many bytes.
    pub fn new(limit_bytes: usize) -> Self {
        Self { inner: Arc::new(Inner { limit: limit_bytes, used: AtomicUsize::new(0), peak: AtomicUsize::new(0) }) }
    }

    /// Bytes that all users may have together.
    pub fn limit_bytes(&self) -> usize {
        self.inner.limit
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> usize {
        self.inner.used.load(Ordering::Relaxed)
    }

    /// The most bytes that were in use at once.
    pub fn peak_bytes(&self) -> usize {
        self.inner.peak.load(Ordering::Relaxed)
    }

    /// An empty reservation; errors name `user`.
    pub fn reservation(&self, user: &'static str) -> Reservation {
        Reservation { pool: self.clone(), bytes: 0, user }
    }

    /// Takes bytes, which are in use until [`shrink`](Self::shrink) returns them. For those who count for themselves;
    /// everybody else has a [`Reservation`].
    pub fn try_grow(&self, bytes: usize, user: &'static str) -> Result<(), MemoryError> {
        let Inner { limit, used, .. } = &*self.inner;
        let grown = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|grown| grown <= limit)
        });
        match grown {
            Ok(before) => {
                self.inner.peak.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(used_bytes) => Err(MemoryError { user, wanted_bytes: bytes, used_bytes, limit_bytes: *limit }),
        }
    }

    /// Takes bytes even beyond the limit: for what is there already and must be counted.
    pub fn grow(&self, bytes: usize) {
        let before = self.inner.used.fetch_add(bytes, Ordering::Relaxed);
        self.inner.peak.fetch_max(before + bytes, Ordering::Relaxed);
    }

    /// Returns bytes that were taken.
    pub fn shrink(&self, bytes: usize) {
        let before = self.inner.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes were returned, {before} were in use");
    }
}

/// Bytes of a [`MemoryPool`] that one user has. They are returned when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    pool: MemoryPool,
    bytes: usize,
    user: &'static str,
}

impl Reservation {
    /// Bytes that it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more bytes.
    pub fn try_grow(&mut self, bytes: usize) -> Result<(), MemoryError> {
        self.pool.try_grow(bytes, self.user)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes more bytes even beyond the limit: for what is there already, or returned soon.
    pub fn grow(&mut self, bytes: usize) {
        self.pool.grow(bytes);
        self.bytes += bytes;
    }

    /// Takes or returns bytes so that it has this many, even beyond the limit.
    pub fn resize(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => self.shrink(self.bytes - bytes),
        }
    }

    /// Returns bytes, at most as many as it has.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.pool.shrink(bytes);
        self.bytes -= bytes;
    }

    /// Takes or returns bytes so that it has this many.
    pub fn try_resize(&mut self, bytes: usize) -> Result<(), MemoryError> {
        if bytes > self.bytes {
            return self.try_grow(bytes - self.bytes);
        }
        self.shrink(self.bytes - bytes);
        Ok(())
    }

    /// An empty reservation of the same pool for the same user.
    #[must_use]
    pub fn empty(&self) -> Self {
        self.pool.reservation(self.user)
    }

    /// Takes over what another reservation of the same pool has.
    pub fn join(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.pool.inner, &other.pool.inner), "reservations of two pools");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Gives some of its bytes, at most all, to a reservation of their own.
    #[must_use = "what is dropped is returned"]
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { pool: self.pool.clone(), bytes, user: self.user }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.pool.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_never_overdrawn() {
        let pool = MemoryPool::new(100);
        let mut one = pool.reservation("groups");
        let mut other = pool.clone().reservation("rows");
        one.try_grow(60).expect("60 of 100");
        let error = other.try_grow(41).expect_err("101 of 100");
        assert_eq!(error, MemoryError { user: "rows", wanted_bytes: 41, used_bytes: 60, limit_bytes: 100 });
        assert_eq!(error.to_string(), "not enough memory for rows: 41 bytes wanted, 60 of 100 bytes are in use");
        other.try_grow(40).expect("100 of 100");
        assert!(other.try_grow(usize::MAX).is_err(), "what exceeds all numbers is too much as well");
        assert_eq!((pool.used_bytes(), one.bytes(), other.bytes()), (100, 60, 40));
    }

    #[test]
    fn what_is_dropped_is_returned() {
        let pool = MemoryPool::new(100);
        let mut kept = pool.reservation("groups");
        kept.try_resize(50).expect("50 of 100");
        kept.try_resize(30).expect("less");
        drop(kept.split(10));
        assert_eq!((kept.bytes(), pool.used_bytes()), (20, 20));
        let mut more = kept.empty();
        more.try_grow(70).expect("90 of 100");
        kept.join(more);
        assert_eq!((kept.bytes(), pool.used_bytes()), (90, 90));
        kept.shrink(1000);
        drop(kept);
        assert_eq!((pool.used_bytes(), pool.peak_bytes()), (0, 90));
    }

    #[test]
    fn what_is_there_already_is_counted_beyond_the_limit() {
        let pool = MemoryPool::new(10);
        pool.grow(25);
        assert_eq!((pool.used_bytes(), pool.peak_bytes()), (25, 25));
        assert!(pool.try_grow(0, "nothing").is_err());
        pool.shrink(25);
        pool.try_grow(10, "all").expect("10 of 10");
    }

    #[test]
    fn threads_do_not_exceed_the_limit_together() {
        let pool = MemoryPool::new(1000);
        let granted = std::thread::scope(|scope| {
            let grow = || (0..10_000).filter(|_| pool.try_grow(1, "a thread").is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(grow)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<usize>()
        });
        assert_eq!((granted, pool.used_bytes(), pool.peak_bytes()), (1000, 1000, 1000));
    }
}
