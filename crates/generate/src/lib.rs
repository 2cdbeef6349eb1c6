//! A seed into deterministic synthetic flows and the datagrams that carry them.
//!
//! A [`TrafficModel`] is what traffic looks like; [`Flows`] is a stretch of it. The same model gives the same flows
//! on every machine and in every version: all of it is integer arithmetic on a generator with a published sequence,
//! and a test pins the outcome. What speaks against integers is that sizes and popularity follow steps of powers of
//! two instead of a smooth curve; the tails are as heavy, which is what loads a collector and an archive.
//!
//! A [`RouterPair`] is the same traffic seen by two routers, one behind the other: records as their flow caches export
//! them, with planted delay, loss and miscounts, and the [`Truth`] about them that a chain of blocks should find.
//!
//! A [`Scene`] is an attack or a failure that is planted into the traffic.
//!
//! [`send()`] and [`write_pcap`] put flows through exporters onto the network or into a file. Both end by themselves.

pub mod flows;
pub mod model;
pub mod routers;
pub mod scenes;

pub mod pcap;
pub mod send;
pub mod sent;

mod conversation;
mod network;
mod pace;
mod random;
mod row;

pub use flows::{Flows, Totals};
pub use model::{ModelError, Service, TrafficModel};
pub use pcap::write_pcap;
pub use routers::{Histogram, Router, RouterPair, RouterPairError, RouterRecords, Truth};
pub use scenes::{PlantedScene, Scene, SceneKind};
pub use send::{SendPlan, send};
pub use sent::{SendError, Sent, Stream};
