//! `weir import`: captures of export datagrams, IPFIX files, and flow files of other programs, into an archive.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use weir_archive::ArchiveOptions;
use weir_formats::{Format, nfcapd};

use super::{chain_of, tell_archived, tell_books};
use crate::running::Foreground;

/// Read captures (pcap, pcapng) of export datagrams, IPFIX files, and flow files of other programs into an archive
///
/// Captures and IPFIX files go through the same decoders and books as live traffic; the time of capture, or of export in
/// IPFIX files, stands for the time of reception. Flow files are those of nfdump (nfcapd), flow-tools, Zeek (conn.log), SiLK
/// (what rwcut prints), CSV and Parquet. Which of all these a file is shows in what it holds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files, and directories whose files are all read; - for a capture or IPFIX file on standard input
    #[arg(required_unless_present = "range", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder of the archive; made when it is not there
    #[arg(long, short = 'R', value_name = "DIR", env = "WEIR_ARCHIVE")]
    archive: PathBuf,
    /// nfcapd files as the option -R of nfdump names them: DIR/FIRST, DIR/FIRST:LAST
    #[arg(long, value_name = "RANGE", conflicts_with = "files")]
    range: Option<String>,
    /// Directories in which the range is taken, as with the option -M of nfdump: DIR/A:B:C, or DIR/@ for all
    #[arg(long, value_name = "DIRS", requires = "range")]
    directories: Option<String>,
    /// Format of all files, when it cannot be seen: nfcapd, flow-tools, zeek, silk, csv, parquet, or capture
    #[arg(long, value_name = "FORMAT", value_parser = wanted)]
    format: Option<Wanted>,
    /// What a field of text and Parquet files means; names of columns and of Zeek, rwcut and nfdump are known
    #[arg(long = "column", value_name = "FIELD=COLUMN")]
    columns: Vec<String>,
    /// Take every datagram to this port; without it, those that look like NetFlow or IPFIX
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Flows after which a segment is sealed
    #[arg(long, value_name = "ROWS", default_value_t = ArchiveOptions::default().segment_rows_max)]
    segment_rows: usize,
    /// Print the chain that this command is, as a chain file, and end
    #[arg(long)]
    show_chain: bool,
}

/// What the user says that files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Capture,
    Of(Format),
}

fn wanted(text: &str) -> Result<Wanted, String> {
    match Format::by_name(text) {
        Some(format) => Ok(Wanted::Of(format)),
        None if text == "capture" => Ok(Wanted::Capture),
        None => Err("no such format".to_owned()),
    }
}

