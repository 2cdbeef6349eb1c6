//! Names of what numbers stand for, in a column beside them: of interfaces, exporters and autonomous systems.
//!
//! They are made of the answer and are no part of the question, so they cost nothing per flow. A ranking of interfaces counts
//! all exporters together, and a number may be another interface at each: such a row has the names of all of them. Names of
//! interfaces are those that exporters reported last up to the end of the time that is asked about (where there is none, the next one),
//! and those of a file before them. Of a file whose versions are kept with the archive it is the version at that end. What speaks
//! against looking names up at all is that a file without versions is of today; names that the transform `enrich` kept with the
//! flows are columns like others.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, StringArray, UInt32Array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimestampMillisecondType, UInt64Type};
use weir_archive::{Segment, Snapshot};
use weir_flow::options::OptionsKind;
use weir_flow::{Column, Table};
use weir_query::TimeWindow;
use weir_routes::{Database, DatabaseError, InterfaceNames, PrefixMap, read_exporters};

use crate::EngineError;
use crate::enrichment::{ASN, INTERFACES, LoadTable, VersionedFile, VersionedTable, interface_names, ip, time_text};

/// Segments of reported names that are read, the newest ones of the window: exporters report each name again and again.
const SEGMENTS_READ_MAX: usize = 16;
/// Names of one number that are printed when exporters disagree.
const NAMES_SHOWN_MAX: usize = 3;

/// The files, those that are configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameFiles {
    /// Names of autonomous systems: a `MaxMind` DB file.
    pub asn_mmdb: Option<PathBuf>,
    /// Names of interfaces: lines `exporter,if_index,name`.
    pub interfaces: Option<PathBuf>,
    /// Names of exporters: lines `exporter,name`.
    pub exporters: Option<PathBuf>,
    /// The folder of versions of the first two, which are read and not added to.
    pub versions: Option<PathBuf>,
}

impl NameFiles {
    /// The table of a file that was valid at the end of a window. Whether another one was valid before is a note.
    fn valid<T>(
        &self,
        (name, what): (&'static str, &str),
        path: &Path,
        window: &TimeWindow,
        load: LoadTable<T>,
        notes: &mut Vec<String>,
    ) -> Result<Option<T>, EngineError> {
        let folder = self.versions.as_ref().map(|folder| folder.join(name));
        let file = VersionedFile { name, path: Some(path.to_owned()), folder, limits: None };
        let Some(tables) = VersionedTable::load(&file, load)? else { return Ok(None) };
        let (from_ms, until_ms) = window.range_ms();
        if let Some(changed_ms) = tables.changed_within(from_ms, until_ms) {
            let changed = time_text(changed_ms);
            notes.push(format!("names of {what} changed within this time, and are those from {changed} on"));
        }
        Ok(tables.into_table(until_ms.saturating_sub(1)))
    }
}

/// The names.
#[derive(Debug, Default)]
pub struct ValueNames {
    systems: HashMap<u32, String>,
    exporters: Option<PrefixMap<String>>,
    interfaces: InterfaceNames,
    /// Names of an index at any exporter.
    of_index: HashMap<u32, String>,
    /// What there is to know about the choice of them.
    notes: Vec<String>,
}

impl ValueNames {
    /// Reads those names of the files, and of what exporters reported in the window, that answers of this schema have a
    /// number for.
    ///
    /// # Errors
    ///
    /// A file cannot be read or is not what it should be, or the archive is damaged.
    pub fn load(
        files: &NameFiles,
        reported: Option<&Snapshot>,
        window: &TimeWindow,
        schema: &Schema,
    ) -> Result<Self, EngineError> {
        let is_asked = |wanted| schema.fields().iter().any(|field| Numbered::of(field.name()) == Some(wanted));
        let mut names = Self::default();
        if is_asked(Numbered::System)
            && let Some(path) = &files.asn_mmdb
        {
            let of = (ASN, "autonomous systems");
            names.systems = files.valid(of, path, window, organisations, &mut names.notes)?.unwrap_or_default();
        }
        if is_asked(Numbered::Exporter)
            && let Some(path) = &files.exporters
        {
            names.exporters = Some(read_exporters(path).map_err(EngineError::enrichment)?);
        }
        if is_asked(Numbered::Interface) {
            if let Some(snapshot) = reported {
                add_reported(snapshot, window, &mut names.interfaces).map_err(EngineError::Archive)?;
            }
            if let Some(path) = &files.interfaces {
                let of = (INTERFACES, "interfaces");
                let valid = files.valid(of, path, window, interface_names, &mut names.notes)?;
                names.interfaces.extend(&valid.unwrap_or_default());
            }
            names.of_index = of_index(&names.interfaces);
        }
        Ok(names)
    }

