//! Requests to cancel, which come over connections of their own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openssl::memcmp;
use openssl::rand::rand_bytes;
use tokio::sync::watch;

/// Connections whose statements may be cancelled, by number.
#[derive(Debug, Default)]
pub(crate) struct CancelKeys {
    next: AtomicU32,
    keys: Mutex<HashMap<u32, Key>>,
}

#[derive(Debug)]
struct Key {
    secret: [u8; 4],
    /// How many requests have come.
    requests: watch::Sender<u64>,
}

/// A connection in the list, until it ends.
#[derive(Debug)]
pub(crate) struct CancelKey {
    all: Arc<CancelKeys>,
    pub(crate) process: u32,
    pub(crate) secret: u32,
    /// Changes when a request comes.
    pub(crate) requests: watch::Receiver<u64>,
}

impl CancelKeys {
    /// A key for a connection; `None` when the system has no random numbers.
    pub(crate) fn key(self: &Arc<Self>) -> Option<CancelKey> {
        let mut secret = [0; 4];
        rand_bytes(&mut secret).ok()?;
        let process = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & 0x7fff_ffff;
        let (sender, requests) = watch::channel(0);
        self.locked().insert(process, Key { secret, requests: sender });
        Some(CancelKey { all: Arc::clone(self), process, secret: u32::from_be_bytes(secret), requests })
    }

    /// Cancels what runs on a connection; false when there is none of that key.
    pub(crate) fn cancel(&self, process: u32, secret: u32) -> bool {
        let keys = self.locked();
        let key = keys.get(&process).filter(|key| memcmp::eq(&key.secret, &secret.to_be_bytes()));
        key.inspect(|key| key.requests.send_modify(|requests| *requests += 1)).is_some()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<u32, Key>> {
        // every step under the lock leaves whole values behind
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        self.all.locked().remove(&self.process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_secret_cancels() {
        let keys = Arc::new(CancelKeys::default());
        let key = keys.key().expect("a key");
        assert!(keys.cancel(key.process, key.secret));
        assert!(key.requests.has_changed().expect("it is there"));
        assert!(!keys.cancel(key.process, key.secret ^ 1) && !keys.cancel(key.process + 1, key.secret));
        let (process, secret) = (key.process, key.secret);
        drop(key);
        assert!(!keys.cancel(process, secret));
    }
}
