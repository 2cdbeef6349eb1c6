//! Receives export datagrams and hands on their flows with the books.
//!
//! A thin shell around [`weir_collect::Collector`], whose threads receive and decode: the thread of this block only
//! takes what they have ready, so that nothing in the chain can reach back to a socket.

pub mod options;

use std::path::Path;
use std::time::Duration;

use crossbeam_channel::Sender;
use weir_archive::{ArchiveError, Snapshot};
use weir_chain::{
    Built, Burst, ByteSize, ComponentError, ComponentKind, Counter, Given, Notices, Opener, OptionError, Outlet,
    PullResult, ReloadSignal, Role, Source,
};
use weir_collect::{Collector, CollectorOptions, ListenerInfo, Next, SocketInfo, Transport};
use weir_flow::SequenceRow;

use crate::books_counters::{BooksCounters, watch_drops};
use crate::flow_filter::{FlowFilter, filtered_counter};
pub use options::CollectorSourceOptions;
use options::{ListenOptions, collector_options};

/// A live collector.
pub const KIND: ComponentKind<CollectorSourceOptions> = ComponentKind {
    name: "collector",
    role: Role::Source,
    inputs: &[],
    doc: "Receives NetFlow v1, v5, v7 and v9, IPFIX and sFlow version 5 over UDP and DTLS, and IPFIX over TCP, TLS and \
          SCTP. It hands on flows, in the order in which each socket received them, together with the lines of the books \
          that account for them. While the chain takes nothing, datagrams wait in a queue and then in the kernel's buffer; \
          what that drops is counted in kernel_drops, and of DTLS what does not fit into the queue in queue_drops. An \
          exporter on a connection is slowed down instead. When the chain stops, it hands on what the kernel still holds first. Its counters are those of the books, one for each \
          kind of decoding error, and one for each reason why a connection was refused or closed.",
    configure,
};

/// Longest time that the source waits for a delivery.
const WAIT: Duration = Duration::from_millis(100);

fn configure(options: CollectorSourceOptions) -> Result<Opener, OptionError> {
    let filter = FlowFilter::configure(options.listening.filter.as_deref(), "filter")?;
    let given = options;
    let options = collector_options(given.clone())?;
    Ok(Box::new(move |context| {
        check_state(&options)?;
        let sequences = given.archive.as_ref().map(|folder| last_sequences(folder, &context.notices).into());
        let options = CollectorOptions { sequences, ..options };
        let collector = Collector::start(&options).map_err(|error| ComponentError::caused("cannot collect", error))?;
        collector.notices().iter().for_each(|notice| context.notices.send(notice));
        announce(&collector, &context.notices);
        let (counters, filtered) = (BooksCounters::new(context), filtered_counter(context));
        let drops = watch_drops(context, collector.drops())
            .map_err(|error| ComponentError::caused("cannot start a thread", error))?;
        let (component, signal) = (context.name.clone(), context.reload.clone());
        let reload = Reload { component, signal, given, notices: context.notices.clone() };
        Ok(Built::Source(Box::new(Live {
            collector,
            filter: filter.clone(),
            counters,
            filtered,
            reload,
            _drops: drops,
        })))
    }))
}

/// Finds out whether a collector with these options could begin, as its start does first: certificates, names of other
/// collectors, the folder of its state. It listens nowhere, and writes nothing.
pub fn check(options: &CollectorSourceOptions) -> Result<(), ComponentError> {
    let options = collector_options(options.clone()).map_err(|error| ComponentError::new(error.message))?;
    check_state(&options)?;
    Collector::check(&options).map_err(|error| ComponentError::caused("cannot collect", error))
}

fn check_state(options: &CollectorOptions) -> Result<(), ComponentError> {
    let Some(state) = &options.state else { return Ok(()) };
    let cannot = |error| ComponentError::caused(format!("cannot use state folder {}", state.display()), error);
    weir_disk::check_folder(state).map_err(cannot)
}

