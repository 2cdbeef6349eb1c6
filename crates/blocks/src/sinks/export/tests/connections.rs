//! Collectors that are slow, dead, late, or gone and back again.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use weir_chain::Counters;

use super::*;

/// A listener on a free port, and what `to` says to reach it.
fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let to = format!("tcp://{}", listener.local_addr().expect("an address"));
    (listener, to)
}

/// Accepts one connection and reads it to its end.
fn reader(listener: TcpListener) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || read_to_end(&mut listener.accept().expect("a connection").0))
}

fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut octets = Vec::new();
    stream.read_to_end(&mut octets).expect("read");
    octets
}

pub(super) fn open(parameters: &str) -> (Box<dyn Sink>, Counters) {
    let (Built::Sink(sink), context) = compliance::open(&KIND, parameters) else { panic!("no sink") };
    (sink, context.counters)
}

pub(super) fn count(meter: &Counters, name: &str) -> u64 {
    counter(&meter.read(), name)
}

/// Length of the whole messages at the front, without one that was cut.
fn whole(octets: &[u8]) -> &[u8] {
    let length = |octets: &[u8]| Some(usize::from(u16::from_be_bytes(octets.get(2..4)?.try_into().ok()?)));
    let mut end = 0;
    while let Some(length) = length(&octets[end..]).filter(|length| end + length <= octets.len()) {
        end += length;
    }
    &octets[..end]
}

#[test]
fn a_collector_gets_what_was_sent() {
    for size in [None, Some(512), Some(65_535)] {
        let sent = flows(5_000, 300);
        let (listener, to) = listener();
        let reader = reader(listener);
        let longest = size.map_or(String::new(), |size| format!("message_size_max = '{size}B'"));
        let parameters = format!("to = '{to}'\nclock = 'rows'\n{longest}");
        let counters = compliance::sink(&KIND, &parameters, std::slice::from_ref(&sent), 700);
        let octets = reader.join().expect("read");
        assert_eq!(texts(&decoded(&octets)), texts(&sent));
        assert_eq!(counter(&counters, "octets_sent"), octets.len() as u64);
        let messages = weir_collect::stream::messages(&octets);
        let longest = messages.map(<[u8]>::len).max().expect("messages");
        let limit = size.unwrap_or(8192);
        assert!((limit - 300..=limit).contains(&longest), "{longest} of {limit}");
        let names = ["records_exported", "records_unsent", "records_uncertain", "connections_made", "connections_lost"];
        assert_eq!(names.map(|name| counter(&counters, name)), [5_000, 0, 0, 1, 0]);
    }
}

#[test]
fn templates_are_told_once_in_a_session() {
    let (listener, to) = listener();
    let reader = reader(listener);
    let parameters = format!("to = '{to}'\ntemplate_refresh_datagrams = 1\nmessage_size_max = '512B'");
    compliance::sink(&KIND, &parameters, &[flows(500, 0)], 50);
    let octets = reader.join().expect("read");
    let template_sets = weir_collect::stream::messages(&octets).filter(|message| message[16..18] == [0, 2]);
    // flows of two shapes at most: with and without TCP flags
    assert!((1..=2).contains(&template_sets.count()));
}

