//! Agents that do not keep to the protocol.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::polling::Polling;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const NULL: u8 = 0x05;
const OID: u8 = 0x06;
const RESPONSE: u8 = 0xa2;
const END_OF_MIB_VIEW: u8 = 0x82;
/// Octets of `ifName` behind the 1.3 that are one octet (X.690, section 8.19).
const IF_NAME: [u8; 11] = [0x2b, 6, 1, 2, 1, 31, 1, 1, 1, 1, 0];
// Columns of RFC 2863 as requests have them.
const IF_NAMES: &[u8] = &[0x2b, 6, 1, 2, 1, 31, 1, 1, 1, 1];
const IF_ALIAS: &[u8] = &[0x2b, 6, 1, 2, 1, 31, 1, 1, 1, 18];
const IF_DESCR: &[u8] = &[0x2b, 6, 1, 2, 1, 2, 2, 1, 2];
const IF_TYPE: &[u8] = &[0x2b, 6, 1, 2, 1, 2, 2, 1, 3];
const IF_ADMIN_STATUS: &[u8] = &[0x2b, 6, 1, 2, 1, 2, 2, 1, 7];
const IF_OPER_STATUS: &[u8] = &[0x2b, 6, 1, 2, 1, 2, 2, 1, 8];
/// `genErr` (RFC 3416).
const GEN_ERR: u8 = 5;

/// A value in BER with a length of two octets.
fn ber(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[tag, 0x82, length[0], length[1]], content].concat()
}

/// Takes a value in BER apart: tag, content, what follows.
fn taken(octets: &[u8]) -> (u8, &[u8], &[u8]) {
    let (tag, first) = (octets[0], usize::from(octets[1]));
    let count = first.saturating_sub(128);
    let length = octets[2..2 + count].iter().fold(0, |length, octet| length << 8 | usize::from(*octet));
    let length = if count == 0 { first } else { length };
    let (content, rest) = octets[2 + count..].split_at(length);
    (tag, content, rest)
}

/// What an agent answers to a request, in datagrams.
type Answers = fn(&Request) -> Vec<Vec<u8>>;

/// A request of SNMP v2c as the agents here see it.
struct Request {
    community: Vec<u8>,
    id: i32,
    /// Octets of the first name.
    oid: Vec<u8>,
}

impl Request {
    fn of(datagram: &[u8]) -> Self {
        let (_, message, _) = taken(datagram);
        let (_, _version, rest) = taken(message);
        let (_, community, rest) = taken(rest);
        let (_, pdu, _) = taken(rest);
        let (_, id, rest) = taken(pdu);
        let (_, _, rest) = taken(rest);
        let (_, _, rest) = taken(rest);
        let (_, bindings, _) = taken(rest);
        let (_, binding, _) = taken(bindings);
        let (_, oid, _) = taken(binding);
        let id = id.iter().fold(if id[0] > 127 { -1 } else { 0 }, |id, octet| id << 8 | i32::from(*octet));
        Self { community: community.to_vec(), id, oid: oid.to_vec() }
    }

    /// Whether it is about `ifName`.
    fn is_about_names(&self) -> bool {
        self.oid.starts_with(&IF_NAME[..10])
    }

    /// The index in the name that is asked about, of two octets of base 128; 0 at the beginning.
    fn index(&self) -> u32 {
        self.oid[10.min(self.oid.len())..].iter().fold(0, |index, octet| index << 7 | u32::from(octet & 0x7f))
    }

    /// An answer of names by index.
    fn answer(&self, id: i32, names: &[(u32, &str)]) -> Vec<u8> {
        let bindings = names.iter().map(|(index, name)| binding(*index, OCTETS, name.as_bytes()));
        self.message(id, &bindings.collect::<Vec<_>>().concat())
    }

    /// An answer that there is nothing more.
    fn end(&self) -> Vec<u8> {
        let binding = [ber(OID, &self.oid), vec![END_OF_MIB_VIEW, 0]].concat();
        self.message(self.id, &ber(SEQUENCE, &binding))
    }

    /// An answer that the agent cannot answer.
    fn failure(&self) -> Vec<u8> {
        let binding = [ber(OID, &self.oid), ber(NULL, &[])].concat();
        self.message_with(self.id, [GEN_ERR, 1], &ber(SEQUENCE, &binding))
    }

    fn message(&self, id: i32, bindings: &[u8]) -> Vec<u8> {
        self.message_with(id, [0, 0], bindings)
    }

