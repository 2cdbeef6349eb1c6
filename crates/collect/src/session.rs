//! What is known of one exporter: per transport session, protocol and Observation Domain.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_flow::Counter;
use weir_wire::{Template, TemplateId};

use crate::plan::Plan;
use crate::sampling::Samplers;
use crate::sequence::Sequence;

/// What carries export messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// Datagrams, which may be lost, doubled or late (RFC 7011 section 10.3).
    Udp,
    /// A connection (RFC 7011 section 10.4).
    Tcp,
    /// An association (RFC 7011 section 10.2).
    Sctp,
    /// A connection with TLS (RFC 7011 section 11.1).
    Tls,
    /// Datagrams with DTLS (RFC 7011 section 11.1).
    Dtls,
    /// A file of messages (RFC 5655).
    File,
}

/// A transport session: templates are unique per session and Observation Domain (RFC 7011 section 8). One of UDP is
/// told by the exporter's address and port (section 10.3.1), as a connection is while it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session {
    /// What carries the messages.
    pub transport: Transport,
    /// Where they come from.
    pub source: SocketAddr,
}

impl Session {
    /// The session of datagrams from this address and port.
    pub const fn udp(source: SocketAddr) -> Self {
        Self { transport: Transport::Udp, source }
    }
}

/// What templates, sequence numbers and the books are kept by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DomainKey {
    pub session: Session,
    pub version: u8,
    pub domain: u32,
}

/// A template with the plan that was compiled from it.
#[derive(Debug)]
pub(crate) struct Known {
    pub template: Template,
    pub plan: Plan,
}

/// One Observation Domain of one transport session.
#[derive(Debug)]
pub(crate) struct Domain {
    pub key: DomainKey,
    pub exporter: Vec<u8>,
    pub templates: HashMap<TemplateId, Known, foldhash::fast::RandomState>,
    pub sequence: Sequence,
    pub samplers: Samplers,
    /// When the exporter started, milliseconds since the epoch, as options data of IPFIX tell it.
    pub system_init_ms: Option<i64>,
    /// Counts not yet written to the books.
    pub pending: [u64; Counter::COUNT],
    pub has_pending: bool,
}

impl Domain {
    pub(crate) fn new(key: DomainKey) -> Self {
        let exporter = weir_flow::address::with_octets(key.session.source.ip().to_canonical(), <[u8]>::to_vec);
        Self {
            key,
            exporter,
            templates: HashMap::default(),
            sequence: Sequence::default(),
            samplers: Samplers::default(),
            system_init_ms: None,
            pending: [0; Counter::COUNT],
            has_pending: false,
        }
    }
}
