//! `weir doctor`: what is wrong with each exporter.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use weir_chain::{ByteSize, TimeSpan};
use weir_collect::doctor::{Report, Severity, examine_capture, examine_live};
use weir_collect::{Collector, CollectorOptions, Limits};
use weir_print::{Format, OutputOptions, write_batches};

use super::answer_format::FormatArg;

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  weir doctor capture.pcap
  weir doctor --listen 0.0.0.0:2055 --duration 1m --format json";

/// Diagnose each exporter: what is wrong, the evidence, and a remedy
///
/// Reads capture files of export datagrams, or listens for some time; nothing is stored. The exit status is 1 when flows
/// are missing or wrong.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Examine these capture files (pcap, pcapng) instead of listening
    #[arg(value_name = "FILE", conflicts_with_all = ["listen", "duration", "buffer"])]
    files: Vec<PathBuf>,
    /// Listen on this address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2055")]
    listen: SocketAddr,
    /// Listen for this long
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    duration: TimeSpan,
    /// Ask the kernel for a receive buffer of this size for each socket
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    buffer: ByteSize,
    /// Write the findings in this format; a table has sentences
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT", default_value_t = FormatArg::Table)]
    format: FormatArg,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut worst = None;
    if args.files.is_empty() {
        worst = write(&live(args)?, args)?;
    }
    for path in &args.files {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let (report, outcome) = examine_capture(file, Limits::default());
        let unreadable = || format!("cannot read {} to its end", path.display());
        let outcome = match outcome {
            // nothing came of it for this reason, and not for those that the report would suppose
            Err(error) if report.exporters.is_empty() => return Err(error).with_context(unreadable),
            outcome => outcome.with_context(unreadable),
        };
        if args.files.len() > 1 {
            eprintln!("{}:", path.display());
        }
        let found = write(&report, args)?;
        worst = worst.into_iter().chain(found).min();
        outcome?;
    }
    Ok(if worst == Some(Severity::Error) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn live(args: &Args) -> anyhow::Result<Report> {
    let options = CollectorOptions {
        buffer_octets: usize::try_from(args.buffer.bytes()).unwrap_or(usize::MAX),
        ..CollectorOptions::new(args.listen)
    };
    let mut collector = Collector::start(&options)?;
    for socket in collector.sockets() {
        eprintln!("listening on {} for {}", socket.local, args.duration);
    }
    Ok(examine_live(&mut collector, args.duration.duration())?)
}

/// Writes a report, and yields how bad the worst of it is.
fn write(report: &Report, args: &Args) -> anyhow::Result<Option<Severity>> {
    let mut out = io::stdout().lock();
    match Format::from(args.format) {
        Format::Table => write!(out, "{report}")?,
        format => {
            let batch = report.record_batch();
            let schema = batch.schema();
            let batches = std::iter::once(Ok::<_, std::convert::Infallible>(batch));
            write_batches(batches, &schema, format, &OutputOptions::default(), &mut out)?;
        }
    }
    Ok(report.worst())
}
