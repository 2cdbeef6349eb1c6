//! `weir import`: export datagrams from capture files, and messages from IPFIX files, into an archive.

use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use weir_archive::ArchiveOptions;

use super::{chain_of, tell_archived, tell_books};
use crate::running::Foreground;

/// Read capture files (pcap, pcapng) of export datagrams, and IPFIX files, into an archive
///
/// The same decoders and books as for live traffic. The time of capture, or of export in IPFIX files, stands for the
/// time of reception.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Capture files and IPFIX files; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder of the archive; made when it is not there
    #[arg(long, value_name = "DIR", env = "WEIR_ARCHIVE")]
    archive: PathBuf,
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

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = args.chain();
    if args.show_chain {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let chain = chain_of(&text)?;
    let octets = args.files.iter().filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum();
    let bar = progress_bar(octets);
    let every = std::io::stderr().is_terminal().then(|| Duration::from_millis(100));
    let report = |progress: &weir_chain::Progress| {
        bar.set_position(progress.block("captures").map_or(0, |captures| captures.counter("octets_read")));
    };
    let (progress, ended) = Foreground::new()?.run(chain, every, |_| {}, report)?;
    bar.finish_and_clear();
    let counter = |name| progress.block("captures").map_or(0, |captures| captures.counter(name));
    eprintln!(
        "{} files: {} frames, {} UDP datagrams, {} flows{}",
        args.files.len(),
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
    tell_books(&progress, "captures");
    tell_archived(&progress);
    if counter("datagrams_skipped") > 0 {
        eprintln!(
            "{} UDP datagrams skipped because they are not NetFlow or IPFIX (--port takes all of a port)",
            counter("datagrams_skipped")
        );
    }
    ended.context("importing ended")?;
    Ok(if counter("files_failed") > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Args {
    /// The chain file of these arguments.
    fn chain(&self) -> String {
        let files: Vec<_> = self.files.iter().map(|path| super::quoted(path)).collect();
        format!(
            "name = \"import\"\n\
             burst_records = 0\n\
             queue_bursts = 8\n\
             \n\
             [blocks.captures]\n\
             type = \"capture-reader\"\n\
             files = [{}]\n\
             port = {}\n\
             \n\
             [blocks.archive]\n\
             type = \"archive\"\n\
             inputs = [\"captures\"]\n\
             thread = \"own\"\n\
             archive = {}\n\
             segment_rows = {}\n",
            files.join(", "),
            self.port.unwrap_or(0),
            super::quoted(&self.archive),
            self.segment_rows,
        )
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
