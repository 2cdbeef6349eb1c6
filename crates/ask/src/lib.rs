//! Questions about flows as nfdump asks them.

pub mod keys;
pub mod order;
pub mod question;

pub use keys::{AggregateKey, KeyError, StatisticKey};
pub use order::{Direction, Order, Sorting};
pub use question::{FlowQuery, Select, TimeWindow, WindowRule};
