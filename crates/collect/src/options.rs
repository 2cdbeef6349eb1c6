//! Options Data Records on their way into the table `exporter_options`.
//!
//! Exporters repeat their options every few minutes. A record is written when none about the same thing was written
//! before, when it reports something else, or when the last time was an hour ago. For that a hash of what it is about
//! and one of what it reports are remembered; two that collide cost an update of an hour's delay, once in 2^64.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use weir_flow::{OptionsKind, OptionsRow, OptionsRows, TableBatch};
use weir_wire::Template;

use crate::applications::ApplicationNames;
use crate::change_limit::ChangeLimiter;
use crate::clock::MessageClock;
use crate::domain::DomainKey;
use crate::options_plan::{OptionsPlan, number, text};
use crate::rate::source_of;
use crate::records::Records;
use crate::shares::Shares;

/// Most things whose records are remembered, a quarter of it for one source; further ones within an hour are not written,
/// and counted.
const REMEMBERED_MAX: usize = 1 << 18;
/// After this long a record is written again though it reports the same.
const REPEATED_AFTER_SECS: u32 = 3_600;
/// Time between searches for what is older than that, when there is too much.
const SEARCHED_AFTER_MS: u64 = 60_000;
/// Rows that one source may have written at once: twice as many as things of it are remembered. What comes beyond it is not written,
/// and counted; it is written when it is sent again later.
const ROWS_BURST: usize = REMEMBERED_MAX;
/// Rows, and octets that they take, from which on they should be handed out before more is decoded.
const ROWS_MAX: usize = 16_384;
const OCTETS_MAX: usize = 4 << 20;
/// Octets of what is received for each row that is written, at least: a row takes many times as much. Of a set with many
/// shorter records the others are written when they are sent again, for what was written before takes no row then.
const RECORD_OCTETS_MIN: usize = 8;
/// Records of a set that are written however short they are.
const FEW_RECORDS: usize = 8;
/// Octets of a row without its scope and elements, about, and of an element without its value.
const ROW_OCTETS: usize = 128;
const ELEMENT_OCTETS: usize = 16;

/// What exporters have reported, and the rows of it that are still to be handed out.
#[derive(Debug)]
pub(crate) struct OptionsTable {
    rows: OptionsRows,
    /// By the hash of what a record is about.
    written: HashMap<u64, Written, foldhash::fast::RandomState>,
    /// What is remembered of each source.
    shares: Shares<SourceHash>,
    /// How many rows each source may have written.
    changes: ChangeLimiter<SourceHash>,
    hashes: foldhash::fast::RandomState,
    /// When all that is remembered was searched for what is old.
    searched_ms: Option<i64>,
    /// Octets that the rows take, about.
    octets: usize,
    scope: String,
    applications: ApplicationNames,
}

impl Default for OptionsTable {
    fn default() -> Self {
        Self {
            rows: OptionsRows::default(),
            written: HashMap::default(),
            shares: Shares::of(REMEMBERED_MAX),
            changes: ChangeLimiter::of_burst(ROWS_BURST),
            hashes: foldhash::fast::RandomState::default(),
            searched_ms: None,
            octets: 0,
            scope: String::new(),
            applications: ApplicationNames::default(),
        }
    }
}

/// What is remembered of a record that was written. There may be many, so they are small.
#[derive(Debug, Clone, Copy)]
struct Written {
    /// Hash of what it reports.
    value_hash: u64,
    /// Seconds since the epoch.
    written_secs: u32,
    source: SourceHash,
}

/// Half a hash of the source; two that collide have one share.
type SourceHash = u32;

/// What was not taken of a set of Options Data Records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LeftOut {
    /// Records that were not written because too much is remembered already, or was written of this source.
    pub records: u64,
    /// Names of applications that are not remembered because too many are.
    pub applications: u64,
}

/// Exporter and domain that sent an Options Data Record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordOrigin<'a> {
    pub key: DomainKey,
    pub exporter: &'a [u8],
}

