//! Adds what files and name servers know about addresses and interfaces.
//!
//! Everything is looked up by address and comes out as an index into a short list of texts, so a row costs a search for
//! a prefix and no text is made before the column is put together. Reverse DNS is the exception, see `names`.

mod names;
mod options;
mod plan;
mod reload;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions, StringArray, StringBuilder, UInt32Array,
    new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, UInt32Type};
use weir_chain::{ComponentError, ComponentKind, KindWithColumns, ONE_INPUT, Outlet, Role, State, Transform};
use weir_flow::Column;
use weir_routes::PrefixMap;

pub use self::options::EnrichOptions;

use self::names::Names;
use self::plan::{Content, Plan, Side, Source};
use self::reload::Reload;
use self::tables::{NONE, Tables, Texts};
use weir_rows::flow_columns::{number, numbers, octets, value};

/// Adds autonomous systems, countries, labels, names of interfaces and names of hosts.
pub const KIND: ComponentKind<EnrichOptions> = ComponentKind {
    name: "enrich",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Adds what is known from outside about the addresses and interfaces of flows. What is added depends on the \
          options; at least one must be given. From `asn_mmdb`: the columns `src_as` and `dst_as` (32-bit numbers, the \
          autonomous systems of `src_addr` and `dst_addr`) are filled where they are null or 0. From `geo_mmdb`: \
          `src_country` and `dst_country` (texts, the ISO codes of the countries). From `labels`: `src_label` and \
          `dst_label` (texts, the labels of the longest prefixes that hold the addresses). From `interfaces`: \
          `in_if_name` and `out_if_name` (texts, the names of `in_if` and `out_if` at the `exporter`). With \
          `reverse_dns`: `src_name` and `dst_name` (texts, the names of hosts). Columns of texts are behind all others; \
          a value is null where nothing is known, or where the address is null or its column absent. An IPv4 address \
          mapped into IPv6 is looked up as the IPv4 address. All rows are handed on in their order. When a file changes \
          it is read again (`files_reloaded`); when that fails the old one stays in use (`reloads_failed`). Names are \
          looked up in threads of their own, and rows never wait for them: a name that is not known yet is null, so \
          with `reverse_dns` the same input gives more names the second time. `name_lookups` counts answers, \
          `name_lookups_without_name` those without a name, `name_hits` values that got a name, \
          `name_questions_dropped` questions that were dropped because too many waited; they are asked again with the \
          next row of the address.",
    configure: options::configure,
};

/// The same, with what it does to columns.
pub const KIND_WITH_COLUMNS: KindWithColumns<EnrichOptions> = KindWithColumns { kind: KIND, columns: options::columns };

struct Enrich {
    tables: Tables,
    overwrite: bool,
    names: Option<Names>,
    reload: Option<Reload>,
    plan: Option<Plan>,
}

impl Transform for Enrich {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        let plan = match self.plan.take() {
            Some(plan) if Arc::ptr_eq(&plan.from, rows.schema_ref()) => plan,
            _ => Plan::new(&self.tables, self.names.is_some(), &rows)?,
        };
        if let Some(names) = &mut self.names {
            names.refresh();
        }
        let columns = plan.sources.iter().map(|source| self.column(*source, &rows)).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let enriched = RecordBatch::try_new_with_options(Arc::clone(&plan.to), columns, &options)
            .map_err(|error| ComponentError::caused("rows cannot be put together again", error))?;
        self.plan = Some(plan);
        out.rows(enriched);
        Ok(())
    }

    fn finish(&mut self, _out: &mut Outlet) -> Result<(), ComponentError> {
        if let Some(names) = &mut self.names {
            names.clear();
        }
        Ok(())
    }

    fn tick(&mut self, _out: &mut Outlet) -> Result<(), ComponentError> {
        if let Some(names) = &mut self.names {
            names.refresh();
        }
        if let Some(reload) = &mut self.reload {
            reload.tick(&mut self.tables);
        }
        Ok(())
    }

    fn state(&self) -> State {
        let rows = self.names.as_ref().map_or(0, Names::len) as u64;
        State { rows, octets: self.tables.octets() as u64, edge_ms: None }
    }
}

