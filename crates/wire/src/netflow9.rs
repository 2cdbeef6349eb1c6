//! NetFlow version 9 (RFC 3954).

use crate::cursor::Cursor;
use crate::dialect::NETFLOW9;
use crate::element::ObservationDomainId;
use crate::error::{WireError, octets_of};
use crate::message_builder;
use crate::sets::Sets;

/// The version field of every message.
pub const VERSION: u16 = 9;

/// Length of the message header in octets.
pub const HEADER_LEN: usize = 20;

/// Header of a message (RFC 3954 section 5.1), without the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Records in the message, templates, options templates and data together. Exporters also put the number of
    /// sets here, or nothing sensible; it is not used to find anything.
    pub count: u16,
    /// Milliseconds since the exporter started; wraps after 49.7 days.
    pub sys_uptime_ms: u32,
    /// Time of export in seconds since 1970.
    pub unix_secs: u32,
    /// Number of messages that this source had sent before.
    pub sequence: u32,
    /// Source ID.
    pub source_id: ObservationDomainId,
}

/// A message: header and what follows, borrowed from the datagram.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    /// The header.
    pub header: Header,
    /// The sets.
    pub sets: Sets<'a>,
}

/// Reads the header. The sets are read while iterating over them.
///
/// # Errors
///
/// [`WireError::WrongVersion`] and [`WireError::TruncatedHeader`].
pub fn decode(datagram: &[u8]) -> Result<Message<'_>, WireError> {
    let mut cursor = Cursor::new(datagram);
    match cursor.u16() {
        Some(VERSION) | None => {}
        Some(found) => return Err(WireError::WrongVersion { found }),
    }
    let header = Header::read(&mut cursor)
        .ok_or(WireError::TruncatedHeader { need: HEADER_LEN as u32, have: octets_of(datagram.len()) })?;
    Ok(Message { header, sets: Sets::new(cursor.rest, &NETFLOW9) })
}

impl Header {
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            count: cursor.u16()?,
            sys_uptime_ms: cursor.u32()?,
            unix_secs: cursor.u32()?,
            sequence: cursor.u32()?,
            source_id: ObservationDomainId(cursor.u32()?),
        })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(VERSION.to_be_bytes());
        out.extend(self.count.to_be_bytes());
        out.extend(self.sys_uptime_ms.to_be_bytes());
        out.extend(self.unix_secs.to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.source_id.0.to_be_bytes());
    }
}

/// Marks builders of NetFlow v9 messages.
#[derive(Debug, Clone, Copy)]
pub enum NetFlow9 {}

/// Writes a NetFlow v9 message. The header's `count` is patched at the end; `sequence` is the caller's, who adds
/// one per message (RFC 3954 section 5.1).
pub type MessageBuilder<'v> = message_builder::MessageBuilder<'v, NetFlow9>;

/// Where the header holds the count.
const COUNT_OFFSET: usize = 2;

impl<'v> MessageBuilder<'v> {
    /// Begins a message at the end of `out`.
    pub fn new(out: &'v mut Vec<u8>, header: &Header) -> Self {
        let start = out.len();
        header.write(out);
        Self::begun(out, start, &NETFLOW9)
    }

    /// Completes the message: pads the last set, patches its length and the header's count.
    pub fn finish(self) -> message_builder::FinishedMessage {
        let count = |finished: &message_builder::FinishedMessage| {
            // The builder keeps the sum within 16 bits.
            (finished.template_records + finished.data_records) as u16
        };
        self.complete(COUNT_OFFSET, count)
    }
}
