//! The longest prefix that an address is in, and what is known of it: routes, places, labels.
//!
//! A [`PrefixMap`] gives a value for each prefix. A [`RouteTable`] is one whose values are routes: it is built once from
//! dumps of routing tables, files of prefixes or address databases ([`RouteTableBuilder`]), and then read by any number of
//! threads. A [`Database`] is a `MaxMind` DB file. Look-ups go through a trie of six bits a level whose nodes are two words
//! of bits (module `trie`). What speaks against it is that a table is not changed but built anew, which takes about a
//! second; [`SharedRouteTable`] puts the new one in the place of the old one while others look addresses up, and a
//! [`RouteFile`] that is open already is not made once more.
//! [`FileVersions`] are the files that tables were made of before, for questions about the past.

mod trie;

mod prefix_table;
pub use prefix_table::{PrefixMatch, PrefixTable};
mod prefix_map;
pub use prefix_map::{PrefixMap, PrefixMapBuilder, TooManyPrefixes};

mod database;
pub use database::{Database, DatabaseError};

mod route_table;
pub use route_table::{Attributes, Route, RouteTable};
mod lookups;
pub use lookups::Lookups;
mod shared;
pub use shared::SharedRouteTable;

mod builder;
pub use builder::{AsChoice, Defect, LoadReport, RouteTableBuilder, RoutingError};
mod route_files;
pub use route_files::{RouteFile, RouteFileError, autonomous_system};
mod input;
mod mrt;
mod prefix_lines;
mod text_tables;
pub use text_tables::{InterfaceNames, TextTableError, read_exporters, read_labels};
mod versions;
pub use versions::{FileContent, FileVersion, FileVersions, KeptVersion, VersionLimits, VersionsError};

#[cfg(test)]
mod database_file;
#[cfg(test)]
mod tests;
