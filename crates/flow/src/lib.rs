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
//! Next to the columns are the words that several crates share: [Community ID](CommunityId), names of
//! [protocols](PROTOCOLS), requests and answers of [ICMP](icmp), [errors with their causes](with_causes).
//!
//! This crate decodes no protocol and knows no storage and no configuration file.

pub mod address;
pub mod batch;
pub mod books;
pub mod builder;
pub mod column;
mod community_id;
pub mod counters;
pub mod delivery;
pub mod elements;
mod error_text;
mod field;
pub mod icmp;
pub mod options;
mod protocols;
pub mod receipt;
pub mod registry;
mod repeating;
mod run_ends;
pub mod scaling;
pub mod schema;
pub mod sequences;
mod services;
mod table;
pub mod text;

pub use address::{AddressText, keep_prefix, parse_address};
pub use batch::{BatchError, FlowBatch};
pub use books::{BooksBatch, BooksBuilder, BooksKey, BooksRow, BooksSums, Completeness, Counter};
pub use builder::FlowBatchBuilder;
pub use column::{Column, ColumnType, EXPORT_VERSION_SFLOW5};
pub use community_id::CommunityId;
pub use delivery::{Delivery, SideTables, TableBatch};
pub use error_text::with_causes;
pub use options::{OptionsKind, OptionsRow, OptionsRows};
pub use protocols::{PROTOCOLS, Protocol, nfdump_protocol_name, protocol_name};
pub use receipt::{DeliveryOutcome, Receipt};
pub use registry::{DataType, Element, NamedElement, element, element_by_name, is_element_name};
pub use sequences::{SequenceKey, SequenceRow};
pub use services::{SERVICES, service_name, service_port};
pub use table::Table;
