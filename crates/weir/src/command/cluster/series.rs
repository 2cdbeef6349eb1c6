//! Statistics that a cluster of Cassandra keeps, for questions in SQL.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::thread;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use weir_cassandra::{CassandraError, StatisticsReader};
use weir_sql::Progress;
use weir_sql::stored_series::{SeriesSelection, StoredSeries};

/// Partitions whose rows are in memory at once.
const PARTITIONS_AT_ONCE: usize = 64;
/// What a statement has in it that reads the table, or lists tables.
const NAMING: [&str; 3] = ["series", "show", "information_schema"];

/// The table `series` of a keyspace.
pub(crate) struct ClusterSeries {
    /// There until this is dropped.
    reader: Option<StatisticsReader>,
    schema: SchemaRef,
}

impl std::fmt::Debug for ClusterSeries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterSeries")
    }
}

impl ClusterSeries {
    /// Connects to the cluster that an argument for the folder of an archive names; `None` when it has no statistics, or the statement
    /// cannot name them: statistics take a connection of their own, and their columns are known only by it. Questions about flows
    /// do not fail because of statistics.
    pub(crate) fn named(archive: &Path, statement: &str) -> anyhow::Result<Option<Self>> {
        let Some(url) = super::address(archive).filter(|_| may_name(statement)) else { return Ok(None) };
        let options = crate::command::forward::cluster(url).map_err(anyhow::Error::msg)?;
        match StatisticsReader::connect(options) {
            Ok(reader) => Ok(Some(Self { schema: reader.schema(), reader: Some(reader) })),
            Err(CassandraError::Schema(_)) => Ok(None),
            Err(error) => {
                tracing::warn!("there is no table series: {error}");
                Ok(None)
            }
        }
    }
}

/// Whether a statement may name the table. Nothing is parsed: a text that has one of the words for another reason costs a connection.
fn may_name(statement: &str) -> bool {
    let statement = statement.to_ascii_lowercase();
    NAMING.iter().any(|word| statement.contains(word))
}

impl Drop for ClusterSeries {
    /// The reader has a runtime, which may not be dropped by a task of another one, and the last to let go may be one.
    fn drop(&mut self) {
        let reader = self.reader.take();
        // without a thread it is dropped here
        drop(thread::Builder::new().name("weir-cassandra-end".to_owned()).spawn(move || drop(reader)));
    }
}

impl StoredSeries for ClusterSeries {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// The cluster is asked when a question reads.
    fn step_lengths(&self) -> Option<Vec<u32>> {
        None
    }

    fn read(
        &self,
        selection: &SeriesSelection,
        progress: &Progress,
        take: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let Some(reader) = &self.reader else { return Ok(()) };
        let mut partitions = reader.partitions()?;
        let lengths: BTreeSet<u32> = partitions.iter().map(|partition| partition.step_secs).collect();
        if !lengths.contains(&selection.step_secs) {
            let lengths: Vec<String> = lengths.iter().map(u32::to_string).collect();
            let known = lengths.join(", ");
            return Err(
                format!("the statistics have no steps of this length; they have steps of {known} seconds").into()
            );
        }
        let times_ms = selection.from_secs.saturating_mul(1_000)..selection.until_secs.saturating_mul(1_000);
        let is_listed =
            |list: &Option<Vec<String>>, text: &String| list.as_ref().is_none_or(|list| list.contains(text));
        partitions.retain(|partition| {
            partition.step_secs == selection.step_secs
                && is_listed(&selection.families, &partition.by)
                && is_listed(&selection.keys, &partition.key)
                && partition.overlaps(&times_ms)
        });
        for some in partitions.chunks(PARTITIONS_AT_ONCE) {
            if progress.is_stopped() {
                break;
            }
            for batch in reader.rows(some, &times_ms)? {
                if !take(batch) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_statements_that_may_name_the_table_connect_for_it() {
        let naming = [
            "SELECT sum(bytes) FROM series WHERE step = 60",
            "select count(*) from \"series\"",
            "WITH a AS (SELECT * FROM Series WHERE step = 1) SELECT * FROM a",
            "SHOW TABLES",
            "DESCRIBE series",
            "SELECT table_name FROM information_schema.tables",
        ];
        assert!(naming.iter().all(|statement| may_name(statement)));
        let others = ["", "SELECT count(*) FROM flows", "EXPLAIN SELECT * FROM exporter_books", "DESCRIBE flows"];
        assert!(!others.iter().any(|statement| may_name(statement)));
        // nothing answers there, and nothing is asked
        let cluster = Path::new("cassandra://127.0.0.1:1/weir");
        assert!(ClusterSeries::named(cluster, others[1]).expect("no statistics").is_none());
    }
}
