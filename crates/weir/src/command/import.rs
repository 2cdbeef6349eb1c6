//! `weir import`: captures of export datagrams, IPFIX files, and flow files of other programs, into an archive.

mod file_list;
mod follow;
mod imported_files;

use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use weir_archive::ArchiveOptions;
use weir_blocks::sinks::archive::{self, ArchiveSinkOptions, SealingOptions};
use weir_blocks::sources::capture_reader::{self, CaptureReaderOptions};
use weir_blocks::sources::file_reader::{self, FileFormat, FileReaderOptions};
use weir_chain::config::ThreadChoice;
use weir_chain::{Chain, ChainBuilder, FileEnd, Notices, TimeSpan};
use weir_formats::{Format, nfcapd};

use super::archive_args::ArchiveArg;
use super::chain_parts::{EnrichmentArgs, enriched, show_or_build};
use super::new_archive::NewArchive;
use super::note_thread::NoteThread;
use super::read_before::ReadBefore;
use super::report::{counted, flows_not_stored, print_archived, print_books, was_stopped_short};
use crate::running::{Foreground, Hooks, was_stopped, without_component};
use file_list::{add_files, leave_out_unknown};
use follow::ImportCounts;

/// How long a disk that takes nothing is waited for.
const GIVE_UP_SECS: u64 = 60;

const EXAMPLES: &str = "\
Examples:
  A capture of NetFlow on this port:
    weir import --archive flows router.pcap --port 2055
  All nfcapd files of a day:
    weir import --archive flows nfcapd/2026/11/21
  The files of a running nfcapd, as it completes them:
    weir import --archive flows --follow /var/cache/nfdump
  A table of another program whose columns have names of their own:
    weir import --archive flows flows.csv --column from=src_addr --column to=dst_addr";

/// Read captures (pcap, pcapng) of export datagrams, IPFIX files, and flow files of other programs into an archive
///
/// Captures and IPFIX files go through the same decoders and books as live traffic; the time of capture, or of export in
/// IPFIX files, stands for the time of reception. Both may be compressed with gzip, zstd, xz, bzip2 or lz4. Flow files are
/// those of nfdump (nfcapd), flow-tools, Zeek (conn.log), SiLK (what rwcut prints), CSV and Parquet. The content of a file
/// shows which of these it is.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files, and directories whose files are all read; - for a capture or IPFIX file on standard input
    #[arg(required_unless_present_any = ["range", "follow"], value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    archive: ArchiveArg,
    /// Read a range of nfcapd files, as nfdump's option -R names it: DIR/FIRST, DIR/FIRST:LAST
    #[arg(long, value_name = "RANGE", conflicts_with = "files")]
    range: Option<String>,
    /// Read the range in these directories, as nfdump's option -M names them: DIR/A:B:C, or DIR/@ for all
    #[arg(long, value_name = "DIRS", requires = "range")]
    directories: Option<String>,
    /// Import nfcapd files of this directory and those below it, and then each new one when nfcapd has completed it, until
    /// SIGINT or SIGTERM; a file that was imported is not imported again, also after a restart
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all =
            ["files", "range", "input_format", "columns", "port", "templates_across_ports", "show_chain"]
    )]
    follow: Option<PathBuf>,
    /// Format of all files; without it the content of each file shows its format
    #[arg(long, value_enum, value_name = "FORMAT")]
    input_format: Option<InputFormat>,
    /// Read a field of text and Parquet files into a column, or leave it out (FIELD=); names of columns and of Zeek, rwcut
    /// and nfdump are known; may be repeated
    #[arg(long = "column", value_name = "FIELD=COLUMN")]
    columns: Vec<String>,
    /// Take every datagram, TCP connection and SCTP association to this port; without it, those that look like NetFlow, IPFIX
    /// or sFlow
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Decode data of captures by templates that the exporter sent from another port, as for weir collect
    #[arg(long)]
    templates_across_ports: bool,
    /// Seal a segment after this many flows
    #[arg(long, value_name = "ROWS", default_value_t = ArchiveOptions::default().segment_rows_max)]
    segment_rows: usize,
    /// Read also files whose flows the archive has already
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    enrichment: EnrichmentArgs,
    /// Print this command as a chain file, and exit
    #[arg(long)]
    show_chain: bool,
}

/// Formats of the files to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum InputFormat {
    /// Captures (pcap, pcapng) of export datagrams, and IPFIX files
    Capture,
    /// nfcapd files of nfdump 1.6 and 1.7
    Nfcapd,
    /// flow-tools files, version 5 and 7
    FlowTools,
    /// Zeek's conn.log, as text or JSON
    Zeek,
    /// What SiLK's rwcut prints
    Silk,
    /// Comma-separated values with a title line
    Csv,
    /// Parquet
    Parquet,
}