impl OptionsTable {
    /// Appends the records that report something new, and remembers the names of applications.
    pub(crate) fn append(
        &mut self,
        origin: RecordOrigin<'_>,
        (template, plan): (&Template, &OptionsPlan),
        records: Records<'_>,
        (clock, limited_ms): (&MessageClock, Option<i64>),
    ) -> LeftOut {
        let kind = plan.kind(records);
        let source = self.hashes.hash_one(source_of(origin.key.session.source.ip())) as SourceHash;
        let fields = Fields { template, plan, kind, source, scopes_end: plan.scopes.last().map(|scope| scope.field) };
        let rows_before = self.rows.len();
        let octets_allow = records.body.len() / RECORD_OCTETS_MIN + FEW_RECORDS;
        let rows_left = self.changes.left_to(source, limited_ms);
        let mut left_out = LeftOut::default();
        for record in 0..records.len() {
            let rows = self.rows.len() - rows_before;
            let may_write = rows < rows_left;
            let is_listed = rows < octets_allow && self.record(origin, &fields, records, record, (clock, may_write));
            left_out.records += u64::from(!is_listed);
            if kind == OptionsKind::Application {
                left_out.applications += u64::from(!self.learn_application(origin, plan, records, record));
            }
        }
        self.changes.take_for(source, self.rows.len() - rows_before, limited_ms);
        left_out
    }

    /// The names of applications.
    pub(crate) fn applications(&self) -> &ApplicationNames {
        &self.applications
    }

    /// Remembers the name of an application, if the record has one; false when too many are remembered.
    fn learn_application(
        &mut self,
        origin: RecordOrigin<'_>,
        plan: &OptionsPlan,
        records: Records<'_>,
        record: usize,
    ) -> bool {
        let [name, _] = plan.names[OptionsKind::Application as usize];
        let identifier = plan.key_octets.map(|field| records.octets_of(field, record)).unwrap_or_default();
        match text(name, records, record).filter(|_| !identifier.is_empty()) {
            Some(name) => self.applications.learn(origin.key, identifier, name),
            None => true,
        }
    }

    /// Rows since the last call.
    pub(crate) fn take(&mut self) -> Option<TableBatch> {
        self.octets = 0;
        self.rows.take()
    }

