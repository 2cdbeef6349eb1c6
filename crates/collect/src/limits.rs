//! Limits of the Collecting Process. Each has a name, a unit, a default and a counter for when it is hit.
//!
//! Any sender of datagrams can fill what is limited here, and no more. [`Limits::octets_max`] is how much memory that
//! takes at most; a test fills everything and compares.

use crate::change_limit::TABLE_OCTETS;
use crate::decoder::sflow::{SampleSource, Source};
use crate::domain::Domain;
use crate::ledger::{ACCOUNT_OCTETS, Ledger};
use weir_flow::SequenceKey;

use crate::sequence::{GAPS_MAX, Gap, Sequence, SequencePosition};
use crate::waiting::spooled::OUTBOX_OCTETS_MAX;

/// What one decoder may keep. A sender of datagrams can fill these, and no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most pairs of transport session and Observation Domain known at a time. When a new one comes, the one that is
    /// worth least is evicted and counted under `domains_evicted`; when all are protected, the datagrams of
    /// the new one are counted under `datagrams_refused`. One source, an address or an IPv6 network of 64 bits, has half
    /// of them at most, and more as long as a quarter of all is vacant: for its further ones, its own are evicted, and in one
    /// second no more of them than it has. On connections of TCP, TLS and SCTP one source has twice as many made at once, and then a
    /// thousand in a second.
    pub domains_max: usize,
    /// How long a domain that is protected, because it has sent records for a minute, is kept after its last datagram
    /// when others want its place, in seconds.
    pub domain_idle_secs: u32,
    /// Most templates of one Observation Domain; more are counted under `templates_refused`.
    pub templates_per_domain_max: usize,
    /// Most templates of all exporters together. For a new one, those of exporters that send nothing are dropped and
    /// counted under `templates_evicted`; when there are none, the new one is counted under `templates_refused`. One source has twice as
    /// many defined at once, those that come again as they were aside, and then a thousand in a second.
    pub templates_max: usize,
    /// Most fields of all templates together, of all exporters; the same happens as for `templates_max`.
    pub template_fields_max: usize,
    /// How long a template that came over UDP or DTLS is used when it is not sent again, in seconds; then it counts
    /// under `templates_expired`. 0: for ever. RFC 7011 section 10.3.7 asks for three times the interval at which
    /// exporters refresh, which is mostly 600 s; an exporter seen to take longer, up to an hour, is given longer.
    pub template_lifetime_secs: u32,
    /// Most samplers of all exporters together; more are counted under `samplers_refused`. One source may change as many intervals
    /// of known ones at once, and then a thousand in a second.
    pub samplers_max: usize,
    /// Most octets of Data Sets that wait for their template in memory, all exporters together. When full, the oldest
    /// go to disk or, without a folder for that, are dropped and counted under `sets_expired`.
    pub waiting_octets_max: usize,
    /// Most sources of sFlow samples whose sequence numbers are followed, all agents together; samples of others are
    /// stored and counted under `sources_refused`. One that samples packets and reports discarded ones counts twice. A source
    /// costs some hundred octets.
    pub sources_max: usize,
    /// Longest time that a Data Set waits for its template, in seconds; then it counts under `sets_expired`.
    pub waiting_secs_max: u32,
    /// Most octets of Data Sets that wait on disk, of all decoders that share the folder; when full, the oldest are
    /// dropped and counted under `sets_expired`.
    pub spool_octets_max: u64,
    /// Most Data Sets that wait on disk; the same happens.
    pub spool_sets_max: usize,
    /// Datagrams of an Observation Domain among which one that comes again is known, dropped and counted under
    /// `datagrams_duplicate`; 0 keeps them all.
    pub duplicate_datagrams_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            domains_max: 65_536,
            domain_idle_secs: 1_800,
            templates_per_domain_max: 4_096,
            templates_max: 1 << 17,
            template_fields_max: 1 << 19,
            template_lifetime_secs: 1_800,
            samplers_max: 1 << 18,
            waiting_octets_max: 64 << 20,
            sources_max: 1 << 17,
            waiting_secs_max: 1_800,
            spool_octets_max: 1 << 30,
            spool_sets_max: 1 << 17,
            duplicate_datagrams_max: 64,
        }
    }
}

