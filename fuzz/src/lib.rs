//! What the fuzz targets have in common: the walk over a datagram with its assertions, which the tests of
//! `weir-wire` use too, and the canary.

#[allow(dead_code, reason = "each test looks at other results of the walk; here only its assertions matter")]
#[path = "../../crates/wire/tests/wire/walk.rs"]
mod walk;

#[allow(dead_code, reason = "the collector looks at more of it")]
#[path = "../../crates/collect/src/stream/framing.rs"]
mod framing;

#[allow(dead_code, reason = "the tests look at more of what is found")]
#[path = "../../crates/wire/tests/wire/sampled_walk.rs"]
mod sampled_walk;

mod cost;
mod decoding;
mod files;
mod metering;
mod session;

use framing::{Framing, messages};
use walk::Walk;
use weir_formats::Format;
use weir_wire::{netflow1, netflow5, netflow7};

/// Reads a NetFlow v5 datagram to the last octet.
pub fn netflow5(datagram: &[u8]) {
    let mut walk = Walk::default();
    walk.fixed(&netflow5::FORMAT, datagram);
    canary(&walk);
}

/// Reads a NetFlow v9 datagram, and then again with the templates that were in it, so that data before its template
/// is read as well.
pub fn netflow9(datagram: &[u8]) {
    let mut walk = Walk::default();
    walk.netflow9(datagram);
    walk.netflow9(datagram);
    canary(&walk);
}

/// Reads IPFIX messages, one after the other as in a file, with the templates of the ones before.
pub fn ipfix(messages: &[u8]) {
    let mut walk = Walk::default();
    let mut rest = messages;
    while let Some(length) = weir_wire::ipfix::message_length(rest) {
        let (message, after) = rest.split_at(length.min(rest.len()));
        walk.ipfix(message);
        rest = after;
    }
    // What is left has no valid header, or none at all.
    walk.ipfix(rest);
    canary(&walk);
}

/// Cuts a stream into messages, in pieces of the length that the first octet says and in one piece: both must give the
/// same messages, which are the stream up to where it is broken, and what is kept for later must be less than one.
pub fn stream(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else { return };
    let (mut walk, mut framing) = (Walk::default(), Framing::default());
    let (mut whole, mut problem) = (Vec::new(), None);
    for octets in stream.chunks(usize::from(piece).max(1)) {
        let (more, found) = framing.push(octets);
        assert_eq!(messages(&more).map(<[u8]>::len).sum::<usize>(), more.len(), "only whole messages are handed on");
        messages(&more).for_each(|message| walk.ipfix(message));
        whole.extend(more);
        problem = found;
        if problem.is_some() {
            break;
        }
        assert!(framing.unfinished_octets() < 65_535, "no message is as long as that");
    }
    assert!(stream.starts_with(&whole), "what is handed on is the stream");
    let mut at_once = Framing::default();
    let (expected, expected_problem) = at_once.push(stream);
    assert_eq!((whole, problem), (expected, expected_problem), "pieces do not matter");
    if problem.is_none() {
        assert_eq!(framing.unfinished_octets(), at_once.unfinished_octets());
    }
    canary(&walk);
}

/// Reads an sFlow datagram to the last octet, with the packets in it.
pub fn sflow(datagram: &[u8]) {
    let found = sampled_walk::datagram(datagram);
    sampled_canary(found.ports > 0);
}

/// Dissects a packet; the first octet says what it begins with.
pub fn packet(octets: &[u8]) {
    use weir_wire::packet::LinkType;
    let Some((first, packet)) = octets.split_first() else { return };
    let links = LinkType::numbers();
    let (_, link) = links[usize::from(*first) % links.len()];
    let found = sampled_walk::packet(link, packet);
    sampled_canary(found.tunnelled > 0);
}

/// Meters packets; the first octet says what they begin with, the second how they are metered.
pub fn meter(input: &[u8]) {
    use weir_wire::packet::LinkType;
    let [first, choice, packets @ ..] = input else { return };
    let links = LinkType::numbers();
    let (_, link) = links[usize::from(*first) % links.len()];
    let named = metering::meter(link, *choice, packets);
    sampled_canary(named > 0);
}

