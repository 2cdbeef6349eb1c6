//! What exporters report about themselves in Options Data Records: the table `exporter_options`.
//!
//! A row is one record: what it is about, under which number or octets, and everything that it says, as it came. A
//! record is written when it is new or says something else than before, and at most once an hour otherwise, so that a
//! query over any hour finds what was in force, and that the table stays small next to the flows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, TimestampMillisecondType, UInt8Type, UInt32Type, UInt64Type,
};

use crate::builder::{NumberColumn, OctetsColumn};
use crate::elements::{ElementsColumn, elements_of_row};
use crate::registry::{self, DataType, Element};
use crate::{Table, TableBatch};

/// What an Options Data Record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionsKind {
    /// An interface: `key` is its index.
    Interface,
    /// A VRF: `key` is its identifier, or `key_octets` its route distinguisher.
    Vrf,
    /// An application: `key_octets` is the application identifier (RFC 6759).
    Application,
    /// A sampler: `key` is its identifier, when it has one.
    Sampler,
    /// An Information Element (RFC 5610): `enterprise` and `key` are its numbers.
    Type,
    /// The exporter, or one of its processes.
    System,
    /// Anything else.
    Other,
}

impl OptionsKind {
    /// Every kind.
    pub const ALL: &'static [Self] =
        &[Self::Interface, Self::Vrf, Self::Application, Self::Sampler, Self::Type, Self::System, Self::Other];

    /// The value of the column `kind`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::Vrf => "vrf",
            Self::Application => "application",
            Self::Sampler => "sampler",
            Self::Type => "type",
            Self::System => "system",
            Self::Other => "other",
        }
    }
}

/// One row, its elements apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionsRow<'a> {
    /// When the record was received, milliseconds since the epoch.
    pub received_ms: i64,
    /// Address of the exporter, 4 or 16 octets.
    pub exporter: &'a [u8],
    /// Observation Domain ID or Source ID.
    pub observation_domain: u32,
    /// Version of the export protocol.
    pub export_version: u8,
    /// What the record is about.
    pub kind: OptionsKind,
    /// The scope: names and values of its fields, parted by blanks.
    pub scope: &'a str,
    /// Enterprise number of the element that a type record describes.
    pub enterprise: Option<u32>,
    /// Number that the record is about.
    pub key: Option<u64>,
    /// Octets that the record is about, where that is no number.
    pub key_octets: Option<&'a [u8]>,
    /// Name.
    pub name: Option<&'a str>,
    /// Description.
    pub description: Option<&'a str>,
    /// One packet in N, rounded.
    pub sampling_interval: Option<u32>,
    /// The same exactly: packets selected
    pub packets_selected: Option<u64>,
    /// of packets observed.
    pub packets_observed: Option<u64>,
}

impl<'a> OptionsRow<'a> {
    /// A row of this exporter, received at this time, that says nothing yet.
    pub const fn blank(received_ms: i64, exporter: &'a [u8], observation_domain: u32, export_version: u8) -> Self {
        Self {
            received_ms,
            exporter,
            observation_domain,
            export_version,
            kind: OptionsKind::Other,
            scope: "",
            enterprise: None,
            key: None,
            key_octets: None,
            name: None,
            description: None,
            sampling_interval: None,
            packets_selected: None,
            packets_observed: None,
        }
    }
}

/// Collects rows of `exporter_options`.
#[derive(Debug, Default)]
pub struct OptionsRows {
    received: NumberColumn<TimestampMillisecondType>,
    exporter: OctetsColumn,
    domain: NumberColumn<UInt32Type>,
    version: NumberColumn<UInt8Type>,
    kinds: Vec<OptionsKind>,
    scope: OctetsColumn,
    enterprise: NumberColumn<UInt32Type>,
    key: NumberColumn<UInt64Type>,
    key_octets: OctetsColumn,
    name: OctetsColumn,
    description: OctetsColumn,
    interval: NumberColumn<UInt32Type>,
    selected: NumberColumn<UInt64Type>,
    observed: NumberColumn<UInt64Type>,
    elements: ElementsColumn,
}

