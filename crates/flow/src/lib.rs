//! The vocabulary of weir: what a flow is, as columns.
//!
//! One table, [`Column`], names every column of a flow: its type, unit, the Information Elements that fill it and
//! its documentation. The Arrow schema, the decoder's mapping, the reference page and the labels of outputs derive
//! from that table and from nothing else.
//!
//! Flows move as [`FlowBatch`]es. A batch is sparse: it carries only the columns that its flows have, in the order
//! of the table, because an exporter that speaks NetFlow v5 never fills thirty of them. What speaks against it is
//! that every consumer must be ready for an absent column; [`FlowBatch::column`] returns `Option` so that none can
//! forget, and [`FlowBatch::to_full`] pads when a fixed schema is needed.
//!
//! This crate knows no protocol, no storage and no configuration file.

pub mod address;
pub mod batch;
pub mod books;
pub mod builder;
pub mod column;
pub mod counters;
pub mod delivery;
pub mod elements;
mod field;
pub mod options;
pub mod registry;
pub mod scaling;
pub mod schema;
mod table;

pub use address::{AddressText, parse_address};
pub use batch::{BatchError, FlowBatch};
pub use books::{BooksBatch, BooksRow, BooksSums, Completeness, Counter};
pub use builder::FlowBatchBuilder;
pub use column::{Column, ColumnType, EXPORT_VERSION_SFLOW5};
pub use delivery::{Delivery, SideTables, TableBatch};
pub use options::{OptionsKind, OptionsRow, OptionsRows};
pub use registry::{DataType, Element, element, element_by_name};
pub use table::Table;
