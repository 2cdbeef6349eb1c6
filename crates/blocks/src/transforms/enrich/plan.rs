//! Which columns come out, and where each comes from.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use weir_chain::ComponentError;
use weir_flow::{Column, schema};

use super::tables::Tables;
use weir_rows::flow_columns::place_of;

/// Source or destination, in or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Src,
    Dst,
}

impl Side {
    pub(super) fn choose<T>(self, src: T, dst: T) -> T {
        match self {
            Self::Src => src,
            Self::Dst => dst,
        }
    }
}

/// What is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    As,
    Country,
    Label,
    IfName,
    Name,
}

/// Where a column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The column of the input at this place.
    Input(usize),
    /// It is made.
    Added(Side, Content),
}

/// The columns for inputs of one schema.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) from: SchemaRef,
    pub(super) to: SchemaRef,
    pub(super) sources: Vec<Source>,
}

impl Plan {
    pub(super) fn new(tables: &Tables, has_names: bool, rows: &RecordBatch) -> Result<Self, ComponentError> {
        let from = rows.schema();
        let inputs = from.fields().iter().enumerate();
        let mut columns: Vec<(FieldRef, Source)> =
            inputs.map(|(position, field)| (Arc::clone(field), Source::Input(position))).collect();
        let kinds = [
            (tables.geo().is_some(), Content::Country, ["src_country", "dst_country"]),
            (tables.labels().is_some(), Content::Label, ["src_label", "dst_label"]),
            (tables.interfaces().is_some(), Content::IfName, ["in_if_name", "out_if_name"]),
            (has_names, Content::Name, ["src_name", "dst_name"]),
        ];
        for (_, content, names) in kinds.into_iter().filter(|(is_added, ..)| *is_added) {
            for (side, name) in [Side::Src, Side::Dst].into_iter().zip(names) {
                if from.index_of(name).is_ok() {
                    return Err(ComponentError::new(format!("input has a column '{name}' already")));
                }
                columns.push((Arc::new(Field::new(name, DataType::Utf8, true)), Source::Added(side, content)));
            }
        }
        if tables.asn().is_some() {
            put(&mut columns, Column::SrcAs, Source::Added(Side::Src, Content::As));
            put(&mut columns, Column::DstAs, Source::Added(Side::Dst, Content::As));
        }
        let (fields, sources): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let to = Arc::new(Schema::new_with_metadata(fields, from.metadata().clone()));
        Ok(Self { from, to, sources })
    }
}

/// Puts a column of flows where it stands already, or else where the order of the table of columns has it.
fn put(columns: &mut Vec<(FieldRef, Source)>, column: Column, source: Source) {
    let new = (Arc::new(schema::field(column)), source);
    match place_of(columns.iter().map(|(field, _)| &**field), column) {
        Ok(place) => columns[place] = new,
        Err(place) => columns.insert(place, new),
    }
}
