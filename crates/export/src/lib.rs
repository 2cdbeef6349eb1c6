//! The Exporting Process: flows into NetFlow v5, NetFlow v9 and IPFIX datagrams.
//!
//! An [`Exporter`] takes flow batches and hands out datagrams that are full up to a length that the network carries
//! in one piece. Which fields a Template Record has follows from the flows: each combination of columns that are
//! not null, of address families and of elements gets a template of its own, so that what was null arrives as absent
//! and what was there arrives as it was. What speaks against it is that flows with nulls strewn over them need many
//! templates; their number is limited, and what is over the limit is refused and counted.
//!
//! # Invariants
//!
//! A flow that a protocol version cannot express exactly (an IPv6 address in NetFlow v5, an interface over 65535) is
//! refused whole and counted by [`Refusal`]; nothing is clipped. Only an autonomous system that does not fit into
//! NetFlow v5 goes out as `AS_TRANS` (RFC 6793 section 9), which means just that. A biflow, and a flow with a counter over
//! 32 bits, become several flows of NetFlow v5, which add up to it. There is no clock and no socket in here: the time is an
//! argument, and datagrams go to a closure.

pub mod config;
pub mod exported;
pub mod exporter;
pub mod session;

mod carriage;
mod clock;
mod columns;
mod message;
mod options;
mod packet;
mod parts;
mod records;
mod shapes;
mod stage;

pub use config::{ConfigError, ExporterConfig, Interface, Sampling, SamplingAnnouncement, TemplateRefresh, Version};
pub use exported::{Exported, Refusal};
pub use exporter::{Datagram, Exporter, OptionsError};
pub use options::{OptionsData, Selector};
pub use session::TransportSession;
