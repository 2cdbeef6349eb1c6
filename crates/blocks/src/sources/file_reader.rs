//! Reads flows from files of other programs and hands them on with lines of the books that account for them.
//!
//! The formats are those of the crate `formats`. There are no datagrams behind such flows, so the books have one count
//! for them: what was stored, for each exporter and minute, as if it had been received when the file says. Reading and
//! decompressing runs in a thread of its own, a few batches ahead of the archive.

use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use weir_chain::{
    Built, Burst, ComponentContext, ComponentError, ComponentKind, Counter, FileEnd, FileReceipts, Notices, Opener,
    OptionError, Outlet, PullResult, Role, Source, choices, options,
};
use weir_flow::books::stored_rows;
use weir_flow::{BooksBatch, Column, Delivery, SideTables};
use weir_formats::{AnyReader, Format, FormatError};

use super::is_of_the_system;
use crate::reception::Reception;

/// Files of other programs.
pub const KIND: ComponentKind<FileReaderOptions> = ComponentKind {
    name: "file-reader",
    role: Role::Source,
    inputs: &[],
    doc: "Reads flows from files of other programs, one after the other: nfcapd files (nfdump 1.6 and 1.7), flow-tools \
          (version 5 and 7), Zeek's conn.log (its own form and JSON), what SiLK's rwcut prints, CSV with a title line, and \
          Parquet. Which format a file has shows in its first octets, unless format says it. It hands on flows in the \
          order of the files, with lines of the books that count them as stored, and with what a file tells of samplers \
          and interfaces. A file that cannot be opened or read to its end is counted in files_failed and told; what was \
          read of it is kept. It counts files_read, records_stored, records_damaged (records and lines that could not be \
          read), blocks_damaged, values_lost, times_replaced (times of reception that cannot be, or that are of more than \
          1000 days in one file: they are replaced by the present) and octets_read.",
    configure,
};

choices! {
    /// Formats of files of other programs.
    pub enum FileFormat {
        /// Look at the content of each file.
        Auto = "auto",
        /// nfcapd files of nfdump 1.6 and 1.7.
        Nfcapd = "nfcapd",
        /// flow-tools files, version 5 and 7.
        FlowTools = "flow-tools",
        /// Zeek's conn.log, as text or JSON.
        Zeek = "zeek",
        /// What SiLK's rwcut prints.
        Silk = "silk",
        /// Comma-separated values with a title line.
        Csv = "csv",
        /// Parquet.
        Parquet = "parquet",
    }
}

options! {
    /// Options of the source `file-reader`.
    pub struct FileReaderOptions {
        /// Read these files.
        files: Vec<PathBuf>,
        /// Format of all files.
        format: FileFormat = FileFormat::Auto,
        /// Read fields of text and Parquet files into these columns, each as FIELD=COLUMN, or leave them out, as FIELD=;
        /// names of columns, and those of Zeek, rwcut and nfdump, are known.
        columns: Vec<String> = Vec::new(),
    }
}

/// Batches read ahead.
const AHEAD: usize = 4;
const WAIT: Duration = Duration::from_millis(100);

