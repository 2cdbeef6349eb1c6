//! Questions to the archive: nfdump filters and SQL, answered by DataFusion