    /// What a reader should know about the names, a line for each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The columns of names for answers of this schema; `None` when there is nothing to add.
    pub fn columns(self, schema: &Schema) -> Option<NameColumns> {
        let exporter = schema.index_of(Column::Exporter.name()).ok();
        let is_there = |name: &str| schema.field_with_name(name).is_ok();
        let mut columns = Vec::new();
        for (position, field) in schema.fields().iter().enumerate() {
            let Some(numbered) = Numbered::of(field.name()) else { continue };
            let is_known = match numbered {
                Numbered::System => !self.systems.is_empty(),
                Numbered::Exporter => self.exporters.is_some(),
                Numbered::Interface => !self.of_index.is_empty(),
            };
            if is_known && !is_there(&format!("{}_name", field.name())) {
                columns.push((position, numbered));
            }
        }
        (!columns.is_empty()).then_some(NameColumns { names: self, exporter, columns })
    }

    fn of(&self, numbered: Numbered, values: &ArrayRef, exporters: Option<&BinaryArray>) -> ArrayRef {
        let rows = values.len();
        let exporter = |row: usize| exporters.filter(|exporters| exporters.is_valid(row)).map(|all| all.value(row));
        if numbered == Numbered::Exporter {
            let name = |row| self.exporters.as_ref()?.find_octets(exporter(row)?).map(String::as_str);
            return Arc::new((0..rows).map(name).collect::<StringArray>());
        }
        let Ok(numbers) = arrow::compute::cast(values, &DataType::UInt32) else {
            return Arc::new(StringArray::new_null(rows));
        };
        let numbers: &UInt32Array = numbers.as_primitive();
        let name = |row: usize| {
            let number = numbers.is_valid(row).then(|| numbers.value(row))?;
            match (numbered, exporter(row)) {
                (Numbered::Interface, Some(exporter)) => self.interfaces.name(exporter, number),
                (Numbered::Interface, None) => self.of_index.get(&number).map(String::as_str),
                _ => self.systems.get(&number).map(String::as_str),
            }
        };
        Arc::new((0..rows).map(name).collect::<StringArray>())
    }
}

/// Names of organisations by the numbers of their autonomous systems.
fn organisations(path: &Path) -> Result<HashMap<u32, String>, EngineError> {
    match Database::open(path).and_then(|database| database.organisations()) {
        // numbers alone are a database too
        Err(DatabaseError::NoValues { .. }) => Ok(HashMap::new()),
        found => found.map_err(EngineError::enrichment),
    }
}

/// What a number stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbered {
    Interface,
    Exporter,
    System,
}

impl Numbered {
    /// By the name of a column of an answer: one of flows, or a key of several.
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "in_if" | "out_if" | "if" => Self::Interface,
            "exporter" => Self::Exporter,
            "src_as" | "dst_as" | "as" | "prev_as" | "next_as" => Self::System,
            _ => return None,
        })
    }
}

/// Columns of names, each behind its numbers.
#[derive(Debug)]
pub struct NameColumns {
    names: ValueNames,
    /// Position of the exporter.
    exporter: Option<usize>,
    /// Positions of the numbers.
    columns: Vec<(usize, Numbered)>,
}

