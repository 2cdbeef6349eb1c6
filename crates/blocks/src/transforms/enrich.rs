//! Adds what files and name servers know about addresses, interfaces and exporters.
//!
//! Everything is looked up by address and comes out as an index into a short list of texts, so a row costs a search for
//! a prefix and no text is made before the column is put together. Reverse DNS is the exception, see `names`.
//!
//! What is added are columns of flows, those of the one table, so an archive keeps them and every question knows them. The
//! column `enrichment` has the versions of the files, per flow: segments are merged, imported and copied, and a note beside
//! them would not survive that. What speaks against it is a text for each row on its way; in a segment it is one entry of a
//! dictionary.

mod build;
mod names;
mod options;
mod plan;
mod reload;
mod routes;
mod tables;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, RecordBatch, RecordBatchOptions, StringArray, StringBuilder, UInt32Array,
    new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, UInt32Type};
use arrow::error::ArrowError;
use weir_chain::{ComponentError, ComponentKind, ONE_INPUT, Outlet, Role, State, Transform};
use weir_flow::Column;

pub use self::build::check;
pub use self::options::{AddressFileOptions, EnrichOptions, ExporterFileOptions, RouteFileOptions};

use self::names::Names;
use self::plan::{Content, Plan, Source};
use self::reload::Reload;
use self::tables::{NONE, Tables, Texts};
use weir_rows::flow_columns::{number, numbers, octets, value};

/// Adds autonomous systems, countries, labels, names of interfaces, of exporters and of hosts.
pub const KIND: ComponentKind<EnrichOptions> = ComponentKind {
    name: "enrich",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Adds what is known from outside about the addresses, interfaces and exporters of flows. What is added depends on \
          the options; at least one must be given. From `routes` and `asn_mmdb`: `src_as` and `dst_as`, the autonomous \
          systems of `src_addr` and `dst_addr`. From `geo_mmdb`: `src_country` and `dst_country`, the ISO codes of the \
          countries. From `labels`: `src_label` and `dst_label`, the labels of the longest prefixes that hold the addresses. From \
          `interfaces`: `in_if_name` and `out_if_name`, the names of `in_if` and `out_if` at the `exporter`. From \
          `exporters`: `exporter_name`. With `reverse_dns`: `src_name` and `dst_name`, the names of hosts. With any of the \
          files: `enrichment`, which names the files and their versions. All are columns of flows, so the sink `archive` \
          keeps them. A value that is there already stays, unless `overwrite` is on; an autonomous system 0 is none. A \
          value is null where nothing is known, or where the address is null or its column absent. An IPv4 address \
          mapped into IPv6 is looked up as the IPv4 address. All rows are handed on in their order. When a file changes \
          it is read again (`files_reloaded`); when that fails the old one stays in use (`reloads_failed`). Names are \
          looked up in threads of their own, and rows never wait for them: a name that is not known yet is null, so \
          with `reverse_dns` the same input gives more names the second time. `name_lookups` counts answers, \
          `name_lookups_without_name` those without a name, `name_hits` values that got a name, \
          `name_questions_dropped` questions that were dropped because too many waited; they are asked again with the \
          next row of the address.",
    configure: build::configure,
};

struct Enrich {
    tables: Tables,
    /// The columns that are made.
    made: Vec<(Column, Content)>,
    overwrite: bool,
    names: Option<Names>,
    reload: Option<Reload>,
    plan: Option<Plan>,
}

impl Transform for Enrich {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        let plan = match self.plan.take() {
            Some(plan) if Arc::ptr_eq(&plan.from, rows.schema_ref()) => plan,
            _ => Plan::new(&self.made, &rows),
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

    fn keeps_bursts(&self) -> bool {
        true
    }

    fn state(&self) -> State {
        let rows = self.names.as_ref().map_or(0, Names::len) as u64;
        State { rows, octets: self.tables.octets() as u64, edge_ms: None }
    }
}

impl Enrich {
    fn column(&mut self, source: Source, rows: &RecordBatch) -> Result<ArrayRef, ComponentError> {
        let (column, content, input) = match source {
            Source::Input(position) => return Ok(Arc::clone(rows.column(position))),
            Source::Made { column, content, input } => (column, content, input.map(|position| rows.column(position))),
        };
        if let Content::As(of) = content {
            let known = numbers(rows, column)?;
            return Ok(filled(&self.tables, octets(rows, of)?, known, rows.num_rows(), self.overwrite));
        }
        let known = input.filter(|values| values.null_count() < values.len()).map(|values| texts_of(column, values));
        let known = known.transpose()?;
        if content == Content::Versions {
            return Ok(versions(self.tables.versions(), known, rows.num_rows()));
        }
        let found = self.found(content, rows)?;
        let Some(known) = known else { return Ok(found) };
        let first: (&dyn Array, &dyn Array) = if self.overwrite { (&found, known) } else { (known, &found) };
        let is_there = arrow::compute::is_not_null(first.0);
        is_there.and_then(|mask| zip(&mask, &first.0, &first.1)).map_err(not_gathered)
    }

    /// The texts that are found for each row.
    fn found(&mut self, content: Content, rows: &RecordBatch) -> Result<ArrayRef, ComponentError> {
        let count = rows.num_rows();
        match content {
            Content::Country(of) => labelled(self.tables.geo(), octets(rows, of)?, count),
            Content::Label(of) => labelled(self.tables.labels(), octets(rows, of)?, count),
            Content::ExporterName => labelled(self.tables.exporters(), octets(rows, Column::Exporter)?, count),
            Content::IfName(of) => self.interface_names(of, rows),
            Content::HostName(of) => Ok(host_names(self.names.as_mut(), octets(rows, of)?, count)),
            Content::As(_) | Content::Versions => Ok(new_null_array(&DataType::Utf8, count)),
        }
    }

    fn interface_names(&self, of: Column, rows: &RecordBatch) -> Result<ArrayRef, ComponentError> {
        let exporters = octets(rows, Column::Exporter)?;
        let indexes = numbers::<UInt32Type>(rows, of)?;
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

/// A column of texts that the input has.
fn texts_of(column: Column, values: &ArrayRef) -> Result<&StringArray, ComponentError> {
    values.as_string_opt::<i32>().ok_or_else(|| {
        let message = format!("column '{column}' has type {}, but {} is needed", values.data_type(), DataType::Utf8);
        ComponentError::new(message)
    })
}

/// The files that a row was enriched from, behind those of an enrichment before.
fn versions(files: &str, before: Option<&StringArray>, rows: usize) -> ArrayRef {
    let Some(before) = before else {
        return Arc::new(StringArray::from_iter_values(std::iter::repeat_n(files, rows)));
    };
    let joined = before.iter().map(|before| match before {
        None => Cow::Borrowed(files),
        Some(before) if before.contains(files) => Cow::Borrowed(before),
        Some(before) => Cow::Owned(format!("{before}, {files}")),
    });
    Arc::new(StringArray::from_iter_values(joined))
}

/// The numbers of autonomous systems, from routes and the database where the flow has none, or everywhere.
fn filled(
    tables: &Tables,
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
        value(addresses, row).and_then(|octets| tables.system(octets)).or(exported)
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
    arrow::compute::take(texts, &indexes, None).map_err(not_gathered)
}

fn not_gathered(error: ArrowError) -> ComponentError {
    ComponentError::caused("texts cannot be gathered", error)
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