#[test]
fn a_collector_that_never_reads_stops_nobody() {
    let (silent, to_silent) = listener();
    let (healthy, to_healthy) = listener();
    let healthy_octets = Arc::new(AtomicUsize::new(0));
    let read = Arc::clone(&healthy_octets);
    let reader = thread::spawn(move || {
        let (mut stream, mut octets, mut buffer) = (healthy.accept().expect("a connection").0, Vec::new(), [0; 8192]);
        while let count @ 1.. = stream.read(&mut buffer).expect("read") {
            octets.extend_from_slice(&buffer[..count]);
            read.fetch_add(count, Ordering::Relaxed);
        }
        octets
    });
    let receiver = Receiver::new();
    let to_receiver = receiver.address();
    let (mut sink, meter) = open(&format!(
        "to = ['{to_silent}', '{to_healthy}', '{to_receiver}']\nqueue_size = '256KiB'\nfinish_timeout = '10s'"
    ));
    let piece = flows(500, 0);
    let (mut given, mut datagram_octets) = (0, 0);
    // more than the buffers of the system and the queue take
    while count(&meter, "records_unsent") == 0 {
        sink.take(Burst::new(piece.clone())).expect("taken");
        given += 500;
        let mut buffer = [0; 2048];
        while let Ok((length, _)) = receiver.0.recv_from(&mut buffer) {
            datagram_octets += length;
        }
        // all get the same messages; only the silent one's may find no room
        wait_until("the healthy one has them", || healthy_octets.load(Ordering::Relaxed) + 20_000 >= datagram_octets);
        assert!(given < 4_000_000, "flows that nobody reads go somewhere");
    }
    let begun = Instant::now();
    sink.finish().expect("finished");
    // the time that was given, and some for a slow machine
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    assert_eq!(decoded(&reader.join().expect("read")).num_rows(), given);
    let [exported, unsent, uncertain] =
        ["records_exported", "records_unsent", "records_uncertain"].map(|name| count(&meter, name));
    assert_eq!(exported + unsent, 3 * given as u64);
    // what the silent one's system has taken may never be read
    assert_eq!(uncertain, exported - 2 * given as u64);
    assert_eq!(["connections_made", "connections_lost"].map(|name| count(&meter, name)), [2, 1]);
    assert_eq!(sink.state().rows, 0);
    drop(silent);
}

#[test]
fn flows_that_can_wait_wait_for_a_slow_collector_but_not_for_a_dead_one() {
    let (listener, to) = listener();
    let sent = flows(40_000, 0);
    let (begin, begun) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut stream = listener.accept().expect("a connection").0;
        begun.recv().expect("a word");
        read_to_end(&mut stream)
    });
    let parameters = format!("to = '{to}'\nqueue_size = '128KiB'\nroom_timeout = '60s'\nfinish_timeout = '60s'");
    let (mut sink, meter) = open(&parameters);
    let taking = thread::spawn({
        let sent = sent.clone();
        move || {
            for from in (0..40_000).step_by(500) {
                sink.take(Burst::new(sent.slice(from, 500))).expect("taken");
            }
            sink.finish().expect("finished");
        }
    });
    wait_until("the first messages are written", || count(&meter, "messages_sent") > 0);
    begin.send(()).expect("heard");
    taking.join().expect("taken");
    assert_eq!(numbers(&decoded(&reader.join().expect("read"))), numbers(&sent));
    assert_eq!(["records_exported", "records_unsent"].map(|name| count(&meter, name)), [40_000, 0]);

    let (dead, to) = self::listener();
    let parameters = format!("to = '{to}'\nqueue_size = '128KiB'\nroom_timeout = '0.2s'\nfinish_timeout = '0s'");
    let (mut sink, meter) = open(&parameters);
    while count(&meter, "records_unsent") < 10_000 {
        sink.take(Burst::new(sent.slice(0, 500))).expect("taken");
    }
    drop(dead);
}

#[test]
fn a_stop_ends_the_wait_for_room() {
    let (dead, to) = listener();
    let parameters = format!(
        "to = '{to}'\nqueue_size = '128KiB'\nroom_timeout = '1000s'\nfinish_timeout = '1000s'\n\
         stop_timeout = '0.1s'"
    );
    let (Built::Sink(mut sink), context) = compliance::open(&KIND, &parameters) else { panic!("no sink") };
    let (piece, meter) = (flows(500, 0), context.counters.clone());
    let taking = thread::spawn(move || {
        let mut given = 0;
        // nothing is given up before the stop
        while count(&meter, "records_unsent") == 0 {
            sink.take(Burst::new(piece.clone())).expect("taken");
            given += 500;
        }
        sink.finish().expect("finished");
        given
    });
    wait_until("the first messages are written", || count(&context.counters, "messages_sent") > 0);
    context.stop.set();
    wait_until("it has ended", || taking.is_finished());
    let given: u64 = taking.join().expect("taken");
    let [exported, unsent] = ["records_exported", "records_unsent"].map(|name| count(&context.counters, name));
    assert_eq!(exported + unsent, given);
    drop(dead);
}

