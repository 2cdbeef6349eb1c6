//! Names, speeds and counters of interfaces by SNMP.
//!
//! Flows have numbers of interfaces. Many exporters report no names for them, and none reports how fast they are; their SNMP agents know
//! both. The source [`snmp`](source::KIND) asks them at an interval for the interfaces of the IF-MIB (RFC 2863), and hands rows on
//! that go where those of options data and of sFlow go: names to `exporter_options`, speeds and counters to `interface_counters`. So every
//! question that knows these tables knows what was polled, with the time of it, and there is no second place for names.
//!
//! ```text
//! agent ─▶ walks ─▶ interfaces ─▶ rows of exporter_options, interface_counters ─▶ chain ─▶ archive
//! ```
//!
//! Agents are asked side by side on a thread of their own, each by its own task and socket: one that is silent holds up no other, and
//! none holds up the chain.

pub mod options;
pub mod source;

mod error;
mod interfaces;
mod poll_order;
mod poller;
mod tables;
mod texts;

pub use options::{PolledExporter, SecurityOptions, SnmpOptions};

use weir_chain::AnyKind;

/// Every kind of component of this crate.
pub fn kinds() -> impl Iterator<Item = &'static dyn AnyKind> {
    let kinds: [&'static dyn AnyKind; 1] = [&source::KIND];
    kinds.into_iter()
}