    /// A message with the status of an error and its index.
    fn message_with(&self, id: i32, error: [u8; 2], bindings: &[u8]) -> Vec<u8> {
        let [status, index] = error.map(|number| ber(INTEGER, &[number]));
        let pdu = [ber(INTEGER, &id.to_be_bytes()), status, index, ber(SEQUENCE, bindings)].concat();
        ber(SEQUENCE, &[ber(INTEGER, &[1]), ber(OCTETS, &self.community), ber(RESPONSE, &pdu)].concat())
    }
}

/// A binding of a row of `ifName`.
fn binding(index: u32, tag: u8, value: &[u8]) -> Vec<u8> {
    let index = [(index >> 14) as u8 | 0x80, (index >> 7) as u8 | 0x80, index as u8 & 0x7f];
    let index: Vec<u8> = index.into_iter().skip_while(|octet| *octet == 0x80).collect();
    ber(SEQUENCE, &[ber(OID, &[&IF_NAME[..10], &index].concat()), ber(tag, value)].concat())
}

/// An agent of a test: what it sends for each request.
struct Agent {
    address: SocketAddr,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    fn begin(answers: impl Fn(&Request) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time limit");
        let (address, is_ending) = (socket.local_addr().expect("an address"), Arc::new(AtomicBool::new(false)));
        let ending = Arc::clone(&is_ending);
        let thread = std::thread::spawn(move || {
            let mut datagram = vec![0; 65_536];
            while !ending.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut datagram) else { continue };
                for answer in answers(&Request::of(&datagram[..length])) {
                    socket.send_to(&answer, from).expect("sent");
                }
            }
        });
        Self { address, is_ending, thread: Some(thread) }
    }

    fn polling(&self, more: &str) -> Polling {
        let more = format!("timeout = '300ms'\nretries = 0\n{more}");
        polling(&format!("['192.0.2.1={}']", self.address), &more)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.expect("a thread").expect("the agent of the test has no panic");
        }
    }
}

fn polling(exporters: &str, more: &str) -> Polling {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("community");
    std::fs::write(&secret, "public\n").expect("a secret");
    let secret = secret.display();
    let mut polling =
        Polling::begin(&format!("exporters = {exporters}\ninterval = '1s'\ncommunity = 'file:{secret}'\n{more}"));
    polling.folder = Some(folder);
    polling
}

/// What a right agent with two interfaces sends.
fn right(request: &Request) -> Vec<u8> {
    let is_first = request.is_about_names() && request.index() == 0;
    if is_first { request.answer(request.id, &[(1, "lo"), (2, "eth0")]) } else { request.end() }
}

fn names(of: &[(u64, &str)]) -> BTreeMap<u64, String> {
    of.iter().map(|(index, name)| (*index, (*name).to_owned())).collect()
}

#[test]
fn an_agent_of_two_interfaces_is_understood() {
    let agent = Agent::begin(|request| vec![right(request)]);
    let mut polling = agent.polling("");
    polling.until("a poll", |polling| !polling.names.is_empty());
    assert_eq!(polling.names_by_index(), names(&[(1, "lo"), (2, "eth0")]));
    assert_eq!(polling.counter("interfaces_read"), 2);
}

#[test]
fn garbage_and_lying_lengths_are_no_answer() {
    let cases: [Answers; 5] = [
        |_| vec![vec![], vec![0xff; 1500], b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![SEQUENCE], vec![SEQUENCE, 0x80]],
        // the length of the message, and with it all others, is larger than the datagram
        |request| {
            let mut answer = right(request);
            answer[2..4].copy_from_slice(&[0xff, 0xff]);
            vec![answer]
        },
        |request| vec![[&[SEQUENCE, 0x84, 0x7f, 0xff, 0xff, 0xff][..], &right(request)[4..]].concat()],
        // cut anywhere
        |request| (1..right(request).len()).map(|length| right(request)[..length].to_vec()).collect(),
        // a name that says it is longer than all that there is
        |request| {
            let mut lying = binding(1, OCTETS, b"evil");
            let at = lying.len() - 6;
            lying[at..at + 2].copy_from_slice(&[0xff, 0xfe]);
            vec![request.message(request.id, &lying)]
        },
    ];
    for (number, answers) in cases.into_iter().enumerate() {
        let agent = Agent::begin(answers);
        let mut polling = agent.polling("");
        let failed = ["polls_unanswered", "polls_failed"];
        let is_counted = move |polling: &Polling| failed.iter().map(|name| polling.counter(name)).sum::<u64>() > 1;
        polling.until(&format!("the end of the polls of case {number}"), is_counted);
        assert!(polling.names.is_empty() && polling.counters.is_empty(), "case {number}");
    }
}

