//! The source `snmp` against real and hostile agents.

mod agents;
mod hostile;
mod polling;
