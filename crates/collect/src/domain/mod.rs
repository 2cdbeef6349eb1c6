//! What is known of one Observation Domain of one transport session.

mod activity;
mod templates;

use std::net::IpAddr;

use crate::Limits;
use crate::decoder::sflow::AgentState;
use crate::domain_key::ExporterOctets;
use crate::inspection::Inspection;
use crate::rate::source_of;
use crate::sampling::Samplers;
use crate::sequence::{Duplicates, Sequence, SequenceUnit};

pub(crate) use crate::domain_key::DomainKey;
pub(crate) use activity::{Activity, DomainStatus, EvictionPriority, Usefulness};
pub(crate) use templates::{CompiledTemplate, DomainTemplates, TemplateCount};

/// One Observation Domain of one transport session.
#[derive(Debug)]
pub(crate) struct Domain {
    pub key: DomainKey,
    /// See [`DomainKey::exporter`].
    pub exporter: ExporterOctets,
    /// The source of whose share of all domains it is a part: the exporter's, unless another sends for an agent of sFlow.
    pub sender: IpAddr,
    pub templates: DomainTemplates,
    pub sequence: Sequence,
    pub duplicates: Duplicates,
    pub inspection: Inspection,
    pub samplers: Samplers,
    /// Whether they are among those that hold for the exporter's other domains.
    pub samplers_shared: bool,
    /// What is followed when it is an sFlow agent.
    pub agent: AgentState,
    /// When the exporter started, milliseconds since the epoch, as options data of IPFIX report it.
    pub system_init_ms: Option<i64>,
    /// Whether flows came in this domain; what one without flows reports also holds for the exporter's others.
    pub carries_flows: bool,
    pub activity: Activity,
}

impl Domain {
    /// A domain of which nothing has come yet.
    pub(crate) fn new(key: DomainKey, limits: &Limits) -> Self {
        let expire = key.session.transport.templates_expire();
        let lifetime_ms = if expire { limits.template_lifetime_ms() } else { i64::MAX };
        Self {
            key,
            exporter: key.exporter(),
            sender: source_of(key.session.source.ip()),
            templates: DomainTemplates::new(key.version, lifetime_ms),
            sequence: Sequence::new(SequenceUnit::of_protocol(key.version)),
            duplicates: Duplicates::default(),
            inspection: Inspection::default(),
            samplers: Samplers::default(),
            samplers_shared: false,
            agent: AgentState::default(),
            system_init_ms: None,
            carries_flows: false,
            activity: Activity::default(),
        }
    }

    /// How much it is worth to keep; `None` when it must not be evicted.
    pub(crate) fn eviction_priority(&self, now_ms: i64, limits: &Limits) -> Option<EvictionPriority> {
        self.activity.eviction_priority(now_ms, limits, !self.templates.is_empty())
    }
}
