//! `weir collect`: from UDP sockets into an archive.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use weir_archive::{ArchiveOptions, Durability, Writer};
use weir_collect::{Collector, CollectorOptions, SocketInfo};
use weir_flow::Counter;

use super::{tell_decoded, tell_recovery};
use crate::octets::Octets;

/// Receive NetFlow v5, NetFlow v9 and IPFIX over UDP and keep the flows in an archive
///
/// SIGINT and SIGTERM end it in order: what the kernel still holds is read, everything is written, synced and sealed,
/// and the books are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2055")]
    listen: SocketAddr,
    /// Folder of the archive; made when it is not there
    #[arg(long, value_name = "DIR", env = "WEIR_ARCHIVE")]
    archive: PathBuf,
    /// Sockets that share the port, each with a thread that receives and one that decodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    sockets: usize,
    /// Receive buffer to ask the kernel for, per socket
    #[arg(long, value_name = "OCTETS", default_value = "64M")]
    buffer: Octets,
    /// Longest time that flows stay unsynced, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    commit_interval_ms: u64,
    /// Longest time before the tail is sealed into a segment, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 300)]
    seal_interval_secs: u64,
    /// Flows after which the tail is sealed into a segment
    #[arg(long, value_name = "ROWS", default_value_t = ArchiveOptions::default().segment_rows_max)]
    segment_rows: usize,
    /// Time between lines that tell how it goes, in seconds; 0 for none
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    report_secs: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = ArchiveOptions {
        commit_interval: Duration::from_millis(args.commit_interval_ms),
        seal_interval: Duration::from_secs(args.seal_interval_secs),
        segment_rows_max: args.segment_rows,
        ..ArchiveOptions::default()
    };
    let (writer, recovery) = Writer::open(&args.archive, options)?;
    tell_recovery(&recovery);
    let durability = writer.durability();
    let options =
        CollectorOptions { sockets: args.sockets, buffer_octets: args.buffer.0, ..CollectorOptions::new(args.listen) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // handlers first: a signal between listening and waiting must not kill the process
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let collector = Collector::start(&options, writer)?;
    tell_sockets(collector.sockets());
    let failure = runtime.block_on(async {
        let mut checks = tokio::time::interval(Duration::from_secs(1));
        let period = Duration::from_secs(if args.report_secs == 0 { u64::from(u32::MAX) } else { args.report_secs });
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        loop {
            tokio::select! {
                _ = interrupt.recv() => return None,
                _ = terminate.recv() => return None,
                _ = checks.tick() => if let Some(failure) = collector.failure() {
                    return Some(failure);
                },
                _ = ticks.tick() => tell_progress(&collector, &durability),
            }
        }
    });
    info!("stopping: reading what is left, then sealing");
    let report = collector.stop()?;
    let summary = report.sink.close().context("cannot close the archive")?;
    tell_decoded(&report.decoders);
    info!(
        "archive: {} flows stored, {} segments sealed with {} octets, position {}",
        summary.statistics.rows_appended,
        summary.statistics.segments_sealed,
        summary.statistics.octets_sealed,
        summary.position.get()
    );
    if report.sink_failures > 0 {
        warn!("the archive refused {} times to take a delivery", report.sink_failures);
    }
    if let Some(failure) = failure {
        anyhow::bail!("collecting ended: {failure}");
    }
    if report.rows_undelivered > 0 {
        anyhow::bail!("{} flows could not be written", report.rows_undelivered);
    }
    Ok(ExitCode::SUCCESS)
}

fn tell_sockets(sockets: &[SocketInfo]) {
    let Some(first) = sockets.first() else { return };
    // scripts wait for this line, whatever WEIR_LOG says
    eprintln!(
        "listening on {} with {} sockets, receive buffer {} KiB each",
        first.local,
        sockets.len(),
        first.buffer_octets_granted / 1024
    );
    if first.buffer_octets_granted < first.buffer_octets_asked {
        warn!("asked for a receive buffer of {} KiB", first.buffer_octets_asked / 1024);
        eprintln!("hint: sysctl -w net.core.rmem_max={}", first.buffer_octets_asked);
    }
}

fn tell_progress(collector: &Collector<Writer>, durability: &Durability) {
    let decoders = collector.statistics();
    let total = |counter| decoders.iter().map(|decoder| decoder.total(counter)).sum::<u64>();
    info!(
        "{} datagrams, {} flows decoded, {} synced, lost {} (kernel {}, queue {}, sequence {} records and {} datagrams)",
        total(Counter::Datagrams),
        total(Counter::RecordsStored),
        durability.rows_durable(),
        total(Counter::KernelDrops) + total(Counter::QueueDrops),
        total(Counter::KernelDrops),
        total(Counter::QueueDrops),
        total(Counter::RecordsLost).saturating_sub(total(Counter::RecordsLate)),
        total(Counter::DatagramsLost).saturating_sub(total(Counter::DatagramsLate)),
    );
    if let Some(error) = collector.sink_error() {
        warn!("the archive takes nothing, trying again: {error}");
    }
}
