//! Fingerprints of a `ClientHello`: JA4 and JA3.
//!
//! JA4 is written as `FoxIO`'s technical details of JA4 say, JA3 as its authors at Salesforce said. JA3 is here because
//! lists of it are, although a client that shuffles its extensions has another one every time.

use std::fmt::Write;

use openssl::hash::{MessageDigest, hash};
use openssl::sha::sha256;

use super::client_hello::{ClientHello, is_grease, values};

/// What a `ClientHello` travels in, by the letter that JA4 has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Tcp,
    Quic,
    Dtls,
}

/// Extensions that the hash of JA4 leaves out: `server_name` and ALPN.
const NOT_HASHED: [u16; 2] = [0, 16];
/// What is written for the hash of nothing.
const NO_HASH: &str = "000000000000";

/// JA4 of a `ClientHello`.
pub(super) fn ja4(hello: &ClientHello<'_>, carrier: Carrier) -> Box<str> {
    let letter = match carrier {
        Carrier::Tcp => 't',
        Carrier::Quic => 'q',
        Carrier::Dtls => 'd',
    };
    let mut ciphers: Vec<u16> = values(hello.ciphers).filter(|value| !is_grease(*value)).collect();
    let mut extensions: Vec<u16> = hello.extensions().map(|(kind, _)| kind).filter(|kind| !is_grease(*kind)).collect();
    let mut text = String::with_capacity(36);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{letter}{}{}{:02}{:02}",
        version(hello.version(carrier == Carrier::Dtls)),
        if hello.asks_for_name { 'd' } else { 'i' },
        ciphers.len().min(99),
        extensions.len().min(99),
    );
    push_alpn(&mut text, hello.first_alpn().unwrap_or_default());
    ciphers.sort_unstable();
    push_hash(&mut text, &joined(&ciphers));
    extensions.retain(|kind| !NOT_HASHED.contains(kind));
    extensions.sort_unstable();
    let algorithms: Vec<u16> = values(hello.signature_algorithms).filter(|value| !is_grease(*value)).collect();
    let mut list = joined(&extensions);
    if !algorithms.is_empty() {
        list.push('_');
        list.push_str(&joined(&algorithms));
    }
    push_hash(&mut text, &list);
    text.into()
}

/// The two characters of a version.
fn version(version: u16) -> &'static str {
    match version {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        0x0002 => "s2",
        0xfeff => "d1",
        0xfefd => "d2",
        0xfefc => "d3",
        _ => "00",
    }
}

/// First and last character of the first protocol, or of its octets in hexadecimal when these are no letters or digits.
fn push_alpn(text: &mut String, protocol: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (Some(&first), Some(&last)) = (protocol.first(), protocol.last()) else {
        text.push_str("00");
        return;
    };
    let (first, last) = if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        (first, last)
    } else {
        (DIGITS[usize::from(first >> 4)], DIGITS[usize::from(last & 0xf)])
    };
    text.push(first.into());
    text.push(last.into());
}

fn joined(values: &[u16]) -> String {
    let mut text = String::with_capacity(values.len() * 5);
    for value in values {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{value:04x}");
    }
    text
}

/// The first 12 digits of the hash, after a line.
fn push_hash(text: &mut String, list: &str) {
    text.push('_');
    if list.is_empty() {
        text.push_str(NO_HASH);
        return;
    }
    for octet in &sha256(list.as_bytes())[..6] {
        let _ = write!(text, "{octet:02x}");
    }
}

/// JA3 of a `ClientHello`: a hash of version, cipher suites, extensions, groups and point formats in their order.
/// `None` where the system's cryptography refuses MD5.
pub(super) fn ja3(hello: &ClientHello<'_>) -> Option<[u8; 16]> {
    let mut text = hello.legacy_version.to_string();
    push_list(&mut text, values(hello.ciphers));
    push_list(&mut text, hello.extensions().map(|(kind, _)| kind));
    push_list(&mut text, values(hello.groups));
    push_list(&mut text, hello.point_formats.iter().map(|format| u16::from(*format)));
    hash(MessageDigest::md5(), text.as_bytes()).ok()?.as_ref().try_into().ok()
}

fn push_list(text: &mut String, values: impl Iterator<Item = u16>) {
    let mut separator = ',';
    let before = text.len();
    for value in values.filter(|value| !is_grease(*value)) {
        let _ = write!(text, "{separator}{value}");
        separator = '-';
    }
    if text.len() == before {
        text.push(',');
    }
}