/// Octets of a domain: in its table and in that of the accounts, which are copied when they grow, in the index, its address,
/// and what its source has; and in orders of eviction. An order has a domain twice at most, and capacity for less than twice
/// as many entries: that of all for 4 times as many as there are domains, and those of at most two sources, each of which had
/// up to three quarters of all domains, for 3 times.
pub(crate) const DOMAIN_OCTETS: usize =
    3 * size_of::<Domain>() / 2 + ACCOUNT_OCTETS + 10 * CANDIDATE_OCTETS + GAPS_OCTETS + 400;
/// Octets of a domain in an order of eviction.
pub(crate) const CANDIDATE_OCTETS: usize = 24;
/// Octets of a template in addition to its fields: its place in a map that is at least a quarter full, and what lists
/// cost.
pub(crate) const TEMPLATE_OCTETS: usize = 1_024;
/// Octets of a field: specifier, place in the record, column write, leftover.
pub(crate) const FIELD_OCTETS: usize = 192;
/// Octets of a sampler: its place in a map, and in those of what domains of an exporter agree about.
const SAMPLER_OCTETS: usize = 320;
/// Octets of a datagram that would be known again: a list may have twice the capacity that it needs.
const DUPLICATE_OCTETS: usize = 32;
/// Octets of a source of sFlow samples: its place in a map that is at least half full, or of four.
const SOURCE_OCTETS: usize =
    4 * (size_of::<(SampleSource, Source)>() + 8) + 2 * (size_of::<Sequence>() + 16 + GAPS_OCTETS);
/// Octets of the gaps that an account of sequence numbers remembers.
const GAPS_OCTETS: usize = GAPS_MAX * size_of::<Gap>();
/// Upper bound, over all domains, of sequence gaps still undecided.
pub(crate) const UNSETTLED_MAX: usize = 1 << 18;
/// Octets of each: a queue may have twice the capacity that it needs.
pub(crate) const UNSETTLED_OCTETS: usize = 96;
/// Octets of the account of an exporter that had one before this process: its place in a map that is at least half full.
pub(crate) const RESUMABLE_OCTETS: usize = 2 * (size_of::<SequenceKey>() + size_of::<SequencePosition>()) + 64;
/// Octets of all elements that are known to be lists.
const LEARNED_LISTS_OCTETS: usize = (1 << 16) * 64;
/// Octets of what each source may still change: domains of connections, templates and samplers.
const CHANGE_LIMITS_OCTETS: usize = 3 * TABLE_OCTETS;
/// IDs of templates that all domains together remember to be withdrawn. Data Sets of others wait for a template.
pub(crate) const WITHDRAWN_OF_ALL_MAX: usize = 1 << 17;
/// Octets of all of them: each is in a set of its domain, which has four places at least and is at least a quarter full.
const WITHDRAWN_OCTETS: usize = WITHDRAWN_OF_ALL_MAX * 48;
/// Octets of a set that waits on disk: its key here, and key and place in the index of the spool.
const SPOOLED_OCTETS: usize = 448;

impl Limits {
    /// Most octets of memory that a decoder with these limits keeps about exporters, whatever they send. Not in it
    /// are the delivery that it is making, and what it remembers of options reported, which has a limit of its own.
    pub const fn octets_max(&self) -> usize {
        self.domains_max * (DOMAIN_OCTETS + self.duplicate_datagrams_max * DUPLICATE_OCTETS)
            + LEARNED_LISTS_OCTETS
            + CHANGE_LIMITS_OCTETS
            + WITHDRAWN_OCTETS
            + self.sources_max * SOURCE_OCTETS
            + self.templates_max * TEMPLATE_OCTETS
            + self.template_fields_max * FIELD_OCTETS
            + self.samplers_max * SAMPLER_OCTETS
            + self.waiting_octets_max
            + OUTBOX_OCTETS_MAX
            + self.spool_sets_max * SPOOLED_OCTETS
            + UNSETTLED_MAX * UNSETTLED_OCTETS
            + self.domains_max * RESUMABLE_OCTETS
            + Ledger::octets_max(self.domains_max)
    }

    /// Milliseconds that templates of UDP live.
    pub(crate) fn template_lifetime_ms(&self) -> i64 {
        match self.template_lifetime_secs {
            0 => i64::MAX,
            secs => i64::from(secs) * 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_into_one_and_a_half_gibibytes() {
        assert!(Limits::default().octets_max() < 3 << 29, "{}", Limits::default().octets_max());
    }
}
