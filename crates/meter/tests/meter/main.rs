//! The Metering Process against captures of others, and what other programs say of them.

mod applications;
mod fragments;
mod handed_on;
mod routes;
mod segments;
// how the dissector reads tshark
#[allow(dead_code)]
#[path = "../../../wire/tests/wire/tshark/theirs.rs"]
mod theirs;
mod tunnels;
