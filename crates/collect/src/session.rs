//! What is known of one exporter: per transport session, protocol and Observation Domain.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_flow::Counter;
use weir_wire::sflow::DataSource;
use weir_wire::{ElementId, ListKind, Template, TemplateId};

use crate::Limits;
use crate::decoder::sflow::Source;
use crate::inspection::Inspection;
use crate::lists;
use crate::plan::Plan;
use crate::sampling::Samplers;
use crate::sequence::{Duplicates, Sequence, SequenceUnit};

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

impl Transport {
    /// Name as in the text of a [`crate::Listener`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Sctp => "sctp",
            Self::Tls => "tls",
            Self::Dtls => "dtls",
            Self::File => "file",
        }
    }

    /// Whether a template lives on only while it is sent again: datagrams that withdraw it may be lost, so nothing
    /// else would end it (RFC 7011 section 8.4).
    pub(crate) const fn templates_expire(self) -> bool {
        matches!(self, Self::Udp | Self::Dtls)
    }
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

impl Transport {
    /// Whether messages may come late, twice or not at all.
    pub(crate) const fn is_datagrams(self) -> bool {
        matches!(self, Self::Udp | Self::Dtls)
    }
}

impl Session {
    /// The session of datagrams from this address and port.
    pub const fn udp(source: SocketAddr) -> Self {
        Self { transport: Transport::Udp, source }
    }

    /// The session of the file with this number. A file does not say who exported it: the address is unspecified.
    pub const fn file(number: u16) -> Self {
        let source = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), number);
        Self { transport: Transport::File, source }
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
    /// When it was last sent, milliseconds since the epoch.
    pub refreshed_ms: i64,
    /// Whether it was sent from another port of the exporter.
    pub lent: bool,
}

impl Known {
    /// A template that came now. `version` is that of the export protocol.
    pub(crate) fn new(
        template: Template,
        version: u8,
        refreshed_ms: i64,
        list_kind: impl Fn(ElementId) -> Option<ListKind>,
    ) -> Self {
        Self { plan: Plan::compile(&template, version != 10, list_kind), template, refreshed_ms, lent: false }
    }
}

/// How long the datagrams of a domain must have held flows until the domain has proven itself.
const PROVEN_AFTER_MS: i64 = 60_000;
/// A domain that was silent for so long is no longer judged by how much it has sent.
const ACTIVE_MS: i64 = 60_000;

/// Longest time between templates that is taken for a habit, and not for silence.
const REFRESH_MS_MAX: i64 = 3_600_000;

/// What a domain is worth when another wants its place; the least goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Worth {
    pub rank: Rank,
    /// Binary logarithm of the datagrams received; 0 when it has been silent for a while.
    pub datagrams_log: u32,
    pub heard_ms: i64,
}

/// How much an exporter has shown of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Nothing that could be decoded.
    Nothing,
    /// Templates but no records, or nothing for a long time.
    Templates,
    /// Records.
    Records,
}

/// Whether a domain may have to give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has yet to prove itself.
    New,
    /// It has sent flows for a while, and gives way to nobody while it goes on.
    Proven,
    /// Its session has ended: its place is given to another soon, and not taken away from it before.
    Ended,
}

/// Most elements that are remembered to be lists because the exporter said so.
const LEARNED_LISTS_MAX: usize = 1_024;

/// One Observation Domain of one transport session.
#[derive(Debug)]
pub(crate) struct Domain {
    pub key: DomainKey,
    pub exporter: Vec<u8>,
    pub templates: HashMap<TemplateId, Known, foldhash::fast::RandomState>,
    /// Fields of its templates.
    pub template_fields: usize,
    /// How long its templates live when they are not sent again.
    pub template_lifetime_ms: i64,
    /// When a template came last.
    pub template_ms: Option<i64>,
    pub sequence: Sequence,
    pub duplicates: Duplicates,
    pub inspection: Inspection,
    pub samplers: Samplers,
    /// Sources of the samples of sFlow.
    pub sources: HashMap<DataSource, Source, foldhash::fast::RandomState>,
    /// When an sFlow agent started, milliseconds since the epoch by our clock.
    pub agent_start_ms: Option<i64>,
    /// When the exporter started, milliseconds since the epoch, as options data of IPFIX tell it.
    pub system_init_ms: Option<i64>,
    /// When the last datagram came, milliseconds since the epoch.
    pub heard_ms: i64,
    pub datagrams: u32,
    /// When the first records were decoded.
    pub records_since_ms: Option<i64>,
    pub standing: Standing,
    /// Lists among the elements that the exporter has named (RFC 5610).
    pub learned_lists: HashMap<ElementId, ListKind>,
    /// Whether flows came in this domain; what one without tells holds for the exporter's others.
    pub carries_flows: bool,
    /// Counts not yet written to the books.
    pub pending: [u64; Counter::COUNT],
    pub has_pending: bool,
    /// Counts that are in the books.
    pub totals: [u64; Counter::COUNT],
}

