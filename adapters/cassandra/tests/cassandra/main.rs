//! Against real nodes of Cassandra; skipped where there is no Java 17.

mod cluster;
mod limits;
mod ring;
mod round_trip;
mod single_node;
mod statistics;
mod times;
