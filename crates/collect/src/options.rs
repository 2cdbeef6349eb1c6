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

use crate::clock::{MessageClock, SYSTEM_INIT_TIME_MS};
use crate::columns::Records;
use crate::domain::DomainKey;
use crate::lists;
use crate::sampling::SamplerFields;

/// Most things whose records are remembered; further ones within an hour are not written, and counted.
const REMEMBERED_MAX: usize = 1 << 18;
/// After this long a record is written again though it reports the same.
const REPEATED_AFTER_MS: i64 = 3_600_000;
/// Time between searches for what is older than that, when there is too much.
const SEARCHED_AFTER_MS: u64 = 60_000;
/// Rows, and octets that they take, from which on they should be handed out before more is decoded.
const ROWS_MAX: usize = 65_536;
const OCTETS_MAX: usize = 16 << 20;
/// Octets of what is received for each row that is written, at least: shorter records than that describe nothing, and a
/// row takes many times as much.
const RECORD_OCTETS_MIN: usize = 4;
/// Records of a set that are written however short they are.
const FEW_RECORDS: usize = 8;
/// Octets of a row without its scope and elements, about, and of an element without its value.
const ROW_OCTETS: usize = 128;
const ELEMENT_OCTETS: usize = 16;

/// What exporters have reported, and the rows of it that are still to be handed out.
#[derive(Debug, Default)]
pub(crate) struct OptionsTable {
    rows: OptionsRows,
    /// By the hash of what a record is about: the hash of what it reports, and when it was written.
    written: HashMap<u64, (u64, i64), foldhash::fast::RandomState>,
    hashes: foldhash::fast::RandomState,
    /// When all that is remembered was searched for what is old.
    searched_ms: Option<i64>,
    /// Octets that the rows take, about.
    octets: usize,
    scope: String,
}

/// Exporter and domain that sent an Options Data Record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordOrigin<'a> {
    pub key: DomainKey,
    pub exporter: &'a [u8],
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

/// Octets of the text of a scope, about; what is longer is cut there, and is among the elements.
const SCOPE_OCTETS_MAX: usize = 1024;

/// Where the records of an options template have what the table has columns for.
///
/// It is compiled once for a template, and what is read of each record goes only through fields that take octets of it:
/// so a record costs as much as it has octets, whatever its template is like.
#[derive(Debug)]
pub(crate) struct OptionsPlan {
    netflow9: bool,
    pub(crate) sampling: SamplerFields,
    /// Of the time at which the exporter started.
    system_init: Option<usize>,
    /// Of fields that are scopes, those with octets.
    scopes: Box<[ScopeField]>,
    /// Whether the first scope is the exporter, or a part of it.
    of_system: bool,
    /// The scope that NetFlow v9 says is an interface.
    scope_interface: Option<usize>,
    interface: Option<usize>,
    vrf: Option<usize>,
    has_vrf_name: bool,
    has_application: bool,
    has_interface_name: bool,
    /// Application or route distinguisher.
    key_octets: Option<usize>,
    enterprise: Option<usize>,
    element: Option<usize>,
    element_type: Option<usize>,
    has_element_name: bool,
    /// By [`OptionsKind`]: the fields that name and describe a thing.
    names: [[Option<usize>; 2]; OptionsKind::ALL.len()],
}

/// A scope field, and how it is written.
#[derive(Debug)]
struct ScopeField {
    field: usize,
    name: ScopeName,
    /// Neither octets nor an address.
    is_number: bool,
}