#[test]
fn answers_to_other_requests_or_communities_are_not_believed() {
    let agent = Agent::begin(|request| {
        let other = Request { community: b"other".to_vec(), id: request.id, oid: request.oid.clone() };
        let evil: &[(u32, &str)] = &[(1, "evil"), (2, "evil")];
        let late = [request.id - 1, request.id + 1, 0, -1].map(|id| request.answer(id, evil));
        let mut sent = late.to_vec();
        sent.extend([other.answer(request.id, evil), right(request)]);
        sent
    });
    let mut polling = agent.polling("");
    polling.until("two polls", |polling| polling.counters.len() > 1);
    assert_eq!(polling.names_by_index(), names(&[(1, "lo"), (2, "eth0")]));
}

#[test]
fn a_walk_that_does_not_get_on_ends_and_names_nothing() {
    for again in [1, 5, 6] {
        let agent = Agent::begin(move |request| {
            let rows: &[(u32, &str)] = &[(5, "five"), (6, "six")];
            let looped: &[(u32, &str)] = if again == 5 { &[(5, "five"), (5, "five")] } else { &[(again, "again")] };
            match (request.is_about_names(), request.index()) {
                (false, _) => row_by_row(request, None),
                (true, 0) => vec![request.answer(request.id, rows)],
                (true, _) => vec![request.answer(request.id, looped)],
            }
        });
        let mut polling = agent.polling("");
        polling.until("names by another column", |polling| !polling.names.is_empty());
        assert!(polling.counter("columns_bad") > 1, "once in each poll");
        assert_eq!(polling.names_by_index(), names(&[(1, "Loopback"), (2, "Ethernet")]), "{again}");
    }
}

#[test]
fn there_are_never_more_interfaces_than_the_limit() {
    let endless: fn(&Request) -> Vec<Vec<u8>> = |request| {
        let rows: Vec<_> = (1..=20).map(|number| (request.index() + number, "more")).collect();
        let is_about = request.is_about_names();
        vec![if is_about { request.answer(request.id, &rows) } else { request.end() }]
    };
    let huge: fn(&Request) -> Vec<Vec<u8>> = |request| {
        let rows: Vec<_> = (1..=2000).map(|number| (request.index() + number, "more")).collect();
        let is_about = request.is_about_names();
        vec![if is_about { request.answer(request.id, &rows) } else { request.end() }]
    };
    let agent = Agent::begin(endless);
    let mut polling = agent.polling("interfaces_max = 50");
    polling.until("a poll", |polling| polling.counters.len() > 1);
    assert_eq!(polling.names.len(), 50);
    assert_eq!(polling.counter("interfaces_read"), 50 * polling.counter("polls_cut"));
    // far more rows than were asked for, in one datagram
    let agent = Agent::begin(huge);
    let mut polling = agent.polling("interfaces_max = 50");
    polling.until("two polls", |polling| polling.counter("polls") > 2);
    assert!(polling.names.len() <= 50, "{}", polling.names.len());
}

#[test]
fn a_dead_agent_holds_up_neither_the_others_nor_the_end() {
    let dead = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let agent = Agent::begin(|request| vec![right(request)]);
    let address = dead.local_addr().expect("an address");
    let exporters = format!("['192.0.2.9={address}', '192.0.2.1={}']", agent.address);
    let mut polling = polling(&exporters, "timeout = '1h'\nretries = 10");
    polling.until("three polls", |polling| polling.counters.len() > 2);
    polling.until("the end of a poll of the dead one", |polling| polling.counter("polls_unanswered") > 0);
    assert!(polling.names.keys().all(|(exporter, _)| *exporter == [192, 0, 2, 1]));
    let took = polling.stop();
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_secret_is_read_again_after_a_failure() {
    let is_answering = Arc::new(AtomicBool::new(false));
    let answering = Arc::clone(&is_answering);
    let agent = Agent::begin(move |request| {
        let is_right = answering.load(Ordering::Relaxed) && request.community == b"new";
        if is_right { vec![right(request)] } else { vec![] }
    });
    let mut polling = agent.polling("");
    polling.until("a poll without an answer", |polling| polling.counter("polls_unanswered") > 0);
    let folder = polling.folder.as_ref().expect("a folder").path();
    std::fs::write(folder.join("community"), "new\n").expect("a secret");
    is_answering.store(true, Ordering::Relaxed);
    polling.until("a poll", |polling| !polling.names.is_empty());
}

#[test]
fn a_name_is_cleaned() {
    let agent = Agent::begin(|request| {
        let is_first = request.is_about_names() && request.index() == 0;
        vec![if is_first { request.answer(request.id, &[(3, "a\u{1b}[2Jb")]) } else { request.end() }]
    });
    let mut polling = agent.polling("");
    polling.until("a poll", |polling| !polling.names.is_empty());
    assert_eq!(polling.names_by_index(), names(&[(3, "a\u{fffd}[2Jb")]));
}

/// A column: its object identifier, the tag of its values, and they.
type Column = (&'static [u8], u8, [&'static [u8]; 2]);

