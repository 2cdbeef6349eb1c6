//! Files of other programs, read as flows.
//!
//! A reader of this crate hands on [`FlowBatch`](weir_flow::FlowBatch)es and never fails for what a file holds, only for
//! what it cannot go on after: what is damaged costs the smallest unit that it spoils, and is counted. What a file tells
//! and no column has is in `elements`, or is counted.

pub mod arrow_stream;
pub mod columnar;
pub mod flow_tools;
pub mod nfcapd;
pub mod parquet_body;
pub mod text;
pub mod text_body;

mod any;
mod error;
mod lzo;
mod panics;

pub use any::{AnyReader, Format, ReadLosses};
pub use error::FormatError;
