//! Options Data Records on their way into the table `exporter_options`.
//!
//! Exporters repeat their options every few minutes. A record is written when none about the same thing was written
//! before, when it reports something else, or when the last time was an hour ago. For that a hash of what it is about
//! and one of what it reports are remembered; two that collide cost an update of an hour's delay, once in 2^64.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{BuildHasher, Hasher};

use weir_flow::registry::{self, DataType};
use weir_flow::{AddressText, OptionsKind, OptionsRow, OptionsRows, TableBatch};
use weir_wire::value::be_uint;
use weir_wire::{ElementId, ListKind, ScopeType, Template};

use crate::clock::MessageClock;
use crate::columns::Records;
use crate::domain::DomainKey;
use crate::lists;
use crate::sampling::SamplerFields;

/// Most things whose records are remembered; further ones within an hour are not written, and counted.
const REMEMBERED_MAX: usize = 1 << 18;
/// After this long a record is written again though it reports the same.
const REPEATED_AFTER_MS: i64 = 3_600_000;

/// What exporters have reported, and the rows of it that are still to be handed out.
#[derive(Debug, Default)]
pub(crate) struct OptionsTable {
    rows: OptionsRows,
    /// By the hash of what a record is about: the hash of what it reports, and when it was written.
    written: HashMap<u64, (u64, i64), foldhash::fast::RandomState>,
    hashes: foldhash::fast::RandomState,
    scope: String,
}

/// Exporter and domain that sent an Options Data Record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordOrigin<'a> {
    pub key: DomainKey,
    pub exporter: &'a [u8],
}

/// Where an options template has what the table has columns for.
struct Fields<'t> {
    template: &'t Template,
    netflow9: bool,
    sampling: SamplerFields,
}

// Numbers of elements, by what they report.
const INTERFACES: [u16; 4] = [10, 14, 252, 253];
const INTERFACE_NAMES: [u16; 2] = [82, 83];
const VRFS: [u16; 2] = [234, 235];
const VRF_NAME: u16 = 236;
const ROUTE_DISTINGUISHER: u16 = 90;
const APPLICATION: u16 = 95;
const APPLICATION_DESCRIPTION: u16 = 94;
const APPLICATION_NAME: u16 = 96;
const PRIVATE_ENTERPRISE: u16 = 346;
const INFORMATION_ELEMENT: u16 = 303;
const ELEMENT_NAME: u16 = 341;
const ELEMENT_DESCRIPTION: u16 = 340;
const ELEMENT_TYPE: u16 = 339;
/// Exporter addresses, process identifiers, line cards, observation domains.
const SYSTEM_SCOPES: [u16; 7] = [130, 131, 141, 143, 144, 149, 211];

impl<'t> Fields<'t> {
    fn of(template: &'t Template, netflow9: bool) -> Self {
        Self { template, netflow9, sampling: SamplerFields::of(template, netflow9) }
    }

    fn is_scope_type(&self, field: usize) -> bool {
        self.netflow9 && field < self.template.scope_count()
    }

    /// The first field with one of these elements of the registry.
    fn position(&self, ids: &[u16]) -> Option<usize> {
        let mut fields = self.template.fields().iter().enumerate();
        let wanted = |(field, specifier): (usize, &weir_wire::FieldSpecifier)| {
            let ElementId { enterprise, id } = specifier.element;
            (enterprise == 0 && ids.contains(&id) && specifier.length > 0 && !self.is_scope_type(field))
                .then_some(field)
        };
        fields.find_map(wanted)
    }

    fn number(&self, ids: &[u16], records: Records<'_>, record: usize) -> Option<u64> {
        records.number(self.position(ids)?, record)
    }