impl OptionsRows {
    /// Rows collected.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Appends a row with its elements: enterprise, number, octets.
    pub fn push<'a>(&mut self, row: &OptionsRow<'_>, elements: impl Iterator<Item = (u32, u16, &'a [u8])>) {
        let at = self.len();
        self.kinds.push(row.kind);
        self.received.push(Some(row.received_ms));
        self.exporter.push(Some(row.exporter));
        self.domain.push(Some(row.observation_domain));
        self.version.push(Some(row.export_version));
        self.scope.push(Some(row.scope.as_bytes()));
        // most columns have something in few rows only
        put(&mut self.enterprise, at, row.enterprise);
        put(&mut self.key, at, row.key);
        put_octets(&mut self.key_octets, at, row.key_octets);
        put_octets(&mut self.name, at, row.name.map(str::as_bytes));
        put_octets(&mut self.description, at, row.description.map(str::as_bytes));
        put(&mut self.interval, at, row.sampling_interval);
        put(&mut self.selected, at, row.packets_selected);
        put(&mut self.observed, at, row.packets_observed);
        elements.for_each(|(enterprise, id, octets)| self.elements.push(enterprise, id, octets));
        self.elements.end_row();
    }

    /// Hands the rows out and starts anew; `None` when there are none.
    pub fn take(&mut self) -> Option<TableBatch> {
        if self.is_empty() {
            return None;
        }
        let mut rows = std::mem::take(self);
        let at = rows.len();
        rows.enterprise.pad_to(at);
        rows.key.pad_to(at);
        rows.interval.pad_to(at);
        rows.selected.pad_to(at);
        rows.observed.pad_to(at);
        for column in [&mut rows.key_octets, &mut rows.name, &mut rows.description] {
            column.pad_to(at);
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.received.finish().with_timezone("UTC")),
            rows.exporter.finish(),
            Arc::new(rows.domain.finish()),
            Arc::new(rows.version.finish()),
            Arc::new(StringArray::from_iter_values(rows.kinds.iter().map(|kind| kind.name()))),
            rows.scope.finish_texts(),
            Arc::new(rows.enterprise.finish()),
            Arc::new(rows.key.finish()),
            rows.key_octets.finish(),
            rows.name.finish_texts(),
            rows.description.finish_texts(),
            Arc::new(rows.interval.finish()),
            Arc::new(rows.selected.finish()),
            Arc::new(rows.observed.finish()),
            rows.elements.finish(),
        ];
        match RecordBatch::try_new(Table::ExporterOptions.schema(), columns) {
            Ok(batch) => TableBatch::try_new(Table::ExporterOptions, batch),
            Err(error) => unreachable!("columns are built in the order of the schema: {error}"),
        }
    }
}

#[inline]
fn put<T: ArrowPrimitiveType>(column: &mut NumberColumn<T>, row: usize, value: Option<T::Native>) {
    if let Some(value) = value {
        column.put(row, value);
    }
}

#[inline]
fn put_octets(column: &mut OctetsColumn, row: usize, value: Option<&[u8]>) {
    if let Some(value) = value {
        column.put(row, value);
    }
}

/// One sentence for each column of the table, for the reference page.
pub const COLUMN_DOCS: &[(&str, &str)] = &[
    ("received", "When the record was received, by the Collecting Process's clock."),
    ("exporter", "Address that the export datagrams came from."),
    ("observation_domain", "Observation Domain ID (IPFIX) or Source ID (NetFlow v9)."),
    ("export_version", "Version of the export protocol: 9, or 10 for IPFIX."),
    ("kind", "What the record is about: interface, vrf, application, sampler, type, system, other."),
    (
        "scope",
        "Names and values of the scope fields; those of NetFlow v9 are system, interface, line_card, cache, template. A \
         text with a blank, `=`, `\"` or `\\` is in quotes, with `\\` before the last two.",
    ),
    ("enterprise", "Of a type record (RFC 5610): Private Enterprise Number of the element."),
    ("key", "Number that the record is about: interface index, VRF, sampler, element."),
    ("key_octets", "Octets that the record is about: application identifier, route distinguisher."),
    ("name", "Name of the interface, VRF, application, sampler or element."),
    ("description", "Description of the same."),
    ("sampling_interval", "One packet of this many, rounded to a whole number."),
    ("packets_selected", "The same exactly: packets selected."),
    ("packets_observed", "Out of these observed."),
    ("elements", "All fields but the scopes of NetFlow v9, as they came."),
];

/// Names and types of elements that exporters defined (RFC 5610), from rows of `exporter_options`.
///
/// The registry comes first where it knows an element: an exporter cannot rename those of others.
#[derive(Debug, Clone, Default)]
pub struct LearnedElements {
    by_id: HashMap<(Vec<u8>, u32, u16), Element>,
}

/// `informationElementDataType` (RFC 5610 section 3.1).
const DATA_TYPE: u16 = 339;

