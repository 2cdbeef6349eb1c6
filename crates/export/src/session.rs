//! The sequence numbers of one Transport Session.

use crate::config::Version;
use crate::exporter::Datagram;

/// Numbers the messages of an exporter for one collector. An exporter with several of them, each from when it was
/// reached on, numbers its messages for itself; in each Transport Session they count from 0 (RFC 7011 section 3.1).
#[derive(Debug, Clone, Copy)]
pub struct TransportSession {
    version: Version,
    sequence: u32,
}

impl TransportSession {
    /// A session that begins.
    pub const fn new(version: Version) -> Self {
        Self { version, sequence: 0 }
    }

    /// Puts the next message into `out`, in place of what was there, under its number in this session.
    pub fn number(&mut self, message: Datagram<'_>, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(message.octets);
        // Flows in NetFlow v5, messages in NetFlow v9 (RFC 3954 section 5.1), Data Records in IPFIX.
        let (offset, units) = match self.version {
            Version::V5 => (16, message.flows),
            Version::V9 => (12, 1),
            Version::Ipfix => (8, message.records),
        };
        if let Some(field) = out.get_mut(offset..offset + 4) {
            field.copy_from_slice(&self.sequence.to_be_bytes());
        }
        self.sequence = self.sequence.wrapping_add(units);
    }
}