    fn octets<'a>(&self, ids: &[u16], records: Records<'a>, record: usize) -> Option<&'a [u8]> {
        Some(records.octets_of(self.position(ids)?, record))
    }

    /// Text without the zeros and blanks that fill it up; `None` when nothing is left.
    fn text<'a>(&self, ids: &[u16], records: Records<'a>, record: usize) -> Option<&'a str> {
        let octets = self.octets(ids, records, record)?;
        let end = octets.iter().position(|octet| *octet == 0).unwrap_or(octets.len());
        let text = match std::str::from_utf8(&octets[..end]) {
            Ok(text) => text,
            // what precedes an octet that is no text still is
            Err(error) => std::str::from_utf8(&octets[..error.valid_up_to()]).unwrap_or_default(),
        };
        Some(text.trim()).filter(|text| !text.is_empty())
    }

    /// The value of the scope that NetFlow v9 says is an interface.
    fn scope_interface(&self, records: Records<'_>, record: usize) -> Option<u64> {
        let scopes = self.template.fields().iter().take(self.template.scope_count());
        let interface = |field: &weir_wire::FieldSpecifier| {
            self.netflow9 && ScopeType::from_id(field.element.id) == ScopeType::Interface
        };
        records.number(scopes.into_iter().position(interface)?, record)
    }

    fn kind(&self, records: Records<'_>) -> OptionsKind {
        let has = |ids: &[u16]| self.position(ids).is_some();
        let first_scope = self.template.fields().first().map(|field| field.element);
        let of_system = match first_scope {
            Some(scope) if self.netflow9 => {
                matches!(ScopeType::from_id(scope.id), ScopeType::System | ScopeType::LineCard | ScopeType::Cache)
            }
            Some(scope) => scope.enterprise == 0 && SYSTEM_SCOPES.contains(&scope.id),
            None => false,
        };
        match () {
            () if has(&[INFORMATION_ELEMENT]) && has(&[ELEMENT_NAME, ELEMENT_TYPE]) => OptionsKind::Type,
            () if records.len() > 0 && self.sampling.rate(records, 0).is_some() => OptionsKind::Sampler,
            () if has(&[APPLICATION]) => OptionsKind::Application,
            () if has(&INTERFACE_NAMES) => OptionsKind::Interface,
            () if has(&[VRF_NAME]) => OptionsKind::Vrf,
            () if of_system => OptionsKind::System,
            () => OptionsKind::Other,
        }
    }

    fn key(&self, kind: OptionsKind, records: Records<'_>, record: usize) -> Option<u64> {
        let interface = || {
            let of_element = self.number(&INTERFACES, records, record);
            of_element.or_else(|| self.scope_interface(records, record))
        };
        match kind {
            OptionsKind::Type => self.number(&[INFORMATION_ELEMENT], records, record),
            OptionsKind::Sampler => self.sampling.sampler(records, record).or_else(interface),
            OptionsKind::Interface => interface(),
            OptionsKind::Vrf => self.number(&VRFS, records, record),
            OptionsKind::Application | OptionsKind::System | OptionsKind::Other => None,
        }
    }

    /// Which elements name and describe a thing of this kind.
    const fn names(kind: OptionsKind) -> (&'static [u16], &'static [u16]) {
        match kind {
            OptionsKind::Interface => (&[82], &[83]),
            OptionsKind::Vrf => (&[VRF_NAME], &[]),
            OptionsKind::Application => (&[APPLICATION_NAME], &[APPLICATION_DESCRIPTION]),
            // of the sampler, else of what is sampled
            OptionsKind::Sampler => (&[84, 335, 82], &[83]),
            OptionsKind::Type => (&[ELEMENT_NAME], &[ELEMENT_DESCRIPTION]),
            OptionsKind::System | OptionsKind::Other => (&[82, 84, 335, 96, VRF_NAME], &[83, 94]),
        }
    }

    /// Appends names and values of the scope.
    fn push_scope(&self, text: &mut String, records: Records<'_>, record: usize) {
        for (field, specifier) in self.template.fields().iter().enumerate().take(self.template.scope_count()) {
            if !text.is_empty() {
                text.push(' ');
            }
            let ElementId { enterprise, id } = specifier.element;
            let known = registry::element(enterprise, id);
            // a `String` takes everything
            let _ = match (ScopeType::from_id(id), known) {
                (ScopeType::Other(number), _) if self.netflow9 => write!(text, "scope{number}="),
                (scope, _) if self.netflow9 => write!(text, "{}=", scope_name(scope)),
                (_, Some(element)) => write!(text, "{}=", element.name),
                (_, None) => write!(text, "{enterprise}/{id}="),
            };
            let octets = records.octets_of(field, record);
            let of_octets = !self.netflow9
                && known.is_some_and(|element| {
                    matches!(element.data_type, DataType::OctetArray | DataType::Text | DataType::MacAddress)
                });
            let address = !self.netflow9
                && known.is_some_and(|e| matches!(e.data_type, DataType::Ipv4Address | DataType::Ipv6Address));
            let _ = match be_uint(octets) {
                Some(number) if !of_octets && !address => write!(text, "{number}"),
                _ => write!(text, "{}", AddressText(octets)),
            };
        }
    }
}

const fn scope_name(scope: ScopeType) -> &'static str {
    match scope {
        ScopeType::System => "system",
        ScopeType::Interface => "interface",
        ScopeType::LineCard => "line_card",
        ScopeType::Cache => "cache",
        ScopeType::Template => "template",
        ScopeType::Other(_) => "other",
    }
}

impl OptionsTable {
    /// Appends the records that report something new. Returns how many were not written because too much is remembered
    /// already.
    pub(crate) fn append(
        &mut self,
        origin: RecordOrigin<'_>,
        template: &Template,
        records: Records<'_>,
        clock: &MessageClock,
    ) -> u64 {
        let fields = Fields::of(template, origin.key.version == 9);
        let kind = fields.kind(records);
        (0..records.len()).map(|record| u64::from(!self.record(origin, &fields, kind, records, record, clock))).sum()
    }

