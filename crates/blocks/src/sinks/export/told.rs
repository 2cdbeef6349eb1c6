//! Rows of `exporter_options` that stand beside flows, as what an exporter tells about itself.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{UInt32Type, UInt64Type};
use weir_chain::{Counter, Counters};
use weir_export::{Interface, OptionsData, Selector};
use weir_flow::elements::elements_of_row;
use weir_flow::{OptionsKind, SideTables, Table};

/// `selectorAlgorithm`, and the same in NetFlow v9: `samplingAlgorithm` and `samplerMode`.
const SELECTOR_ALGORITHM: u16 = 304;
const SAMPLING_ALGORITHMS: [u16; 2] = [35, 49];
/// What is in the scopes of samplers of interfaces, and of other parts of an exporter, in small letters.
const INTERFACE: &str = "interface";
const PARTS: [&str; 8] =
    ["cache", "line_card", "linecardid", "observationpointid", "portid", "selectionsequenceid", "template", "vrfid"];
/// Systematic count-based sampling, and random n-out-of-N sampling (RFC 5477 section 8.2.1).
const SYSTEMATIC: u16 = 1;
const RANDOM: u16 = 3;

/// Takes what is to be told. One exporter is told of: the first whose rows come. The numbers of another one's interfaces
/// and samplers mean other things, and flows do not say whose they are.
#[derive(Debug)]
pub(super) struct Telling {
    exporter: Option<(Vec<u8>, u32)>,
    told: Counter,
    left_out: Counter,
}

impl Telling {
    pub(super) fn new(meter: &Counters) -> Self {
        let counter = |name| meter.counter(name);
        Self { exporter: None, told: counter("options_told"), left_out: counter("options_left_out") }
    }

    /// Hands each row to `tell`, which says whether it could be told, and counts them.
    pub(super) fn take(&mut self, side_tables: &SideTables, mut tell: impl FnMut(&OptionsData) -> bool) {
        let batches = side_tables.batches().filter(|(table, _)| *table == Table::ExporterOptions);
        for (_, rows) in batches {
            let Some(columns) = Columns::of(rows) else { continue };
            for row in 0..rows.num_rows() {
                let is_ours = self.is_ours(columns.exporter(row));
                let is_told = is_ours && columns.told(row).is_some_and(|told| tell(&told));
                let counter = if is_told { &self.told } else { &self.left_out };
                counter.add(1);
            }
        }
    }

    fn is_ours(&mut self, (address, domain): (&[u8], u32)) -> bool {
        let (known, known_domain) = self.exporter.get_or_insert_with(|| (address.to_vec(), domain));
        known == address && *known_domain == domain
    }
}

/// The columns that matter here.
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

    /// What a row tells; `None` for what flows cannot be told with.
    fn told(&self, row: usize) -> Option<OptionsData> {
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
        // a sampler that stands on an interface, or is that of another part, has no number that flows could name it by
        let scope = text(self.scope).unwrap_or_default().to_ascii_lowercase();
        let is_of_part = scope.contains(INTERFACE) || key.is_none() && PARTS.iter().any(|part| scope.contains(part));
        if kind != OptionsKind::Sampler.name() || is_of_part || self.interval.is_null(row) {
            return None;
        }
        let interval = self.interval.as_primitive::<UInt32Type>().value(row);
        Some(OptionsData::Selector(Selector { id: key.unwrap_or(0), algorithm: self.algorithm(row), interval }))
    }

    fn algorithm(&self, row: usize) -> u16 {
        let elements = elements_of_row(self.elements, row);
        let number = |id: u16| {
            let value = elements.iter().find(|value| (value.enterprise, value.id) == (0, id))?;
            Some(value.octets.iter().fold(0, |number: u16, octet| number << 8 | u16::from(*octet)))
        };
        let of_version_9 = SAMPLING_ALGORITHMS.into_iter().find_map(number);
        let of_version_9 = of_version_9.map(|algorithm| if algorithm == 2 { RANDOM } else { SYSTEMATIC });
        number(SELECTOR_ALGORITHM).or(of_version_9).unwrap_or(SYSTEMATIC)
    }
}
