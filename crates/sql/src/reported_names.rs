//! Names of interfaces that exporters reported, each with the time from which it holds.
//!
//! An interface gets another name when a port is used for something else. Who asks about last month wants the name of last month, so all
//! names are kept, and looked up by a time. Before the first report of an interface its first name counts: an exporter reports what
//! it has, and its flows may come before that.

use std::collections::HashMap;
use std::net::IpAddr;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, TimestampMillisecondType, UInt64Type};
use weir_flow::address::to_ip;

/// Names of one interface that are kept, the newest ones.
const VERSIONS_MAX: usize = 1024;

/// The question for the names that exporters reported, the newest last.
pub(crate) const REPORTED: &str = "SELECT received, exporter, key, coalesce(name, description) AS name \
    FROM exporter_options WHERE kind = 'interface' AND key IS NOT NULL AND coalesce(name, description) IS NOT NULL \
    ORDER BY received";

/// A name, and the time from which an interface had it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    from_ms: i64,
    name: String,
}

/// Names of interfaces, each with its times.
#[derive(Debug, Default)]
pub(crate) struct ReportedNames {
    versions: HashMap<(IpAddr, u32), Vec<Version>>,
}

impl ReportedNames {
    /// Adds rows of the answer to [`REPORTED`].
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        let column = |name: &str| batch.column_by_name(name);
        let times = column("received").and_then(|times| times.as_primitive_opt::<TimestampMillisecondType>());
        let exporters = column("exporter").and_then(|exporters| exporters.as_binary_opt::<i32>());
        let keys = column("key").and_then(|keys| keys.as_primitive_opt::<UInt64Type>());
        let texts = column("name").and_then(|texts| arrow::compute::cast(texts, &DataType::Utf8).ok());
        let (Some(times), Some(exporters), Some(keys), Some(texts)) = (times, exporters, keys, texts) else { return };
        let texts = texts.as_string::<i32>();
        for row in (0..batch.num_rows()).filter(|row| texts.is_valid(*row) && exporters.is_valid(*row)) {
            if let Ok(index) = u32::try_from(keys.value(row)) {
                self.insert(exporters.value(row), index, times.value(row), texts.value(row));
            }
        }
    }

    /// Adds a name that is at least as new as those before it.
    fn insert(&mut self, exporter: &[u8], index: u32, from_ms: i64, name: &str) {
        let Some(exporter) = to_ip(exporter) else { return };
        let versions = self.versions.entry((exporter.to_canonical(), index)).or_default();
        if versions.last().is_some_and(|last| last.name == name) {
            return;
        }
        if versions.len() == VERSIONS_MAX {
            versions.remove(0);
        }
        versions.push(Version { from_ms, name: name.to_owned() });
    }

    /// The name that an interface had at a time, in milliseconds since the epoch; its newest one without a time.
    pub(crate) fn name(&self, exporter: &[u8], index: u32, at_ms: Option<i64>) -> Option<&str> {
        let versions = self.versions.get(&(to_ip(exporter)?.to_canonical(), index))?;
        let version = match at_ms {
            None => versions.last(),
            Some(at_ms) => {
                let later = versions.partition_point(|version| version.from_ms <= at_ms);
                versions.get(later.saturating_sub(1))
            }
        };
        version.map(|version| version.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: [u8; 4] = [192, 0, 2, 1];

    #[test]
    fn a_name_holds_until_the_next_one() {
        let mut names = ReportedNames::default();
        for (from_ms, name) in [(1000, "lan"), (2000, "lan"), (3000, "uplink"), (4000, "lan")] {
            names.insert(&ROUTER, 7, from_ms, name);
        }
        names.insert(&ROUTER, 8, 5000, "dmz");
        let mapped = std::net::Ipv4Addr::from(ROUTER).to_ipv6_mapped().octets();
        for exporter in [&ROUTER[..], &mapped] {
            let found = [Some(0), Some(1000), Some(2999), Some(3000), Some(3999), Some(4000), Some(i64::MAX), None]
                .map(|at_ms| names.name(exporter, 7, at_ms));
            let expected = ["lan", "lan", "lan", "uplink", "uplink", "lan", "lan", "lan"];
            assert_eq!(found, expected.map(Some));
        }
        assert_eq!(names.name(&ROUTER, 9, None), None);
        assert_eq!(names.name(&[192, 0, 2], 7, None), None);
    }

    #[test]
    fn an_interface_that_changes_its_name_all_the_time_keeps_the_newest_ones() {
        let mut names = ReportedNames::default();
        for number in 0..2 * VERSIONS_MAX {
            names.insert(&ROUTER, 1, number as i64, &format!("name{number}"));
        }
        assert_eq!(names.versions.values().map(Vec::len).sum::<usize>(), VERSIONS_MAX);
        assert_eq!(names.name(&ROUTER, 1, Some(2 * VERSIONS_MAX as i64 - 2)), Some("name2046"));
    }
}