impl Domain {
    /// Learns of elements that are lists, and reads what has them anew.
    pub(crate) fn learn_lists(&mut self, told: Vec<(ElementId, ListKind)>) {
        let before = self.learned_lists.len();
        for (element, kind) in told {
            if self.learned_lists.len() < LEARNED_LISTS_MAX {
                self.learned_lists.insert(element, kind);
            }
        }
        if self.learned_lists.len() > before {
            let (learned, header_uptime) = (&self.learned_lists, self.key.version != 10);
            let list_kind = |element| lists::registered(element).or_else(|| learned.get(&element).copied());
            for known in self.templates.values_mut() {
                known.plan = Plan::compile(&known.template, header_uptime, list_kind);
            }
        }
    }

    pub(crate) fn new(key: DomainKey, limits: &Limits) -> Self {
        let exporter = weir_flow::address::with_octets(key.session.source.ip().to_canonical(), <[u8]>::to_vec);
        let expire = key.session.transport.templates_expire();
        Self {
            key,
            exporter,
            templates: HashMap::default(),
            template_fields: 0,
            template_lifetime_ms: if expire { limits.template_lifetime_ms() } else { i64::MAX },
            template_ms: None,
            sequence: Sequence::new(SequenceUnit::of_protocol(key.version)),
            duplicates: Duplicates::default(),
            inspection: Inspection::default(),
            samplers: Samplers::default(),
            sources: HashMap::default(),
            agent_start_ms: None,
            system_init_ms: None,
            learned_lists: HashMap::new(),
            carries_flows: false,
            heard_ms: 0,
            datagrams: 0,
            records_since_ms: None,
            standing: Standing::New,
            pending: [0; Counter::COUNT],
            has_pending: false,
            totals: [0; Counter::COUNT],
        }
    }

    /// A datagram came.
    #[inline]
    pub(crate) fn hear(&mut self, now_ms: i64) {
        self.heard_ms = now_ms;
        self.datagrams = self.datagrams.saturating_add(1);
    }

    /// Records were decoded.
    #[inline]
    pub(crate) fn prove(&mut self, now_ms: i64) {
        if self.standing == Standing::New {
            let since_ms = *self.records_since_ms.get_or_insert(now_ms);
            if now_ms.saturating_sub(since_ms) >= PROVEN_AFTER_MS {
                self.standing = Standing::Proven;
            }
        }
    }

    /// A template came. An exporter that sends its templates more seldom than the limit expects is given three times as
    /// long as it takes, for that is what RFC 7011 section 10.3.7 asks for.
    pub(crate) fn template_came(&mut self, now_ms: i64) {
        let before_ms = self.template_ms.replace(now_ms).unwrap_or(now_ms);
        let interval_ms = now_ms.saturating_sub(before_ms);
        if interval_ms <= REFRESH_MS_MAX {
            self.template_lifetime_ms = self.template_lifetime_ms.max(3 * interval_ms);
        }
    }

    /// Whether a template was not sent again in time.
    #[inline]
    pub(crate) fn has_expired(&self, known: &Known, now_ms: i64) -> bool {
        now_ms.saturating_sub(known.refreshed_ms) > self.template_lifetime_ms
    }

    /// What it is worth; `None` when it gives way to nobody.
    pub(crate) fn worth(&self, now_ms: i64, limits: &Limits) -> Option<Worth> {
        let silent_ms = now_ms.saturating_sub(self.heard_ms);
        let idle = silent_ms > i64::from(limits.domain_idle_secs) * 1000;
        if self.standing == Standing::Ended || self.standing == Standing::Proven && !idle {
            return None;
        }
        let rank = match self.records_since_ms {
            None if self.templates.is_empty() => Rank::Nothing,
            Some(_) if !idle => Rank::Records,
            _ => Rank::Templates,
        };
        let datagrams_log = if silent_ms > ACTIVE_MS { 0 } else { self.datagrams.max(1).ilog2() };
        Some(Worth { rank, datagrams_log, heard_ms: self.heard_ms })
    }
}