#[test]
fn a_stop_ends_the_finish() {
    let (early, to) = listener();
    drop(early);
    let parameters = format!("to = '{to}'\nfinish_timeout = '1000s'\nstop_timeout = '0.1s'");
    let (Built::Sink(mut sink), context) = compliance::open(&KIND, &parameters) else { panic!("no sink") };
    sink.take(Burst::new(flows(1_000, 0))).expect("taken");
    let finishing = thread::spawn(move || sink.finish().expect("finished"));
    wait_until("it goes on trying", || count(&context.counters, "connections_failed") > 2);
    assert!(!finishing.is_finished());
    context.stop.set();
    wait_until("it has ended", || finishing.is_finished());
    assert_eq!(["records_exported", "records_unsent"].map(|name| count(&context.counters, name)), [0, 1_000]);
}

#[test]
fn several_dead_collectors_are_waited_for_at_the_same_time() {
    const ROOM_TIMEOUT: Duration = Duration::from_secs(4);
    for distribute in ["all", "round-robin"] {
        let dead: Vec<_> = (0..4).map(|_| listener()).collect();
        let to: Vec<_> = dead.iter().map(|(_, to)| format!("'{to}'")).collect();
        let parameters = format!(
            "to = [{}]\ndistribute = '{distribute}'\nqueue_size = '128KiB'\nfinish_timeout = '0s'\n\
             room_timeout = '{}s'",
            to.join(", "),
            ROOM_TIMEOUT.as_secs()
        );
        let (mut sink, meter) = open(&parameters);
        let piece = flows(512, 0);
        let mut longest = Duration::ZERO;
        // so many that each of them has been waited for
        while count(&meter, "records_unsent") < 20_000 {
            let begun = Instant::now();
            sink.take(Burst::new(piece.clone())).expect("taken");
            longest = longest.max(begun.elapsed());
        }
        assert!(longest > ROOM_TIMEOUT / 4, "{longest:?}: nothing was waited for");
        assert!(longest < ROOM_TIMEOUT * 3, "{longest:?}: one was waited for after the other");
        let again = || {
            let begun = Instant::now();
            sink.take(Burst::new(piece.clone())).expect("taken");
            begun.elapsed()
        };
        let quickest = std::iter::repeat_with(again).take(5).min().expect("five");
        assert!(quickest < ROOM_TIMEOUT / 2, "who was waited for in vain is not waited for again");
    }
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    let (listener, to) = listener();
    let (accepted, sessions) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut stream = listener.accept().expect("a connection").0;
        let mut first = vec![0; 20_000];
        stream.read_exact(&mut first).expect("read");
        // with octets that were not read: the system resets the connection
        drop(stream);
        let mut stream = listener.accept().expect("another connection").0;
        accepted.send(()).expect("told");
        (first, read_to_end(&mut stream))
    });
    let (mut sink, meter) = open(&format!("to = '{to}'\nmessage_size_max = '1000B'"));
    let piece = flows(500, 200);
    let mut given = 0;
    while sessions.try_recv().is_err() {
        sink.take(Burst::new(piece.clone())).expect("taken");
        given += 500;
        thread::sleep(Duration::from_millis(10));
    }
    sink.take(Burst::new(piece.clone())).expect("taken");
    given += 500;
    sink.finish().expect("finished");
    let (first, second) = reader.join().expect("read");
    // each session makes sense by itself: templates come first, and sequence numbers begin anew
    let (first, second) = (decoded(whole(&first)).num_rows() as u64, decoded(&second).num_rows() as u64);
    let [exported, unsent, uncertain] =
        ["records_exported", "records_unsent", "records_uncertain"].map(|name| count(&meter, name));
    assert_eq!((exported + unsent, unsent), (given, 0));
    assert!(
        first + second <= exported && exported - uncertain <= first + second,
        "{first} + {second} of {exported}, {uncertain} uncertain"
    );
    assert!(uncertain >= first && second >= 500);
    assert_eq!(["connections_made", "connections_lost"].map(|name| count(&meter, name)), [2, 1]);
}

