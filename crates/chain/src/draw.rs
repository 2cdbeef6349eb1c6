//! Pictures of a chain: its components, the threads they run in and the queues between them.

mod svg;
mod text;

pub use svg::svg;
pub use text::{summary, text};