impl NameColumns {
    /// The schema with the names.
    pub fn schema(&self, schema: &Schema) -> SchemaRef {
        let mut fields: Vec<FieldRef> = schema.fields().to_vec();
        for (position, _) in self.columns.iter().rev() {
            let name = format!("{}_name", fields[*position].name());
            fields.insert(position + 1, Arc::new(Field::new(name, DataType::Utf8, true)));
        }
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    /// The rows with the names.
    ///
    /// # Errors
    ///
    /// The rows are not of the schema that the names were made for.
    pub fn rows(&self, rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let exporters = self.exporter.and_then(|position| rows.column(position).as_binary_opt::<i32>());
        let mut columns = rows.columns().to_vec();
        for (position, numbered) in self.columns.iter().rev() {
            columns.insert(position + 1, self.names.of(*numbered, rows.column(*position), exporters));
        }
        RecordBatch::try_new(self.schema(rows.schema_ref()), columns).map_err(|error| EngineError::run(error.into()))
    }
}

/// Adds the names that exporters reported, the newest last.
fn add_reported(
    snapshot: &Snapshot,
    window: &TimeWindow,
    names: &mut InterfaceNames,
) -> Result<(), weir_archive::ArchiveError> {
    let (_, end_ms) = window.range_ms();
    let began = |segment: &Segment| segment.time_range_ms.map_or(i64::MIN, |(first, _)| first);
    let mut segments: Vec<&Segment> = snapshot.segments(Table::ExporterOptions).iter().collect();
    segments.sort_by_key(|segment| began(segment));
    // an interface that was first reported later has its name in the next one
    let later = segments.partition_point(|segment| began(segment) < end_ms);
    for segment in &segments[later.saturating_sub(SEGMENTS_READ_MAX)..segments.len().min(later + 1)] {
        segment.read()?.iter().for_each(|rows| add_rows(names, rows, end_ms));
    }
    snapshot.tail(Table::ExporterOptions)?.iter().for_each(|rows| add_rows(names, rows, end_ms));
    Ok(())
}

/// Adds the interfaces among rows of `exporter_options`. What was reported at `end_ms` or later names those only that have no name.
fn add_rows(names: &mut InterfaceNames, rows: &RecordBatch, end_ms: i64) {
    let column = |name: &str| rows.column_by_name(name);
    let text = |name: &str| column(name).and_then(|values| values.as_string_opt::<i32>());
    let exporters = column("exporter").and_then(|values| values.as_binary_opt::<i32>());
    let keys = column("key").and_then(|values| values.as_primitive_opt::<UInt64Type>());
    let (Some(exporters), Some(keys), Some(kinds)) = (exporters, keys, text("kind")) else { return };
    let times = column("received").and_then(|values| values.as_primitive_opt::<TimestampMillisecondType>());
    let texts = [text("name"), text("description")];
    for row in 0..rows.num_rows() {
        let said = texts.iter().flatten().find(|texts| texts.is_valid(row)).map(|texts| texts.value(row));
        let is_interface = kinds.is_valid(row) && kinds.value(row) == OptionsKind::Interface.name();
        let index = keys.is_valid(row).then(|| keys.value(row)).and_then(|index| u32::try_from(index).ok());
        let is_later = times.is_some_and(|times| times.is_valid(row) && times.value(row) >= end_ms);
        let octets = exporters.value(row);
        if let (true, Some(index), Some(name), Some(exporter)) = (is_interface, index, said, ip(octets))
            && !(is_later && names.find(octets, index).is_some())
        {
            names.insert(exporter, index, name);
        }
    }
}

/// The names of each index, of all exporters.
fn of_index(names: &InterfaceNames) -> HashMap<u32, String> {
    let mut all: HashMap<u32, BTreeSet<&str>> = HashMap::new();
    for (index, name) in names.iter() {
        all.entry(index).or_default().insert(name);
    }
    let text = |names: BTreeSet<&str>| {
        let more = if names.len() > NAMES_SHOWN_MAX { ", ..." } else { "" };
        let shown: Vec<_> = names.into_iter().take(NAMES_SHOWN_MAX).collect();
        format!("{}{more}", shown.join(", "))
    };
    all.into_iter().map(|(index, names)| (index, text(names))).collect()
}

#[cfg(test)]
mod tests;