/// Panics once a packet with ports was found in an sFlow datagram, or one in a tunnel, or a flow that
/// tells a name.
#[cfg(feature = "canary")]
fn sampled_canary(found: bool) {
    assert!(!found, "the canary was found");
}

#[cfg(not(feature = "canary"))]
fn sampled_canary(_: bool) {}

/// Reads a NetFlow v1 datagram to the last octet.
pub fn netflow1(datagram: &[u8]) {
    let mut walk = Walk::default();
    walk.fixed(&netflow1::FORMAT, datagram);
    canary(&walk);
}

/// Reads a NetFlow v7 datagram to the last octet.
pub fn netflow7(datagram: &[u8]) {
    let mut walk = Walk::default();
    walk.fixed(&netflow7::FORMAT, datagram);
    canary(&walk);
}

/// Reads a list (RFC 6313). The first octet chooses its kind; the second is the length of the templates that follow, in
/// units of four octets; the rest is the list.
pub fn structured(input: &[u8]) {
    let [kind, length, rest @ ..] = input else { return };
    let Some((templates, list)) = rest.split_at_checked(4 * usize::from(*length)) else { return };
    let mut walk = Walk::default();
    let mut message = vec![0, 10];
    message.extend((templates.len() as u16 + 20).to_be_bytes());
    message.extend([0; 12]);
    message.extend([0, 2]);
    message.extend((templates.len() as u16 + 4).to_be_bytes());
    message.extend(templates);
    walk.ipfix(&message);
    let kind = match kind % 3 {
        0 => weir_wire::ListKind::Basic,
        1 => weir_wire::ListKind::SubTemplate,
        _ => weir_wire::ListKind::SubTemplateMulti,
    };
    walk.list(kind, list, weir_wire::ObservationDomainId(0));
    canary(&walk);
}

/// Decodes datagrams of several exporters, within the time and memory that their octets may cost.
pub fn decoder(data: &[u8]) {
    decoding::decoder(data);
}

/// A session of TLS whose client is hostile, or whose octets are changed on their way.
pub fn tls(input: &[u8]) {
    session::tls::tls(input);
}

/// The same of DTLS.
pub fn dtls(input: &[u8]) {
    session::dtls::dtls(input);
}

/// A peer of a whole collector, over TCP, TLS or DTLS.
pub fn session(input: &[u8]) {
    session::collector::session(input);
}

/// Reads a file of nfdump 1.6; whatever its first four octets are.
pub fn nfcapd1(input: &[u8]) {
    files::read(Format::Nfcapd, &[&[0x0c, 0xa5, 1, 0], input.get(4..).unwrap_or_default()].concat());
}

/// Reads a file of nfdump 1.7; whatever its first four octets are.
pub fn nfcapd2(input: &[u8]) {
    files::read(Format::Nfcapd, &[&[0x0c, 0xa5, 2, 0], input.get(4..).unwrap_or_default()].concat());
}

/// Reads a file of flow-tools.
pub fn flow_tools(input: &[u8]) {
    files::read(Format::FlowTools, input);
}

/// Reads a log of connections of Zeek.
pub fn zeek(input: &[u8]) {
    files::read(Format::Zeek, input);
}

/// Reads what `rwcut` prints.
pub fn silk(input: &[u8]) {
    files::read(Format::Silk, input);
}

/// Reads CSV.
pub fn csv(input: &[u8]) {
    files::read(Format::Csv, input);
}

/// Reads a Parquet file.
pub fn parquet(input: &[u8]) {
    files::read(Format::Parquet, input);
}

/// Reads a Parquet file that is the body of a request.
pub fn parquet_body(input: &[u8]) {
    files::read_parquet_body(input);
}

/// Panics once two records have been decoded, or two values found in a list. The way there is a valid header, and for v9,
/// IPFIX and lists of records a template and data that fits it.
#[cfg(feature = "canary")]
fn canary(walk: &Walk) {
    assert!(walk.data_records + walk.list_entries < 2, "the canary was found");
}

#[cfg(not(feature = "canary"))]
fn canary(_: &Walk) {}
