//! Where packets come from: [capture files](files); and live [interfaces](live).

mod files;
mod filter;
mod live;

use std::sync::Arc;

pub use files::{FILES_OPEN_MAX, FRAME_OCTETS_MAX, FileOptions, files};
pub use live::{LiveOptions, SystemInterface, interfaces, live};

/// Takes one line, without its end, that tells a person what went wrong while the source goes on.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;
