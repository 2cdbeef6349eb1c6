//! The octets of waiting sets on disk.
//!
//! ```text
//! segment:  "weir-spool 1\n" and zeros to 16 octets, then records
//! record:   mark u32  body length u32  CRC-32C of the body u32  CRC-32C of the eight octets before u32  body
//! body:     key, template u16, received i64, exported i64, uptime option, Data Set
//! ```
//!
//! The mark says whether the set still waits. It alone is ever written over, in place, so a set that has come back is
//! crossed out on a full disk too. Checksums of header and body are apart: when only the body is damaged, the length
//! still leads to the next record, and else the next is found by its mark.

use weir_wire::TemplateId;

use crate::clock::MessageClock;
use crate::state::format::{Reader, write_key, write_option};
use crate::waiting::set::{SetKey, UNNUMBERED, WaitingSet};

pub(super) const SEGMENT_HEADER: &[u8; 16] = b"weir-spool 1\n\0\0\0";
pub(super) const RECORD_HEADER_OCTETS: usize = 16;
pub(super) const WAITS: [u8; 4] = *b"WSET";
pub(super) const CROSSED_OUT: [u8; 4] = *b"WOUT";
/// Longest body: a Data Set and what it waits for.
const BODY_OCTETS_MAX: usize = 65_536 + 256;

/// Writes a record that waits.
pub(super) fn write(out: &mut Vec<u8>, key: SetKey, set: &WaitingSet) {
    let start = out.len();
    out.extend([0; RECORD_HEADER_OCTETS]);
    write_key(out, key.domain);
    out.extend(key.template.get().to_be_bytes());
    out.extend(set.clock.received_ms.to_be_bytes());
    out.extend(set.clock.export_ms.to_be_bytes());
    write_option(out, set.clock.uptime_ms.map(i64::from));
    out.extend(&set.body);
    let (header, body) = out[start..].split_at_mut(RECORD_HEADER_OCTETS);
    header[..4].copy_from_slice(&WAITS);
    header[4..8].copy_from_slice(&(body.len() as u32).to_be_bytes());
    header[8..12].copy_from_slice(&crc32c::crc32c(body).to_be_bytes());
    let checksum = crc32c::crc32c(&header[4..12]);
    header[12..].copy_from_slice(&checksum.to_be_bytes());
}

/// A record's header: whether the set waits, length and checksum of the body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub waits: bool,
    pub body_octets: usize,
    checksum: u32,
}

impl Header {
    /// Reads a header, if these octets begin with one.
    pub(super) fn read(octets: &[u8]) -> Option<Self> {
        let header = octets.first_chunk::<RECORD_HEADER_OCTETS>()?;
        let word = |at: usize| header.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        let mark = header.first_chunk::<4>()?;
        let waits = *mark == WAITS;
        if !waits && *mark != CROSSED_OUT || crc32c::crc32c(header.get(4..12)?) != word(12)? {
            return None;
        }
        let body_octets = word(4)? as usize;
        (body_octets <= BODY_OCTETS_MAX).then_some(Self { waits, body_octets, checksum: word(8)? })
    }

    /// Reads the body, if it is as it was written.
    pub(super) fn body(&self, body: &[u8]) -> Option<(SetKey, WaitingSet)> {
        if crc32c::crc32c(body) != self.checksum {
            return None;
        }
        let mut reader = Reader { rest: body, whole: body.len() };
        let key = SetKey { domain: reader.key()?, template: TemplateId::new(reader.u16()?).ok()? };
        let (received_ms, export_ms) = (reader.i64()?, reader.i64()?);
        let uptime_ms = reader.optional()?.0.and_then(|uptime| u32::try_from(uptime).ok());
        let clock = MessageClock { received_ms, export_ms, uptime_ms };
        Some((key, WaitingSet { clock, body: reader.rest.into(), number: UNNUMBERED }))
    }
}
