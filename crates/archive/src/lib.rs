//! The embedded archive: a crash-safe tail sealed into clustered Parquet segments
