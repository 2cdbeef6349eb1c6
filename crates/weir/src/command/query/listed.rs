//! The columns of a listing: those of flows, and elements that have no column of their own.

use std::sync::Arc;

use anyhow::Context;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use weir_flow::{Column, NamedElement};
use weir_print::element_texts;

/// Columns of a plain listing.
const LIST_COLUMNS: &[Column] = &[
    Column::Start,
    Column::End,
    Column::Protocol,
    Column::SrcAddr,
    Column::SrcPort,
    Column::DstAddr,
    Column::DstPort,
    Column::TcpFlags,
    Column::Packets,
    Column::Bytes,
];

/// Columns that tables look into for type and code of ICMP, which take the place of the destination port.
const ICMP_COLUMNS: [Column; 3] = [Column::IcmpType, Column::IcmpCode, Column::IcmpTypeCode];

/// What a listing has, in its order.
#[derive(Debug)]
pub(super) struct ListedColumns(Vec<Listed>);

#[derive(Debug)]
enum Listed {
    Column(Column),
    /// An element, under the name that was asked for.
    Element(String, NamedElement),
}

impl ListedColumns {
    /// Reads names: of columns, of elements that fill one, of other elements. `None` stands for all columns.
    pub(super) fn parse(names: &[String]) -> anyhow::Result<Option<Self>> {
        match names {
            [] => Ok(Some(Self(LIST_COLUMNS.iter().copied().map(Listed::Column).collect()))),
            [all] if all == "*" => Ok(None),
            names => Ok(Some(Self(names.iter().map(|name| listed(name)).collect::<anyhow::Result<_>>()?))),
        }
    }

    /// Columns that are added for a table: others are printed by them, and they are not shown.
    pub(super) fn hidden(&self) -> Vec<Column> {
        let has = |wanted| self.0.iter().any(|listed| matches!(listed, Listed::Column(column) if *column == wanted));
        let is_needed = has(Column::Protocol) && has(Column::DstPort);
        ICMP_COLUMNS.into_iter().filter(|column| is_needed && !has(*column)).collect()
    }

    /// The listing with further columns at its end.
    pub(super) fn with(mut self, columns: &[Column]) -> Self {
        self.0.extend(columns.iter().copied().map(Listed::Column));
        self
    }

    /// Columns that must be read.
    pub(super) fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        for listed in &self.0 {
            let column = match listed {
                Listed::Column(column) => *column,
                Listed::Element(..) => Column::Elements,
            };
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        columns
    }

    /// Whether rows must be made of what was read.
    pub(super) fn has_elements(&self) -> bool {
        self.0.iter().any(|listed| matches!(listed, Listed::Element(..)))
    }

    /// The schema of the rows, made of that of what was read.
    pub(super) fn schema(&self, read: &Schema) -> SchemaRef {
        let field = |listed: &Listed| match listed {
            Listed::Column(column) => {
                read.field_with_name(column.name()).cloned().unwrap_or_else(|_| text(column.name()))
            }
            Listed::Element(name, _) => text(name),
        };
        Arc::new(Schema::new(self.0.iter().map(field).collect::<Vec<_>>()))
    }

    /// The rows, made of those that were read.
    pub(super) fn rows(&self, read: &RecordBatch) -> RecordBatch {
        let none = || -> ArrayRef { Arc::new(StringArray::new_null(read.num_rows())) };
        let values = |listed: &Listed| match listed {
            Listed::Column(column) => read.column_by_name(column.name()).cloned().unwrap_or_else(none),
            Listed::Element(_, element) => match read.column_by_name(Column::Elements.name()) {
                Some(elements) => Arc::new(element_texts(elements, element)),
                None => none(),
            },
        };
        let schema = self.schema(read.schema_ref());
        RecordBatch::try_new(Arc::clone(&schema), self.0.iter().map(values).collect())
            .unwrap_or_else(|_| RecordBatch::new_empty(schema))
    }
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn listed(name: &str) -> anyhow::Result<Listed> {
    if let Some(column) = Column::by_name(name) {
        return Ok(Listed::Column(column));
    }
    // as filters and keys have it
    let name = name.strip_prefix("element ").map_or(name, str::trim);
    let element = NamedElement::parse(name).with_context(|| {
        let known = Column::ALL.iter().map(|column| column.name());
        let hint = if let Some(meant) = weir_filter::meant(name, known.clone()) {
            format!("did you mean '{meant}'?")
        } else {
            let known = known.collect::<Vec<_>>().join(", ");
            format!("the columns are {known}; elements have their registered name")
        };
        format!("'{name}' is not a column\nhint: {hint}")
    })?;
    let column = element.numbers.iter().find_map(|(enterprise, id)| Column::of_element(*enterprise, *id));
    Ok(column.map_or_else(|| Listed::Element(name.to_owned(), element), |(column, _)| Listed::Column(column)))
}

#[cfg(test)]
mod tests {
    use weir_flow::FlowBatchBuilder;

    use super::*;

    #[test]
    fn tables_read_what_icmp_has_in_the_place_of_ports() {
        let hidden = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            ListedColumns::parse(&names).expect("known names").expect("some columns").hidden()
        };
        assert_eq!(hidden(&[]), ICMP_COLUMNS);
        assert_eq!(hidden(&["protocol", "dst_port", "icmp_code"]), [Column::IcmpType, Column::IcmpTypeCode]);
        assert_eq!([hidden(&["dst_port", "bytes"]), hidden(&["protocol"])], [vec![], vec![]]);
        let listed = ListedColumns::parse(&["protocol".to_owned()]).expect("a name").expect("a column");
        assert_eq!(listed.with(&[Column::IcmpType]).columns(), [Column::Protocol, Column::IcmpType]);
    }

    #[test]
    fn elements_are_among_the_columns() {
        let names = ["src_port", "tlsciphersuite", "TLSSNI", "element 9/12235"].map(str::to_owned);
        let listed = ListedColumns::parse(&names).expect("known names").expect("some columns");
        assert_eq!(listed.columns(), [Column::SrcPort, Column::Elements, Column::ServerName]);
        let mut builder = FlowBatchBuilder::new(2);
        builder.begin_rows(2);
        builder.u16(Column::SrcPort).extend([1, 2].into_iter());
        builder.text(Column::ServerName).push(Some(b"a.example"));
        builder.text(Column::ServerName).push(None);
        builder.elements().push(39499, 336, &[0x13, 0x01]);
        builder.elements().end_row();
        builder.elements().end_row();
        let rows = listed.rows(builder.finish().record_batch());
        let printed = arrow::util::pretty::pretty_format_batches(&[rows]).expect("a table").to_string();
        let cells = |line: usize| printed.lines().nth(line).expect("a line").replace(' ', "");
        assert_eq!(cells(1), "|src_port|tlsciphersuite|server_name|9/12235|");
        assert_eq!([cells(3), cells(4)], ["|1|4865|a.example||", "|2||||"]);
        let error = ListedColumns::parse(&["nonsense".to_owned()]).expect_err("no such name").to_string();
        assert!(error.starts_with("'nonsense' is not a column\nhint: the columns are received, "), "{error}");
        for (wrong, meant) in [("src_ip", "src_addr"), ("pakcets", "packets")] {
            let error = ListedColumns::parse(&[wrong.to_owned()]).expect_err("no such name").to_string();
            assert_eq!(error, format!("'{wrong}' is not a column\nhint: did you mean '{meant}'?"));
        }
    }
}
