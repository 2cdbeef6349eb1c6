//! Files and databases.

use super::super::text::begins;
use super::Look;

/// A session packet with a message of version 1, 2 or 3 in it, or one that asks for a session (RFC 1002 section 4.3).
pub(super) fn smb(look: &Look<'_>) -> bool {
    let message = [b"\xffSMB", b"\xfeSMB", b"\xfdSMB", b"\xfcSMB"];
    let inside = look.payload.get(4..).unwrap_or_default();
    look.at(0) == 0 && message.iter().any(|start| inside.starts_with(*start))
        || look.port(139) && look.at(0) == 0x81 && look.u24_at(1) == 0x44
}

/// Greeting of a daemon.
pub(super) fn rsync(look: &Look<'_>) -> bool {
    look.starts(b"@RSYNCD: ")
}

/// The first message of a client: length, and version 3.0 or a request for encryption or to cancel (`PostgreSQL`,
/// message formats).
pub(super) fn postgresql(look: &Look<'_>) -> bool {
    let length = look.u32_at(0) as usize;
    match look.u32_at(4) {
        0x0003_0000 | 0x0003_0002 => length == look.len() && look.len() > 9,
        80_877_103 | 80_877_104 => length == 8 && look.len() == 8,
        80_877_102 => length == 16 && look.len() == 16,
        _ => false,
    }
}

/// An array of bulk strings (RESP), or a simple answer on the usual port.
pub(super) fn redis(look: &Look<'_>) -> bool {
    let count = look.payload.iter().skip(1).take_while(|octet| octet.is_ascii_digit()).count();
    let bulk = look.payload.get(count + 1..).unwrap_or_default();
    look.at(0) == b'*' && (1..=4).contains(&count) && bulk.starts_with(b"\r\n$")
        || look.from == 6379 && (look.starts(b"+OK\r\n") || look.starts(b"+PONG") || look.starts(b"-NOAUTH"))
}

/// The greeting of a server: packet 0 of its whole length, protocol 10, and a version that ends with 0.
pub(super) fn mysql(look: &Look<'_>) -> bool {
    let length = u32::from_le_bytes([look.at(0), look.at(1), look.at(2), 0]) as usize;
    let version = look.payload.get(5..).unwrap_or_default();
    let end = version.iter().take(64).position(|octet| *octet == 0);
    look.at(3) == 0
        && look.at(4) == 10
        && length + 4 == look.len()
        && end.is_some_and(|end| end > 2 && version[..end].iter().all(u8::is_ascii_graphic))
        && look.at(5).is_ascii_digit()
}

/// A request to read or write: a file, and one of the modes (RFC 1350 section 5).
pub(super) fn tftp(look: &Look<'_>) -> bool {
    if !matches!(look.u16_at(0), 1 | 2) {
        return false;
    }
    let words = look.payload.get(2..).unwrap_or_default();
    let Some(file) = words.iter().position(|octet| *octet == 0) else { return false };
    let mode = &words[file + 1..];
    file > 0 && (begins(mode, b"octet\0") || begins(mode, b"netascii\0") || begins(mode, b"mail\0"))
}

/// Programs of ONC RPC (RFC 5531, RFC 1833, RFC 1813).
const PORTMAP: u32 = 100_000;
const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;

/// The program that a call is for (RFC 5531 section 9); TCP puts a record mark before it (section 11).
fn program(look: &Look<'_>) -> Option<u32> {
    let place = if look.udp { 0 } else { 4 };
    let marked = look.udp || look.at(0) & 0x80 != 0;
    let call = look.u32_at(place + 4) == 0 && look.u32_at(place + 8) == 2;
    (marked && call && look.len() >= place + 24).then(|| look.u32_at(place + 12))
}

/// Whether it is an accepted or denied reply.
fn reply(look: &Look<'_>) -> bool {
    let place = if look.udp { 0 } else { 4 };
    let marked = look.udp || look.at(0) & 0x80 != 0;
    marked && look.len() >= place + 20 && look.u32_at(place + 4) == 1 && look.u32_at(place + 8) <= 1
}

/// A call of the file system, or a reply from its port.
pub(super) fn nfs(look: &Look<'_>) -> bool {
    program(look) == Some(NFS) || look.from == 2049 && reply(look)
}

/// A call of the port mapper or of the mount service, or a reply from the mapper's port.
pub(super) fn portmap(look: &Look<'_>) -> bool {
    matches!(program(look), Some(PORTMAP | MOUNT)) || look.from == 111 && reply(look)
}
