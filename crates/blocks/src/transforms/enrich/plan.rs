//! Which columns come out, and where each comes from.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use weir_flow::{Column, schema};

use super::options::EnrichOptions;
use weir_rows::flow_columns::place_of;

/// What a column is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Numbers of the autonomous systems of these addresses.
    As(Column),
    /// Codes of the countries of these addresses.
    Country(Column),
    /// Labels of these addresses.
    Label(Column),
    /// Names of these exporters.
    ExporterName,
    /// Names of the interfaces with these indexes.
    IfName(Column),
    /// Names of the hosts with these addresses.
    HostName(Column),
    /// The files and their versions.
    Versions,
}

/// Where a column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The column of the input at this place.
    Input(usize),
    /// It is made; what the input has in it is at this place.
    Made { column: Column, content: Content, input: Option<usize> },
}

/// The columns for inputs of one schema.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) from: SchemaRef,
    pub(super) to: SchemaRef,
    pub(super) sources: Vec<Source>,
}

impl Plan {
    /// The columns of rows like these, with those that are made.
    pub(super) fn new(made: &[(Column, Content)], rows: &RecordBatch) -> Self {
        let from = rows.schema();
        let inputs = from.fields().iter().enumerate();
        let mut columns: Vec<(FieldRef, Source)> =
            inputs.map(|(position, field)| (Arc::clone(field), Source::Input(position))).collect();
        for (column, content) in made {
            put(&mut columns, *column, *content);
        }
        let (fields, sources): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let to = Arc::new(Schema::new_with_metadata(fields, from.metadata().clone()));
        Self { from, to, sources }
    }
}

/// The columns that are made, and of what: the one list of what `enrich` adds.
pub(super) fn made(options: &EnrichOptions) -> impl Iterator<Item = (Column, Content)> + use<> {
    use Column as C;
    use Content::{As, Country, ExporterName, HostName, IfName, Label, Versions};
    let (addresses, exporters) = (&options.addresses, &options.exporters);
    let has_systems = addresses.asn_mmdb.is_some() || !options.routes.routes.is_empty();
    let of_files = [
        (has_systems, vec![(C::SrcAs, As(C::SrcAddr)), (C::DstAs, As(C::DstAddr))]),
        (
            addresses.geo_mmdb.is_some(),
            vec![(C::SrcCountry, Country(C::SrcAddr)), (C::DstCountry, Country(C::DstAddr))],
        ),
        (addresses.labels.is_some(), vec![(C::SrcLabel, Label(C::SrcAddr)), (C::DstLabel, Label(C::DstAddr))]),
        (exporters.interfaces.is_some(), vec![(C::InIfName, IfName(C::InIf)), (C::OutIfName, IfName(C::OutIf))]),
        (exporters.exporters.is_some(), vec![(C::ExporterName, ExporterName)]),
    ];
    let has_files = of_files.iter().any(|(is_made, _)| *is_made);
    let names = vec![(C::SrcName, HostName(C::SrcAddr)), (C::DstName, HostName(C::DstAddr))];
    let others = [(options.reverse_dns, names), (has_files, vec![(C::Enrichment, Versions)])];
    of_files.into_iter().chain(others).filter(|(is_made, _)| *is_made).flat_map(|(_, columns)| columns)
}

/// Puts a column where it stands already, or else where the order of the table of columns has it.
fn put(columns: &mut Vec<(FieldRef, Source)>, column: Column, content: Content) {
    let field = Arc::new(schema::field(column));
    match place_of(columns.iter().map(|(field, _)| &**field), column) {
        Ok(place) => {
            let (Source::Input(input) | Source::Made { input: Some(input), .. }) = columns[place].1 else { return };
            columns[place] = (field, Source::Made { column, content, input: Some(input) });
        }
        Err(place) => columns.insert(place, (field, Source::Made { column, content, input: None })),
    }
}