/// Columns of two interfaces: that of names first, each with the tag and the values of its rows.
const TABLE: [Column; 6] = [
    (IF_NAMES, OCTETS, [b"lo", b"eth0"]),
    (IF_DESCR, OCTETS, [b"Loopback", b"Ethernet"]),
    (IF_ALIAS, OCTETS, [b"ours", b"to Berlin"]),
    (IF_TYPE, INTEGER, [&[24], &[6]]),
    (IF_ADMIN_STATUS, INTEGER, [&[1], &[1]]),
    (IF_OPER_STATUS, INTEGER, [&[1], &[1]]),
];

/// What an agent with that table sends, one row in each answer, and what it sends behind the first row of one column.
fn row_by_row(request: &Request, broken: Option<(&[u8], Answers)>) -> Vec<Vec<u8>> {
    let Some((column, tag, rows)) = TABLE.into_iter().find(|(column, _, _)| request.oid.starts_with(column)) else {
        return vec![request.end()];
    };
    // a walk begins with the column itself, and goes on behind the last row
    let index = request.oid.get(column.len()).copied().unwrap_or(0);
    if let Some((of, answers)) = broken
        && (of, index) == (column, 1)
    {
        return answers(request);
    }
    let Some(value) = rows.get(usize::from(index)) else { return vec![request.end()] };
    let row = [ber(OID, &[column, &[index + 1]].concat()), ber(tag, value)].concat();
    vec![request.message(request.id, &ber(SEQUENCE, &row))]
}

const FAILS: Answers = |request| vec![request.failure()];
const IS_SILENT: Answers = |_| Vec::new();

/// Names and descriptions of the table.
fn texts(polling: &Polling) -> Vec<(Option<&str>, Option<&str>)> {
    polling.names.values().map(|(name, description)| (name.as_deref(), description.as_deref())).collect()
}

const TEXTS: [(Option<&str>, Option<&str>); 2] = [(Some("lo"), Some("ours")), (Some("eth0"), Some("to Berlin"))];

#[test]
fn a_column_of_texts_that_fails_changes_no_name() {
    for column in [IF_NAMES, IF_DESCR, IF_ALIAS] {
        let is_busy = Arc::new(AtomicBool::new(false));
        let busy = Arc::clone(&is_busy);
        let agent =
            Agent::begin(move |request| row_by_row(request, busy.load(Ordering::Relaxed).then_some((column, FAILS))));
        let mut polling = agent.polling("");
        polling.until("a poll", |polling| !polling.counters.is_empty());
        is_busy.store(true, Ordering::Relaxed);
        polling.until("a column that fails", |polling| polling.counter("columns_bad") > 0);
        let before = polling.counters.len();
        polling.until("counters without names", |polling| polling.counters.len() > before);
        is_busy.store(false, Ordering::Relaxed);
        let before = polling.counters.len();
        polling.until("polls with names", |polling| polling.counters.len() > before + 1);
        assert_eq!(texts(&polling), TEXTS, "{column:?}");
        assert_eq!([polling.counter("names_written"), polling.counter("polls_failed")], [2, 0], "{column:?}");
    }
}

#[test]
fn a_column_of_texts_that_always_fails_costs_no_other() {
    let by_descr = [(Some("Loopback"), Some("ours")), (Some("Ethernet"), Some("to Berlin"))];
    let without_alias = [(Some("lo"), Some("Loopback")), (Some("eth0"), Some("Ethernet"))];
    for (column, texts_at_last) in [(IF_NAMES, by_descr), (IF_DESCR, TEXTS), (IF_ALIAS, without_alias)] {
        let agent = Agent::begin(move |request| row_by_row(request, Some((column, FAILS))));
        let mut polling = agent.polling("");
        polling.until(&format!("names without {column:?}"), |polling| texts(polling) == texts_at_last);
        assert_eq!(polling.counter("polls_failed"), 0, "{column:?}");
    }
}

