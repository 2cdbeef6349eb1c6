//! Flows from capture files of export datagrams.
//!
//! The same decoder as for live traffic, and the same books; the time of capture stands for the time of reception. One
//! decoder reads all files, so that a Template of one holds for the next, as it would have on the wire.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use weir_chain::{
    BlockContext, BlockError, BlockKind, Built, Counter, Opener, Outlet, ParameterError, ParameterSpec, ParameterType,
    Parameters, Pulled, Role, Source,
};
use weir_collect::Decoder;
use weir_collect::capture::{CaptureError, CaptureReader, CaptureReport, CapturedDatagram, looks_like_export};

use crate::collector::burst;
use crate::decoded::DecodedCounters;
use crate::decoder_limits;

const LIMITS: [ParameterSpec; 5] = decoder_limits::SPECS;

/// Reads flows from capture files.
pub const KIND: BlockKind = BlockKind {
    name: "capture-reader",
    role: Role::Source,
    inputs: &[],
    doc: "Reads capture files (pcap, pcapng) of export datagrams, one after the other, and hands on the flows in the order \
          of the datagrams together with the books; flows whose Template comes late follow it. Flows have the same \
          columns as those of a collector; received is the time of capture. Without port, datagrams that look like \
          NetFlow or IPFIX are taken. What a file holds that is not exported flows is counted: frames_other (not UDP), \
          datagrams_skipped (another port, or not NetFlow or IPFIX), datagrams_truncated (cut short by the capture). A \
          file that is cut short or damaged is read as far as it goes and counted in files_damaged, others in \
          files_read; octets_read tells how far it is. Every counter of the books is a counter of this block; decoding \
          errors are counted by their names.",
    parameters: &[
        ParameterSpec {
            key: "files",
            parameter_type: ParameterType::Paths,
            default: None,
            doc: "Capture files; - is standard input.",
        },
        ParameterSpec {
            key: "port",
            parameter_type: ParameterType::Integer(1, 65_535),
            default: Some(""),
            doc: "Take every datagram to this port; without it, those that look like NetFlow or IPFIX.",
        },
        ParameterSpec {
            key: "unreadable",
            parameter_type: ParameterType::Choice(&["error", "skip"]),
            default: Some("\"error\""),
            doc: "What to do about a file that cannot be opened or is no capture: end with an error, after the flows of \
                  the files before, or go on with the next one and count it in files_unreadable.",
        },
        LIMITS[0],
        LIMITS[1],
        LIMITS[2],
        LIMITS[3],
        LIMITS[4],
    ],
    configure,
};

/// Flows of a burst, about.
const BURST_ROWS: usize = 16_384;
/// Frames read at a time at most, whatever is in them, so that whoever calls can do something else.
const FRAMES_AT_A_TIME: usize = 65_536;
/// Octets read from a file at a time.
const READ_OCTETS: usize = 1 << 20;

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let files = parameters.paths("files");
    if files.is_empty() {
        return Err(ParameterError::new("files", "'files' is empty").with_hint("name a capture file"));
    }
    let port = u16::try_from(parameters.integer("port")).ok().filter(|port| *port > 0);
    let skips_unreadable = parameters.text("unreadable") == "skip";
    let limits = decoder_limits::read(parameters);
    Ok(Box::new(move |context| {
        let reader = Captures {
            files: files.into_iter(),
            current: None,
            port,
            skips_unreadable,
            decoder: Decoder::new(limits),
            failure: None,
            stopped: false,
            decoded: DecodedCounters::new(&context.meter),
            counters: Counters::new(context),
        };
        Ok(Built::Source(Box::new(reader)))
    }))
}

struct Counters {
    files_read: Counter,
    files_damaged: Counter,
    files_unreadable: Counter,
    octets_read: Counter,
    frames: Counter,
    frames_other: Counter,
    datagrams_skipped: Counter,
    datagrams_truncated: Counter,
}

impl Counters {
    fn new(context: &BlockContext) -> Self {
        let counter = |name| context.meter.counter(name);
        Self {
            files_read: counter("files_read"),
            files_damaged: counter("files_damaged"),
            files_unreadable: counter("files_unreadable"),
            octets_read: counter("octets_read"),
            frames: counter("frames"),
            frames_other: counter("frames_other"),
            datagrams_skipped: counter("datagrams_skipped"),
            datagrams_truncated: counter("datagrams_truncated"),
        }
    }
}