#[test]
fn flows_wait_for_a_collector_that_is_late() {
    let (early, to) = listener();
    let address = early.local_addr().expect("an address");
    drop(early);
    let (mut sink, meter) = open(&format!("to = '{to}'"));
    let sent = flows(1_000, 100);
    sink.take(Burst::new(sent.clone())).expect("taken");
    sink.tick().expect("a tick");
    wait_until("it has tried", || count(&meter, "connections_failed") > 0);
    assert_eq!([count(&meter, "records_exported"), sink.state().rows], [0, 1_000]);
    let reader = reader(TcpListener::bind(address).expect("the same port"));
    wait_until("all is sent", || count(&meter, "records_exported") == 1_000);
    sink.finish().expect("finished");
    assert_eq!(numbers(&decoded(&reader.join().expect("read"))), numbers(&sent));
    assert_eq!(["records_unsent", "records_uncertain"].map(|name| count(&meter, name)), [0, 0]);
}

#[test]
fn a_collector_that_never_comes_is_given_up_in_time() {
    let (early, to) = listener();
    drop(early);
    let (mut sink, meter) = open(&format!("to = '{to}'\nfinish_timeout = '4s'"));
    sink.take(Burst::new(flows(1_000, 0))).expect("taken");
    let begun = Instant::now();
    sink.finish().expect("finished");
    assert!((4_000..40_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    assert_eq!(["records_exported", "records_unsent"].map(|name| count(&meter, name)), [0, 1_000]);
    assert!(count(&meter, "connections_failed") >= 2, "it went on trying");
    // nothing to send is nothing to wait for
    let (mut sink, meter) = open(&format!("to = '{to}'\nfinish_timeout = '100s'"));
    sink.finish().expect("finished");
    assert_eq!(count(&meter, "records_unsent"), 0);
}

#[test]
fn in_turn_over_connections() {
    let collectors = [listener(), listener()];
    let [first, second] = [&collectors[0].1, &collectors[1].1];
    let parameters = format!("to = ['{first}', '{second}']\ndistribute = 'round-robin'");
    let readers = collectors.map(|(listener, _)| reader(listener));
    compliance::sink(&KIND, &parameters, &[flows(1_200, 100)], 300);
    let [first, second] = readers.map(|reader| numbers(&decoded(&reader.join().expect("read"))));
    let is_turn = |turn: u64| (0..1200).filter(|row| row / 512 % 2 == turn).collect::<BTreeSet<u64>>();
    assert!(first == is_turn(0) && second == is_turn(1));
}

#[test]
fn sctp_where_the_system_has_it() {
    use socket2::{Domain, Protocol, Socket, Type};
    let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::from(132))) else {
        weir_testkit::skip("sctp", "this kernel has no SCTP");
        let (mut sink, meter) = open("to = 'sctp://127.0.0.1:9'\nfinish_timeout = '0.1s'");
        sink.take(Burst::new(flows(10, 0))).expect("taken");
        sink.finish().expect("finished");
        assert_eq!(count(&meter, "records_unsent"), 10);
        return;
    };
    let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    socket.bind(&address.into()).and_then(|()| socket.listen(1)).expect("a listener");
    let to = format!("sctp://{}", socket.local_addr().expect("an address").as_socket().expect("of IP"));
    let reader = thread::spawn(move || read_to_end(&mut TcpStream::from(socket.accept().expect("an association").0)));
    let sent = flows(5_000, 300);
    compliance::sink(&KIND, &format!("to = '{to}'\nclock = 'rows'"), std::slice::from_ref(&sent), 700);
    assert_eq!(texts(&decoded(&reader.join().expect("read"))), texts(&sent));
}
