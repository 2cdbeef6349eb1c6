//! The program as people run it: its processes, its signals, its output.

#[path = "weir/process.rs"]
mod process;

#[path = "weir/archive.rs"]
mod archive;
#[path = "weir/chain.rs"]
mod chain;
#[path = "weir/commands.rs"]
mod commands;
#[path = "weir/foreign.rs"]
mod foreign;
#[path = "weir/kill.rs"]
mod kill;