fn configure(options: FileReaderOptions) -> Result<Opener, OptionError> {
    let files = options.files;
    if files.is_empty() {
        return Err(OptionError::new("files", "'files' names no file"));
    }
    let format = Format::by_name(options.format.word());
    let mapping = options.columns.iter().map(|text| mapped(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(move |context| {
        let (sender, deliveries) = bounded(AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let reading = Reading::new(format, mapping, sender, Arc::clone(&stop), context);
        let thread = thread::Builder::new()
            .name("weir-files".to_owned())
            .spawn(move || reading.run(&files))
            .map_err(|error| ComponentError::caused("cannot start a thread", error))?;
        Ok(Built::Source(Box::new(Files { deliveries: Some(deliveries), stop, thread: Some(thread) })))
    }))
}

/// Reads `FIELD=COLUMN`, or `FIELD=` for one to leave out.
fn mapped(text: &str) -> Result<(String, Option<Column>), OptionError> {
    let (field, column) = text
        .split_once('=')
        .ok_or_else(|| OptionError::new("columns", format!("'{text}' is not of the form FIELD=COLUMN")))?;
    let (field, column) = (field.trim().to_owned(), column.trim());
    if column.is_empty() {
        return Ok((field, None));
    }
    let column = Column::by_name(column)
        .filter(|column| *column != Column::Elements)
        .ok_or_else(|| OptionError::new("columns", format!("'{column}' is no column that text can fill")))?;
    Ok((field, Some(column)))
}

struct Files {
    deliveries: Option<Receiver<Delivery>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Source for Files {
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        let Some(deliveries) = &self.deliveries else { return Ok(PullResult::Ended) };
        match deliveries.recv_timeout(WAIT) {
            Ok(delivery) => {
                out.burst(Burst::from(delivery));
                Ok(PullResult::More)
            }
            Err(RecvTimeoutError::Timeout) => Ok(PullResult::Nothing),
            Err(RecvTimeoutError::Disconnected) => match self.thread.take().map(JoinHandle::join) {
                Some(Err(_)) => Err(ComponentError::new("the thread that reads files ended by a panic")),
                _ => Ok(PullResult::Ended),
            },
        }
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.stop();
        // the thread finds that nobody takes its batches
        self.deliveries = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread that reads.
struct Reading {
    format: Option<Format>,
    mapping: Vec<(String, Option<Column>)>,
    deliveries: Sender<Delivery>,
    stop: Arc<AtomicBool>,
    files_read: Counter,
    failed: Counter,
    stored: Counter,
    records_damaged: Counter,
    blocks_damaged: Counter,
    values_lost: Counter,
    octets: Counter,
    reception: Reception,
    notices: Notices,
    /// Of the file that is read.
    receipts: FileReceipts,
}

impl Reading {
    fn new(
        format: Option<Format>,
        mapping: Vec<(String, Option<Column>)>,
        deliveries: Sender<Delivery>,
        stop: Arc<AtomicBool>,
        context: &ComponentContext,
    ) -> Self {
        let counter = |name| context.counters.counter(name);
        Self {
            format,
            mapping,
            deliveries,
            stop,
            files_read: counter("files_read"),
            failed: counter("files_failed"),
            stored: counter("records_stored"),
            records_damaged: counter("records_damaged"),
            blocks_damaged: counter("blocks_damaged"),
            values_lost: counter("values_lost"),
            octets: counter("octets_read"),
            reception: Reception::new(context),
            notices: context.notices.clone(),
            receipts: FileReceipts::default(),
        }
    }

    fn run(mut self, files: &[PathBuf]) {
        for path in files {
            if self.stop.load(Ordering::Acquire) {
                break;
            }
            self.receipts = self.notices.file_receipts(path);
            let stored = self.stored.get();
            let damaged = self.records_damaged.get() + self.blocks_damaged.get();
            match self.file(path) {
                Ok(()) => {
                    self.files_read.add(1);
                    let is_damaged = self.records_damaged.get() + self.blocks_damaged.get() > damaged;
                    let end = if is_damaged { FileEnd::Damaged } else { FileEnd::Whole };
                    // of what nothing could be read nothing is known
                    let is_noted = !is_damaged || self.stored.get() > stored;
                    if is_noted && !self.stop.load(Ordering::Acquire) {
                        self.ended(path, end);
                    }
                }
                Err(error) => {
                    self.failed.add(1);
                    if self.stored.get() > stored && !is_of_the_system(&error) {
                        self.ended(path, FileEnd::Damaged);
                    }
                    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                    self.notices.send(&format!("error: {error}{cause}"));
                }
            }
        }
    }

    /// Reports that a file was read, once now, and once when its flows are kept.
    fn ended(&self, path: &Path, end: FileEnd) {
        self.notices.file_ended(path, end);
        self.receipts.ended(end);
    }

    fn file(&mut self, path: &Path) -> Result<(), FormatError> {
        let octets = fs::metadata(path).map_or(0, |file| file.len());
        let mut reader = AnyReader::open(path, self.format, &self.mapping)?;
        self.reception.begin_file();
        let before = self.octets.get();
        let read = self.batches(path, &mut reader, before);
        self.octets.add((before + octets).saturating_sub(self.octets.get()));
        let lost = reader.lost();
        self.records_damaged.add(lost.records);
        self.blocks_damaged.add(lost.blocks);
        self.values_lost.add(lost.values);
        let name = path.display();
        for line in &lost.lines {
            self.notices.send(&format!("warning: {name} line {}: {}", line.number, line.what));
        }
        if lost.records + lost.blocks > 0 {
            self.notices.send(&format!(
                "warning: {name}: {} records and {} blocks could not be read",
                lost.records, lost.blocks
            ));
        }
        if !lost.fields.is_empty() {
            self.notices.send(&format!(
                "note: {name}: not kept, because no column is known for it: {}",
                lost.fields.join(", ")
            ));
        }
        read
    }

    /// Hands on all batches of a file.
    fn batches(&mut self, path: &Path, reader: &mut AnyReader, before: u64) -> Result<(), FormatError> {
        let mut is_begun = false;
        while let Some(flows) = reader.next() {
            let flows = self.reception.judged_flows(flows?);
            self.octets.add((before + reader.octets_read()).saturating_sub(self.octets.get()));
            let books = BooksBatch::from_rows(&stored_rows(&flows));
            let rows = flows.rows() as u64;
            let others = reader.take_options().into_iter().collect();
            let side_tables = SideTables { books: Some(books), others, ..SideTables::default() };
            let delivery = Delivery { flows: Some(flows), side_tables };
            if !is_begun {
                is_begun = true;
                self.notices.file_begun(path);
            }
            if !self.hand_on(delivery) {
                return Ok(());
            }
            self.stored.add(rows);
        }
        // what a file tells behind its last flow
        if let Some(options) = reader.take_options() {
            let side_tables = SideTables { others: vec![options], ..SideTables::default() };
            self.hand_on(Delivery { flows: None, side_tables });
        }
        Ok(())
    }

    /// False when nobody takes anything any more.
    fn hand_on(&mut self, mut delivery: Delivery) -> bool {
        self.receipts.attach(&mut delivery);
        let taken = self.deliveries.send(delivery).is_ok();
        if !taken {
            self.stop.store(true, Ordering::Release);
        }
        taken && !self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use weir_chain::{AnyKind, compliance};
    use weir_flow::DeliveryOutcome;

    use super::*;

    /// The compliance test takes a reference that lives as long as the program.
    const FILE_READER: &'static dyn AnyKind = &KIND;

    #[test]
    fn complies_and_reads_all_files_but_the_damaged() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let mut lines = "start,src_addr,dst_addr,proto,packets,bytes,mine\n".to_owned();
        for row in 0..30_000 {
            writeln!(lines, "{},10.0.0.1,10.0.0.2,udp,{row},100,x", 1_763_683_200 + row).expect("a line");
        }
        lines.push_str("bad,10.0.0.1,10.0.0.2,udp,1,100,x\n");
        fs::write(path("one.csv"), lines).expect("written");
        fs::write(path("two.txt"), "sIP|dIP|sTime|\n10.0.0.1|10.0.0.2|2020/01/01T00:00:00.5|\n").expect("written");
        fs::write(path("garbage"), [7; 100]).expect("written");
        let files = ["one.csv", "garbage", "missing", "two.txt"].map(|name| format!("'{}'", path(name).display()));
        let outcome = compliance::source(FILE_READER, &format!("files = [{}]", files.join(", ")));
        assert_eq!(outcome.len(), 30_001);
        let counted = ["files_read", "files_failed", "records_stored", "records_damaged"];
        assert_eq!(counted.map(|name| outcome.counter(name)), [2, 2, 30_001, 1]);
    }

    /// The receipts of two files, of which the archive has the flows of one.
    #[test]
    fn a_file_is_kept_when_its_flows_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ["one.csv", "two.csv"].map(|name| folder.path().join(name));
        for path in &files {
            fs::write(path, "src_addr,packets,start\n192.0.2.1,7,2026-11-24T00:00:00Z\n").expect("written");
        }
        let (taken, kept) = std::sync::mpsc::channel();
        let notices = Notices::default().with_kept(move |path: &Path, end: FileEnd| {
            let _ = taken.send((path.to_owned(), end));
        });
        let context = ComponentContext { notices, ..ComponentContext::default() };
        let (sender, deliveries) = bounded(AHEAD);
        Reading::new(None, Vec::new(), sender, Arc::default(), &context).run(&files);
        let mut receipts = deliveries.iter().flat_map(|delivery| delivery.side_tables.receipts);
        assert_eq!(context.notices.files_ended().len(), 2);
        assert_eq!(kept.try_iter().count(), 0, "nothing is kept yet");
        receipts.next().expect("a receipt").resolve(DeliveryOutcome::Durable { position: 1 });
        assert_eq!(kept.try_iter().collect::<Vec<_>>(), [(files[0].clone(), FileEnd::Whole)]);
        drop(receipts.next().expect("a receipt"));
        assert_eq!((receipts.count(), kept.try_iter().count()), (0, 0));
    }
}
