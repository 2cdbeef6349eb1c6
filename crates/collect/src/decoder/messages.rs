//! Headers of IPFIX and NetFlow v9, whose messages consist of sets.

use weir_wire::{Sets, WireError, ipfix, netflow9};

use crate::clock::MessageClock;
use crate::domain::DomainKey;
use crate::session::Session;

/// A message of sets, once its header is read.
#[derive(Debug)]
pub(super) struct SetsMessage<'a> {
    pub key: DomainKey,
    pub sequence: u32,
    pub clock: MessageClock,
    pub sets: Sets<'a>,
    pub problem: Option<WireError>,
    /// Whether the message is as long as its header says.
    pub whole: bool,
}

impl<'a> SetsMessage<'a> {
    /// Reads a message of NetFlow v9.
    pub(super) fn netflow9(session: Session, received_ms: i64, payload: &'a [u8]) -> Result<Self, WireError> {
        let message = netflow9::decode(payload)?;
        let header = message.header;
        let export_ms = i64::from(header.unix_secs) * 1000;
        Ok(Self {
            key: DomainKey { session, version: 9, domain: header.source_id.0 },
            sequence: header.sequence,
            clock: MessageClock { received_ms, export_ms, uptime_ms: Some(header.sys_uptime_ms) },
            sets: message.sets,
            problem: None,
            whole: true,
        })
    }

    /// Reads a message of IPFIX.
    pub(super) fn ipfix(session: Session, received_ms: i64, payload: &'a [u8]) -> Result<Self, WireError> {
        let message = ipfix::decode(payload)?;
        let header = message.header;
        let export_ms = i64::from(header.export_time_secs) * 1000;
        Ok(Self {
            key: DomainKey { session, version: 10, domain: header.domain.0 },
            sequence: header.sequence,
            clock: MessageClock { received_ms, export_ms, uptime_ms: None },
            sets: message.sets,
            problem: message.problem,
            // Of a message that was cut, nothing shows how many records it had.
            whole: !matches!(message.problem, Some(WireError::MessageLength { .. })),
        })
    }
}

/// What was decoded of the sets of a message, or of one set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecodedSets {
    /// Data Records, those of options included.
    pub records: u32,
    /// Template Records.
    pub templates: u32,
    /// Sets and records that could not be decoded.
    pub errors: u32,
    /// Whether `records` are all that there are.
    pub complete: bool,
}

impl Default for DecodedSets {
    fn default() -> Self {
        Self { records: 0, templates: 0, errors: 0, complete: true }
    }
}

impl DecodedSets {
    /// A set that waits for its template.
    pub(super) const WAITS: Self = Self { records: 0, templates: 0, errors: 0, complete: false };

    /// Adds what was decoded of another set.
    pub(super) fn add(&mut self, other: Self) {
        self.records = self.records.saturating_add(other.records);
        self.templates += other.templates;
        self.errors += other.errors;
        self.complete &= other.complete;
    }

    /// Data Records, and Data and Template Records: what sequence numbers may count.
    pub(super) fn units(&self) -> [u32; 2] {
        [self.records, self.records.saturating_add(self.templates)]
    }

    /// The number of Data Records, when that is known.
    pub(super) fn known_records(&self) -> Option<u32> {
        self.complete.then_some(self.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_waits_leaves_the_number_of_records_open() {
        let mut decoded = DecodedSets::default();
        decoded.add(DecodedSets { records: 3, ..DecodedSets::default() });
        decoded.add(DecodedSets { templates: 2, ..DecodedSets::default() });
        assert_eq!((decoded.known_records(), decoded.units()), (Some(3), [3, 5]));
        decoded.add(DecodedSets::WAITS);
        assert_eq!((decoded.known_records(), decoded.units()), (None, [3, 5]));
    }
}
