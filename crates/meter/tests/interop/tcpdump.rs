//! The texts that tcpdump prints of its tests' captures: addresses, ports, protocol and length of each packet.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use weir_wire::packet::{Headers, Packet, dissect};

use crate::packets::{EXTENSION_NUMBERS, address, read};

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) texts: usize,
    pub(crate) packets: usize,
    /// Headers compared, by what was compared of them.
    pub(crate) values: BTreeMap<&'static str, usize>,
    /// Texts that are not compared.
    pub(crate) left_out: BTreeMap<&'static str, usize>,
    pub(crate) reasons: BTreeMap<&'static str, usize>,
    pub(crate) unexplained: Vec<String>,
}

/// What is printed of an IP header and what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    source: (IpAddr, Option<u16>),
    destination: (IpAddr, Option<u16>),
    /// Of IPv6 what follows the first header.
    protocol: Option<u8>,
    length: Option<u32>,
}

/// Compares every text.
pub(crate) fn outcome(corpus: &Path) -> Outcome {
    let folder = corpus.join("the-tcpdump-group+tcpdump/tests");
    let list = std::fs::read_to_string(folder.join("TESTLIST")).expect("tcpdump's tests");
    let mut outcome = Outcome::default();
    for line in list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, capture, text, options @ ..] = &words[..] else { continue };
        let left_out = match (folder.join(capture).is_file(), std::fs::read(folder.join(text))) {
            (false, _) => Some("the capture is not in the corpus"),
            (_, Err(_)) => Some("the text is not in the corpus"),
            (true, Ok(text)) => outcome.text(name, &folder.join(capture), options, &String::from_utf8_lossy(&text)),
        };
        if let Some(left_out) = left_out {
            *outcome.left_out.entry(left_out).or_default() += 1;
        }
    }
    outcome
}

impl Outcome {
    /// Compares a text; says why when it does not.
    fn text(&mut self, name: &str, capture: &Path, options: &[&str], text: &str) -> Option<&'static str> {
        let frames = read(capture);
        if frames.unknown_link > 0 {
            return Some("the link is not dissected");
        }
        if options.iter().any(|option| option.starts_with("-E") || option.starts_with("--print-sampling")) {
            return Some("packets are decrypted, or only some are printed");
        }
        let printed = packets(text);
        if printed.len() != frames.read.len() {
            return Some("not every packet is printed");
        }
        self.texts += 1;
        for (number, (frame, text)) in frames.read.iter().zip(&printed).enumerate() {
            let (packet, told) = (dissect(frame.link, &frame.octets), told(text));
            self.packets += 1;
            let (Some(first), Some(last)) = (told.first(), told.last()) else { continue };
            // Without `-v` some tunnels are named, and what is in them is not printed.
            let headers = [("outermost", first, packet.outermost()), ("innermost", last, packet.innermost())];
            for (which, told, headers) in headers.into_iter().take(if told.len() > 1 { 2 } else { 1 }) {
                let difference = self.header(told, headers);
                if difference.is_empty() {
                    continue;
                }
                match why(text, &packet, &difference, headers) {
                    Some(reason) => *self.reasons.entry(reason).or_default() += 1,
                    None => self.unexplained.push(format!(
                        "{name} #{}: {which} {difference} | {told:?} | {:?} {text}",
                        number + 1,
                        packet.end
                    )),
                }
            }
        }
        None
    }

    /// Compares a header; names what differs.
    fn header(&mut self, told: &Told, headers: &Headers<'_>) -> String {
        let mut different = String::new();
        let Some(ip) = &headers.ip else { return "no IP".to_owned() };
        let ports = headers.ports.map(|(source, destination)| (Some(source), Some(destination)));
        let is_extension = told.protocol.is_some_and(|protocol| EXTENSION_NUMBERS.contains(&protocol));
        let values = [
            ("source", Some(address(ip.source) == Some(told.source.0))),
            ("destination", Some(address(ip.destination) == Some(told.destination.0))),
            ("ports", told.source.1.map(|_| ports == Some((told.source.1, told.destination.1)))),
            ("protocol", told.protocol.filter(|_| !is_extension).map(|protocol| protocol == ip.protocol)),
            ("length", told.length.map(|length| length == ip.total_length)),
        ];
        for (what, same) in values {
            let Some(same) = same else { continue };
            *self.values.entry(what).or_default() += 1;
            if !same {
                different += what;
                different.push(' ');
            }
        }
        different
    }
}

