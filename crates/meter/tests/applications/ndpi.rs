//! The answers of nDPI: `tests/cfgs/default/result/*.out` lists each flow with its protocol and what it told.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::Path;

use weir_meter::application::{Application, Counts, Details, Protocol};

use crate::flows::{self, Key};

/// nDPI's names of the protocols that are told here. `Unknown` is compared too: nothing should be told of more.
const NAMES: &[(&str, &[Protocol])] = &[
    ("BGP", &[Protocol::Bgp]),
    ("BitTorrent", &[Protocol::Bittorrent]),
    ("DHCP", &[Protocol::Dhcp]),
    ("DHCPV6", &[Protocol::Dhcpv6]),
    ("DNS", &[Protocol::Dns]),
    ("DTLS", &[Protocol::Dtls]),
    ("FTP_CONTROL", &[Protocol::Ftp]),
    ("GTP", &[Protocol::Gtp]),
    ("GTP_C", &[Protocol::Gtp]),
    ("GTP_U", &[Protocol::Gtp]),
    ("HTTP", &[Protocol::Http, Protocol::Http2]),
    ("HTTP2", &[Protocol::Http2]),
    ("HTTP_Connect", &[Protocol::Http]),
    ("HTTP_Proxy", &[Protocol::Http]),
    ("IMAP", &[Protocol::Imap]),
    ("IMAPS", &[Protocol::Tls]),
    ("IPSec", &[Protocol::Ike, Protocol::EspInUdp]),
    ("Jabber", &[Protocol::Xmpp]),
    ("Kerberos", &[Protocol::Kerberos]),
    ("LDAP", &[Protocol::Ldap]),
    ("LLMNR", &[Protocol::Llmnr]),
    ("MDNS", &[Protocol::Mdns]),
    ("MQTT", &[Protocol::Mqtt]),
    ("MySQL", &[Protocol::Mysql]),
    ("NFS", &[Protocol::Nfs, Protocol::Portmap]),
    ("NTP", &[Protocol::Ntp]),
    ("NetBIOS", &[Protocol::NetbiosNs, Protocol::NetbiosDgm, Protocol::Smb]),
    ("NetFlow", &[Protocol::Netflow, Protocol::Ipfix]),
    ("OpenVPN", &[Protocol::Openvpn]),
    ("POP3", &[Protocol::Pop3]),
    ("POPS", &[Protocol::Tls]),
    ("PostgreSQL", &[Protocol::Postgresql]),
    ("QUIC", &[Protocol::Quic]),
    ("RDP", &[Protocol::Rdp]),
    ("RESP", &[Protocol::Redis]),
    ("RSYNC", &[Protocol::Rsync]),
    ("RTSP", &[Protocol::Rtsp]),
    ("Radius", &[Protocol::Radius]),
    ("Redis", &[Protocol::Redis]),
    ("SIP", &[Protocol::Sip]),
    ("SMBv1", &[Protocol::Smb]),
    ("SMBv23", &[Protocol::Smb]),
    ("SMTP", &[Protocol::Smtp]),
    ("SMTPS", &[Protocol::Tls]),
    ("SNMP", &[Protocol::Snmp]),
    ("SSDP", &[Protocol::Ssdp]),
    ("SSH", &[Protocol::Ssh]),
    ("STUN", &[Protocol::Stun]),
    ("Syslog", &[Protocol::Syslog]),
    ("TFTP", &[Protocol::Tftp]),
    ("TLS", &[Protocol::Tls]),
    ("Telnet", &[Protocol::Telnet]),
    ("VNC", &[Protocol::Vnc]),
    ("VXLAN", &[Protocol::Vxlan]),
    ("WireGuard", &[Protocol::Wireguard]),
    ("sFlow", &[Protocol::Sflow]),
];

/// What nDPI says of a flow.
struct Answer {
    /// The first name of `TLS.Google`.
    name: String,
    host: Option<String>,
    alpn: Option<String>,
    ja4: Option<String>,
    ja3: Option<String>,
    user_agent: Option<String>,
    status: Option<String>,
}

