//! Aligned columns for people.
//!
//! Columns are as wide as their heading and the values of the first batch; a wider value later pushes the rest of its
//! line to the right, which costs less than holding back all rows until the widest is known. Nothing is cut to the width
//! of a terminal, an IPv6 address least of all; only bars give way.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use weir_flow::Column;

use crate::bars::{Bars, push_bar};
use crate::cell::Cells;
use crate::digits::push_u64;
use crate::human::{Meaning, Writer, heading, is_right_aligned};
use crate::printer::{Flush, RowFormat};
use crate::{OutputOptions, zone_name};

/// Blanks between columns.
const GAP: usize = 2;

struct Layout {
    heading: String,
    meaning: Meaning,
    is_right_aligned: bool,
    width: usize,
}

pub(crate) struct Table {
    header: bool,
    labels: bool,
    /// Name of the zone that times are printed in.
    zone: String,
    writer: Writer,
    layout: Vec<Layout>,
    hidden: Vec<Column>,
    /// Positions of the columns that are shown.
    shown: Vec<usize>,
    /// Where type and code of ICMP are, in a table that is not one of SQL.
    icmp: Option<Icmp>,
    is_laid_out: bool,
    cell: Vec<u8>,
    bars: Option<Drawn>,
}

/// Positions of the protocol, of the destination port, in whose place exporters put type and code of ICMP, and of the
/// columns that have them as well.
#[derive(Debug, Clone, Copy)]
struct Icmp {
    protocol: usize,
    dst_port: usize,
    kind: Option<usize>,
    code: Option<usize>,
    both: Option<usize>,
}

impl Icmp {
    fn of(schema: &Schema) -> Option<Self> {
        let position = |column: Column| schema.index_of(column.name()).ok();
        Some(Self {
            protocol: position(Column::Protocol)?,
            dst_port: position(Column::DstPort)?,
            kind: position(Column::IcmpType),
            code: position(Column::IcmpCode),
            both: position(Column::IcmpTypeCode),
        })
    }