/// Where the sequence numbers of exporters stand in an archive; an archive that cannot be read is no reason not to
/// collect.
fn last_sequences(folder: &Path, notices: &Notices) -> Vec<SequenceRow> {
    match Snapshot::open(folder).and_then(|snapshot| snapshot.last_sequences()) {
        Ok(rows) => rows,
        // it is made by the sink
        Err(ArchiveError::NotAnArchive { .. }) => Vec::new(),
        Err(error) => {
            let error = ComponentError::caused("what was missed since the last start is not counted", error);
            notices.send(&error.chain());
            Vec::new()
        }
    }
}

/// Where so many sockets like this one listen, each with a receive buffer of so many octets.
fn announcement(socket: &SocketInfo, sockets: usize) -> String {
    let (local, buffer) = (socket.local, ByteSize::from_bytes(socket.buffer_octets_of_asked() as u64));
    match sockets {
        1 => format!("listening on {local} with 1 socket, receive buffer {buffer}"),
        _ => format!("listening on {local} with {sockets} sockets, receive buffer {buffer} each"),
    }
}

/// Says where the collector listens. Scripts wait for this line, whatever is logged.
fn announce(collector: &Collector, notices: &Notices) {
    let sockets = collector.sockets();
    if let Some(first) = sockets.first() {
        let count = sockets.iter().filter(|socket| socket.local == first.local).count();
        notices.send(&announcement(first, count));
        if first.buffer_octets_of_asked() < first.buffer_octets_asked {
            notices.send(&format!(
                "asked for a receive buffer of {}\nhint: sysctl -w net.core.rmem_max={}",
                ByteSize::from_bytes(first.buffer_octets_asked as u64),
                first.buffer_octets_asked
            ));
        }
    }
    let udp = |info: &&ListenerInfo| info.transport == Transport::Udp;
    let announced = usize::from(!sockets.is_empty());
    let (more, others): (Vec<&ListenerInfo>, Vec<&ListenerInfo>) = collector.listeners().iter().partition(udp);
    for info in more.into_iter().skip(announced).chain(others) {
        notices.send(&format!("listening on {}://{}", info.transport.name(), info.local));
    }
}

struct Live {
    collector: Collector,
    filter: FlowFilter,
    counters: BooksCounters,
    filtered: Counter,
    reload: Reload,
    /// While it is there, somebody looks at what is dropped.
    _drops: Sender<()>,
}

/// What is read again when that is asked for.
struct Reload {
    component: String,
    signal: ReloadSignal,
    given: CollectorSourceOptions,
    notices: Notices,
}

impl Reload {
    /// Reads the files again if that was asked for. What cannot be read stays as it was.
    fn look(&mut self, collector: &Collector) {
        if !self.signal.take() {
            return;
        }
        let options = self.options().and_then(collector_options).map_err(|error| ComponentError::new(error.message));
        match options.map(|options| collector.reload(&options)) {
            Ok(Ok(())) => self.notices.send("certificates, revocation lists and networks were read again"),
            Ok(Err(error)) => {
                let error = ComponentError::caused("the files of certificates", error).chain();
                self.notices.send(&format!("networks were read again, and certificates stay as they were: {error}"));
            }
            Err(error) => self.notices.send(&format!("nothing new is used: {}", error.chain())),
        }
    }

    /// The options that it began with, with the senders of those that have come since.
    fn options(&self) -> Result<CollectorSourceOptions, OptionError> {
        let begun_with = self.given.clone();
        let Some(changed) = self.signal.options_of(&self.component) else { return Ok(begun_with) };
        let ListenOptions { listen, allow, .. } =
            weir_chain::options::read(&Given::from_table(changed, Path::new("")))?;
        Ok(CollectorSourceOptions { listening: ListenOptions { listen, allow, ..begun_with.listening }, ..begun_with })
    }
}