/// A difference: what it is of, nDPI's value and ours; of values that are not names only whether there is one.
pub(crate) type Difference = (&'static str, String, String);

/// What came of the comparison.
#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) captures: usize,
    /// Flows of nDPI's that were found.
    pub(crate) flows: usize,
    /// Flows of nDPI's that were not found: keyed by other headers, or not of TCP or UDP.
    pub(crate) not_found: usize,
    /// Values compared and agreeing, by what they are.
    pub(crate) agreeing: BTreeMap<&'static str, usize>,
    /// How often each difference occurs, and the first places.
    pub(crate) differences: BTreeMap<Difference, (usize, Vec<String>)>,
    /// Flows by our name that are named alike.
    pub(crate) by_protocol: BTreeMap<&'static str, usize>,
    /// nDPI's names that there is no protocol for here, and of how many flows.
    pub(crate) not_told: BTreeMap<String, usize>,
    /// JA4s that both have.
    pub(crate) fingerprints: usize,
    pub(crate) counts: Counts,
}

impl Verdict {
    pub(crate) fn compared(&self, what: &str) -> usize {
        let differing: usize = self.differences.iter().filter(|(key, _)| key.0 == what).map(|(_, found)| found.0).sum();
        self.agreeing.get(what).copied().unwrap_or_default() + differing
    }

    fn agree(&mut self, what: &'static str) {
        *self.agreeing.entry(what).or_default() += 1;
    }

    fn differ(&mut self, what: &'static str, expected: &str, found: &str, place: &str) {
        let entry = self.differences.entry((what, expected.to_owned(), found.to_owned())).or_default();
        entry.0 += 1;
        if entry.1.len() < 3 && !entry.1.iter().any(|known| known == place) {
            entry.1.push(place.to_owned());
        }
    }
}

/// Compares every capture that has an answer.
pub(crate) fn compare(corpus: &Path) -> Verdict {
    let folder = corpus.join("ntop+nDPI/tests/cfgs/default");
    let mut verdict = Verdict::default();
    let mut answers: Vec<_> = std::fs::read_dir(folder.join("result")).expect("answers").flatten().collect();
    answers.sort_by_key(std::fs::DirEntry::file_name);
    for entry in answers {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(capture) = name.strip_suffix(".out") else { continue };
        let path = folder.join("pcap").join(capture);
        if path.is_file() {
            let text = String::from_utf8_lossy(&std::fs::read(entry.path()).expect("an answer")).into_owned();
            compare_capture(&path, capture, &text, &mut verdict);
        }
    }
    verdict
}

fn compare_capture(path: &Path, capture: &str, text: &str, verdict: &mut Verdict) {
    let (flows, counts) = flows::flows(path);
    verdict.captures += 1;
    add(&mut verdict.counts, counts);
    let found: HashMap<Key, &Application> = flows.iter().map(|flow| (flow.key, &flow.application)).collect();
    for line in text.lines() {
        let Some((key, answer)) = answer(line) else { continue };
        match found.get(&key) {
            Some(application) => {
                verdict.flows += 1;
                compare_names(application, &answer, capture, verdict);
                compare_values(application, &answer, capture, verdict);
            }
            None => verdict.not_found += 1,
        }
    }
}

fn add(sum: &mut Counts, counts: Counts) {
    sum.packets += counts.packets;
    sum.flows += counts.flows;
    sum.recognized += counts.recognized;
    sum.guessed += counts.guessed;
    sum.buffers_refused += counts.buffers_refused;
    sum.handshakes_cut += counts.handshakes_cut;
    sum.malformed += counts.malformed;
    sum.undecryptable += counts.undecryptable;
}

