//! Blocks together: their reference page, and whole chains of them.

mod joined_flows;
mod reference;