/// A source of a chain, and the files that it reads.
struct Part {
    source: &'static str,
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let parts = args.parts()?;
    if args.show_chain {
        let chains: Vec<_> = parts.iter().map(|part| args.chain(part)).collect();
        print!("{}", chains.join("\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut failed = false;
    // one archive has one writer, so what is read differently is read one after the other
    for part in &parts {
        failed |= args.import(part)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Args {
    /// Reads files of one kind; true when one of them could not be read.
    fn import(&self, part: &Part) -> anyhow::Result<bool> {
        let chain = chain_of(&self.chain(part))?;
        let octets = part.files.iter().filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum();
        let bar = progress_bar(octets);
        let every = std::io::stderr().is_terminal().then(|| Duration::from_millis(100));
        let report = |progress: &weir_chain::Progress| {
            bar.set_position(progress.component(part.source).map_or(0, |source| source.counter("octets_read")));
        };
        let begun = Instant::now();
        let (progress, ended) = Foreground::new()?.run(chain, every, |_| {}, report)?;
        let took = begun.elapsed();
        bar.finish_and_clear();
        let counter = |name: &str| progress.component(part.source).map_or(0, |source| source.counter(name));
        match part.source {
            CAPTURES => tell_captures(part, &counter),
            _ => tell_files(part, &counter, took),
        }
        tell_books(&progress, part.source);
        tell_archived(&progress);
        if counter("datagrams_skipped") > 0 {
            eprintln!(
                "{} UDP datagrams skipped because they are not NetFlow or IPFIX (--port takes all of a port)",
                counter("datagrams_skipped")
            );
        }
        ended.context("importing ended")?;
        Ok(counter("files_failed") > 0)
    }

    /// All files that are named, by the source that reads them.
    fn parts(&self) -> anyhow::Result<Vec<Part>> {
        let mut files = Vec::new();
        match &self.range {
            Some(range) => files = nfcapd::select(None, Some(range), self.directories.as_deref())?,
            None => {
                for path in &self.files {
                    add_files(path, &mut files)
                        .with_context(|| format!("cannot read the directory {}", path.display()))?;
                }
            }
        }
        anyhow::ensure!(!files.is_empty(), "no file is there to be read");
        let is_foreign = |path: &PathBuf| match self.format {
            Some(wanted) => wanted != Wanted::Capture,
            // what cannot be opened is told by the source that reads all that is not known
            None => path.as_os_str() != "-" && matches!(Format::of_file(path), Ok(Some(_))),
        };
        let (foreign, captures): (Vec<_>, Vec<_>) = files.into_iter().partition(is_foreign);
        let parts = [Part { source: CAPTURES, files: captures }, Part { source: FILES, files: foreign }];
        Ok(parts.into_iter().filter(|part| !part.files.is_empty()).collect())
    }

    /// The chain file of these arguments.
    fn chain(&self, part: &Part) -> String {
        let files: Vec<_> = part.files.iter().map(|path| super::quoted(path)).collect();
        let source = part.source;
        let parameters = if source == CAPTURES {
            format!("type = \"capture-reader\"\nport = {}\n", self.port.unwrap_or(0))
        } else {
            let format = match self.format {
                Some(Wanted::Of(format)) => format.name(),
                _ => "auto",
            };
            let columns: Vec<_> = self.columns.iter().map(|text| super::toml_text(text)).collect();
            format!("type = \"file-reader\"\nformat = \"{format}\"\ncolumns = [{}]\n", columns.join(", "))
        };
        format!(
            "name = \"import\"\n\
             burst_records = 0\n\
             queue_bursts = 8\n\
             \n\
             [components.{source}]\n\
             {parameters}\
             files = [{}]\n\
             \n\
             [components.archive]\n\
             type = \"archive\"\n\
             inputs = [\"{source}\"]\n\
             thread = \"own\"\n\
             archive = {}\n\
             segment_rows = {}\n",
            files.join(", "),
            super::quoted(&self.archive),
            self.segment_rows,
        )
    }
}

/// Names of the sources in the chains.
const CAPTURES: &str = "captures";
const FILES: &str = "files";

/// Adds a file, or all files of a directory and those below it, by their names.
fn add_files(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries =
        fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for entry in entries {
        let hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // a link to a directory may lead round in a circle
        let followed = !entry.is_symlink() || entry.is_file();
        if !hidden && followed {
            add_files(&entry, files)?;
        }
    }
    Ok(())
}

fn tell_captures(part: &Part, counter: &dyn Fn(&str) -> u64) {
    eprintln!(
        "{} files: {} frames, {} UDP datagrams, {} flows{}",
        part.files.len(),
        counter("frames"),
        counter("datagrams_udp"),
        counter("records_stored"),
        match counter("datagrams_truncated") {
            0 => String::new(),
            cut => format!(", {cut} datagrams cut short"),
        }
    );
    if counter("messages") > 0 {
        eprintln!(
            "{} messages of IPFIX files, {} of them damaged, {} octets skipped",
            counter("messages"),
            counter("messages_damaged"),
            counter("octets_skipped"),
        );
    }
}

fn tell_files(part: &Part, counter: &dyn Fn(&str) -> u64, took: Duration) {
    let flows = counter("records_stored");
    eprintln!(
        "{} files: {} read, {} failed, {flows} flows, {:.0} flows/s",
        part.files.len(),
        counter("files_read"),
        counter("files_failed"),
        flows as f64 / took.as_secs_f64().max(1e-3),
    );
    let damage = [("records_damaged", "records or lines"), ("blocks_damaged", "components"), ("values_lost", "values")];
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
