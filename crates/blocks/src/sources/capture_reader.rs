//! Reads capture files of export datagrams, and files of IPFIX messages, and hands on their flows with the books.
//!
//! The decoder is the one that serves sockets, and the time of capture, or of export, stands for the time of reception.
//! Which of the two a file is shows in its first octets. Reading a file is a loop that calls back for each datagram, so it runs in a thread of its own, a few deliveries ahead.

mod counters;

use std::error::Error;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use weir_capture::{CaptureError, Input, MessageFile, export_ms, looks_like_messages};
use weir_chain::{
    Built, Burst, ComponentContext, ComponentError, ComponentKind, FileEnd, FileReceipts, Notices, Opener, OptionError,
    Outlet, PullResult, Role, Source, options,
};
use weir_collect::capture::{self, Captured, CapturedDatagram, ConnectionEvent, ExportReader};
use weir_collect::{Decoder, Limits, Session};
use weir_flow::Delivery;

use self::counters::CaptureCounters;
use super::is_of_the_system;
use crate::books_counters::BooksCounters;
use crate::reception::Reception;

/// Captures of export datagrams.
pub const KIND: ComponentKind<CaptureReaderOptions> = ComponentKind {
    name: "capture-reader",
    role: Role::Source,
    inputs: &[],
    doc: "Reads captures (pcap, pcapng) of NetFlow, IPFIX and sFlow datagrams and of IPFIX over TCP and SCTP, and IPFIX \
          files (RFC 5655), one file after the other with one decoder, and hands on flows in the order of the files \
          together with the lines of the books. Which kind a file is shows in its first octets. Connections and \
          associations are put together by their sequence numbers; their Templates hold to their end, which may be in \
          another capture. In IPFIX files Templates hold to the end of the file, the time of export stands for the time \
          of reception, and the exporter is 0.0.0.0, which the file does not tell. A file that cannot be opened or read \
          to its end is counted in files_failed and reported; the other files are read all the same. It counts frames, \
          datagrams_udp, datagrams_skipped (no NetFlow, IPFIX or sFlow), datagrams_truncated (cut short by the capture), \
          exports_truncated (those of them that begin as exports do), exports_tunneled (exports in GRE, IP in IP, VXLAN \
          and other tunnels, which are not read), connections (with IPFIX over TCP, of each capture), \
          connections_given_up (too many at a time, or two with the same address and port), connections_encrypted (TLS, \
          which cannot be read), connection_messages, connection_octets_missing (not in the capture), \
          connection_octets_skipped (of no whole message), associations (with IPFIX over SCTP), associations_given_up, \
          associations_encrypted (DTLS), association_messages, association_chunks_missing, association_octets_skipped, \
          association_packets_damaged (with a chunk that the capture cut short, or whose length cannot be), messages, \
          messages_damaged and octets_skipped (of IPFIX files), times_replaced (times of reception that cannot be, or \
          that are of more than 1000 days in one file: they are replaced by the present), octets_read, and what the \
          books count.",
    configure,
};

options! {
    /// Options of the source `capture-reader`.
    pub struct CaptureReaderOptions {
        /// Read these files; - means standard input.
        files: Vec<PathBuf>,
        /// Take every datagram, TCP connection and SCTP association to this port; without it, those that look like NetFlow,
        /// IPFIX or sFlow.
        port: Option<u16> => 1..=65535,
        /// Decode data by templates, and scale it by samplers, that the exporter sent from another port, for exporters that
        /// send them from different ports; wrong where several exporters share an address.
        templates_across_ports: bool = false,
    }
}

/// Deliveries read ahead.
const AHEAD: usize = 4;
const WAIT: Duration = Duration::from_millis(100);