impl Source for Live {
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        self.reload.look(&self.collector);
        let next = self.collector.next(WAIT);
        self.counters.set(&self.collector.statistics());
        if let Some(notice) = self.collector.take_notice() {
            tracing::warn!("{notice}");
        }
        match next {
            Ok(Next::Delivery(delivery)) => {
                out.burst(Burst::from(self.filter.apply(delivery, &self.filtered)?));
                Ok(PullResult::More)
            }
            Ok(Next::Nothing) => Ok(PullResult::Nothing),
            Ok(Next::Ended) => Ok(PullResult::Ended),
            Err(error) => Err(ComponentError::caused("collecting ended", error)),
        }
    }

    fn stop(&mut self) {
        self.collector.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::SocketAddr;
    use std::net::UdpSocket;

    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use weir_chain::toml::Table;
    use weir_chain::{AnyKind, compliance};
    use weir_export::{ExporterConfig, Version};
    use weir_generate::{SendPlan, Stream, TrafficModel, send};

    use super::*;

    /// The compliance test takes a reference that lives as long as the program. It has no end of its own, so the test
    /// of sources cannot read it; what follows asks for the same.
    const COLLECTOR: &'static dyn AnyKind = &KIND;

    #[test]
    fn where_it_listens_is_a_sentence_that_scripts_can_wait_for() {
        let local = SocketAddr::from(([127, 0, 0, 1], 2055));
        // the kernel grants twice what it is asked for
        let granted =
            |octets: usize| SocketInfo { local, buffer_octets_asked: 64 << 20, buffer_octets_granted: octets };
        assert_eq!(
            announcement(&granted(128 << 20), 1),
            "listening on 127.0.0.1:2055 with 1 socket, receive buffer 64MiB"
        );
        let expected = "listening on 127.0.0.1:2055 with 4 sockets, receive buffer 208KiB each";
        assert_eq!(announcement(&granted(2 * 212_992), 4), expected);
    }

    #[test]
    fn the_defaults_are_those_of_the_collector() {
        assert_eq!(options::limits(&options::LimitOptions::default()), weir_collect::Limits::default());
    }

    #[test]
    fn flows_left_out_are_in_the_books() {
        let free = weir_testkit::ports::free_address();
        let (Built::Source(mut source), context) =
            compliance::open(COLLECTOR, &format!("listen = '{free}'\nfilter = 'bytes < 300 or bytes > 8999'"))
        else {
            panic!("a source")
        };
        // the octets of numbered flows are their numbers
        let mut flows = TrafficModel { numbered: true, ..TrafficModel::new(1) }.flows(9_000).expect("a model");
        let streams =
            [Version::V5, Version::Ipfix].map(|version| Stream { source: None, config: ExporterConfig::new(version) });
        send(&mut flows, &streams, &SendPlan { target: free, ..SendPlan::to_loopback(0) }).expect("sent");
        source.stop();
        let (mut out, mut rows, mut sums) = (Outlet::new(), 0, weir_flow::BooksSums::default());
        let mut ended = false;
        while !ended {
            ended = source.pull(&mut out).expect("no failure") == PullResult::Ended;
            for burst in out.drain() {
                rows += burst.len() as u64;
                burst.side_tables().books.iter().for_each(|books| sums.add(books, i64::MIN, i64::MAX));
            }
        }
        let told = sums.completeness();
        assert_eq!((rows, told.stored, told.received), (300, 300, 9_000));
        assert_eq!(sums.totals()[weir_flow::Counter::RecordsFiltered as usize], 8_700);
        assert!(told.is_complete(), "{told}");
        assert_eq!(context.counters.counter("records_filtered").get(), 8_700);
    }

    #[test]
    fn what_was_sent_is_handed_on_with_its_books_before_it_ends() {
        let free = weir_testkit::ports::free_address();
        let (Built::Source(mut source), context) =
            compliance::open(COLLECTOR, &format!("listen = '{free}'\nsockets = 2"))
        else {
            panic!("a source")
        };
        let mut flows = TrafficModel { numbered: true, ..TrafficModel::new(1) }.flows(20_000).expect("a model");
        let streams = [Version::V5, Version::V9, Version::Ipfix]
            .map(|version| Stream { source: None, config: ExporterConfig::new(version) });
        let plan = SendPlan { target: free, ..SendPlan::to_loopback(0) };
        let sent = send(&mut flows, &streams, &plan).expect("sent");
        source.stop();
        let (mut out, mut numbers, mut booked) = (Outlet::new(), Vec::new(), 0);
        let mut ended = false;
        while !ended {
            ended = source.pull(&mut out).expect("no failure") == PullResult::Ended;
            for burst in out.drain() {
                let (rows, side_tables) = burst.into_parts();
                let bytes =
                    rows.column_by_name("bytes").map(|bytes| bytes.as_primitive::<UInt64Type>().values().to_vec());
                numbers.extend(bytes.unwrap_or_default());
                let stored = side_tables.batches().filter_map(|(_, books)| books.column_by_name("records_stored"));
                booked += stored.flat_map(|stored| stored.as_primitive::<UInt64Type>().values()).sum::<u64>();
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..20_000).collect::<Vec<_>>());
        let counter = |name| context.counters.counter(name).get();
        assert_eq!((booked, counter("records_stored"), counter("datagrams")), (20_000, 20_000, sent.datagrams));
    }

    /// While the chain takes nothing, what the kernel drops meanwhile shows all the same.
    #[test]
    fn drops_show_while_nothing_is_taken() {
        let free = weir_testkit::ports::free_address();
        let text = format!("listen = '{free}'\nbuffer = '4KiB'\nqueue_datagram_bursts = 1\nqueue_deliveries = 1");
        let (Built::Source(_source), context) = compliance::open(COLLECTOR, &text) else { panic!("a source") };
        let mut flows = TrafficModel::new(1).flows(1_000_000).expect("a model");
        let streams = [Stream { source: None, config: ExporterConfig::new(Version::V5) }];
        send(&mut flows, &streams, &SendPlan { target: free, ..SendPlan::to_loopback(0) }).expect("sent");
        let until = std::time::Instant::now() + Duration::from_mins(2);
        while context.counters.counter("kernel_drops").get() == 0 {
            assert!(std::time::Instant::now() < until, "nothing shows");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn listeners_of_several_transports() {
        let free = weir_testkit::ports::free_address();
        let text = format!("listen = ['tcp://{free}', 'udp://{free}', '[::1]:0']\nrelay_sources = '192.0.2.0/24'");
        let (Built::Source(mut source), context) = compliance::open(COLLECTOR, &text) else { panic!("a source") };
        let mut flows = TrafficModel::new(1).flows(100).expect("a model");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let streams = [Stream { source: None, config: ExporterConfig::new(Version::Ipfix) }];
        let std::net::SocketAddr::V4(target) = free else { unreachable!("IPv4") };
        weir_generate::write_pcap(file.path(), &mut flows, &streams, target).expect("written");
        let mut messages = Vec::new();
        let capture = std::fs::File::open(file.path()).expect("the capture");
        weir_collect::capture::read(capture, |datagram| messages.extend_from_slice(datagram.payload)).1.expect("read");
        std::net::TcpStream::connect(free).and_then(|mut stream| stream.write_all(&messages)).expect("sent");
        source.stop();
        let mut out = Outlet::new();
        while source.pull(&mut out).expect("no failure") != PullResult::Ended {}
        let counter = |name| context.counters.counter(name).get();
        assert_eq!((counter("records_stored"), counter("connections_accepted")), (100, 1));
        assert!(out.drain().next().is_some());
    }

    /// A source that sends more than its rate is dropped and counted, however the rate is written.
    #[test]
    fn a_rate_for_each_source() {
        for rate in ["'1'", "1"] {
            let free = weir_testkit::ports::free_address();
            let text = format!("listen = '{free}'\nrate_per_source = {rate}");
            let (Built::Source(mut source), context) = compliance::open(COLLECTOR, &text) else { panic!("a source") };
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            for _ in 0..100 {
                socket.send_to(b"no flows", free).expect("sent");
            }
            source.stop();
            while source.pull(&mut Outlet::new()).expect("no failure") != PullResult::Ended {}
            let counted =
                ["datagrams_undecodable", "datagrams_over_rate"].map(|name| context.counters.counter(name).get());
            assert_eq!(counted.iter().sum::<u64>(), 100);
            assert!((10..20).contains(&counted[0]), "{counted:?}");
        }
    }

    /// A listener goes by the networks that are written behind it, those of a file among them, and not by 'allow'.
    #[test]
    fn networks_of_a_listener() {
        let (own, other) = (weir_testkit::ports::free_address(), weir_testkit::ports::free_address());
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        writeln!(file, "127.0.0.1 # this host").expect("written");
        let file = file.path().display();
        let text =
            format!("listen = ['udp://{own}?allow=192.0.2.0/24,@{file}', 'udp://{other}']\nallow = '198.51.100.0/24'");
        let (Built::Source(mut source), context) = compliance::open(COLLECTOR, &text) else { panic!("a source") };
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for to in [own, other, other] {
            socket.send_to(b"no flows", to).expect("sent");
        }
        source.stop();
        while source.pull(&mut Outlet::new()).expect("no failure") != PullResult::Ended {}
        let counted =
            ["datagrams_undecodable", "datagrams_not_allowed"].map(|name| context.counters.counter(name).get());
        assert_eq!(counted, [1, 2]);
    }

    /// The networks in a file are read again when that is asked for, and a file that is no good changes nothing.
    #[test]
    fn networks_in_a_file_are_read_again() {
        let free = weir_testkit::ports::free_address();
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        writeln!(file, "# routers\n192.0.2.0/24").expect("written");
        let text = format!("listen = '{free}'\nallow = '@{}'", file.path().display());
        let (Built::Source(mut source), context) = compliance::open(COLLECTOR, &text) else { panic!("a source") };
        let mut out = Outlet::new();
        let mut until = |name: &'static str, count: u64, source: &mut Box<dyn Source>| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let give_up = std::time::Instant::now() + Duration::from_mins(2);
            while context.counters.counter(name).get() < count {
                assert!(std::time::Instant::now() < give_up, "{name}");
                socket.send_to(b"no flows", free).expect("sent");
                source.pull(&mut out).expect("no failure");
            }
        };
        until("datagrams_not_allowed", 1, &mut source);
        writeln!(file, "127.0.0.1 # and this host").expect("written");
        context.reload.ask();
        until("datagrams_undecodable", 1, &mut source);
        for bad in ["", "no network"] {
            std::fs::write(file.path(), bad).expect("written");
            context.reload.ask();
            let seen = context.counters.counter("datagrams_undecodable").get();
            until("datagrams_undecodable", seen + 2, &mut source);
        }
    }

    fn given(text: &str) -> CollectorSourceOptions {
        weir_chain::options::parse(text).expect("options")
    }

    /// Networks that are written into the options change while it runs, those of 'allow' and those of a listener.
    #[test]
    fn other_senders_are_allowed_while_it_runs() {
        let (own, other) = (weir_testkit::ports::free_address(), weir_testkit::ports::free_address());
        let text = |of_own: &str, allow: &str| {
            format!("listen = ['udp://{own}?allow={of_own}', 'udp://{other}']\nallow = '{allow}'")
        };
        let (nobody_here, this_host) = ("192.0.2.0/24", "127.0.0.1");
        let begun_with = text(nobody_here, nobody_here);
        let (Built::Source(mut source), context) = compliance::open(COLLECTOR, &begun_with) else { panic!("a source") };
        let mut out = Outlet::new();
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let (taken, refused) = ("datagrams_undecodable", "datagrams_not_allowed");
        let mut counts_what_comes_to = |listener: SocketAddr, name: &'static str| {
            let give_up = std::time::Instant::now() + Duration::from_mins(2);
            let before = context.counters.counter(name).get();
            while context.counters.counter(name).get() == before {
                assert!(std::time::Instant::now() < give_up, "{name} of {listener}");
                socket.send_to(b"no flows", listener).expect("sent");
                source.pull(&mut out).expect("no failure");
            }
        };
        counts_what_comes_to(own, refused);
        counts_what_comes_to(other, refused);
        for (of_own, allow, takes, refuses) in
            [(this_host, nobody_here, own, other), (nobody_here, this_host, other, own)]
        {
            let senders = given(&text(of_own, allow)).senders_after(&given(&begun_with)).expect("networks");
            context.reload.ask_with("collector", senders.expect("nothing else has changed"));
            counts_what_comes_to(takes, taken);
            counts_what_comes_to(refuses, refused);
        }
        // a wish without options leaves those that came last
        context.reload.ask();
        counts_what_comes_to(own, refused);
        counts_what_comes_to(other, taken);
    }

    #[test]
    fn what_takes_another_collector_is_not_taken_for_other_senders() {
        let begun_with = given("listen = ['udp://127.0.0.1:1?allow=192.0.2.0/24', 'tcp://127.0.0.1:2']\nsockets = 2");
        let senders = |text: &str| given(text).senders_after(&begun_with);
        let others = "listen = ['udp://127.0.0.1:1', 'tcp://127.0.0.1:2?allow=2001:db8::/32']\nallow = ['192.0.2.7']";
        let expected: Table = others.parse().expect("a table");
        assert_eq!(senders(&format!("{others}\nsockets = 2")).expect("networks"), Some(expected));
        let listen = "listen = ['udp://127.0.0.1:1', 'tcp://127.0.0.1:2']";
        for other in [
            format!("{listen}\nsockets = 3"),
            listen.to_owned(),
            "listen = ['tcp://127.0.0.1:2', 'udp://127.0.0.1:1']\nsockets = 2".to_owned(),
            "listen = ['udp://127.0.0.1:1']\nsockets = 2".to_owned(),
        ] {
            assert_eq!(senders(&other).expect("networks"), None, "{other}");
        }
        for (wrong, expected) in [
            ("allow = '192.0.2.0/33'", "'192.0.2.0/33' is no network"),
            ("allow = '@no-such-file'", "cannot read the networks in no-such-file"),
        ] {
            let error = senders(&format!("{listen}\nsockets = 2\n{wrong}")).expect_err("wrong").message;
            assert!(error.contains(expected), "{error}");
        }
        // the collector reads them again too
        let secure =
            given("listen = 'tls://127.0.0.1:1'\ntls_cert = 'none.pem'\ntls_key = 'none.key'\ntls_ca = 'none.ca'");
        let error = secure.senders_after(&secure).expect_err("no certificate").message;
        assert!(error.contains("none.pem"), "{error}");
    }

    #[test]
    fn options_are_checked() {
        for (text, expected) in [
            ("listen = 'quic://0.0.0.0:1'", "'quic' is no transport"),
            ("listen = ['udp://0.0.0.0:1', 'tcp://nowhere']", "'nowhere' is no address and port"),
            ("listen = 'udp://127.0.0.1:70000'", "'127.0.0.1:70000' is no address and port: port 70000 is above 65535"),
            ("listen = '[::]:65536'", "'[::]:65536' is no address and port: port 65536 is above 65535"),
            ("listen = []", "'listen' names no address"),
            ("listen = 'tls://127.0.0.1:0'", "'tls_cert' must be given"),
            ("tls_key = 'key.pem'", "'tls_key' has no effect"),
            ("listen = 'udp://0.0.0.0:1?allow='", "'' is no network"),
            ("listen = 'udp://0.0.0.0:1?allow=192.0.2.0/24,192.0.2.0/33'", "'192.0.2.0/33' is no network"),
            ("listen = 'udp://0.0.0.0:1?sockets=2'", "'sockets=2' is no option of a listener"),
            ("relay_sources = '192.0.2.0/33'", "'192.0.2.0/33' is no network"),
            ("rate_per_source = 0", "'0' is no limit on datagrams a second"),
            ("rate_per_source = '8G'", "'8G' is no limit on datagrams a second"),
            ("rate_per_source = '50 a second'", "'50 a second' is not a rate"),
        ] {
            let error = weir_chain::options::parse(text).and_then(configure).err().expect("an error").message;
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
