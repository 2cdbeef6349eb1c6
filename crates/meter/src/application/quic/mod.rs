//! The `ClientHello` in Initial packets of QUIC (RFC 9000, RFC 9001, RFC 9369).
//!
//! Initial packets are encrypted with keys that follow from what is in them, so that an observer who sees a client's first one
//! can read it. A hello may be spread over frames in any order and over several datagrams; the keys stay those of the
//! client's first Destination Connection ID, also when it sends to another one later.

mod keys;
mod versions;

use super::Direction;
use super::assembly::{ASSEMBLY_OCTETS_MAX, Assembly, Placed};
use super::client_hello::CLIENT_HELLO;
use super::details::TlsDetails;
use super::inspection::{Shared, Verdict};
use super::ja::Carrier;
use super::tls;
use keys::Keys;
use versions::Suite;
pub(super) use versions::is_version;
use weir_wire::Cursor;

/// Most octets of a Connection ID (RFC 9000 section 17.2).
const CONNECTION_ID_OCTETS_MAX: usize = 20;

/// A connection as far as it was seen.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// Keys of the client's first packet.
    keys: Option<Keys>,
    /// Where the client's packets come from.
    client: Option<Direction>,
    /// What came of the hello; between datagrams it holds a buffer that was taken.
    hello: Option<Assembly>,
}

/// A packet with a long header (RFC 9000 section 17.2).
struct LongHeader<'a> {
    version: u32,
    kind: Kind,
    destination_id: &'a [u8],
    /// The packet from its first octet to its end.
    packet: &'a [u8],
    /// Where its number begins.
    number_at: usize,
}

#[derive(PartialEq, Eq)]
enum Kind {
    Initial,
    Other,
}

impl Connection {
    /// Takes in a datagram. The version is reported even when the packets cannot be read.
    pub(super) fn inspect(
        &mut self,
        direction: Direction,
        datagram: &[u8],
        details: &mut TlsDetails,
        shared: &mut Shared<'_>,
    ) -> Verdict {
        let buffered = self.hello.is_some();
        let mut rest = datagram;
        while let Some((header, behind)) = long_header(rest) {
            details.quic_version = details.quic_version.or(Some(header.version));
            let Some(suite) = versions::suite(header.version) else { break };
            if header.kind == Kind::Initial {
                match self.decrypt(&header, suite) {
                    Some(frames) => {
                        self.client = Some(direction);
                        self.take_frames(&frames, shared);
                    }
                    None => shared.counts.undecryptable += 1,
                }
            }
            rest = behind;
        }
        let Some(hello) = self.hello.take() else { return Verdict::More };
        let length = message_length(hello.start());
        let whole = length.is_some_and(|length| hello.start().len() >= length.min(ASSEMBLY_OCTETS_MAX));
        // A hello in one datagram needs no buffer beyond it.
        if !whole && (buffered || shared.take_buffer()) {
            self.hello = Some(hello);
            return Verdict::More;
        }
        if buffered {
            shared.give_buffer();
        }
        settle(&hello, details, shared);
        Verdict::Done
    }

    /// The frames of an Initial packet, if a client sent it.
    fn decrypt(&mut self, header: &LongHeader<'_>, suite: &Suite) -> Option<Vec<u8>> {
        let packet = (header.packet, header.number_at);
        if let Some(frames) = self.keys.as_ref().and_then(|keys| keys.decrypt(packet)) {
            return Some(frames);
        }
        // The first packet, or the one behind a Retry, which has keys of its own (RFC 9001 section 5.2).
        let keys = Keys::of_client(suite, header.destination_id);
        let frames = keys.decrypt(packet)?;
        self.keys = Some(keys);
        Some(frames)
    }

    /// Puts together what is in CRYPTO frames (RFC 9000 section 19.6).
    fn take_frames(&mut self, frames: &[u8], shared: &mut Shared<'_>) {
        for (offset, octets) in crypto_frames(frames) {
            let hello = self.hello.get_or_insert_with(|| Assembly::with_capacity(frames.len()));
            shared.counts.handshakes_cut += u64::from(hello.insert(offset, octets) == Placed::Cut);
        }
    }