/// A line of a flow: `1 TCP 192.0.2.1:1 <-> 192.0.2.2:2 [proto: 91/TLS]...`.
fn answer(line: &str) -> Option<(Key, Answer)> {
    let mut words = line.split_whitespace();
    words.next()?.parse::<u32>().ok()?;
    let protocol = match words.next()? {
        "TCP" => 6,
        "UDP" => 17,
        _ => return None,
    };
    let one: SocketAddr = words.next()?.parse().ok()?;
    words.next()?;
    let other: SocketAddr = words.next()?.parse().ok()?;
    let value = |name: &str| {
        let start = line.find(name)? + name.len();
        line[start..].split(']').next().filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let proto = value("[proto: ")?;
    let name = proto.split('/').nth(1)?.split('.').next()?.to_owned();
    // What was not told by octets is no answer.
    let sure = line.contains("[Confidence: DPI]") || name == "Unknown";
    let answer = Answer {
        name: if sure { name } else { String::new() },
        host: value("[Hostname/SNI: "),
        alpn: value("[(Advertised) ALPNs: "),
        ja4: value("[JA4: "),
        ja3: value("[JA3C: "),
        user_agent: value("[User-Agent: "),
        status: value("[StatusCode: "),
    };
    Some((flows::key(protocol, one, other), answer))
}

fn compare_names(application: &Application, answer: &Answer, capture: &str, verdict: &mut Verdict) {
    let found = application.protocol.map_or("", Protocol::name);
    let expected = NAMES.iter().find(|(name, _)| *name == answer.name).map(|(_, protocols)| *protocols);
    match (expected, application.protocol) {
        (Some(expected), Some(protocol)) if expected.contains(&protocol) => {
            verdict.agree("name");
            *verdict.by_protocol.entry(found).or_default() += 1;
        }
        (None, None) if answer.name == "Unknown" => verdict.agree("name"),
        (None, None) if answer.name.is_empty() => {}
        (None, None) => *verdict.not_told.entry(answer.name.clone()).or_default() += 1,
        _ if answer.name.is_empty() => {}
        _ => verdict.differ("name", &answer.name, found, capture),
    }
}

fn compare_values(application: &Application, answer: &Answer, capture: &str, verdict: &mut Verdict) {
    let told = Told::of(&application.details);
    let pairs = [
        ("host", &answer.host, told.host),
        ("ALPN", &answer.alpn, told.alpn),
        ("JA4", &answer.ja4, told.ja4),
        ("JA3", &answer.ja3, told.ja3),
        ("user agent", &answer.user_agent, told.user_agent),
        ("status", &answer.status, told.status),
    ];
    for (what, expected, found) in pairs {
        let (Some(expected), Some(found)) = (expected, &found) else {
            let of_known = NAMES.iter().any(|(name, _)| *name == answer.name) && application.protocol.is_some();
            if let (Some(expected), true) = (expected, of_known) {
                verdict.differ(
                    what,
                    if what == "host" { "there" } else { "told" },
                    "",
                    &format!("{capture}: {expected}"),
                );
            }
            continue;
        };
        if what == "JA4" {
            compare_ja4(expected, found, capture, verdict);
        } else if same(what, expected, found) {
            verdict.agree(what);
        } else {
            verdict.differ(what, "one", "another", &format!("{capture}: {expected} | {found}"));
        }
    }
}

/// The parts of JA4, each of which may differ for reasons of its own.
const JA4_PARTS: [(&str, std::ops::Range<usize>); 8] = [
    ("JA4 carrier", 0..1),
    ("JA4 version", 1..3),
    ("JA4 name", 3..4),
    ("JA4 ciphers", 4..6),
    ("JA4 extensions", 6..8),
    ("JA4 ALPN", 8..10),
    ("JA4 hash of ciphers", 11..23),
    ("JA4 hash of extensions", 24..36),
];

fn compare_ja4(expected: &str, found: &str, capture: &str, verdict: &mut Verdict) {
    verdict.fingerprints += 1;
    for (part, range) in JA4_PARTS {
        let (expected, found) = (expected.get(range.clone()).unwrap_or(""), found.get(range).unwrap_or(""));
        if expected == found {
            verdict.agree(part);
        } else if part.starts_with("JA4 hash") || part == "JA4 ALPN" {
            verdict.differ(part, "one", "another", capture);
        } else {
            verdict.differ(part, expected, found, capture);
        }
    }
}

/// Whether values are the same, as nDPI writes them: hosts in small letters, cut, and without a port.
fn same(what: &str, expected: &str, found: &str) -> bool {
    let found = match what {
        "host" => found.to_lowercase(),
        "ALPN" => found.replace(',', ";"),
        _ => found.to_owned(),
    };
    let expected = if what == "host" { expected.to_lowercase() } else { expected.to_owned() };
    let bare = found.rsplit_once(':').map_or(&*found, |(host, _)| host);
    found == expected || what == "host" && bare == expected
}

/// What is told here, as text.
#[derive(Default)]
struct Told {
    host: Option<String>,
    alpn: Option<String>,
    ja4: Option<String>,
    ja3: Option<String>,
    user_agent: Option<String>,
    status: Option<String>,
}

impl Told {
    fn of(details: &Details) -> Self {
        let text = |text: &Option<Box<str>>| text.as_ref().map(ToString::to_string);
        match details {
            Details::Tls(tls) => Self {
                host: text(&tls.server_name),
                alpn: text(&tls.alpn_offered),
                ja4: text(&tls.ja4),
                user_agent: text(&tls.user_agent),
                ja3: tls.ja3.map(|octets| flows::digits(&octets)),
                ..Self::default()
            },
            Details::Request(request) => Self {
                host: text(&request.host),
                user_agent: text(&request.user_agent),
                status: request.status.map(|status| status.to_string()),
                ..Self::default()
            },
            Details::Dns(dns) => Self { host: text(&dns.name), ..Self::default() },
            _ => Self::default(),
        }
    }
}