impl InputFormat {
    /// The format of the source `file-reader`; captures have a source of their own.
    fn of_files(self) -> FileFormat {
        match self {
            Self::Capture => FileFormat::Auto,
            Self::Nfcapd => FileFormat::Nfcapd,
            Self::FlowTools => FileFormat::FlowTools,
            Self::Zeek => FileFormat::Zeek,
            Self::Silk => FileFormat::Silk,
            Self::Csv => FileFormat::Csv,
            Self::Parquet => FileFormat::Parquet,
        }
    }
}

/// Files that were read, and how that ended.
type FilesRead = Vec<(PathBuf, FileEnd)>;

/// A source of a chain, and the files that it reads.
struct Part {
    source: &'static str,
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(directory) = &args.follow {
        return follow::run(&args.archive.archive, directory, &|files| args.import_whole(files));
    }
    let mut parts = args.parts()?;
    if args.show_chain {
        let chains: Vec<_> = parts.iter().map(|part| args.chain(part).text()).collect();
        print!("{}", chains.join("\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let made = NewArchive::of(&args.archive.archive);
    let imported = args.import_parts(&mut parts);
    if !matches!(imported, Ok(true)) {
        made.remove_if_empty();
    }
    Ok(if imported? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Counters of what could not be read.
const DAMAGE: [&str; 14] = [
    "records_damaged",
    "blocks_damaged",
    "messages_damaged",
    "datagrams_undecodable",
    "datagrams_skipped",
    "exports_truncated",
    "exports_tunneled",
    "connections_encrypted",
    "connection_octets_skipped",
    "associations_encrypted",
    "association_octets_skipped",
    "association_packets_damaged",
    "sets_undecodable",
    "sets_waiting_in",
];

impl Args {
    /// Reads all files; false when one of them could not be read.
    fn import_parts(&self, parts: &mut [Part]) -> anyhow::Result<bool> {
        let mut failed = false;
        // one archive has one writer, so what is read differently is read one after the other
        for part in parts {
            let before = ReadBefore::leave_out(&self.archive.archive, &mut part.files, self.again)?;
            if part.files.is_empty() {
                continue;
            }
            let notices = Notices::to(|line| eprintln!("{line}")).with_begun(before.begun_taker());
            let noting = NoteThread::start(before)?;
            let imported = self.import(part, &notices.with_kept(noting.taker()));
            let mut before = noting.end();
            let (is_bad, read) = imported?;
            failed |= is_bad;
            match read {
                Some(read) => before.note(&read)?,
                None => before.forget_begun()?,
            }
            if was_stopped() {
                break;
            }
        }
        Ok(!failed)
    }

    /// Reads files of one kind; true when one of them could not be read, or nothing of all. With it come the files whose
    /// flows are in the archive now; `None` when nothing of any file is.
    fn import(&self, part: &Part, notices: &Notices) -> anyhow::Result<(bool, Option<FilesRead>)> {
        let Some(chain) = show_or_build(self.chain(part), false)? else { return Ok((false, None)) };
        let octets = part.files.iter().filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum();
        let bar = progress_bar(octets);
        let every = std::io::stderr().is_terminal().then(|| Duration::from_millis(100));
        let report = |progress: &weir_chain::Progress| {
            bar.set_position(progress.component(part.source).map_or(0, |source| source.counter("octets_read")));
        };
        let begun = Instant::now();
        let hooks = Hooks { every, report: Box::new(report), ..Hooks::default() };
        let (progress, ended) = Foreground::new()?.run_with(chain, notices, hooks)?;
        let took = begun.elapsed();
        bar.finish_and_clear();
        let counter = |name: &str| progress.component(part.source).map_or(0, |source| source.counter(name));
        match part.source {
            CAPTURES => print_captures(part, &counter),
            _ => print_files(part, &counter, took),
        }
        print_connections(&counter);
        print_associations(&counter);
        print_books(&progress, part.source);
        print_archived(&progress);
        if counter("times_replaced") > 0 {
            eprintln!(
                "warning: {} times of reception cannot be, or are of more than 1000 days in one file: now is taken for them",
                counter("times_replaced")
            );
        }
        if counter("datagrams_skipped") > 0 {
            eprintln!(
                "{} UDP datagrams skipped because they are not NetFlow, IPFIX or sFlow (--port takes all of a port)",
                counter("datagrams_skipped")
            );
        }
        if counter("exports_tunneled") > 0 {
            let exports = counted(counter("exports_tunneled"), "export");
            eprintln!("{exports} not read: a tunnel carries them (GRE, IP in IP, VXLAN or the like)");
        }
        ended.context("importing ended")?;
        let read = ["records_stored", "records_options", "templates", "counters_stored"].map(&counter);
        let is_nothing_read = read == [0; 4] && DAMAGE.iter().any(|name| counter(name) > 0);
        if is_nothing_read {
            eprintln!("error: nothing could be read");
        }
        if let Some(hint) = hint(&counter, read == [0; 4]) {
            eprintln!("hint: {hint}");
        }
        if is_nothing_read {
            return Ok((true, None));
        }
        let read = if was_stopped_short(&progress) { Vec::new() } else { notices.files_ended() };
        Ok((counter("files_failed") > 0, Some(read)))
    }

    /// Reads nfcapd files into the archive, all of them whatever signal comes.
    fn import_whole(&self, files: &[PathBuf]) -> anyhow::Result<ImportCounts> {
        let part = Part { source: FILES, files: files.to_vec() };
        let Some(chain) = show_or_build(self.chain(&part), false)? else { return Ok(ImportCounts::default()) };
        let notices = Notices::to(|line| eprintln!("{line}"));
        let running = chain.start_with(&notices).map_err(without_component)?;
        while !running.is_finished() {
            running.wait_for(Duration::from_millis(20));
        }
        let (progress, ended) = running.wait();
        ended.map_err(without_component).context("importing ended")?;
        let counter = |name: &str| progress.component(FILES).map_or(0, |source| source.counter(name));
        let lost = flows_not_stored(&progress);
        anyhow::ensure!(lost == 0, "{lost} flows could not be written to the archive");
        Ok(ImportCounts {
            flows: counter("records_stored"),
            failed: counter("files_failed"),
            damaged: counter("records_damaged") + counter("blocks_damaged"),
            read: notices.files_ended(),
        })
    }

    /// All files that are named, by the source that reads them.
    fn parts(&self) -> anyhow::Result<Vec<Part>> {
        let mut files = Vec::new();
        match &self.range {
            Some(range) => {
                let selected = nfcapd::select(None, Some(range), self.directories.as_deref())?;
                for missing in &selected.missing {
                    eprintln!("warning: {} is not a directory", missing.display());
                }
                files = selected.files;
            }
            None => {
                for path in &self.files {
                    let named = files.len();
                    add_files(path, &mut files)
                        .with_context(|| format!("cannot read the directory {}", path.display()))?;
                    if path.is_dir() && self.input_format.is_none() {
                        leave_out_unknown(&mut files, named);
                    }
                }
            }
        }
        anyhow::ensure!(!files.is_empty(), "no file is there to be read");
        let is_foreign = |path: &PathBuf| match self.input_format {
            Some(format) => format != InputFormat::Capture,
            // what a pipe has can be read only once; the source that reads captures reports what cannot be opened
            None => path.is_file() && matches!(Format::of_file(path), Ok(Some(_))),
        };
        let (foreign, captures): (Vec<_>, Vec<_>) = files.into_iter().partition(is_foreign);
        let parts = [Part { source: CAPTURES, files: captures }, Part { source: FILES, files: foreign }];
        Ok(parts.into_iter().filter(|part| !part.files.is_empty()).collect())
    }

    /// The chain that these arguments describe.
    fn chain(&self, part: &Part) -> ChainBuilder {
        let files = part.files.clone();
        let chain = Chain::builder("import").queues(0, 8);
        let chain = if part.source == CAPTURES {
            let templates_across_ports = self.templates_across_ports;
            let options = CaptureReaderOptions { files, port: self.port, templates_across_ports };
            chain.add(part.source, &capture_reader::KIND, options, &[], ThreadChoice::Default)
        } else {
            let format = self.input_format.map_or(FileFormat::Auto, InputFormat::of_files);
            let options = FileReaderOptions { files, format, columns: self.columns.clone() };
            chain.add(part.source, &file_reader::KIND, options, &[], ThreadChoice::Default)
        };
        // who imports by hand looks on: a disk that stays full is an error, and not a wait without an end
        let give_up_after = self.follow.is_none().then(|| TimeSpan::from_secs(GIVE_UP_SECS));
        let sink = ArchiveSinkOptions {
            archive: self.archive.archive.clone(),
            give_up_after,
            sealing: SealingOptions { segment_rows: self.segment_rows, ..SealingOptions::default() },
            ..ArchiveSinkOptions::default()
        };
        let (chain, input) = enriched(chain, part.source, self.enrichment.options());
        chain.add("archive", &archive::KIND, sink, &[input], ThreadChoice::Own)
    }
}

/// Names of the sources in the chains.
const CAPTURES: &str = "captures";
const FILES: &str = "files";

fn print_captures(part: &Part, counter: &dyn Fn(&str) -> u64) {
    eprintln!(
        "{}: {}, {}, {}{}",
        counted(part.files.len(), "file"),
        counted(counter("frames"), "frame"),
        counted(counter("datagrams_udp"), "UDP datagram"),
        counted(counter("records_stored"), "flow"),
        match counter("datagrams_truncated") {
            0 => String::new(),
            cut => format!(", {} cut short", counted(cut, "datagram")),
        }
    );
    if counter("messages") > 0 {
        eprintln!(
            "{} of IPFIX files, {} of them damaged, {} skipped",
            counted(counter("messages"), "message"),
            counter("messages_damaged"),
            counted(counter("octets_skipped"), "octet"),
        );
    }
}

/// What to do about captures of which exports could not be read, or that have none.
fn hint(counter: &dyn Fn(&str) -> u64, is_nothing_read: bool) -> Option<&'static str> {
    let is_any = |names: &[&str]| names.iter().any(|name| counter(name) > 0);
    if is_any(&["exports_truncated", "association_packets_damaged"]) {
        return Some("take captures with the whole length of packets (tcpdump -s 0)");
    }
    let is_export =
        is_any(&["datagrams_decoded", "connections_encrypted", "associations_encrypted", "exports_tunneled"]);
    (is_nothing_read && counter("frames") > 0 && !is_export).then_some("weir meter makes flows of packets")
}

/// Prints what captures have of connections, where they have any.
fn print_connections(counter: &dyn Fn(&str) -> u64) {
    let of = |name: &str, one: &str, many: &str| match counter(name) {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    if counter("connections") > 0 {
        eprintln!(
            "{} with {} of IPFIX, {} missing in the capture, {} skipped",
            of("connections", "TCP connection", "TCP connections"),
            of("connection_messages", "message", "messages"),
            of("connection_octets_missing", "octet", "octets"),
            of("connection_octets_skipped", "octet", "octets"),
        );
    }
    if counter("connections_encrypted") > 0 {
        eprintln!(
            "{} with TLS to a port of IPFIX: what is in it cannot be read from a capture",
            of("connections_encrypted", "TCP connection", "TCP connections"),
        );
    }
    if counter("connections_given_up") > 0 {
        eprintln!(
            "warning: {} given up: too many at a time, or two with the same address and port",
            of("connections_given_up", "TCP connection", "TCP connections"),
        );
    }
}

/// Prints what captures have of associations, where they have any.
fn print_associations(counter: &dyn Fn(&str) -> u64) {
    let of = |name: &str, noun: &str| counted(counter(name), noun);
    if counter("associations") > 0 {
        eprintln!(
            "{} with {} of IPFIX, {} missing in the capture, {} skipped",
            of("associations", "SCTP association"),
            of("association_messages", "message"),
            of("association_chunks_missing", "chunk"),
            of("association_octets_skipped", "octet"),
        );
    }
    if counter("association_packets_damaged") > 0 {
        eprintln!(
            "{} cut short by the capture, or with a length that cannot be",
            of("association_packets_damaged", "SCTP packet"),
        );
    }
    if counter("associations_encrypted") > 0 {
        eprintln!(
            "{} with DTLS to a port of IPFIX: what is in it cannot be read from a capture",
            of("associations_encrypted", "SCTP association"),
        );
    }
    if counter("associations_given_up") > 0 {
        eprintln!(
            "warning: {} given up: too many at a time, or two with the same address and port",
            of("associations_given_up", "SCTP association"),
        );
    }
}

fn print_files(part: &Part, counter: &dyn Fn(&str) -> u64, took: Duration) {
    let flows = counter("records_stored");
    eprintln!(
        "{}: {} read, {} failed, {}, {:.0} flows/s",
        counted(part.files.len(), "file"),
        counter("files_read"),
        counter("files_failed"),
        counted(flows, "flow"),
        flows as f64 / took.as_secs_f64().max(1e-3),
    );
    let damage = [("records_damaged", "records or lines"), ("blocks_damaged", "blocks"), ("values_lost", "values")];
    for (name, what) in damage.into_iter().filter(|(name, _)| counter(name) > 0) {
        eprintln!("warning: {} {what} could not be read", counter(name));
    }
}

fn progress_bar(octets: u64) -> ProgressBar {
    let bar = if octets > 0 { ProgressBar::new(octets) } else { ProgressBar::new_spinner() };
    let style = ProgressStyle::with_template("[{bar:40}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
