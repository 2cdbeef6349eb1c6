//! Bytes into messages and back: NetFlow v1, v5, v7, v9 and IPFIX; sFlow; and packets into headers.
//!
//! Every decoder borrows from the datagram it was given and finds things in it; nothing is copied, and a data
//! record costs no allocation. A data set whose template has only fixed lengths is located in constant time,
//! whatever its size. The price of borrowing is that a caller must copy a value to keep it.
//!
//! Bad input yields a [`WireError`] next to everything that could still be read. It spoils the smallest unit
//! that it touches: a record, a template, a set, at worst one datagram.
//!
//! # Invariants
//!
//! There is no I/O, no clock and no state between messages here: templates are handed out as they are met, and
//! remembering them (per exporter and observation domain, with limits and timeouts) is the collecting process's
//! business. No input makes a function of this crate panic or loop without consuming octets.

pub mod error;

pub mod element;
pub mod layout;
pub mod template;

pub mod fixed;
pub mod ipfix;
pub mod netflow1;
pub mod netflow5;
pub mod netflow7;
pub mod netflow9;
pub mod sets;
pub mod template_set;

pub mod structured;

pub mod packet;
pub mod sflow;

pub mod message_builder;
pub mod value;

mod cursor;
mod dialect;

pub use cursor::Cursor;
pub use element::{ElementId, FieldSpecifier, ObservationDomainId, ScopeType, TemplateId, VARIABLE_LENGTH};
pub use error::WireError;
pub use layout::{FieldPositions, Layout, LocatedRecords, Spans, VariablePositions};
pub use sets::{Set, Sets};
pub use structured::ListKind;
pub use template::Template;
pub use template_set::{TemplateRecord, TemplateRecords};