    /// Type and code, where the cell at this position has them: by the first that is there, as filters take them.
    fn get(self, columns: &[Cells<'_>], position: usize, row: usize) -> Option<(u64, u64)> {
        let number = |position: usize| columns.get(position).filter(|cells| !cells.is_null(row))?.unsigned(row);
        if position != self.dst_port || !matches!(number(self.protocol), Some(1 | 58)) {
            return None;
        }
        if let Some(kind) = self.kind.and_then(number) {
            return Some((kind, self.code.and_then(number).unwrap_or(0)));
        }
        let both = self.both.and_then(number).or_else(|| number(self.dst_port))?;
        Some((both >> 8, both & 255))
    }
}

/// Bars, and what they are drawn by once the first batch is laid out.
struct Drawn {
    bars: Bars,
    /// Position of the column.
    position: usize,
    cells: usize,
    longest: f64,
}

impl Drawn {
    fn lay_out(&mut self, columns: &[Cells<'_>], rows: usize, table_width: usize) {
        self.cells = self.bars.cells(table_width + GAP);
        let Some(cells) = columns.get(self.position) else { return };
        let values = (0..rows).filter(|row| !cells.is_null(*row)).filter_map(|row| cells.unsigned(row));
        self.longest = values.max().map_or(0.0, |largest| self.bars.share(largest));
    }

    fn push(&self, columns: &[Cells<'_>], row: usize, text: &mut Vec<u8>) {
        let Some(cells) = columns.get(self.position) else { return };
        let value = if cells.is_null(row) { None } else { cells.unsigned(row) };
        push_bar(text, self.bars.share(value.unwrap_or(0)), self.longest, self.cells);
    }
}

impl Table {
    pub(crate) fn new(options: &OutputOptions) -> Self {
        Self {
            header: options.header,
            labels: options.labels,
            zone: zone_name(&options.zone),
            writer: Writer::new(options.zone.clone(), options.scaled),
            layout: Vec::new(),
            hidden: options.hidden.clone(),
            shown: Vec::new(),
            icmp: None,
            is_laid_out: false,
            cell: Vec::new(),
            bars: options.bars.clone().map(|bars| Drawn { bars, position: 0, cells: 0, longest: 0.0 }),
        }
    }

    fn lay_out(&mut self, columns: &[Cells<'_>], rows: usize) {
        for at in 0..self.shown.len() {
            let position = self.shown[at];
            for row in 0..rows {
                self.write_cell(columns, position, row);
                let layout = &mut self.layout[position];
                layout.width = layout.width.max(width(&self.cell));
            }
        }
        self.is_laid_out = true;
        let widths = self.shown.iter().map(|position| self.layout[*position].width + GAP);
        let width = widths.sum::<usize>().saturating_sub(GAP);
        if let Some(bars) = &mut self.bars {
            bars.lay_out(columns, rows, width);
        }
    }

    /// Writes a cell into `self.cell`.
    fn write_cell(&mut self, columns: &[Cells<'_>], position: usize, row: usize) {
        self.cell.clear();
        if let Some((kind, code)) = self.icmp.and_then(|icmp| icmp.get(columns, position, row)) {
            push_u64(&mut self.cell, kind);
            self.cell.push(b'.');
            push_u64(&mut self.cell, code);
        } else {
            self.writer.push(&columns[position], row, self.layout[position].meaning, &mut self.cell);
        }
    }

    /// Whether a cell is at the end of its line.
    fn is_last(&self, position: usize) -> bool {
        self.bars.is_none() && self.shown.last() == Some(&position)
    }

    fn push_heading(&mut self, text: &mut Vec<u8>) {
        if !self.header || self.shown.is_empty() {
            return;
        }
        for &position in &self.shown {
            let layout = &self.layout[position];
            push_aligned(text, layout.heading.as_bytes(), layout, self.is_last(position));
        }
        if self.bars.is_some() {
            text.extend_from_slice(b"share");
        }
        text.push(b'\n');
    }
}

/// Letters of a text; wide letters of some scripts count as one.
fn width(text: &[u8]) -> usize {
    text.iter().filter(|octet| **octet & 0xc0 != 0x80).count()
}

fn push_aligned(text: &mut Vec<u8>, cell: &[u8], layout: &Layout, is_last: bool) {
    let blanks = layout.width.saturating_sub(width(cell));
    if layout.is_right_aligned {
        text.resize(text.len() + blanks, b' ');
        text.extend_from_slice(cell);
    } else {
        text.extend_from_slice(cell);
        // No blanks at the end of a line.
        if !is_last {
            text.resize(text.len() + blanks, b' ');
        }
    }
    if !is_last {
        text.resize(text.len() + GAP, b' ');
    }
}

impl RowFormat for Table {
    fn begin(&mut self, schema: &Schema, _text: &mut Vec<u8>) {
        let layout = schema.fields().iter().map(|field| {
            let mut heading = heading(field, self.labels);
            if matches!(field.data_type(), DataType::Timestamp(..)) {
                heading = format!("{heading} {}", self.zone);
            }
            let width = heading.chars().count();
            Layout { heading, meaning: Meaning::of(field), is_right_aligned: is_right_aligned(field), width }
        });
        self.layout = layout.collect();
        let is_shown = |name: &str| !self.hidden.iter().any(|column| column.name() == name);
        let fields = schema.fields().iter().enumerate();
        self.shown = fields.filter(|(_, field)| is_shown(field.name())).map(|(position, _)| position).collect();
        self.icmp = Icmp::of(schema).filter(|_| self.labels);
        // Without the column there is nothing to show.
        self.bars = self.bars.take().and_then(|drawn| {
            let position = schema.index_of(&drawn.bars.column).ok()?;
            Some(Drawn { position, ..drawn })
        });
    }

    fn batch(&mut self, batch: &RecordBatch, text: &mut Vec<u8>, flush: &mut Flush<'_>) -> std::io::Result<()> {
        let fields = batch.schema_ref().fields();
        let columns: Vec<_> =
            fields.iter().zip(batch.columns()).map(|(field, values)| Cells::new(field, values)).collect();
        if !self.is_laid_out && batch.num_rows() > 0 {
            self.lay_out(&columns, batch.num_rows());
            self.push_heading(text);
        }
        for row in 0..batch.num_rows() {
            for at in 0..self.shown.len() {
                let position = self.shown[at];
                self.write_cell(&columns, position, row);
                push_aligned(text, &self.cell, &self.layout[position], self.is_last(position));
            }
            if let Some(bars) = &self.bars {
                bars.push(&columns, row, text);
            }
            text.push(b'\n');
            flush.when_full(text)?;
        }
        Ok(())
    }

    fn end(&mut self, text: &mut Vec<u8>) {
        if !self.is_laid_out {
            self.push_heading(text);
        }
    }
}
