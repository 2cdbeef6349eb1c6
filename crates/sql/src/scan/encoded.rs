//! A scan of flows as octets, for plans that run in several processes.
//!
//! The octets are lines of text: archive, position, tail, limit, partitions, columns, filter in its canonical text, and
//! segments. What is read must be what was planned: a segment that is no longer there is an error, and a scan with a
//! tail is decoded only at the very position it was planned at. Plans that wait should be made of an archive whose
//! tail was sealed, and be executed while the snapshot that they were made of lives.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_archive::{ArchiveError, Snapshot};
use weir_filter::Predicate;
use weir_flow::{Column, Table};

use super::flow_exec::FlowScanExec;

/// The first line.
const HEAD: &str = "weir flow scan 1";

/// Why a scan cannot be written as octets, or read from them.
#[derive(Debug, thiserror::Error)]
pub enum PlanCodecError {
    /// Its addresses are replaced, and the key stays in this process.
    #[error("a scan whose addresses are replaced cannot be executed elsewhere")]
    Pseudonyms,
    /// There is no segment by whose path the archive could be found again.
    #[error("a scan without segments cannot be executed elsewhere")]
    NoArchive,
    /// The filter has no text that reads as the same filter.
    #[error("the filter '{0}' cannot be written as text")]
    Filter(String),
    /// A path that is not a line of UTF-8.
    #[error("the path '{0}' cannot be written as a line of text")]
    Path(String),
    /// Octets that are no scan of this version.
    #[error("no scan of flows: {0}")]
    Malformed(&'static str),
    /// The archive has changed.
    #[error(
        "the archive is at position {found}, the scan was planned at {planned}, and it reads rows that are not sealed"
    )]
    Position {
        /// Where the archive is now.
        found: u64,
        /// Where it was.
        planned: u64,
    },
    /// A segment is gone.
    #[error("segment {0} is no longer part of the archive")]
    SegmentGone(String),
    /// The archive cannot be opened.
    #[error("cannot open the archive")]
    Archive(#[source] ArchiveError),
}

/// The folder of the archive that a segment is in: those of its table and its day are between.
fn archive_of(segment: &Path) -> Option<&Path> {
    segment.ancestors().nth(3)
}

fn line(path: &Path) -> Result<&str, PlanCodecError> {
    let text = path.to_str().filter(|text| !text.contains('\n'));
    text.ok_or_else(|| PlanCodecError::Path(path.display().to_string()))
}

impl FlowScanExec {
    /// The scan as octets.
    pub fn encode(&self) -> Result<Vec<u8>, PlanCodecError> {
        if self.pseudonyms.is_some() {
            return Err(PlanCodecError::Pseudonyms);
        }
        let first = self.snapshot.segments(Table::Flows).first().ok_or(PlanCodecError::NoArchive)?;
        let archive = std::path::absolute(archive_of(&first.path()).ok_or(PlanCodecError::NoArchive)?)
            .map_err(|_| PlanCodecError::Path(first.path().display().to_string()))?;
        let filter = self.predicate.to_string();
        if weir_filter::parse(&filter).ok().as_ref() != Some(&self.predicate) {
            return Err(PlanCodecError::Filter(filter));
        }
        let columns: Vec<_> = self.columns.iter().map(|column| column.name()).collect();
        let mut text = String::from(HEAD);
        // writing to a text does not fail
        let _ = write!(
            text,
            "\n{}\n{} {} {} {}\n{}\n{filter}\n",
            line(&archive)?,
            self.snapshot.position().get(),
            u8::from(self.has_tail),
            self.limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string()),
            self.partitions(),
            columns.join(" "),
        );
        for segment in self.segments.iter() {
            let path = segment.path();
            let root = archive_of(&path).ok_or(PlanCodecError::NoArchive)?;
            let relative = path.strip_prefix(root).map_err(|_| PlanCodecError::NoArchive)?;
            text += line(relative)?;
            text.push('\n');
        }
        Ok(text.into_bytes())
    }

    /// The scan that octets of [`encode`](Self::encode) are. Each of its partitions may be executed in a process of its
    /// own.
    pub fn decode(octets: &[u8]) -> Result<Self, PlanCodecError> {
        let malformed = PlanCodecError::Malformed;
        let text = std::str::from_utf8(octets).map_err(|_| malformed("it is not UTF-8"))?;
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(malformed("it is of another version"));
        }
        let archive = PathBuf::from(lines.next().ok_or(malformed("it names no archive"))?);
        let mut numbers = lines.next().unwrap_or_default().split(' ');
        let mut number = || numbers.next().ok_or(malformed("a number is missing"));
        let parsed = |text: &str| text.parse::<u64>().map_err(|_| malformed("a number is none"));
        let (planned, has_tail) = (parsed(number()?)?, number()? == "1");
        let limit = Some(number()?).filter(|text| *text != "-").map(parsed).transpose()?;
        let partitions = parsed(number()?)?;
        let names = lines.next().unwrap_or_default().split(' ').filter(|name| !name.is_empty());
        let columns = names.map(|name| Column::by_name(name).ok_or(malformed("a column is unknown")));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let predicate = weir_filter::parse(lines.next().unwrap_or_default());
        let predicate: Predicate = predicate.map_err(|_| malformed("the filter is none"))?;
        let snapshot = Arc::new(Snapshot::open(&archive).map_err(PlanCodecError::Archive)?);
        let found = snapshot.position().get();
        if has_tail && found != planned {
            return Err(PlanCodecError::Position { found, planned });
        }
        let known: HashMap<PathBuf, _> =
            snapshot.segments(Table::Flows).iter().map(|segment| (segment.path(), segment)).collect();
        let segments = lines.map(|line| {
            let segment = known.get(&archive.join(line)).map(|segment| (*segment).clone());
            segment.ok_or_else(|| PlanCodecError::SegmentGone(line.to_owned()))
        });
        let segments = segments.collect::<Result<Vec<_>, _>>()?;
        let scan = Self::new(&snapshot, segments, has_tail, predicate, columns, 1);
        Ok(scan.limited(limit.map(|limit| limit as usize)).divided(partitions as usize))
    }
}

