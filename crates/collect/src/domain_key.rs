//! What one exporting process is known by.

use std::ops::Deref;

use weir_flow::SequenceKey;

use crate::session::{Session, Transport};

/// What templates, sequence numbers and the books are kept by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DomainKey {
    pub session: Session,
    pub version: u8,
    pub domain: u32,
}

impl DomainKey {
    /// Who sends with one sequence of numbers; `None` for connections, whose numbers begin anew with each.
    pub(crate) fn sequence_key(&self) -> Option<SequenceKey> {
        (self.session.transport == Transport::Udp).then(|| SequenceKey {
            exporter: self.exporter().to_vec(),
            exporter_port: self.session.source.port(),
            observation_domain: self.domain,
            export_version: self.version,
        })
    }

    /// Address of the exporter, 4 or 16 octets, as flows and books have it.
    pub(crate) fn exporter(&self) -> ExporterOctets {
        weir_flow::address::with_octets(self.session.source.ip().to_canonical(), |address| {
            let mut octets = [0; 16];
            octets[..address.len()].copy_from_slice(address);
            ExporterOctets { octets, length: address.len() }
        })
    }
}

/// Octets of an address, 4 or 16: in place, since each message of a flood may be one of another domain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExporterOctets {
    octets: [u8; 16],
    length: usize,
}

impl Deref for ExporterOctets {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}
