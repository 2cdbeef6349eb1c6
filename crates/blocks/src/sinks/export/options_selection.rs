//! Rows of `exporter_options` next to flows, as Options Data to export.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{UInt32Type, UInt64Type};
use weir_chain::{Counter, Counters};
use weir_export::{Interface, OptionsData, Selector};
use weir_flow::elements::{ElementValue, elements_of_row};
use weir_flow::{OptionsKind, SideTables, Table};

/// `selectorAlgorithm`, and the same in NetFlow v9: `samplingAlgorithm` and `samplerMode`.
const SELECTOR_ALGORITHM: u16 = 304;
const SAMPLING_ALGORITHMS: [u16; 2] = [35, 49];
/// Scopes that are all of an exporter: the system of NetFlow v9, also as the number of that scope type in IPFIX,
/// `exporterIPv4Address`, `exporterIPv6Address`, `meteringProcessId`, `exportingProcessId`, `collectorIPv4Address`,
/// `collectorIPv6Address`.
const SYSTEM: &str = "system";
const WHOLES: [u16; 7] = [1, 130, 131, 143, 144, 211, 212];
const OBSERVATION_DOMAIN: u16 = 149;
/// Numbers of samplers, `samplerId` and `selectorId`, and names of those that have one.
const SAMPLER_NUMBERS: [u16; 2] = [48, 302];
const SAMPLER_NAMES: [u16; 2] = [84, 335];
/// Name of a scope type of NetFlow v9 that has none of its own; its number follows.
const SCOPE_TYPE: &str = "scope";
/// Systematic count-based sampling, and random n-out-of-N sampling (RFC 5477 section 8.2.1).
const SYSTEMATIC: u16 = 1;
const RANDOM: u16 = 3;

/// Selects the Options Data to export: that of the first exporter seen, because numbers of interfaces and samplers of another
/// one mean other things, and flows do not have their exporter with them.
#[derive(Debug)]
pub(super) struct OptionsSelection {
    exporter: Option<(Vec<u8>, u32)>,
    exported: Counter,
    left_out: Counter,
}

impl OptionsSelection {
    pub(super) fn new(meter: &Counters) -> Self {
        let counter = |name| meter.counter(name);
        Self { exporter: None, exported: counter("options_told"), left_out: counter("options_left_out") }
    }

    /// Hands each selected row to `export`, which returns whether the protocol can hold it, and counts all rows.
    pub(super) fn take(&mut self, side_tables: &SideTables, mut export: impl FnMut(&OptionsData) -> bool) {
        let batches = side_tables.batches().filter(|(table, _)| *table == Table::ExporterOptions);
        for (_, rows) in batches {
            let Some(columns) = Columns::of(rows) else { continue };
            for row in 0..rows.num_rows() {
                let is_ours = self.is_ours(columns.exporter(row));
                let is_exported = is_ours && columns.data(row).is_some_and(|data| export(&data));
                let counter = if is_exported { &self.exported } else { &self.left_out };
                counter.add(1);
            }
        }
    }

    fn is_ours(&mut self, (address, domain): (&[u8], u32)) -> bool {
        let (known, known_domain) = self.exporter.get_or_insert_with(|| (address.to_vec(), domain));
        known == address && *known_domain == domain
    }
}

/// The columns that are read here.
struct Columns<'a> {
    exporter: &'a ArrayRef,
    domain: &'a ArrayRef,
    kind: &'a ArrayRef,
    scope: &'a ArrayRef,
    key: &'a ArrayRef,
    name: &'a ArrayRef,
    description: &'a ArrayRef,
    interval: &'a ArrayRef,
    elements: &'a ArrayRef,
}

impl<'a> Columns<'a> {
    /// `None` for rows of another table.
    fn of(rows: &'a RecordBatch) -> Option<Self> {
        let column = |name: &str| rows.column_by_name(name);
        Some(Self {
            exporter: column("exporter")?,
            domain: column("observation_domain")?,
            kind: column("kind")?,
            scope: column("scope")?,
            key: column("key")?,
            name: column("name")?,
            description: column("description")?,
            interval: column("sampling_interval")?,
            elements: column("elements")?,
        })
    }

    fn exporter(&self, row: usize) -> (&'a [u8], u32) {
        (self.exporter.as_binary::<i32>().value(row), self.domain.as_primitive::<UInt32Type>().value(row))
    }