#[derive(Debug)]
enum ScopeName {
    Known(&'static str),
    /// A scope type of NetFlow v9 that has no name.
    Type(u16),
    Element(ElementId),
}

impl ScopeField {
    fn of(field: usize, element: ElementId, netflow9: bool) -> Self {
        let ElementId { enterprise, id } = element;
        if netflow9 {
            let name = match ScopeType::from_id(id) {
                ScopeType::Other(number) => ScopeName::Type(number),
                scope => ScopeName::Known(scope_name(scope)),
            };
            return Self { field, name, is_number: true };
        }
        let known = registry::element(enterprise, id);
        let is_number = known.is_none_or(|element| {
            use DataType as T;
            !matches!(element.data_type, T::OctetArray | T::Text | T::MacAddress | T::Ipv4Address | T::Ipv6Address)
        });
        Self {
            field,
            name: known.map_or(ScopeName::Element(element), |known| ScopeName::Known(&known.name)),
            is_number,
        }
    }
}

impl OptionsPlan {
    pub(crate) fn compile(template: &Template, netflow9: bool) -> Self {
        let is_scope_type = |field: usize| netflow9 && field < template.scope_count();
        // the first field with one of these elements of the registry
        let position = |ids: &[u16]| {
            let wanted = |(field, specifier): (usize, &weir_wire::FieldSpecifier)| {
                let ElementId { enterprise, id } = specifier.element;
                (enterprise == 0 && ids.contains(&id) && !is_scope_type(field)).then_some(field)
            };
            template.filled_fields().find_map(wanted)
        };
        let first_scope = template.fields().first().map(|field| field.element);
        let of_system = match first_scope {
            Some(scope) if netflow9 => {
                matches!(ScopeType::from_id(scope.id), ScopeType::System | ScopeType::LineCard | ScopeType::Cache)
            }
            Some(scope) => scope.enterprise == 0 && SYSTEM_SCOPES.contains(&scope.id),
            None => false,
        };
        let scopes = || template.filled_fields().filter(|(field, _)| *field < template.scope_count());
        let scope_interface =
            scopes().find(|(_, field)| netflow9 && ScopeType::from_id(field.element.id) == ScopeType::Interface);
        let names = std::array::from_fn(|kind| {
            let (names, descriptions) = names_of(OptionsKind::ALL[kind]);
            [position(names), position(descriptions)]
        });
        Self {
            netflow9,
            sampling: SamplerFields::of(template, netflow9),
            system_init: position(&[SYSTEM_INIT_TIME_MS]).filter(|field| *field >= template.scope_count()),
            scopes: scopes().map(|(field, specifier)| ScopeField::of(field, specifier.element, netflow9)).collect(),
            of_system,
            scope_interface: scope_interface.map(|(field, _)| field),
            interface: position(&INTERFACES),
            vrf: position(&VRFS),
            has_vrf_name: position(&[VRF_NAME]).is_some(),
            has_application: position(&[APPLICATION]).is_some(),
            has_interface_name: position(&INTERFACE_NAMES).is_some(),
            key_octets: position(&[APPLICATION, ROUTE_DISTINGUISHER]),
            enterprise: position(&[PRIVATE_ENTERPRISE]),
            element: position(&[INFORMATION_ELEMENT]),
            element_type: position(&[ELEMENT_TYPE]),
            has_element_name: position(&[ELEMENT_NAME]).is_some(),
            names,
        }
    }

    /// When the exporter started, milliseconds since the epoch, if the records report it. Exporters that keep NetFlow's
    /// uptimes in IPFIX records report it this way and not in the records themselves.
    pub(crate) fn system_init_ms(&self, records: Records<'_>) -> Option<i64> {
        let last = records.len().checked_sub(1)?;
        number(self.system_init, records, last).map(|value| value as i64)
    }

    fn kind(&self, records: Records<'_>) -> OptionsKind {
        match () {
            () if self.element.is_some() && (self.has_element_name || self.element_type.is_some()) => OptionsKind::Type,
            () if records.len() > 0 && self.sampling.rate(records, 0).is_some() => OptionsKind::Sampler,
            () if self.has_application => OptionsKind::Application,
            () if self.has_interface_name => OptionsKind::Interface,
            () if self.has_vrf_name => OptionsKind::Vrf,
            () if self.of_system => OptionsKind::System,
            () => OptionsKind::Other,
        }
    }

    fn key(&self, kind: OptionsKind, records: Records<'_>, record: usize) -> Option<u64> {
        let interface =
            || number(self.interface, records, record).or_else(|| number(self.scope_interface, records, record));
        match kind {
            OptionsKind::Type => number(self.element, records, record),
            OptionsKind::Sampler => self.sampling.sampler(records, record).or_else(interface),
            OptionsKind::Interface => interface(),
            OptionsKind::Vrf => number(self.vrf, records, record),
            OptionsKind::Application | OptionsKind::System | OptionsKind::Other => None,
        }
    }

    /// Appends names and values of the scope, as far as a text of a reasonable length has them.
    fn push_scope(&self, text: &mut String, records: Records<'_>, record: usize) {
        for scope in &self.scopes {
            if !text.is_empty() {
                text.push(' ');
            }
            if text.len() >= SCOPE_OCTETS_MAX {
                text.push('…');
                return;
            }
            // a `String` takes everything
            let _ = match &scope.name {
                ScopeName::Known(name) => write!(text, "{name}="),
                ScopeName::Type(number) => write!(text, "scope{number}="),
                ScopeName::Element(ElementId { enterprise, id }) => write!(text, "{enterprise}/{id}="),
            };
            let octets = records.octets_of(scope.field, record);
            let octets = &octets[..octets.len().min(SCOPE_OCTETS_MAX / 4)];
            let _ = match be_uint(octets) {
                Some(number) if scope.is_number => write!(text, "{number}"),
                _ => write!(text, "{}", AddressText(octets)),
            };
        }
    }

