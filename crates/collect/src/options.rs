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
/// Octets of a message for each row that is written of it, at least: a row takes many times as much. Of a message with many shorter
/// records the others are written when they are sent again, for what was written before takes no row then.
const ROW_OCTETS_MIN: usize = 8;
/// Records of a message that are written however short they are.
const FEW_ROWS: usize = 8;
/// Octets of a message for each record that is read of it, at least, and records that are read however short they are. The number of a
/// sampler and its interval have as many as a rule. Of a message with many shorter records the others are counted.
const RECORD_OCTETS_MIN: usize = 3;
const FEW_RECORDS: usize = 64;
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
    /// How many rows more may be written of the message that is being read, and how many records of it may be read.
    rows_of_message: usize,
    records_of_message: usize,
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
            rows_of_message: 0,
            records_of_message: 0,
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

impl Written {
    /// Whether it is so long ago that the same is written again.
    fn is_old(&self, now_secs: u32) -> bool {
        now_secs.saturating_sub(self.written_secs) >= REPEATED_AFTER_SECS
    }
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
    /// Begins a message of so many octets.
    pub(crate) fn begin_message(&mut self, octets: usize) {
        self.rows_of_message = octets / ROW_OCTETS_MIN + FEW_ROWS;
        self.records_of_message = octets / RECORD_OCTETS_MIN + FEW_RECORDS;
    }

    /// Begins a set of so many octets of a message that has waited, of which there may be many.
    pub(crate) fn begin_set_that_waited(&mut self, octets: usize) {
        self.rows_of_message = octets / ROW_OCTETS_MIN + 1;
        self.records_of_message = octets / RECORD_OCTETS_MIN + FEW_RECORDS / 4;
    }

    /// How many of so many records of a set are read.
    pub(crate) fn take_records(&mut self, records: usize) -> usize {
        let taken = records.min(self.records_of_message);
        self.records_of_message -= taken;
        taken
    }

    /// Appends the records that report something new, and remembers the names of applications.
    pub(crate) fn append(
        &mut self,
        origin: RecordOrigin<'_>,
        (template, plan, kind): (&Template, &OptionsPlan, OptionsKind),
        records: Records<'_>,
        (clock, limited_ms): (&MessageClock, Option<i64>),
    ) -> LeftOut {
        let scopes_end = plan.scopes.last().map(|scope| scope.field);
        let common_hash = *plan.common_hash.get_or_init(|| self.common_hash(origin, template));
        let fields = Fields { template, plan, kind, common_hash, scopes_end };
        let mut rows = RowsOfSet { origin, limited_ms, written: 0, allowed: None };
        let mut left_out = LeftOut::default();
        for record in 0..records.len() {
            let is_listed =
                rows.written < self.rows_of_message && self.record(&mut rows, &fields, records, record, clock);
            left_out.records += u64::from(!is_listed);
            if kind == OptionsKind::Application {
                left_out.applications += u64::from(!self.learn_application(origin, plan, records, record));
            }
        }
        self.rows_of_message -= rows.written;
        if let Some((source, _)) = rows.allowed {
            self.changes.take_for(source, rows.written, limited_ms);
        }
        left_out
    }

    /// Whose limits hold for a set, and how many rows may be written of that source now. Most of what comes was written before, and then
    /// nobody asks.
    fn allowed_rows(&self, origin: RecordOrigin<'_>, limited_ms: Option<i64>) -> (SourceHash, usize) {
        let source = self.hashes.hash_one(source_of(origin.key.session.source.ip())) as SourceHash;
        (source, self.changes.left_to(source, limited_ms))
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
        rows: &mut RowsOfSet<'_>,
        fields: &Fields<'_>,
        records: Records<'_>,
        record: usize,
        clock: &MessageClock,
    ) -> bool {
        let Fields { plan, kind, .. } = *fields;
        let key = plan.key(kind, records, record);
        let key_octets = plan.key_octets.map(|field| records.octets_of(field, record)).filter(|o| !o.is_empty());
        let enterprise = match kind {
            OptionsKind::Type => number(plan.enterprise, records, record).and_then(|n| n.try_into().ok()),
            _ => None,
        };
        let thing = Thing { enterprise, key, key_octets };
        let key_hash = self.key_hash(fields, &thing, records, record);
        let value_hash = self.hashes.hash_one(records.whole(record));
        let (known, now_ms) = (self.written.get(&key_hash), clock.received_ms);
        if known.is_some_and(|written| written.value_hash == value_hash && !written.is_old(secs(now_ms))) {
            return true;
        }
        let changed = ChangedRecord { key_hash, value_hash, is_known: known.is_some(), now_ms };
        let may_write = self.may_write(changed, rows);
        if may_write {
            rows.written += 1;
            self.write(rows.origin, fields, &thing, records, record, clock);
        }
        may_write
    }