impl LearnedElements {
    /// Learns from rows in the order of their times; what comes later replaces what came before. Batches of another
    /// schema are left out.
    pub fn learn(&mut self, batch: &RecordBatch) {
        if batch.schema_ref().fields() != Table::ExporterOptions.schema().fields() {
            return;
        }
        let column = |name: &str| batch.column_by_name(name);
        let (Some(exporters), Some(enterprises), Some(keys), Some(names), Some(elements)) =
            (column("exporter"), column("enterprise"), column("key"), column("name"), column("elements"))
        else {
            return;
        };
        let enterprises = enterprises.as_primitive::<UInt32Type>();
        let (keys, names) = (keys.as_primitive::<UInt64Type>(), names.as_string::<i32>());
        let exporters = exporters.as_binary::<i32>();
        debug_assert_eq!(names.data_type(), &ArrowType::Utf8);
        for row in 0..batch.num_rows() {
            if enterprises.is_null(row) || keys.is_null(row) || names.is_null(row) {
                continue;
            }
            let Ok(id) = u16::try_from(keys.value(row)) else { continue };
            let values = elements_of_row(elements, row);
            let told = values.iter().find(|value| (value.enterprise, value.id) == (0, DATA_TYPE));
            let data_type = told.and_then(|value| DataType::from_number(*value.octets.first()?));
            let element = Element {
                enterprise: enterprises.value(row),
                id,
                name: names.value(row).to_owned(),
                data_type: data_type.unwrap_or(DataType::OctetArray),
                semantics: "default",
                units: "",
            };
            self.by_id.insert((exporters.value(row).to_vec(), element.enterprise, id), element);
        }
    }

    /// The element that this exporter means by these numbers.
    pub fn element(&self, exporter: &[u8], enterprise: u32, id: u16) -> Option<&Element> {
        match registry::element(enterprise, id) {
            Some(element) => Some(element),
            None => self.by_id.get(&(exporter.to_vec(), enterprise, id)),
        }
    }

    /// The numbers of the element that any exporter calls so; the smallest when they do not agree.
    pub fn by_name(&self, name: &str) -> Option<&Element> {
        let named = self.by_id.values().filter(|element| element.name == name);
        named.min_by_key(|element| (element.enterprise, element.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: OptionsRow<'_> = OptionsRow {
        received_ms: 1,
        exporter: &[192, 0, 2, 1],
        observation_domain: 7,
        export_version: 10,
        kind: OptionsKind::Type,
        scope: "privateEnterpriseNumber=35566 informationElementId=1",
        enterprise: Some(35_566),
        key: Some(1),
        key_octets: None,
        name: Some("initialTCPSequence"),
        description: None,
        sampling_interval: None,
        packets_selected: None,
        packets_observed: None,
    };

    #[test]
    fn rows_become_columns() {
        let mut rows = OptionsRows::default();
        assert!(rows.take().is_none());
        rows.push(&ROW, [(0, 339, [3].as_slice())].into_iter());
        rows.push(&OptionsRow { kind: OptionsKind::Interface, enterprise: None, ..ROW }, std::iter::empty());
        let batch = rows.take().expect("rows");
        assert_eq!((batch.record_batch().num_rows(), rows.len()), (2, 0));
        let documented: Vec<_> = COLUMN_DOCS.iter().map(|(name, _)| *name).collect();
        let schema = Table::ExporterOptions.schema();
        assert_eq!(documented, schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>());
    }

    #[test]
    fn elements_that_exporters_name() {
        let mut rows = OptionsRows::default();
        rows.push(&ROW, [(0, 339, [3].as_slice())].into_iter());
        rows.push(&OptionsRow { enterprise: Some(0), name: Some("mine"), ..ROW }, std::iter::empty());
        let mut learned = LearnedElements::default();
        learned.learn(rows.take().expect("rows").record_batch());
        let element = learned.element(&[192, 0, 2, 1], 35_566, 1).expect("learned");
        assert_eq!((element.name.as_str(), element.data_type), ("initialTCPSequence", DataType::Unsigned(4)));
        assert_eq!(learned.element(&[192, 0, 2, 2], 35_566, 1), None, "another exporter means something else");
        assert_eq!(learned.by_name("initialTCPSequence").map(|element| element.id), Some(1));
        let octets = learned.element(&[192, 0, 2, 1], 0, 1).expect("registered");
        assert_eq!(octets.name, "octetDeltaCount");
    }
}