fn configure(options: CaptureReaderOptions) -> Result<Opener, OptionError> {
    let CaptureReaderOptions { files, port, templates_across_ports } = options;
    if files.is_empty() {
        return Err(OptionError::new("files", "'files' names no file"));
    }
    Ok(Box::new(move |context| {
        let (sender, deliveries) = bounded(AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let decoder = Decoder::new(Limits::default());
        let decoder = if templates_across_ports { decoder.with_templates_across_ports() } else { decoder };
        let reading = Reading::new(decoder, port, sender, Arc::clone(&stop), context);
        let thread = thread::Builder::new()
            .name("weir-capture".to_owned())
            .spawn(move || reading.run(&files))
            .map_err(|error| ComponentError::caused("cannot start a thread", error))?;
        Ok(Built::Source(Box::new(Captures { deliveries: Some(deliveries), stop, thread: Some(thread) })))
    }))
}

struct Captures {
    deliveries: Option<Receiver<Delivery>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Source for Captures {
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        let Some(deliveries) = &self.deliveries else { return Ok(PullResult::Ended) };
        match deliveries.recv_timeout(WAIT) {
            Ok(delivery) => {
                out.burst(Burst::from(delivery));
                Ok(PullResult::More)
            }
            Err(RecvTimeoutError::Timeout) => Ok(PullResult::Nothing),
            Err(RecvTimeoutError::Disconnected) => match self.thread.take().map(JoinHandle::join) {
                Some(Err(_)) => Err(ComponentError::new("the thread that reads captures ended by a panic")),
                _ => Ok(PullResult::Ended),
            },
        }
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        self.stop();
        // the thread finds that nobody takes its deliveries
        self.deliveries = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread that reads.
struct Reading {
    decoder: Decoder,
    port: Option<u16>,
    deliveries: Sender<Delivery>,
    stop: Arc<AtomicBool>,
    books: BooksCounters,
    counters: CaptureCounters,
    notices: Notices,
    reception: Reception,
    /// IPFIX files read, which distinguishes their sessions.
    files: u16,
    /// Whether the file that is read could be opened, and is of a known kind.
    is_begun: bool,
    /// Whether the file that is read has exports that were cut short.
    lacks_exports: bool,
    /// The file that is read, until the decoder gets something of it.
    untouched: Option<PathBuf>,
    /// Files of which nothing was handed on; the decoder may have sets of them that wait.
    not_handed_on: Vec<PathBuf>,
    /// Of the file that is read.
    receipts: FileReceipts,
}

impl Reading {
    fn new(
        decoder: Decoder,
        port: Option<u16>,
        deliveries: Sender<Delivery>,
        stop: Arc<AtomicBool>,
        context: &ComponentContext,
    ) -> Self {
        Self {
            decoder,
            port,
            deliveries,
            stop,
            counters: CaptureCounters::new(context),
            notices: context.notices.clone(),
            reception: Reception::new(context),
            files: 0,
            is_begun: false,
            lacks_exports: false,
            untouched: None,
            not_handed_on: Vec::new(),
            receipts: FileReceipts::default(),
            books: BooksCounters::new(context),
        }
    }

    fn run(mut self, files: &[PathBuf]) {
        for path in files {
            if self.stop.load(Ordering::Acquire) {
                break;
            }
            (self.is_begun, self.lacks_exports) = (false, false);
            self.untouched = Some(path.clone());
            self.receipts = self.notices.file_receipts(path);
            let sets_waiting_in = self.decoder.statistics().total(weir_flow::Counter::SetsWaitingIn);
            let (end, is_refused) = match self.file(path) {
                Ok(()) if self.lacks_exports => (FileEnd::Damaged, false),
                Ok(()) => (FileEnd::Whole, false),
                Err(error) => {
                    self.counters.failed.add(1);
                    self.notices.send(&format!("error: {}", error.chain()));
                    (FileEnd::Damaged, is_of_the_system(&error))
                }
            };
            // what is handed on later is of other files
            self.deliver();
            if self.is_begun && !is_refused && !self.stop.load(Ordering::Acquire) {
                self.notices.file_ended(path, end);
                if !self.leaves_waiting(sets_waiting_in) {
                    self.receipts.ended(end);
                }
            }
        }
    }

    /// Whether sets of the file that was read just now may wait for a Template that another file has. Before it,
    /// `sets_waiting_in` sets had been put aside.
    fn leaves_waiting(&self, sets_waiting_in: u64) -> bool {
        let statistics = self.decoder.statistics();
        statistics.sets_waiting > 0 && statistics.total(weir_flow::Counter::SetsWaitingIn) > sets_waiting_in
    }

    fn file(&mut self, path: &Path) -> Result<(), ComponentError> {
        self.reception.begin_file();
        let name = path.display();
        let path = if path.ends_with("-") { Path::new("-") } else { path };
        let mut input = match Input::open(path) {
            Ok(input) => input,
            Err(CaptureError::Open(error)) => return Err(ComponentError::caused(format!("cannot open {name}"), error)),
            Err(error) => return Err(unreadable(path, error)),
        };
        if looks_like_messages(input.first_octets().map_err(|error| unreadable(path, error))?) {
            self.messages(input).map_err(|error| unreadable(path, error))
        } else {
            self.capture(input).map_err(|error| unreadable(path, error))
        }
    }

    /// Reads a capture.
    fn capture(&mut self, input: Input<'_>) -> Result<(), CaptureError> {
        let mut capture = ExportReader::open(input, self.port)?;
        self.is_begun = true;
        let before = self.counters.octets.get();
        let read = loop {
            if self.stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            let taken = |captured: Captured<'_>| match captured {
                Captured::Datagram(datagram) => self.datagram(&datagram),
                Captured::Connection(event) => self.connection(event),
            };
            match capture.read_block(taken) {
                Ok(true) => {
                    self.counters.octets.add((before + capture.octets()).saturating_sub(self.counters.octets.get()));
                }
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let report = capture.report();
        self.counters.add_capture(&report);
        self.lacks_exports = report.exports_truncated + report.associations.packets_damaged > 0;
        read
    }

    /// Reads a file of IPFIX messages.
    fn messages(&mut self, input: impl Read) -> io::Result<()> {
        self.is_begun = true;
        let session = Session::file(self.files);
        self.files = self.files.wrapping_add(1);
        let mut messages = MessageFile::new(input);
        let (before, mut last_ms) = (self.counters.octets.get(), 0);
        let read = loop {
            if self.stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            match messages.next_message() {
                Ok(Some(message)) => {
                    self.not_handed_on.extend(self.untouched.take());
                    last_ms = self.received_ms(export_ms(message));
                    self.decoder.message(session, last_ms, message);
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
            if self.decoder.is_full() {
                self.counters
                    .octets
                    .add((before + messages.report().octets).saturating_sub(self.counters.octets.get()));
                self.deliver();
            }
        };
        self.decoder.end_session(session, last_ms);
        let report = messages.report();
        self.counters.octets.add((before + report.octets).saturating_sub(self.counters.octets.get()));
        self.counters.messages.add(report.messages);
        self.counters.messages_damaged.add(report.messages_damaged);
        self.counters.octets_skipped.add(report.octets_skipped);
        match report.cut_short_at {
            Some(octet) => read.and(Err(cut_short(octet))),
            None => read,
        }
    }

    fn datagram(&mut self, datagram: &CapturedDatagram<'_>) {
        let wanted = match self.port {
            Some(port) => datagram.destination.port() == port,
            None => capture::looks_like_export(datagram.payload),
        };
        if !wanted {
            self.counters.skipped.add(1);
            return;
        }
        self.not_handed_on.extend(self.untouched.take());
        let received_ms = self.received_ms(datagram.captured_ms);
        self.decoder.datagram(datagram.source, received_ms, datagram.payload);
        if self.decoder.is_full() {
            self.deliver();
        }
    }

    /// The time of reception of the message that the decoder gets next, by what the file says.
    fn received_ms(&mut self, said_ms: i64) -> i64 {
        let received_ms = self.reception.judged(said_ms);
        self.decoder.set_time_replaced(received_ms != said_ms);
        received_ms
    }

    /// Takes what comes of a connection or association; which of them are exports is known before.
    fn connection(&mut self, event: ConnectionEvent<'_>) {
        match event {
            ConnectionEvent::Message { session, captured_ms, octets } => {
                self.not_handed_on.extend(self.untouched.take());
                let received_ms = self.received_ms(captured_ms);
                self.decoder.message(session, received_ms, octets);
            }
            ConnectionEvent::End { session, captured_ms } => {
                let ended_ms = self.reception.judged(captured_ms);
                self.decoder.end_session(session, ended_ms);
            }
        }
        if self.decoder.is_full() {
            self.deliver();
        }
    }

    /// Hands on what the decoder holds.
    fn deliver(&mut self) {
        loop {
            let mut delivery = self.decoder.take_delivery();
            if delivery.is_empty() {
                break;
            }
            // books and options count twice as well when a file is read again
            self.not_handed_on.drain(..).for_each(|path| self.notices.file_begun(&path));
            self.receipts.attach(&mut delivery);
            if self.deliveries.send(delivery).is_err() {
                // nobody takes anything any more
                self.stop.store(true, Ordering::Release);
                break;
            }
        }
        self.books.set(&[self.decoder.statistics()]);
    }
}

/// A file of messages that ends within one: in the words for captures.
fn cut_short(octet: u64) -> io::Error {
    let what = format!("damaged at octet {octet}: the file is cut short within this message");
    io::Error::new(io::ErrorKind::UnexpectedEof, what)
}

fn unreadable(path: &Path, error: impl Error + Send + Sync + 'static) -> ComponentError {
    if path == Path::new("-") {
        let message = "cannot read standard input to its end, which is read as a capture or IPFIX file: \
                       flows in other formats are read from files with names";
        return ComponentError::caused(message, error);
    }
    ComponentError::caused(format!("cannot read {} to its end", path.display()), error)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::net::SocketAddr;
    use std::process::Command;
    use std::sync::Mutex;

    use weir_chain::{AnyKind, compliance};
    use weir_export::{ExporterConfig, Version};
    use weir_generate::{Stream, TrafficModel, write_pcap};

    use super::*;

    /// The compliance test takes a reference that lives as long as the program.
    const CAPTURE_READER: &'static dyn AnyKind = &KIND;

    fn capture(path: &Path, seed: u64, count: u64) {
        let mut flows = TrafficModel::new(seed).flows(count).expect("a model");
        let streams = [Stream { source: Some([127, 0, 0, 5].into()), config: ExporterConfig::new(Version::V5) }];
        let SocketAddr::V4(target) = SocketAddr::from(([192, 0, 2, 1], 2055)) else { unreachable!("IPv4") };
        write_pcap(path, &mut flows, &streams, target).expect("written");
    }

    #[test]
    fn standard_input_that_is_no_capture_is_told_what_it_is_read_as() {
        let chain = |path: &str| unreadable(Path::new(path), std::io::Error::other("no capture")).chain();
        assert_eq!(chain("flows"), "cannot read flows to its end: no capture");
        assert_eq!(
            chain("-"),
            "cannot read standard input to its end, which is read as a capture or IPFIX file: \
             flows in other formats are read from files with names: no capture"
        );
    }

    #[test]
    fn complies_and_reads_all_files_but_the_damaged() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        capture(&path("one.pcap"), 1, 4000);
        capture(&path("two.pcap"), 2, 100);
        std::fs::write(path("garbage"), [7; 100]).expect("written");
        let files = ["one.pcap", "garbage", "missing", "two.pcap"].map(|name| format!("'{}'", path(name).display()));
        let outcome = compliance::source(CAPTURE_READER, &format!("files = [{}]", files.join(", ")));
        assert_eq!(outcome.len(), 4100);
        assert_eq!((outcome.counter("files_failed"), outcome.counter("records_stored")), (2, 4100));
        assert_eq!(outcome.counter("datagrams_skipped"), 0);
    }

    #[test]
    fn files_of_messages_are_read_beside_captures() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        capture(&path("one.pcap"), 1, 400);
        let mut flows = TrafficModel::new(2).flows(5000).expect("a model");
        let streams = [Stream { source: Some([127, 0, 0, 5].into()), config: ExporterConfig::new(Version::Ipfix) }];
        let SocketAddr::V4(target) = SocketAddr::from(([192, 0, 2, 1], 2055)) else { unreachable!("IPv4") };
        write_pcap(&path("two.pcap"), &mut flows, &streams, target).expect("written");
        // the payloads of a capture one after the other are a file of messages
        let mut messages = Vec::new();
        let two = File::open(path("two.pcap")).expect("the capture");
        let (captured, read) = capture::read(two, |datagram| messages.extend_from_slice(datagram.payload));
        read.expect("read");
        // something between two messages spoils neither
        let first = usize::from(u16::from_be_bytes([messages[2], messages[3]]));
        messages.splice(first..first, [7; 33]);
        std::fs::write(path("two.ipfix"), &messages).expect("written");
        let files = ["one.pcap", "two.ipfix", "two.ipfix"].map(|name| format!("'{}'", path(name).display()));
        let outcome = compliance::source(CAPTURE_READER, &format!("files = [{}]", files.join(", ")));
        assert_eq!(outcome.len(), 400 + 2 * 5000);
        let counted = ["messages", "messages_damaged", "octets_skipped", "files_failed", "records_lost"];
        assert_eq!(counted.map(|name| outcome.counter(name)), [2 * captured.datagrams, 0, 66, 0, 0]);
        assert_eq!(outcome.counter("stream_messages"), 2 * captured.datagrams);
    }

    /// A message of IPFIX without a set (RFC 7011, section 3.1): nothing comes of it but lines of the books.
    #[test]
    fn a_file_of_which_only_books_are_handed_on_is_begun() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("empty.ipfix");
        let exported_secs = 1_767_225_600_u32.to_be_bytes();
        let message = [&[0, 10, 0, 16][..], &exported_secs, &[0; 8]].concat();
        std::fs::write(&path, message).expect("written");
        let begun = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&begun);
        let taker = move |path: &Path| taken.lock().expect("no panic").push(path.to_owned());
        let context = ComponentContext { notices: Notices::default().with_begun(taker), ..ComponentContext::default() };
        let (sender, deliveries) = bounded(AHEAD);
        let reading = Reading::new(Decoder::new(Limits::default()), None, sender, Arc::default(), &context);
        reading.run(std::slice::from_ref(&path));
        let deliveries: Vec<Delivery> = deliveries.iter().collect();
        assert!(!deliveries.is_empty() && deliveries.iter().all(|delivery| delivery.flows.is_none()));
        assert_eq!(*begun.lock().expect("no panic"), [path]);
    }

    /// The second file is a pipe: it is open, and nothing of it was read, when reading is stopped.
    #[test]
    fn a_file_of_which_nothing_was_read_before_a_stop_is_not_begun() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        capture(&path("one.pcap"), 1, 100);
        capture(&path("two.pcap"), 2, 100);
        assert!(Command::new("mkfifo").arg(path("pipe")).status().expect("mkfifo runs").success());
        let begun = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&begun);
        let taker = move |path: &Path| taken.lock().expect("no panic").push(path.to_owned());
        let context = ComponentContext { notices: Notices::default().with_begun(taker), ..ComponentContext::default() };
        let (sender, deliveries) = bounded(AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let decoder = Decoder::new(Limits::default());
        let reading = Reading::new(decoder, None, sender, Arc::clone(&stop), &context);
        let files = ["one.pcap", "pipe"].map(path);
        let thread = thread::spawn(move || reading.run(&files));
        let octets = std::fs::read(path("two.pcap")).expect("a capture");
        // that waits until it is opened for reading
        let mut pipe = File::options().write(true).open(path("pipe")).expect("it is opened");
        stop.store(true, Ordering::Release);
        // it may be closed before all of it is read
        let _ = pipe.write_all(&octets);
        drop(pipe);
        let rows: usize = deliveries.iter().map(|delivery| delivery.flows.map_or(0, |flows| flows.rows())).sum();
        thread.join().expect("no panic");
        assert_eq!((rows, begun.lock().expect("no panic").as_slice()), (100, &[path("one.pcap")][..]));
    }
}