impl Enrich {
    fn column(&mut self, source: Source, rows: &RecordBatch) -> Result<ArrayRef, ComponentError> {
        let (side, content) = match source {
            Source::Input(position) => return Ok(Arc::clone(rows.column(position))),
            Source::Added(side, content) => (side, content),
        };
        let addresses = octets(rows, side.choose(Column::SrcAddr, Column::DstAddr))?;
        let count = rows.num_rows();
        match content {
            Content::As => {
                let known = numbers(rows, side.choose(Column::SrcAs, Column::DstAs))?;
                Ok(filled(self.tables.asn(), addresses, known, count, self.overwrite))
            }
            Content::Country => labelled(self.tables.geo(), addresses, count),
            Content::Label => labelled(self.tables.labels(), addresses, count),
            Content::IfName => self.interface_names(side, rows),
            Content::Name => Ok(host_names(self.names.as_mut(), addresses, count)),
        }
    }

    fn interface_names(&self, side: Side, rows: &RecordBatch) -> Result<ArrayRef, ComponentError> {
        let exporters = octets(rows, Column::Exporter)?;
        let indexes = numbers::<UInt32Type>(rows, side.choose(Column::InIf, Column::OutIf))?;
        let (Some(interfaces), Some(exporters), Some(indexes)) = (self.tables.interfaces(), exporters, indexes) else {
            return Ok(new_null_array(&DataType::Utf8, rows.num_rows()));
        };
        let found = exporters.iter().zip(indexes).map(|pair| match pair {
            (Some(exporter), Some(if_index)) => interfaces.find(exporter, if_index),
            _ => NONE,
        });
        texts(found, &interfaces.names)
    }
}

/// The numbers of autonomous systems, from the database where the flow has none, or everywhere.
fn filled(
    systems: Option<&PrefixMap<u32>>,
    addresses: Option<&BinaryArray>,
    known: Option<&UInt32Array>,
    rows: usize,
    overwrite: bool,
) -> ArrayRef {
    let found = |row: usize| {
        let exported = number(known, row);
        if !overwrite && exported.is_some_and(|number| number != 0) {
            return exported;
        }
        let found = value(addresses, row).zip(systems).and_then(|(octets, systems)| systems.find_octets(octets));
        found.copied().or(exported)
    };
    Arc::new((0..rows).map(found).collect::<UInt32Array>())
}

/// The texts of addresses.
fn labelled(table: Option<&Texts>, addresses: Option<&BinaryArray>, rows: usize) -> Result<ArrayRef, ComponentError> {
    let (Some(table), Some(addresses)) = (table, addresses) else {
        return Ok(new_null_array(&DataType::Utf8, rows));
    };
    texts(addresses.iter().map(|address| address.map_or(NONE, |octets| table.find(octets))), &table.texts)
}

/// A column of texts by their indexes.
fn texts(indexes: impl Iterator<Item = u32>, texts: &StringArray) -> Result<ArrayRef, ComponentError> {
    let mut indexes: Vec<u32> = indexes.collect();
    if texts.is_empty() {
        return Ok(new_null_array(&DataType::Utf8, indexes.len()));
    }
    let valid = BooleanBuffer::collect_bool(indexes.len(), |row| indexes[row] != NONE);
    for index in indexes.iter_mut().filter(|index| **index == NONE) {
        *index = 0;
    }
    let indexes = UInt32Array::new(indexes.into(), Some(NullBuffer::new(valid)));
    arrow::compute::take(texts, &indexes, None)
        .map_err(|error| ComponentError::caused("texts cannot be gathered", error))
}

fn host_names(names: Option<&mut Names>, addresses: Option<&BinaryArray>, rows: usize) -> ArrayRef {
    let (Some(names), Some(addresses)) = (names, addresses) else {
        return new_null_array(&DataType::Utf8, rows);
    };
    let mut column = StringBuilder::with_capacity(rows, rows * 16);
    for address in addresses {
        column.append_option(address.and_then(|octets| names.find(octets)));
    }
    Arc::new(column.finish())
}