    /// Reports what there is of a hello from this direction, of which no more packets are looked at.
    pub(super) fn end_direction(&mut self, direction: Direction, details: &mut TlsDetails, shared: &mut Shared<'_>) {
        if self.client == Some(direction) {
            self.end(details, shared);
        }
    }

    /// Tells what there is of a hello whose rest never came.
    pub(super) fn conclude(mut self, details: &mut TlsDetails, shared: &mut Shared<'_>) {
        self.end(details, shared);
    }

    fn end(&mut self, details: &mut TlsDetails, shared: &mut Shared<'_>) {
        if let Some(hello) = self.hello.take() {
            shared.give_buffer();
            settle(&hello, details, shared);
        }
    }
}

/// Tells what a hello says, as far as it is there.
fn settle(hello: &Assembly, details: &mut TlsDetails, shared: &mut Shared<'_>) {
    let octets = hello.start();
    match (octets, message_length(octets)) {
        ([CLIENT_HELLO, _, _, _, body @ ..], Some(length)) => {
            tls::report(body, length - 4, Carrier::Quic, details, shared);
        }
        // Its beginning is missing.
        ([], _) => {}
        _ => shared.counts.malformed += 1,
    }
}

/// Octets of a handshake message with its header.
fn message_length(octets: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(octets);
    cursor.u8()?;
    cursor.u24().map(|length| length as usize + 4)
}

/// The packet at the start of the octets, if it has a long header of a version that is known, and what follows it.
fn long_header(octets: &[u8]) -> Option<(LongHeader<'_>, &[u8])> {
    let mut cursor = Cursor::new(octets);
    let first = cursor.u8().filter(|first| first & 0x80 != 0)?;
    let version = cursor.u32()?;
    let destination_id = cursor.list8().filter(|id| id.len() <= CONNECTION_ID_OCTETS_MAX)?;
    let header = |kind, length: usize, number_at| LongHeader {
        version,
        kind,
        destination_id,
        packet: octets.get(..length).unwrap_or(octets),
        number_at,
    };
    let Some(suite) = versions::suite(version) else { return Some((header(Kind::Other, octets.len(), 0), &[])) };
    cursor.list8()?;
    let kind = first >> 4 & 3;
    if kind == suite.retry {
        return Some((header(Kind::Other, octets.len(), 0), &[]));
    }
    let kind = if kind == suite.initial { Kind::Initial } else { Kind::Other };
    if kind == Kind::Initial {
        let token = cursor.variable()?;
        cursor.take(usize::try_from(token).ok()?)?;
    }
    let length = usize::try_from(cursor.variable()?).ok()?;
    let number_at = octets.len() - cursor.rest.len();
    let rest = cursor.rest.get(length..)?;
    Some((header(kind, octets.len() - rest.len(), number_at), rest))
}

/// Offsets and octets of the CRYPTO frames among the frames that an Initial packet may have (RFC 9000 section 17.2.2).
/// It ends at a frame that is none of these.
fn crypto_frames(frames: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut cursor = Cursor::new(frames);
    std::iter::from_fn(move || {
        loop {
            match cursor.u8()? {
                // PADDING and PING.
                0 | 1 => {}
                kind @ (2 | 3) => skip_acknowledgement(&mut cursor, kind == 3)?,
                6 => {
                    let offset = cursor.variable()?;
                    let length = usize::try_from(cursor.variable()?).ok()?;
                    return Some((offset, cursor.take(length)?));
                }
                _ => return None,
            }
        }
    })
}

/// RFC 9000 section 19.3.
fn skip_acknowledgement(cursor: &mut Cursor<'_>, counts: bool) -> Option<()> {
    cursor.variable()?;
    cursor.variable()?;
    let ranges = cursor.variable()?;
    cursor.variable()?;
    for _ in 0..ranges {
        cursor.variable()?;
        cursor.variable()?;
    }
    for _ in 0..if counts { 3 } else { 0 } {
        cursor.variable()?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
