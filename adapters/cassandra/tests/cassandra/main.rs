//! Against real nodes of Cassandra; skipped where there is no Java 17.

mod cluster;
mod ring;
mod round_trip;
mod single_node;
