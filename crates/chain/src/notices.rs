//! Lines that a component has for whoever runs the chain: where it listens, what the system refused it.
//!
//! Libraries do not print. The binary takes these lines and prints them, so that a script can wait for one of them
//! whatever is logged; without a taker they are logged.

use std::fmt;
use std::sync::Arc;

/// Takes lines for whoever runs the chain. Clones share the taker.
#[derive(Clone, Default)]
pub struct Notices(Option<Arc<Taker>>);

/// What takes lines.
type Taker = dyn Fn(&str) + Send + Sync;

impl Notices {
    /// Notices that go to a function instead of the log.
    pub fn to(taker: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(taker)))
    }

    /// Hands a line on; it may have a remedy on a `hint:` line of its own.
    pub fn send(&self, line: &str) {
        if let Some(taker) = &self.0 {
            taker(line);
        } else {
            tracing::info!("{line}");
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Notices").field(&self.0.is_some()).finish()
    }
}