#[test]
fn half_of_a_state_is_none() {
    let agent = Agent::begin(|request| row_by_row(request, Some((IF_OPER_STATUS, FAILS))));
    let mut polling = agent.polling("");
    polling.until("a poll", |polling| !polling.counters.is_empty());
    assert_eq!(["if_type", "if_status"].map(|name| polling.newest(2, name)), [Some(6), None]);
    assert_eq!(texts(&polling), TEXTS);
}

#[test]
fn what_was_read_before_time_is_over_is_kept() {
    // one waits for an answer until time is over, the other gives the agent up before
    for waiting in ["timeout = '1h'", "timeout = '200ms'\nretries = 0"] {
        let agent = Agent::begin(|request| row_by_row(request, Some((IF_TYPE, IS_SILENT))));
        let mut polling = polling(&format!("['192.0.2.1={}']", agent.address), waiting);
        polling.until("two polls", |polling| polling.counter("polls_incomplete") > 1 && !polling.counters.is_empty());
        assert_eq!(texts(&polling), TEXTS, "{waiting}");
        assert_eq!(polling.newest(1, "if_type"), None, "a column is whole or not there");
        assert_eq!([polling.counter("polls_unanswered"), polling.counter("names_written")], [0, 2], "{waiting}");
    }
}

/// The columns behind it are read by the next polls.
#[test]
fn a_column_at_which_an_agent_falls_silent_costs_no_other() {
    for waiting in ["timeout = '1h'", "timeout = '200ms'\nretries = 0"] {
        let agent = Agent::begin(|request| row_by_row(request, Some((IF_TYPE, IS_SILENT))));
        let mut polling = polling(&format!("['192.0.2.1={}']", agent.address), waiting);
        polling.until("states", |polling| polling.newest(2, "if_status") == Some(3));
        assert_eq!((texts(&polling), polling.newest(1, "if_type")), (TEXTS.to_vec(), None), "{waiting}");
        assert_eq!(polling.counter("polls_unanswered"), 0, "{waiting}");
    }
}

#[test]
fn names_do_not_wait_for_descriptions() {
    let agent = Agent::begin(|request| row_by_row(request, Some((IF_ALIAS, IS_SILENT))));
    let mut polling = polling(&format!("['192.0.2.1={}']", agent.address), "timeout = '1h'");
    polling.until("two polls", |polling| polling.counter("polls_incomplete") > 1 && !polling.names.is_empty());
    assert_eq!(texts(&polling), [(Some("lo"), None), (Some("eth0"), None)]);
    assert_eq!(polling.counter("polls_unanswered"), 0);
}

/// The first column that is asked for: what came of it before the agent fell silent is no name, and the others are read without it.
#[test]
fn an_agent_that_is_silent_about_names_has_all_else() {
    let by_descr = [(Some("Loopback"), Some("ours")), (Some("Ethernet"), Some("to Berlin"))];
    for waiting in ["timeout = '1h'", "timeout = '400ms'\nretries = 0"] {
        let agent = Agent::begin(|request| row_by_row(request, Some((IF_NAMES, IS_SILENT))));
        let mut polling = polling(&format!("['192.0.2.1={}']", agent.address), waiting);
        polling.until("states", |polling| polling.newest(2, "if_status") == Some(3));
        assert!(polling.names.is_empty(), "it may have names: {:?}", polling.names);
        polling.until("names by another column", |polling| texts(polling) == by_descr);
        let counters = ["polls_unanswered", "columns_bad"].map(|name| polling.counter(name));
        assert_eq!(counters, [1, 0], "{waiting}");
        assert!(polling.counter("polls_incomplete") > 3, "it is waited for: {waiting}");
    }
}

/// What tells how long it runs and nothing else is not there for all that matters.
#[test]
fn an_agent_that_is_silent_about_all_columns_is_unanswered() {
    let agent = Agent::begin(|request| {
        let is_about_columns = TABLE.iter().any(|(column, _, _)| request.oid.starts_with(&column[..7]));
        if is_about_columns { Vec::new() } else { vec![request.end()] }
    });
    let mut polling = agent.polling("");
    polling.until("three polls", |polling| polling.counter("polls_unanswered") > 2);
    assert_eq!(polling.counter("polls_incomplete"), 0);
}
