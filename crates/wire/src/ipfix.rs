//! IPFIX (RFC 7011).

use crate::cursor::Cursor;
use crate::dialect::IPFIX;
use crate::element::{ObservationDomainId, TemplateId};
use crate::error::{WireError, octets_of};
use crate::message_builder::{self, TemplateKind};
use crate::sets::Sets;

/// The version field of every message.
pub const VERSION: u16 = 10;

/// Length of the message header in octets.
pub const HEADER_LEN: usize = 16;

/// Header of a message (RFC 7011 section 3.1), without the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Length of the message in octets, header included.
    pub length: u16,
    /// Time of export in seconds since 1970.
    pub export_time_secs: u32,
    /// Number of data records that this observation domain had sent before, modulo 2^32.
    pub sequence: u32,
    /// Observation Domain ID.
    pub domain: ObservationDomainId,
}

/// A message: header and what follows, borrowed from the datagram.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    /// The header.
    pub header: Header,
    /// The sets, within the message's length.
    pub sets: Sets<'a>,
    /// [`WireError::MessageLength`] when the message should be longer than it is, [`WireError::TrailingOctets`]
    /// when octets follow it.
    pub problem: Option<WireError>,
}

/// Reads the header. The sets are read while iterating over them.
///
/// # Errors
///
/// [`WireError::WrongVersion`], [`WireError::TruncatedHeader`], and [`WireError::MessageLength`] when the stated
/// length is shorter than the header.
pub fn decode(message: &[u8]) -> Result<Message<'_>, WireError> {
    let mut cursor = Cursor::new(message);
    match cursor.u16() {
        Some(VERSION) | None => {}
        Some(found) => return Err(WireError::WrongVersion { found }),
    }
    let have = octets_of(message.len());
    let header = Header::read(&mut cursor).ok_or(WireError::TruncatedHeader { need: HEADER_LEN as u32, have })?;
    let wrong = WireError::MessageLength { stated: header.length, have };
    let body_len = usize::from(header.length).checked_sub(HEADER_LEN).ok_or(wrong)?;
    let (body, problem) = match cursor.rest.split_at_checked(body_len) {
        Some((body, [])) => (body, None),
        Some((body, more)) => (body, Some(WireError::TrailingOctets { octets: octets_of(more.len()) })),
        None => (cursor.rest, Some(wrong)),
    };
    Ok(Message { header, sets: Sets::new(body, &IPFIX), problem })
}

/// Length in octets of the message that begins with these octets, of which at least four are needed; for streams
/// and IPFIX files, where messages follow one another (RFC 7011 section 10.4, RFC 5655).
///
/// `None` when there are fewer than four octets, when the version is another, or when the length is shorter than a
/// header: then it is unknown where the next message begins.
pub fn message_length(prefix: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(prefix);
    let (version, length) = (cursor.u16()?, cursor.u16()?);
    (version == VERSION && usize::from(length) >= HEADER_LEN).then_some(usize::from(length))
}

impl Header {
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            length: cursor.u16()?,
            export_time_secs: cursor.u32()?,
            sequence: cursor.u32()?,
            domain: ObservationDomainId(cursor.u32()?),
        })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(VERSION.to_be_bytes());
        out.extend(self.length.to_be_bytes());
        out.extend(self.export_time_secs.to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.domain.0.to_be_bytes());
    }
}

/// Marks builders of IPFIX messages.
#[derive(Debug, Clone, Copy)]
pub enum Ipfix {}

/// Writes an IPFIX message. The header's `length` is patched at the end; `sequence` is the caller's, who adds the
/// data records of each finished message (RFC 7011 section 3.1), templates not counted.
pub type MessageBuilder<'v> = message_builder::MessageBuilder<'v, Ipfix>;

/// Where the header holds the length.
const LENGTH_OFFSET: usize = 2;

impl<'v> MessageBuilder<'v> {
    /// Begins a message at the end of `out`.
    pub fn new(out: &'v mut Vec<u8>, header: &Header) -> Self {
        let start = out.len();
        header.write(out);
        Self::begun(out, start, &IPFIX)
    }

    /// Withdraws a template (RFC 7011 section 8.1).
    ///
    /// # Errors
    ///
    /// [`WireError::MessageFull`]; the message is then as before.
    pub fn withdraw(&mut self, kind: TemplateKind, template: TemplateId) -> Result<(), WireError> {
        self.withdrawal(kind, Some(template))
    }

    /// Withdraws all templates of a kind (RFC 7011 section 8.1).
    ///
    /// # Errors
    ///
    /// [`WireError::MessageFull`]; the message is then as before.
    pub fn withdraw_all(&mut self, kind: TemplateKind) -> Result<(), WireError> {
        self.withdrawal(kind, None)
    }

    /// Completes the message: pads the last set, patches its length and the message's.
    pub fn finish(self) -> message_builder::FinishedMessage {
        // The builder keeps the length within 16 bits.
        self.complete(LENGTH_OFFSET, |finished| finished.octets as u16)
    }
}
