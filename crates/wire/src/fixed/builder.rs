//! Writing packets.

use super::{FixedFormat, Header};
use crate::error::{WireError, octets_of};

/// Writes a packet into a vector that the caller reuses. The header's `count` is patched at the end;
/// `flow_sequence` is the caller's, who adds the records of each finished packet.
#[derive(Debug)]
#[must_use = "an unfinished packet has no valid count"]
pub struct PacketBuilder<'v> {
    format: &'static FixedFormat,
    out: &'v mut Vec<u8>,
    /// Where the packet begins in `out`.
    start: usize,
    count: u16,
}

/// Where the header holds the count.
const COUNT_OFFSET: usize = 2;

impl<'v> PacketBuilder<'v> {
    /// Begins a packet at the end of `out`.
    pub fn new(format: &'static FixedFormat, out: &'v mut Vec<u8>, header: &Header) -> Self {
        let start = out.len();
        header.write(out, format.version, format.header);
        Self { format, out, start, count: 0 }
    }

    /// Length of the packet so far.
    pub fn octets(&self) -> usize {
        self.out.len() - self.start
    }

    /// Records that can still be added to a packet of at most `datagram_octets_max`.
    pub fn remaining(&self, datagram_octets_max: usize) -> usize {
        let fit = datagram_octets_max.saturating_sub(self.octets()) / self.format.record_len;
        fit.min(usize::from(self.format.packet_records_max - self.count))
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// [`WireError::CountFull`] when there are [`FixedFormat::packet_records_max`] already,
    /// [`WireError::RecordMismatch`] when the octets are not those of one record.
    pub fn record(&mut self, record: &[u8]) -> Result<(), WireError> {
        let limit = self.format.packet_records_max;
        if self.count == limit {
            return Err(WireError::CountFull { limit: limit.into() });
        }
        if record.len() != self.format.record_len {
            return Err(WireError::RecordMismatch { written: octets_of(record.len()), expected: 1 });
        }
        self.out.extend_from_slice(record);
        self.count += 1;
        Ok(())
    }

    /// Completes the packet and yields its number of records.
    pub fn finish(self) -> u16 {
        let offset = self.start + COUNT_OFFSET;
        self.out[offset..offset + 2].copy_from_slice(&self.count.to_be_bytes());
        self.count
    }
}