    /// The Options Data of a row; `None` for a row that would not hold for all flows.
    fn data(&self, row: usize) -> Option<OptionsData> {
        let text = |column: &'a ArrayRef| column.is_valid(row).then(|| column.as_string::<i32>().value(row));
        let key = self.key.is_valid(row).then(|| self.key.as_primitive::<UInt64Type>().value(row));
        let kind = text(self.kind)?;
        if kind == OptionsKind::Interface.name() {
            return Some(OptionsData::Interface(Interface {
                index: key?.try_into().ok()?,
                name: text(self.name).unwrap_or_default().to_owned(),
                description: text(self.description).unwrap_or_default().to_owned(),
            }));
        }
        if kind != OptionsKind::Sampler.name() || self.interval.is_null(row) {
            return None;
        }
        let elements = elements_of_row(self.elements, row);
        let scopes = scopes_of(text(self.scope).unwrap_or_default());
        // the key of a sampler without a number is that of an interface
        let number = key.filter(|_| {
            let is_number = |id: u16| SAMPLER_NUMBERS.contains(&id);
            scopes.iter().any(|scope| scope.element().is_some_and(is_number))
                || elements.iter().any(|value| value.enterprise == 0 && value.place.is_none() && is_number(value.id))
        });
        // collectors would take the rate of a part, or of an unknown scope, for that of all
        let (_, domain) = self.exporter(row);
        if !scopes.iter().all(|scope| scope.is_whole(domain, number.is_some())) {
            return None;
        }
        let interval = self.interval.as_primitive::<UInt32Type>().value(row);
        Some(OptionsData::Selector(Selector { id: number.unwrap_or(0), algorithm: algorithm(&elements), interval }))
    }
}

/// A scope by name and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scope<'a> {
    name: &'a str,
    value: &'a str,
}

impl Scope<'_> {
    /// The element of IANA that it is.
    fn element(&self) -> Option<u16> {
        let of_scope_type = self.name.strip_prefix(SCOPE_TYPE).and_then(|number| number.parse().ok());
        let of_element = || weir_flow::element_by_name(self.name).filter(|element| element.enterprise == 0);
        of_scope_type.or_else(|| of_element().map(|element| element.id))
    }

    /// Whether it limits nothing: it is all of the exporter, its own Observation Domain, or the sampler itself.
    fn is_whole(&self, own_domain: u32, has_number: bool) -> bool {
        match self.element() {
            _ if self.name == SYSTEM => true,
            // 0 is no domain (RFC 7011 section 3.1)
            Some(OBSERVATION_DOMAIN) => {
                self.value.parse::<u32>().is_ok_and(|domain| domain == own_domain || domain == 0)
            }
            Some(id) if SAMPLER_NAMES.contains(&id) => has_number,
            Some(id) => WHOLES.contains(&id) || SAMPLER_NUMBERS.contains(&id),
            None => false,
        }
    }
}

/// The scopes in the text that a collector makes of them: names and values with blanks in between, texts in quotes where
/// they have blanks. What has no value is a name.
fn scopes_of(mut text: &str) -> Vec<Scope<'_>> {
    let mut scopes = Vec::new();
    while !text.is_empty() {
        let end = end_of_scope(text);
        let (name, value) = text[..end].split_once('=').unwrap_or((&text[..end], ""));
        scopes.push(Scope { name, value });
        text = text[end..].trim_start_matches(' ');
    }
    scopes
}

/// Where the first scope of a text ends: at a blank that is in no quotes.
fn end_of_scope(text: &str) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (position, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => return position,
            _ => {}
        }
    }
    text.len()
}

/// How the sampler of a row selects packets, as `selectorAlgorithm` has it.
fn algorithm(elements: &[ElementValue<'_>]) -> u16 {
    let number = |id: u16| {
        let value = elements.iter().find(|value| (value.enterprise, value.id) == (0, id))?;
        Some(value.octets.iter().fold(0, |number: u16, octet| number << 8 | u16::from(*octet)))
    };
    let of_version_9 = SAMPLING_ALGORITHMS.into_iter().find_map(number);
    let of_version_9 = of_version_9.map(|algorithm| if algorithm == 2 { RANDOM } else { SYSTEMATIC });
    number(SELECTOR_ALGORITHM).or(of_version_9).unwrap_or(SYSTEMATIC)
}
