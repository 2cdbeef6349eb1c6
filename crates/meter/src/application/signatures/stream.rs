//! Protocols whose streams begin with words, and TLS.

use super::super::request::{StartLine, start_line};
use super::super::text::{begins, contains, line};
use super::Look;

/// Most octets of a TLS record (RFC 5246 section 6.2.3).
const RECORD_OCTETS_MAX: u16 = 16_384 + 2048;

/// A record of any content (RFC 8446 section 5.1), or a hello as of SSL 2 (RFC 5246 appendix E.2).
pub(super) fn tls(look: &Look<'_>) -> bool {
    let versions = look.at(1) == 3 && look.at(2) <= 4;
    let lengths = (1..=RECORD_OCTETS_MAX).contains(&look.u16_at(3));
    let record = match look.at(0) {
        // A change of the cipher is one octet.
        20 => look.u16_at(3) == 1 && look.at(5) == 1,
        21 => look.u16_at(3) == 2 || look.u16_at(3) >= 18,
        22 => look.len() < 6 || look.at(5) <= 24 || look.u16_at(3) > 32,
        23 => look.at(2) >= 1,
        _ => false,
    };
    let ssl2 = look.at(0) == 0x80
        && usize::from(look.at(1)) == look.len().saturating_sub(2)
        && look.at(2) == 1
        && matches!(look.u16_at(3), 0x0002 | 0x0300..=0x0303);
    look.len() > 5 && (record && versions && lengths || ssl2)
}

/// The preface of a client (RFC 9113 section 3.4).
pub(super) fn http2(look: &Look<'_>) -> bool {
    look.starts(b"PRI * HTTP/2.0\r\n")
}

/// Methods of HTTP (RFC 9110 section 9.3) and of its extensions for authors (RFC 4918).
const METHODS: [&[u8]; 18] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"CONNECT ",
    b"TRACE ",
    b"PATCH ",
    b"PROPFIND ",
    b"PROPPATCH ",
    b"MKCOL ",
    b"COPY ",
    b"MOVE ",
    b"LOCK ",
    b"UNLOCK ",
    b"REPORT ",
    b"SEARCH ",
];

/// A request or a response (RFC 9112 section 2.1). A target that is longer than a packet leaves the version unseen.
pub(super) fn http(look: &Look<'_>) -> bool {
    look.starts(b"HTTP/1.")
        || look.at(0).is_ascii_uppercase()
            && METHODS.iter().any(|method| look.starts(method))
            && match line(look.payload) {
                Some((line, _)) => contains(line, b"HTTP/1."),
                None => matches!(start_line(look.payload), Some((StartLine::Request { .. }, _))),
            }
}

/// A line with the version of RTSP (RFC 7826 section 20.1).
pub(super) fn rtsp(look: &Look<'_>) -> bool {
    look.at(0).is_ascii_uppercase() && line(look.payload).is_some_and(|(line, _)| names(line, b"RTSP/"))
}

/// A line with the version of SIP (RFC 3261 section 7.1).
pub(super) fn sip(look: &Look<'_>) -> bool {
    look.at(0).is_ascii_uppercase() && line(look.payload).is_some_and(|(line, _)| names(line, b"SIP/2.0"))
}

/// Whether a status line begins or a request line ends with this version.
fn names(line: &[u8], version: &[u8]) -> bool {
    let last = line.rsplit(|octet| *octet == b' ').next().unwrap_or_default();
    line.starts_with(version) || last.starts_with(version) && last.len() < line.len()
}

/// RFC 4253 section 4.2.
pub(super) fn ssh(look: &Look<'_>) -> bool {
    look.starts(b"SSH-")
}

/// The first octets of a handshake (BEP 3).
pub(super) fn bittorrent(look: &Look<'_>) -> bool {
    look.starts(b"\x13BitTorrent protocol")
}

/// The head of a stream (RFC 6120 section 4.2), or on its ports any part of one.
pub(super) fn xmpp(look: &Look<'_>) -> bool {
    let parts: [&[u8]; 6] = [b"<?xml", b"<stream:", b"</stream:", b"<iq ", b"<presence", b"<message"];
    look.at(0) == b'<'
        && parts.iter().any(|part| look.starts(part))
        && (look.ports(&[5222, 5223, 5269]) || contains(look.payload, b"<stream:stream"))
}

/// The packet CONNECT of MQTT 3.1 to 5 (MQTT 5.0 section 3.1).
pub(super) fn mqtt(look: &Look<'_>) -> bool {
    // The remaining length has 1 to 4 octets, of which all but the last one have the highest bit.
    let length = (1..5).find(|place| look.at(*place) & 0x80 == 0).unwrap_or(4);
    let name = look.payload.get(length + 1..).unwrap_or_default();
    look.at(0) == 0x10 && (name.starts_with(b"\0\x04MQTT") || name.starts_with(b"\0\x06MQIsdp"))
}

/// A greeting (RFC 9051 section 7.1).
pub(super) fn imap(look: &Look<'_>) -> bool {
    look.at(0) == b'*' && (begins(look.payload, b"* OK") || begins(look.payload, b"* PREAUTH"))
        || look.to == 143 && line(look.payload).is_some_and(|(line, _)| imap_command(line))
}

/// A command behind its tag, of those that come before anybody is known.
fn imap_command(line: &[u8]) -> bool {
    let command = line.split(|octet| *octet == b' ').nth(1).unwrap_or_default();
    let known: [&[u8]; 5] = [b"CAPABILITY", b"LOGIN", b"AUTHENTICATE", b"STARTTLS", b"ID"];
    known.iter().any(|word| command.eq_ignore_ascii_case(word))
}

/// A greeting (RFC 1939 section 4), or the first command.
pub(super) fn pop3(look: &Look<'_>) -> bool {
    look.starts(b"+OK") && (look.from == 110 || contains(look.payload, b"POP3") || contains(look.payload, b"ready"))
        || look.to == 110 && [b"USER ", b"CAPA\r", b"AUTH ", b"APOP "].iter().any(|word| begins(look.payload, *word))
}

/// A greeting (RFC 959 section 5.4), or the first command.
pub(super) fn ftp(look: &Look<'_>) -> bool {
    let greeting = look.starts(b"220 ") || look.starts(b"220-");
    greeting && (look.from == 21 || contains(first_line(look), b"FTP"))
        || look.to == 21 && [b"USER ", b"AUTH ", b"FEAT\r"].iter().any(|word| begins(look.payload, *word))
}

/// A greeting (RFC 5321 section 4.2), or the first command.
pub(super) fn smtp(look: &Look<'_>) -> bool {
    let greeting = look.starts(b"220 ") || look.starts(b"220-") || look.starts(b"554 ");
    let sure = look.port(25) || look.port(587) || contains(first_line(look), b"SMTP");
    greeting && sure || (begins(look.payload, b"EHLO ") || begins(look.payload, b"HELO "))
}

fn first_line<'a>(look: &Look<'a>) -> &'a [u8] {
    line(look.payload).map_or(look.payload, |(line, _)| line)
}

/// Options that are negotiated (RFC 854): IAC and WILL to DONT.
pub(super) fn telnet(look: &Look<'_>) -> bool {
    look.at(0) == 0xff && (0xfb..=0xfe).contains(&look.at(1)) && look.at(2) < 50 && look.len() >= 3
}
