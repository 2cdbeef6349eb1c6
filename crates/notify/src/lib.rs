//! Sends reports where the actions of a watch say.
//!
//! A [`Notifier`] reads the reports of its watch from the journal, one after the other, and keeps how far it got in a file next to
//! it. So nothing is held in memory for a target that is down, and after an hour, or a restart, it gets everything in order;
//! a report that was sent just before a crash is sent again, with the same id. How long a target may be down is bounded by the
//! journal alone: what is removed from it before it was sent is counted and reported.
//!
//! Nobody waits for a target: each has a thread of its own. What speaks against that is a thread for each action of each
//! watch, of which there are some dozens.

pub mod action;
pub mod notifier;

mod counters;
mod cursor;
mod gathering;
mod quiet;
mod secret;
mod smtp;
mod target;
mod targets;
mod text;
mod timed_stream;

pub use action::Action;
pub use counters::{NotifyCounters, NotifyCounts};
pub use gathering::Scope;
pub use notifier::Notifier;
pub use quiet::Zone;