    /// Rows since the last call.
    pub(crate) fn take(&mut self) -> Option<TableBatch> {
        self.rows.take()
    }

    /// Rows that wait to be handed out.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    fn record(
        &mut self,
        origin: RecordOrigin<'_>,
        fields: &Fields<'_>,
        kind: OptionsKind,
        records: Records<'_>,
        record: usize,
        clock: &MessageClock,
    ) -> bool {
        let key = fields.key(kind, records, record);
        let key_octets = fields.octets(&[APPLICATION, ROUTE_DISTINGUISHER], records, record).filter(|o| !o.is_empty());
        let enterprise = match kind {
            OptionsKind::Type => fields.number(&[PRIVATE_ENTERPRISE], records, record).and_then(|n| n.try_into().ok()),
            _ => None,
        };
        let key_hash = self.key_hash(origin, fields, (enterprise, key, key_octets), records, record);
        match self.change(key_hash, fields, records, record, clock.received_ms) {
            RecordChange::Unchanged => return true,
            RecordChange::OverLimit => return false,
            RecordChange::New => {}
        }
        let (names, descriptions) = Fields::names(kind);
        let rate = fields.sampling.rate(records, record);
        let mut scope = std::mem::take(&mut self.scope);
        scope.clear();
        fields.push_scope(&mut scope, records, record);
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
            name: fields.text(names, records, record),
            description: fields.text(descriptions, records, record),
            sampling_interval: rate.and_then(crate::sampling::Rate::interval),
            packets_selected: rate.map(|rate| rate.selected),
            packets_observed: rate.map(|rate| rate.observed),
        };
        let kept = fields.template.fields().iter().enumerate().filter(|(field, _)| !fields.is_scope_type(*field));
        let elements = kept.filter(|(_, specifier)| specifier.length > 0).map(|(field, specifier)| {
            (specifier.element.enterprise, specifier.element.id, records.octets_of(field, record))
        });
        self.rows.push(&row, elements);
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
        for field in 0..fields.template.scope_count() {
            hash_octets(&mut hasher, records.octets_of(field, record));
        }
        hasher.write_u64(key.unwrap_or(u64::MAX));
        hasher.write_u32(enterprise.unwrap_or(u32::MAX));
        hash_octets(&mut hasher, key_octets.unwrap_or_default());
        hasher.finish()
    }

    fn change(
        &mut self,
        key_hash: u64,
        fields: &Fields<'_>,
        records: Records<'_>,
        record: usize,
        now_ms: i64,
    ) -> RecordChange {
        let mut hasher = self.hashes.build_hasher();
        (0..fields.template.fields().len())
            .for_each(|field| hash_octets(&mut hasher, records.octets_of(field, record)));
        let value_hash = hasher.finish();
        let is_old = |written_ms: i64| now_ms.saturating_sub(written_ms) >= REPEATED_AFTER_MS;
        if let Some((written_hash, written_ms)) = self.written.get_mut(&key_hash) {
            if *written_hash == value_hash && !is_old(*written_ms) {
                return RecordChange::Unchanged;
            }
            (*written_hash, *written_ms) = (value_hash, now_ms);
            return RecordChange::New;
        }
        if self.written.len() >= REMEMBERED_MAX {
            self.written.retain(|_, (_, written_ms)| !is_old(*written_ms));
            if self.written.len() >= REMEMBERED_MAX {
                return RecordChange::OverLimit;
            }
        }
        self.written.insert(key_hash, (value_hash, now_ms));
        RecordChange::New
    }
}

/// Whether a record is to be written.
enum RecordChange {
    /// It reports what was written before.
    Unchanged,
    New,
    /// Too much is remembered already, so it is not written.
    OverLimit,
}

fn hash_octets(hasher: &mut impl Hasher, octets: &[u8]) {
    hasher.write_usize(octets.len());
    hasher.write(octets);
}

/// Elements that are lists by the type records of an exporter (RFC 5610).
pub(crate) fn lists_reported(template: &Template, records: Records<'_>) -> Vec<(ElementId, ListKind)> {
    // IPFIX only: NetFlow v9 has no enterprise numbers
    let fields = Fields::of(template, false);
    if fields.position(&[ELEMENT_TYPE]).is_none() {
        return Vec::new();
    }
    let lists = (0..records.len()).filter_map(|record| {
        let number = |id: u16| fields.number(&[id], records, record);
        let element = ElementId {
            enterprise: number(PRIVATE_ENTERPRISE).unwrap_or(0).try_into().ok()?,
            id: u16::try_from(number(INFORMATION_ELEMENT)?).ok()? & 0x7fff,
        };
        let data_type = DataType::from_number(number(ELEMENT_TYPE)?.try_into().ok()?)?;
        Some((element, lists::kind_of(data_type)?))
    });
    lists.filter(|(element, _)| registry::element(element.enterprise, element.id).is_none()).collect()
}