    /// Whether there is so much that it should be handed out.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_MAX || self.octets >= OCTETS_MAX
    }

    /// Writes a record that reports something new, if one may be written now. False when it was left out.
    fn record(
        &mut self,
        origin: RecordOrigin<'_>,
        fields: &Fields<'_>,
        records: Records<'_>,
        record: usize,
        (clock, may_write): (&MessageClock, bool),
    ) -> bool {
        let Fields { template, plan, kind, .. } = *fields;
        let key = plan.key(kind, records, record);
        let key_octets = plan.key_octets.map(|field| records.octets_of(field, record)).filter(|o| !o.is_empty());
        let enterprise = match kind {
            OptionsKind::Type => number(plan.enterprise, records, record).and_then(|n| n.try_into().ok()),
            _ => None,
        };
        let key_hash = self.key_hash(origin, fields, (enterprise, key, key_octets), records, record);
        match self.change((key_hash, fields.source), records.whole(record), clock.received_ms, may_write) {
            RecordChange::Unchanged => return true,
            RecordChange::OverLimit => return false,
            RecordChange::New => {}
        }
        let [name, description] = plan.names[kind as usize];
        let rate = plan.sampling.rate(records, record);
        let mut scope = std::mem::take(&mut self.scope);
        scope.clear();
        plan.push_scope(&mut scope, records, record);
        let row = OptionsRow {
            received_ms: clock.received_ms,
            exporter: origin.exporter,
            observation_domain: origin.key.domain,
            export_version: origin.key.version,
            kind,
            scope: &scope,
            enterprise,
            key,
            key_octets,
            name: text(name, records, record),
            description: text(description, records, record),
            sampling_interval: rate.and_then(crate::sampling::Rate::interval),
            packets_selected: rate.map(|rate| rate.selected),
            packets_observed: rate.map(|rate| rate.observed),
        };
        let kept = template.filled_fields().filter(|(field, _)| !plan.netflow9 || *field >= template.scope_count());
        let mut octets = scope.len() + ROW_OCTETS;
        let elements = kept.map(|(field, specifier)| {
            let value = records.octets_of(field, record);
            octets += value.len() + ELEMENT_OCTETS;
            (specifier.element.enterprise, specifier.element.id, value)
        });
        self.rows.push(&row, elements);
        self.octets += octets;
        self.scope = scope;
        true
    }

    /// Hash of what a record is about: exporter, domain, template, scope, and what else identifies a thing.
    fn key_hash(
        &self,
        origin: RecordOrigin<'_>,
        fields: &Fields<'_>,
        (enterprise, key, key_octets): (Option<u32>, Option<u64>, Option<&[u8]>),
        records: Records<'_>,
        record: usize,
    ) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        hasher.write(origin.exporter);
        hasher.write_u32(origin.key.domain);
        hasher.write_u8(origin.key.version);
        hasher.write_u16(fields.template.id().get());
        // scopes come first, and there may be a thousand of an octet each
        hash_octets(&mut hasher, records.through(fields.scopes_end, record));
        hasher.write_u64(key.unwrap_or(u64::MAX));
        hasher.write_u32(enterprise.unwrap_or(u32::MAX));
        hash_octets(&mut hasher, key_octets.unwrap_or_default());
        hasher.finish()
    }

    fn change(
        &mut self,
        (key_hash, source): (u64, SourceHash),
        record: &[u8],
        now_ms: i64,
        may_write: bool,
    ) -> RecordChange {
        let value_hash = self.hashes.hash_one(record);
        let now_secs = u32::try_from(now_ms.max(0) / 1000).unwrap_or(u32::MAX);
        let is_old = |written: &Written| now_secs.saturating_sub(written.written_secs) >= REPEATED_AFTER_SECS;
        if let Some(written) = self.written.get_mut(&key_hash) {
            if written.value_hash == value_hash && !is_old(written) {
                return RecordChange::Unchanged;
            }
            if !may_write {
                return RecordChange::OverLimit;
            }
            (written.value_hash, written.written_secs) = (value_hash, now_secs);
            return RecordChange::New;
        }
        if !may_write {
            return RecordChange::OverLimit;
        }
        if self.written.len() >= REMEMBERED_MAX || self.shares.left_to(source) == 0 {
            // all of them are looked at, which must not be what every record costs
            if self.searched_ms.is_some_and(|at_ms| now_ms.abs_diff(at_ms) < SEARCHED_AFTER_MS) {
                return RecordChange::OverLimit;
            }
            self.searched_ms = Some(now_ms);
            let shares = &mut self.shares;
            self.written.retain(|_, written| {
                let is_kept = !is_old(written);
                if !is_kept {
                    shares.give_back_of(written.source, 1);
                }
                is_kept
            });
            if self.written.len() >= REMEMBERED_MAX || self.shares.left_to(source) == 0 {
                return RecordChange::OverLimit;
            }
        }
        self.shares.take_for(source, 1);
        self.written.insert(key_hash, Written { value_hash, written_secs: now_secs, source });
        RecordChange::New
    }
}

/// How the records of a set are read.
#[derive(Clone, Copy)]
struct Fields<'t> {
    template: &'t Template,
    plan: &'t OptionsPlan,
    kind: OptionsKind,
    /// Of the exporter that sent them.
    source: SourceHash,
    /// The last scope that takes octets.
    scopes_end: Option<usize>,
}

/// Whether a record is to be written.
enum RecordChange {
    /// It reports what was written before.
    Unchanged,
    New,
    /// Too much is remembered already, or was written of this source, so it is not written.
    OverLimit,
}

fn hash_octets(hasher: &mut impl Hasher, octets: &[u8]) {
    hasher.write_usize(octets.len());
    hasher.write(octets);
}