/// Why a header differs, by a rule that the packet must meet.
fn why(text: &str, packet: &Packet<'_>, difference: &str, headers: &Headers<'_>) -> Option<&'static str> {
    let states_nothing = headers.ip.as_ref().is_some_and(|ip| ip.total_length == 0);
    let carried = packet.outer.transport();
    let is_null = matches!(carried, [0x21, _, _, _, flags, ..] if flags & 0x40 != 0);
    match difference {
        "length " if states_nothing => Some("prints the length of the frame where an IP header states a length of 0"),
        "no IP" if text.contains("unknown PPP protocol") => {
            Some("prints as IP what follows a protocol of PPP that is none")
        }
        _ if is_null && packet.tunnels == 0 => {
            Some("prints the header in a null register of PIM (RFC 7761 section 4.9.3), which carries no packet")
        }
        _ => None,
    }
}

/// The text of each packet: a line that begins with the next number, and those after it.
fn packets(text: &str) -> Vec<String> {
    let mut packets: Vec<String> = Vec::new();
    for line in text.lines() {
        let number = line.trim_start().split_once("  ").and_then(|(number, _)| number.parse::<usize>().ok());
        if number == Some(packets.len() + 1) {
            packets.push(line.to_owned());
        } else if let Some(packet) = packets.last_mut() {
            packet.push(' ');
            packet.push_str(line.trim());
        }
    }
    packets
}

/// An address with a port or without.
fn end(word: &str) -> Option<(IpAddr, Option<u16>)> {
    let word = word.trim_matches(['(', ')', ',', ':']);
    let plain = || word.parse::<IpAddr>().ok().map(|address| (address, None));
    let with_port = || {
        let (address, port) = word.rsplit_once('.')?;
        Some((address.parse::<IpAddr>().ok()?, Some(port.parse().ok()?)))
    };
    plain().or_else(with_port)
}

/// All IP headers that are printed, but not those that an error of ICMP quotes.
fn told(text: &str) -> Vec<Told> {
    let (mut found, mut from) = (Vec::new(), 0);
    for (at, _) in text.match_indices(" > ") {
        let source = text[..at].rsplit(' ').next().and_then(end);
        let destination = text[at + 3..].split([' ', ';']).next().and_then(end);
        let Some((source, destination)) = source.zip(destination) else { continue };
        if source.0.is_ipv4() != destination.0.is_ipv4() {
            continue;
        }
        // PGM prints its own ports, behind the addresses of IP.
        if text[at + 3..].split_once(' ').is_some_and(|(_, after)| after.starts_with("PGM,")) {
            continue;
        }
        let before = &text[from..at];
        if !found.is_empty() && (before.contains(": ICMP") || before.contains("ICMP6,")) {
            break;
        }
        let (protocol, length) = printed_header(before, source.0.is_ipv4());
        let jumbo =
            text[at..].split_once("(jumbo: ").and_then(|(_, jumbo)| jumbo.split_once(')')?.0.parse::<u32>().ok());
        let length = if length == Some(0) { jumbo.map(|octets| octets + 40).or(length) } else { length };
        found.push(Told { source, destination, protocol, length });
        from = at + 3;
    }
    found
}

/// Protocol and length of a header that is printed at length before its addresses.
fn printed_header(before: &str, is_ipv4: bool) -> (Option<u8>, Option<u32>) {
    let (mark, length_mark) = if is_ipv4 { (", proto ", ", length ") } else { ("next-header ", "payload length") };
    let Some(at) = before.rfind(mark) else { return (None, None) };
    let header = &before[at..];
    let protocol = header.split_once('(').and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    let digits = |text: &str| {
        let digits: String = text.trim_start_matches([':', ' ']).chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    };
    let length = header.split_once(length_mark).and_then(|(_, rest)| digits(rest));
    let length = if is_ipv4 { length } else { length.map(|length| if length == 0 { 0 } else { length + 40 }) };
    (protocol, length)
}