    /// Writes the row of a record. Most records have none, and are to cost what they need.
    #[inline(never)]
    fn write(
        &mut self,
        origin: RecordOrigin<'_>,
        fields: &Fields<'_>,
        thing: &Thing<'_>,
        records: Records<'_>,
        record: usize,
        clock: &MessageClock,
    ) {
        let Fields { template, plan, kind, .. } = *fields;
        let Thing { enterprise, key, key_octets } = *thing;
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
    }

    /// Hash of what all records of a template are about: exporter, domain, template.
    fn common_hash(&self, origin: RecordOrigin<'_>, template: &Template) -> u64 {
        let RecordOrigin { key, exporter } = origin;
        self.hashes.hash_one((exporter, key.domain, key.version, template.id().get()))
    }

    /// Hash of what a record is about: what all of its template are about, its scope, and what else identifies a thing.
    fn key_hash(
        &self,
        fields: &Fields<'_>,
        &Thing { enterprise, key, key_octets }: &Thing<'_>,
        records: Records<'_>,
        record: usize,
    ) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        hasher.write_u64(fields.common_hash);
        // scopes come first, and there may be a thousand of an octet each
        hash_octets(&mut hasher, records.through(fields.scopes_end, record));
        hasher.write_u64(key.unwrap_or(u64::MAX));
        hasher.write_u32(enterprise.unwrap_or(u32::MAX));
        hash_octets(&mut hasher, key_octets.unwrap_or_default());
        hasher.finish()
    }

    /// Whether a record may be written that is another than what was, which is remembered then.
    #[inline(never)]
    fn may_write(&mut self, record: ChangedRecord, rows: &mut RowsOfSet<'_>) -> bool {
        let ChangedRecord { key_hash, value_hash, is_known, now_ms } = record;
        let (source, rows_left) = match rows.allowed {
            Some(allowed) => allowed,
            None => *rows.allowed.insert(self.allowed_rows(rows.origin, rows.limited_ms)),
        };
        if rows.written >= rows_left || !(is_known || self.may_remember(source, now_ms)) {
            return false;
        }
        if !is_known {
            self.shares.take_for(source, 1);
        }
        self.written.insert(key_hash, Written { value_hash, written_secs: secs(now_ms), source });
        true
    }

    /// Whether there is a place for one thing more of a source. Where there is none, what is old gives way.
    fn may_remember(&mut self, source: SourceHash, now_ms: i64) -> bool {
        let has_place = |table: &Self| table.written.len() < REMEMBERED_MAX && table.shares.left_to(source) > 0;
        if has_place(self) {
            return true;
        }
        // all of them are looked at, which must not be what every record costs
        if self.searched_ms.is_some_and(|at_ms| now_ms.abs_diff(at_ms) < SEARCHED_AFTER_MS) {
            return false;
        }
        self.searched_ms = Some(now_ms);
        let (shares, now_secs) = (&mut self.shares, secs(now_ms));
        self.written.retain(|_, written| {
            let is_kept = !written.is_old(now_secs);
            if !is_kept {
                shares.give_back_of(written.source, 1);
            }
            is_kept
        });
        has_place(self)
    }
}

fn secs(now_ms: i64) -> u32 {
    u32::try_from(now_ms.max(0) / 1000).unwrap_or(u32::MAX)
}

/// What a record is about, besides its scope.
struct Thing<'r> {
    enterprise: Option<u32>,
    key: Option<u64>,
    key_octets: Option<&'r [u8]>,
}

/// A record that is another than what was written about the same thing.
#[derive(Debug, Clone, Copy)]
struct ChangedRecord {
    /// See [`OptionsTable::key_hash`].
    key_hash: u64,
    value_hash: u64,
    /// Whether anything was written about it.
    is_known: bool,
    now_ms: i64,
}

/// How the records of a set are read.
struct Fields<'t> {
    template: &'t Template,
    plan: &'t OptionsPlan,
    kind: OptionsKind,
    /// See [`OptionsTable::common_hash`].
    common_hash: u64,
    /// The last scope that takes octets.
    scopes_end: Option<usize>,
}

/// What is written of a set.
struct RowsOfSet<'o> {
    origin: RecordOrigin<'o>,
    limited_ms: Option<i64>,
    written: usize,
    /// See [`OptionsTable::allowed_rows`]; `None` until somebody asks.
    allowed: Option<(SourceHash, usize)>,
}

fn hash_octets(hasher: &mut impl Hasher, octets: &[u8]) {
    hasher.write_usize(octets.len());
    hasher.write(octets);
}
