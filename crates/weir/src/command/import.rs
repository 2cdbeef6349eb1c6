//! `weir import`: export datagrams from capture files into an archive.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use weir_archive::{ArchiveOptions, Writer};
use weir_collect::capture::{self, CapturedDatagram};
use weir_collect::{Decoder, Limits};
use weir_flow::Counter;

use super::{tell_decoded, tell_recovery};

/// Read capture files (pcap, pcapng) of export datagrams into an archive
///
/// The same decoders and books as for live traffic. The time of capture stands for the time of reception.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Capture files; - for standard input
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
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = ArchiveOptions { segment_rows_max: args.segment_rows, ..ArchiveOptions::default() };
    let (writer, recovery) = Writer::open(&args.archive, options)?;
    tell_recovery(&recovery);
    let mut import =
        Import { writer, decoder: Decoder::new(Limits::default()), port: args.port, failure: None, skipped: 0 };
    let mut failed = 0;
    for path in &args.files {
        if let Err(error) = import.file(path) {
            eprintln!("error: {error:#}");
            failed += 1;
        }
        // An archive that takes nothing will not take the next file either.
        if let Some(failure) = import.failure.take() {
            return Err(failure);
        }
    }
    import.deliver()?;
    let statistics = import.decoder.statistics();
    let summary = import.writer.close().context("cannot close the archive")?;
    tell_decoded(&[statistics]);
    eprintln!(
        "archive: {} flows stored, {} segments sealed with {} octets",
        summary.statistics.rows_appended, summary.statistics.segments_sealed, summary.statistics.octets_sealed
    );
    if import.skipped > 0 {
        eprintln!(
            "{} UDP datagrams skipped because they are not NetFlow or IPFIX (--port takes all of a port)",
            import.skipped
        );
    }
    Ok(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

struct Import {
    writer: Writer,
    decoder: Decoder,
    port: Option<u16>,
    /// The first failure of the archive; nothing is decoded after it.
    failure: Option<anyhow::Error>,
    skipped: u64,
}

impl Import {
    fn file(&mut self, path: &Path) -> anyhow::Result<()> {
        let name = path.display();
        let (input, octets): (Box<dyn Read + Send>, u64) = if path == Path::new("-") {
            (Box::new(io::stdin()), 0)
        } else {
            let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
            let octets = file.metadata().map_or(0, |metadata| metadata.len());
            (Box::new(BufReader::with_capacity(1 << 20, file)), octets)
        };
        let progress = progress_bar(path, octets);
        let before = self.decoder.statistics().total(Counter::RecordsStored);
        let mut seen = 0_u64;
        let (report, result) = capture::read(input, |datagram| {
            seen += 1;
            if seen.is_multiple_of(1024) {
                progress.set_position(datagram.file_octets);
            }
            self.datagram(&datagram);
        });
        progress.finish_and_clear();
        let records = self.decoder.statistics().total(Counter::RecordsStored) - before;
        eprintln!(
            "{name}: {} frames, {} UDP datagrams, {records} flows{}",
            report.frames,
            report.datagrams,
            if report.datagrams_truncated > 0 {
                format!(", {} cut short", report.datagrams_truncated)
            } else {
                String::new()
            }
        );
        result.with_context(|| format!("cannot read {name} to its end"))
    }

    fn datagram(&mut self, datagram: &CapturedDatagram<'_>) {
        let wanted = match self.port {
            Some(port) => datagram.destination.port() == port,
            None => capture::looks_like_export(datagram.payload),
        };
        if !wanted || self.failure.is_some() {
            self.skipped += u64::from(!wanted);
            return;
        }
        self.decoder.datagram(datagram.source, datagram.captured_ms, datagram.payload);
        if self.decoder.is_full()
            && let Err(error) = self.deliver()
        {
            self.failure = Some(error);
        }
    }

    fn deliver(&mut self) -> anyhow::Result<()> {
        loop {
            let delivery = self.decoder.take_delivery();
            if delivery.is_empty() {
                return Ok(());
            }
            self.writer.append(delivery).context("cannot write to the archive")?;
        }
    }
}

fn progress_bar(path: &Path, octets: u64) -> ProgressBar {
    let bar = if octets > 0 { ProgressBar::new(octets) } else { ProgressBar::new_spinner() };
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()));
    bar
}