struct Captures {
    files: std::vec::IntoIter<PathBuf>,
    current: Option<Capture>,
    port: Option<u16>,
    skips_unreadable: bool,
    decoder: Decoder,
    /// What ends it once the flows before are handed on.
    failure: Option<BlockError>,
    stopped: bool,
    decoded: DecodedCounters,
    counters: Counters,
}

/// A file being read.
struct Capture {
    path: PathBuf,
    reader: CaptureReader<'static>,
    /// What of it is counted already.
    counted: CaptureReport,
    octets_counted: u64,
}

impl Source for Captures {
    fn pull(&mut self, out: &mut Outlet) -> Result<Pulled, BlockError> {
        let is_over = self.stopped || self.failure.is_some() || !self.read();
        let delivery = self.decoder.take_delivery();
        self.decoded.update(&[self.decoder.statistics()]);
        if !delivery.is_empty() {
            out.burst(burst(delivery));
            return Ok(Pulled::More);
        }
        if !is_over {
            return Ok(Pulled::More);
        }
        self.decoded.end(&[self.decoder.statistics()]);
        self.failure.take().map_or(Ok(Pulled::Ended), Err)
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}

impl Captures {
    /// Reads until there are flows enough for a burst; false when there is nothing more to read.
    fn read(&mut self) -> bool {
        for _ in 0..FRAMES_AT_A_TIME {
            if self.decoder.rows() >= BURST_ROWS || self.decoder.is_full() {
                return true;
            }
            let Some(capture) = &mut self.current else {
                let Some(path) = self.files.next() else { return false };
                self.open(path);
                if self.failure.is_some() {
                    return false;
                }
                continue;
            };
            let (port, decoder, skipped) = (self.port, &mut self.decoder, &self.counters.datagrams_skipped);
            let result = capture.reader.read_block(|datagram: CapturedDatagram<'_>| {
                let is_wanted = match port {
                    Some(port) => datagram.destination.port() == port,
                    None => looks_like_export(datagram.payload),
                };
                if is_wanted {
                    decoder.datagram(datagram.source, datagram.captured_ms, datagram.payload);
                } else {
                    skipped.add(1);
                }
            });
            if !matches!(result, Ok(true)) {
                self.close(result.err());
            }
        }
        self.count();
        true
    }

    fn open(&mut self, path: PathBuf) {
        match open(&path) {
            Ok(reader) => {
                self.current = Some(Capture { path, reader, counted: CaptureReport::default(), octets_counted: 0 });
            }
            Err(error) => {
                let error = BlockError::caused(format!("cannot read capture '{}'", path.display()), error);
                self.unreadable(error);
            }
        }
    }

    /// Ends the file that is being read.
    fn close(&mut self, error: Option<CaptureError>) {
        self.count();
        let Some(capture) = self.current.take() else { return };
        // only now is it known that pieces of datagrams will not come
        self.counters.datagrams_truncated.add(capture.counted.datagrams_truncated);
        let Some(error) = error else { return self.counters.files_read.add(1) };
        let name = capture.path.display().to_string();
        tracing::warn!("capture '{name}' is read as far as it goes: {error}");
        self.counters.files_damaged.add(1);
    }

    fn unreadable(&mut self, error: BlockError) {
        if self.skips_unreadable {
            tracing::warn!("{}", error.chain());
            self.counters.files_unreadable.add(1);
        } else {
            self.failure = Some(error);
        }
    }

    /// Counts what was read of the file since this was last done.
    fn count(&mut self) {
        let Some(capture) = &mut self.current else { return };
        let report = capture.reader.report();
        let counted = std::mem::replace(&mut capture.counted, report);
        self.counters.frames.add(report.frames - counted.frames);
        self.counters.frames_other.add(report.frames_other - counted.frames_other);
        let octets = capture.reader.octets();
        self.counters.octets_read.add(octets - std::mem::replace(&mut capture.octets_counted, octets));
    }
}

/// Opens a capture file, or standard input.
fn open(path: &Path) -> Result<CaptureReader<'static>, Box<dyn std::error::Error + Send + Sync>> {
    let input: Box<dyn Read + Send> = if path.file_name().is_some_and(|name| name == "-") {
        Box::new(io::stdin())
    } else {
        Box::new(BufReader::with_capacity(READ_OCTETS, File::open(path)?))
    };
    Ok(CaptureReader::open(input)?)
}

#[cfg(test)]
mod tests;
