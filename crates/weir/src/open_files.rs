//! Files that this process may have open: as many as the system lets it.
//!
//! Shells and service managers set a low limit that a process may raise up to a higher one, for programs that keep a bit
//! for each file; weir is none of them. Connections of a collector, segments and tails all need files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::debug;

/// Raises the limit in force to the one that it may have.
pub(crate) fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(soft, hard)| if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) });
    if let Err(error) = raised {
        debug!("the limit on open files stays as it is: {error}");
    }
}
