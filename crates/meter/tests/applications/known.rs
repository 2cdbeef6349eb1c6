//! Differences that are none of our defects, each with its reason.

use crate::ndpi::Verdict;

/// What it is of, nDPI's value, ours, how often, and why.
pub(crate) const KNOWN: &[(&str, &str, &str, usize, &str)] = &[
    (
        "name",
        "ApplePush",
        "tls",
        2,
        "nDPI names the service that the certificate or the port tells of; its octets are TLS",
    ),
    ("name", "UltraSurf", "tls", 1, "as above"),
    ("name", "BitTorrent", "", 1, "uTP has no octets that others could not have; nDPI counts on many packets"),
    ("name", "DTLS", "stun", 1, "DTLS begins after the fourth packet of a direction"),
    ("name", "SRTP", "stun", 5, "STUN comes first, and what follows has no octets of its own"),
    ("name", "HTTP", "", 1, "the fuzzed packet has no line of HTTP"),
    ("name", "IMAPS", "imap", 1, "what comes after STARTTLS is not looked at"),
    ("name", "SMTPS", "smtp", 2, "as above"),
    ("name", "Jabber", "", 6, "another company's push service on the port of XMPP, which nDPI goes by"),
    ("name", "MapleStory", "http", 1, "a synthetic packet; nDPI goes by the host"),
    ("name", "TruPhone", "xmpp", 2, "a synthetic packet; nDPI goes by the host"),
    ("name", "OpenVPN", "", 1, "the capture begins within the session, and not on the usual port"),
    (
        "name",
        "QUIC",
        "",
        4,
        "only packets with the short header, or a server of Google's first versions: nDPI goes by patterns",
    ),
    ("name", "SIP", "", 1, "a datagram that says hello, by its port"),
    ("name", "SOCKS", "http", 4, "SOCKS is not told; what it carries begins within the first packets"),
    ("name", "SOCKS", "tls", 2, "as above"),
    ("name", "STUN", "", 2, "of RFC 3489, without the magic cookie"),
    ("name", "TFTP", "", 3, "data without the request, which uses other ports"),
    ("name", "Unknown", "syslog", 1, "it has a priority and the usual port"),
    (
        "host",
        "one",
        "another",
        10,
        "of several questions in a flow nDPI tells another one than the first; it replaces and cuts characters",
    ),
    (
        "host",
        "there",
        "",
        28,
        "names that are not of a request: DHCP hosts, realms of STUN, greetings, hellos of Google's own QUIC",
    ),
    ("status", "one", "another", 5, "of several responses nDPI tells another one than the first that is final"),
    (
        "user agent",
        "told",
        "",
        8,
        "hellos of Google's own QUIC; a field that goes on in the next packet; a fuzzed request",
    ),
    ("ALPN", "told", "", 2, "DTLS after the fourth packet; an experiment of Facebook's with keys of its own"),
    ("JA3", "told", "", 5, "as above, and hellos after STARTTLS"),
    ("JA4", "told", "", 5, "as above"),
    (
        "JA4 ALPN",
        "one",
        "another",
        163,
        "nDPI takes the first two letters, and none of a single name of two; JA4 says first and last of the first name",
    ),
    ("JA4 hash of extensions", "one", "another", 5, "without extensions JA4 says twelve zeros; nDPI hashes nothing"),
    ("JA4 name", "d", "i", 91, "JA4 asks whether there is a server_name extension; nDPI says d without one"),
    ("JA4 name", "i", "d", 2, "as above; nDPI says i of a name that is an address"),
    ("JA4 version", "d2", "d3", 1, "the client offers DTLS 1.3 by supported_versions"),
    ("JA4 version", "s3", "00", 2, "the DTLS of before RFC 4347, for which JA4 has no letters"),
];

/// Differences that are not in the table, and lines of the table that no longer occur.
pub(crate) fn complaints(verdict: &Verdict) -> Vec<String> {
    let mut complaints = Vec::new();
    for ((what, expected, found), (count, places)) in &verdict.differences {
        let known = KNOWN.iter().find(|known| (known.0, known.1, known.2) == (*what, &**expected, &**found));
        if known.is_none_or(|known| known.3 != *count) {
            complaints
                .push(format!("(\"{what}\", \"{expected}\", \"{found}\", {count}, \"\"), {}", places.join(" , ")));
        }
    }
    for (what, expected, found, ..) in KNOWN {
        if !verdict.differences.contains_key(&(*what, (*expected).to_owned(), (*found).to_owned())) {
            complaints.push(format!("{what}: {expected} and {found} no longer differ"));
        }
    }
    complaints
}