    /// Elements that are lists by the type records of an exporter (RFC 5610).
    pub(crate) fn lists_reported(&self, records: Records<'_>) -> Vec<(ElementId, ListKind)> {
        // IPFIX only: NetFlow v9 has no enterprise numbers
        if self.element_type.is_none() || self.netflow9 {
            return Vec::new();
        }
        let lists = (0..records.len()).filter_map(|record| {
            let element = ElementId {
                enterprise: number(self.enterprise, records, record).unwrap_or(0).try_into().ok()?,
                id: u16::try_from(number(self.element, records, record)?).ok()? & 0x7fff,
            };
            let data_type = DataType::from_number(number(self.element_type, records, record)?.try_into().ok()?)?;
            Some((element, lists::kind_of(data_type)?))
        });
        lists.filter(|(element, _)| registry::element(element.enterprise, element.id).is_none()).collect()
    }
}

fn number(field: Option<usize>, records: Records<'_>, record: usize) -> Option<u64> {
    records.number(field?, record)
}

/// Text without the zeros and blanks that fill it up; `None` when nothing is left.
fn text(field: Option<usize>, records: Records<'_>, record: usize) -> Option<&str> {
    let octets = records.octets_of(field?, record);
    let end = octets.iter().position(|octet| *octet == 0).unwrap_or(octets.len());
    let text = match std::str::from_utf8(&octets[..end]) {
        Ok(text) => text,
        // what precedes an octet that is no text still is
        Err(error) => std::str::from_utf8(&octets[..error.valid_up_to()]).unwrap_or_default(),
    };
    Some(text.trim()).filter(|text| !text.is_empty())
}

/// Which elements name and describe a thing of a kind.
const fn names_of(kind: OptionsKind) -> (&'static [u16], &'static [u16]) {
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
        (template, plan): (&Template, &OptionsPlan),
        records: Records<'_>,
        clock: &MessageClock,
    ) -> u64 {
        let kind = plan.kind(records);
        let fields = Fields { template, plan, kind };
        let rows_before = self.rows.len();
        let rows_max = records.body.len() / RECORD_OCTETS_MIN + FEW_RECORDS;
        let mut unlisted = 0;
        for record in 0..records.len() {
            let is_listed =
                self.rows.len() - rows_before < rows_max && self.record(origin, &fields, records, record, clock);
            unlisted += u64::from(!is_listed);
        }
        unlisted
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

    fn record(
        &mut self,
        origin: RecordOrigin<'_>,
        fields: &Fields<'_>,
        records: Records<'_>,
        record: usize,
        clock: &MessageClock,
    ) -> bool {
        let Fields { template, plan, kind } = *fields;
        let key = plan.key(kind, records, record);
        let key_octets = plan.key_octets.map(|field| records.octets_of(field, record)).filter(|o| !o.is_empty());
        let enterprise = match kind {
            OptionsKind::Type => number(plan.enterprise, records, record).and_then(|n| n.try_into().ok()),
            _ => None,
        };
        let key_hash = self.key_hash(origin, fields, (enterprise, key, key_octets), records, record);
        match self.change(key_hash, template, records, record, clock.received_ms) {
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
        for scope in &fields.plan.scopes {
            hash_octets(&mut hasher, records.octets_of(scope.field, record));
        }
        hasher.write_u64(key.unwrap_or(u64::MAX));
        hasher.write_u32(enterprise.unwrap_or(u32::MAX));
        hash_octets(&mut hasher, key_octets.unwrap_or_default());
        hasher.finish()
    }

    fn change(
        &mut self,
        key_hash: u64,
        template: &Template,
        records: Records<'_>,
        record: usize,
        now_ms: i64,
    ) -> RecordChange {
        let mut hasher = self.hashes.build_hasher();
        template.filled_fields().for_each(|(field, _)| hash_octets(&mut hasher, records.octets_of(field, record)));
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
            // all of them are looked at, which must not be what every record costs
            if self.searched_ms.is_some_and(|at_ms| now_ms.abs_diff(at_ms) < SEARCHED_AFTER_MS) {
                return RecordChange::OverLimit;
            }
            self.searched_ms = Some(now_ms);
            self.written.retain(|_, (_, written_ms)| !is_old(*written_ms));
            if self.written.len() >= REMEMBERED_MAX {
                return RecordChange::OverLimit;
            }
        }
        self.written.insert(key_hash, (value_hash, now_ms));
        RecordChange::New
    }
}

/// How the records of a set are read.
#[derive(Clone, Copy)]
struct Fields<'t> {
    template: &'t Template,
    plan: &'t OptionsPlan,
    kind: OptionsKind,
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