#[cfg(test)]
mod tests {

    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::prelude::SessionContext;
    use futures::StreamExt;
    use weir_archive::{ArchiveOptions, CompactionOptions, Writer};
    use weir_flow::{Delivery, FlowBatchBuilder};

    use super::*;

    /// Appends flows of every size from `first` on.
    fn append(writer: &mut Writer, first: usize, count: usize) {
        let mut builder = FlowBatchBuilder::new(count);
        let numbers = first..first + count;
        builder.begin_rows(count);
        builder.time(Column::Received).extend(numbers.clone().map(|number| 1_767_225_600_000 + number as i64));
        builder.u64(Column::Bytes).extend(numbers.clone().map(|number| number as u64));
        builder.u16(Column::DstPort).extend(numbers.map(|number| (number % 10) as u16));
        writer.append(Delivery::from(builder.finish())).expect("appended");
    }

    /// An archive of two segments and, if wanted, a tail.
    fn archive(folder: &Path, has_tail: bool) -> Writer {
        let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
        let open =
            || Writer::open(folder, ArchiveOptions { compaction, ..ArchiveOptions::default() }).expect("opened").0;
        for first in [0, 40_000] {
            let mut writer = open();
            append(&mut writer, first, 40_000);
            writer.close().expect("sealed");
        }
        let mut writer = open();
        if has_tail {
            append(&mut writer, 80_000, 100);
        }
        writer
    }

    fn scan(folder: &Path, filter: &str, limit: Option<usize>) -> FlowScanExec {
        let snapshot = Arc::new(Snapshot::open(folder).expect("a snapshot"));
        let segments = snapshot.segments(Table::Flows).to_vec();
        let predicate = weir_filter::parse(filter).expect("a filter");
        FlowScanExec::new(&snapshot, segments, true, predicate, vec![Column::DstPort, Column::Bytes], 3).limited(limit)
    }

    /// The octets of the flows of each partition.
    fn bytes(scan: &FlowScanExec) -> Vec<Vec<u64>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let partitions = (0..scan.partitions()).map(|partition| {
            let mut rows = scan.execute(partition, SessionContext::new().task_ctx()).expect("executed");
            let mut bytes = Vec::new();
            while let Some(batch) = runtime.block_on(rows.next()) {
                let batch = batch.expect("a batch");
                bytes.extend(batch.column(1).as_primitive::<UInt64Type>().values().iter().copied());
            }
            bytes
        });
        partitions.collect()
    }

    fn sorted(partitions: Vec<Vec<u64>>) -> Vec<u64> {
        let mut all: Vec<u64> = partitions.into_iter().flatten().collect();
        all.sort_unstable();
        all
    }

    /// Each partition is decoded and executed by itself, as in processes of their own: no row is missing and none twice.
    #[test]
    fn a_decoded_scan_gives_the_rows_of_the_one_that_was_planned() {
        let folder = tempfile::tempdir().expect("a folder");
        let _writer = archive(folder.path(), true);
        let planned = scan(folder.path(), "dst port 3 and bytes > 500", None);
        let octets = planned.encode().expect("encoded");
        let partitions = planned.partitions();
        let expected = sorted(bytes(&planned));
        assert_eq!(expected, (501..80_100).filter(|number| number % 10 == 3).collect::<Vec<u64>>());
        let elsewhere: Vec<Vec<u64>> = (0..partitions)
            .map(|partition| {
                let decoded = FlowScanExec::decode(&octets).expect("decoded");
                assert_eq!(decoded.schema(), planned.schema());
                assert_eq!(decoded.partitions(), partitions);
                bytes(&decoded).swap_remove(partition)
            })
            .collect();
        assert_eq!(sorted(elsewhere), expected);
        let again = FlowScanExec::decode(&octets).expect("decoded").encode().expect("encoded");
        assert_eq!(String::from_utf8(again).expect("text"), String::from_utf8(octets).expect("text"));
        let limited = scan(folder.path(), "any", Some(7)).encode().expect("encoded");
        let limited = bytes(&FlowScanExec::decode(&limited).expect("decoded"));
        assert!(limited.iter().all(|rows| rows.len() <= 7) && limited.iter().any(|rows| rows.len() == 7));
    }

    #[test]
    fn an_archive_that_has_moved_on_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = archive(folder.path(), true);
        let with_tail = scan(folder.path(), "any", None).encode().expect("encoded");
        append(&mut writer, 90_000, 1);
        let error = FlowScanExec::decode(&with_tail).map(drop).expect_err("another position");
        assert!(matches!(error, PlanCodecError::Position { planned: 3, found: 4 }), "{error}");
        writer.close().expect("sealed");
        let sealed = scan(folder.path(), "any", None);
        let octets = sealed.encode().expect("encoded");
        assert_eq!(sorted(bytes(&FlowScanExec::decode(&octets).expect("decoded"))).len(), 80_101);
        weir_archive::compact(folder.path(), &weir_archive::CompactionOptions::default(), |_| {}).expect("merged");
        let error = FlowScanExec::decode(&octets).map(drop).expect_err("a segment counts no more");
        assert!(matches!(error, PlanCodecError::SegmentGone(_)), "{error}");
        for spoiled in [&b"weir flow scan 2\n"[..], b"", b"\xff", &octets[..20]] {
            assert!(FlowScanExec::decode(spoiled).is_err());
        }
    }
}
