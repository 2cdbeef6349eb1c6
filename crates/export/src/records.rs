//! Flows into the octets of records, one column after another.

use weir_flow::registry::{NTOP_ENTERPRISE, NTOP_NETFLOW9_BASE};
use weir_flow::{Column, ColumnType};
use weir_wire::message_builder::push_variable;
use weir_wire::{ElementId, FieldSpecifier, VARIABLE_LENGTH, netflow5};

use crate::carriage::{AS_TRANS, Carriage, carriage, field_of_version_5, is_system};
use crate::columns::{Carried, Columns, Values};
use crate::config::Version;
use crate::shapes::{Shape, bit};
use crate::stage::Stage;

/// Where each value of a flow goes in its record: fields of fixed length, then those of variable length.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Columns with offset and length of their field.
    fixed: Vec<(Column, usize, usize)>,
    /// A number that is the same in every record, and the offset of its four octets.
    constant: Option<(usize, u32)>,
    /// Octets of the fields of fixed length.
    fixed_octets: usize,
    /// Columns of variable length.
    variable: Vec<Column>,
    /// Elements after that, each a field.
    elements: Vec<FieldSpecifier>,
}

impl Plan {
    /// The record of NetFlow v5.
    pub(crate) fn of_version_5() -> Self {
        let places = Column::ALL.iter().filter_map(|&column| {
            let field = field_of_version_5(column)?;
            Some((column, field.offset, field.length))
        });
        Self { fixed: places.collect(), fixed_octets: netflow5::RECORD_LEN, ..Self::default() }
    }

    /// The record of flows with this shape, and the fields of its template. `sampler` is the number that flows
    /// without one get.
    pub(crate) fn of_shape(
        version: Version,
        shape: Shape,
        elements: &[FieldSpecifier],
        sampler: Option<u32>,
    ) -> (Self, Vec<FieldSpecifier>) {
        let (mut plan, mut fields, mut last) = (Self::default(), Vec::new(), Vec::new());
        let present = Column::ALL.iter().filter(|&&column| shape.present & bit(column) != 0);
        for (&column, Carriage { width, enterprise, elements }) in
            present.filter_map(|column| Some((column, carriage(version, *column)?)))
        {
            let wide = shape.wide & bit(family_column(column)) != 0;
            let element = ElementId { enterprise, id: elements[usize::from(wide)] };
            if width == VARIABLE_LENGTH {
                plan.variable.push(column);
                last.push(specifier(version, element, width));
                continue;
            }
            let width = if shape.wide & bit(column) == 0 { width } else { 16 };
            plan.fixed.push((column, plan.fixed_octets, width.into()));
            plan.fixed_octets += usize::from(width);
            fields.push(specifier(version, element, width));
        }
        if let Some(sampler) = sampler.filter(|_| shape.present & bit(Column::SamplerId) == 0)
            && let Some(Carriage { elements, .. }) = carriage(version, Column::SamplerId)
        {
            plan.constant = Some((plan.fixed_octets, sampler));
            plan.fixed_octets += size_of_val(&sampler);
            fields.push(FieldSpecifier::iana(elements[0], 4));
        }
        plan.elements = elements.to_vec();
        fields.extend(last);
        fields.extend_from_slice(elements);
        (plan, fields)
    }

    /// Length of each record; `None` when they differ.
    pub(crate) fn record_octets(&self) -> Option<usize> {
        (self.variable.is_empty() && self.elements.is_empty()).then_some(self.fixed_octets)
    }

    /// Length of the record of this row.
    pub(crate) fn octets_of_row(&self, columns: &Columns<'_>, row: usize) -> usize {
        let with_length = |octets: usize| octets + if octets < 255 { 1 } else { 3 };
        let variable = self.variable.iter().map(|&column| with_length(octets(columns.get(column), row).len()));
        let elements = columns.elements.into_iter().flat_map(|elements| elements.row(row)).zip(&self.elements);
        let elements = elements
            .map(|((_, _, value), field)| if field.is_variable() { with_length(value.len()) } else { value.len() });
        self.fixed_octets + variable.sum::<usize>() + elements.sum::<usize>()
    }

    /// Puts the records of these rows into the stage. Times become milliseconds since `boot_ms` where their field
    /// has four octets.
    pub(crate) fn write(&self, columns: &Columns<'_>, rows: &[u32], boot_ms: i64, stage: &mut Stage) {
        if self.record_octets().is_some() {
            self.write_fixed(columns, rows, boot_ms, stage.extend_fixed(rows.len(), self.fixed_octets));
            return;
        }
        let mut fixed = vec![0; rows.len() * self.fixed_octets];
        self.write_fixed(columns, rows, boot_ms, &mut fixed);
        for (index, &row) in rows.iter().enumerate() {
            let row = row as usize;
            stage.push(|out| {
                out.extend_from_slice(&fixed[index * self.fixed_octets..][..self.fixed_octets]);
                for &column in &self.variable {
                    push(out, octets(columns.get(column), row));
                }
                let elements = columns.elements.into_iter().flat_map(|elements| elements.row(row));
                for ((_, _, value), field) in elements.zip(&self.elements) {
                    if field.is_variable() { push(out, value) } else { out.extend_from_slice(value) }
                }
            });
        }
    }

    fn write_fixed(&self, columns: &Columns<'_>, rows: &[u32], boot_ms: i64, out: &mut [u8]) {
        let stride = self.fixed_octets;
        for &(column, offset, width) in &self.fixed {
            if let Some(carried) = columns.get(column) {
                write_column(carried, rows, boot_ms, &mut Places { out, stride, offset }, width);
            }
        }
        if let Some((offset, number)) = self.constant {
            Places { out, stride, offset }.put(rows, |_| number.to_be_bytes());
        }
    }
}

/// The column whose family a field follows: its own for addresses, the source's for what belongs to the IP header.
fn family_column(column: Column) -> Column {
    match column.column_type() {
        ColumnType::Address => column,
        _ => Column::SrcAddr,
    }
}

/// The field of an element in the table of columns. Field types of ntop in `NetFlow` v9 have numbers that IPFIX has no room
/// for; there they are under ntop's own number.
fn specifier(version: Version, element: ElementId, length: u16) -> FieldSpecifier {
    let of_ntop = element.id.checked_sub(NTOP_NETFLOW9_BASE);
    let of_ntop = of_ntop.filter(|_| version == Version::Ipfix && element.enterprise == 0);
    let of_ntop = of_ntop.map(|id| ElementId { enterprise: NTOP_ENTERPRISE, id });
    FieldSpecifier { element: of_ntop.unwrap_or(element), length }
}

fn push(out: &mut Vec<u8>, value: &[u8]) {
    // Values over 65535 octets were refused before; the only error there is cannot happen.
    let _ = push_variable(out, value);
}

fn octets<'a>(carried: Option<&Carried<'a>>, row: usize) -> &'a [u8] {
    match carried.map(|carried| carried.values) {
        Some(Values::Octets(values)) => values.value(row),
        Some(Values::Text(values)) => values.value(row).as_bytes(),
        _ => &[],
    }
}

/// One field of records that follow each other.
struct Places<'a> {
    out: &'a mut [u8],
    stride: usize,
    offset: usize,
}

impl Places<'_> {
    #[inline]
    fn put<const N: usize>(&mut self, rows: &[u32], value: impl Fn(usize) -> [u8; N]) {
        for (record, &row) in self.out.chunks_exact_mut(self.stride).zip(rows) {
            if let Some(place) = record.get_mut(self.offset..).and_then(|rest| rest.first_chunk_mut()) {
                *place = value(row as usize);
            }
        }
    }

    /// Numbers, of which the lowest `width` octets are written.
    #[inline]
    fn put_numbers(&mut self, rows: &[u32], width: usize, value: impl Fn(usize) -> u64) {
        match width {
            1 => self.put(rows, |row| [value(row) as u8]),
            2 => self.put(rows, |row| (value(row) as u16).to_be_bytes()),
            4 => self.put(rows, |row| (value(row) as u32).to_be_bytes()),
            _ => self.put(rows, |row| value(row).to_be_bytes()),
        }
    }
}

/// Writes one column. Nulls, which only NetFlow v5 meets here, stay the zeros that were there.
fn write_column(carried: &Carried<'_>, rows: &[u32], boot_ms: i64, places: &mut Places<'_>, width: usize) {
    let nulls = carried.nulls;
    macro_rules! numbers {
        ($values:expr, $convert:expr) => {{
            let (values, convert) = ($values, $convert);
            match nulls {
                None => places.put_numbers(rows, width, |row| convert(values[row])),
                Some(nulls) => {
                    places.put_numbers(rows, width, |row| if nulls.is_null(row) { 0 } else { convert(values[row]) })
                }
            }
        }};
    }
    match carried.values {
        Values::U8(values) => numbers!(values, u64::from),
        Values::U16(values) => numbers!(values, u64::from),
        Values::U32(values) if width == 2 && is_system(carried.column) => {
            numbers!(values, |system| u64::from(if system > u32::from(u16::MAX) { AS_TRANS } else { system }));
        }
        Values::U32(values) => numbers!(values, u64::from),
        Values::U64(values) => numbers!(values, |value: u64| value),
        Values::Time(values) if width == 8 => numbers!(values, |time: i64| time as u64),
        // RFC 3954 section 8: milliseconds since the exporter started, modulo 2^32.
        Values::Time(values) => numbers!(values, |time: i64| time.wrapping_sub(boot_ms) as u64),
        // texts have variable lengths
        Values::Text(_) => {}
        Values::Octets(values) => {
            let (octets, ends) = (values.value_data(), values.value_offsets());
            macro_rules! chunks {
                ($n:literal) => {
                    places.put::<$n>(rows, |row| {
                        let value = &octets[ends[row] as usize..ends[row + 1] as usize];
                        value.first_chunk().copied().unwrap_or([0; $n])
                    })
                };
            }
            match width {
                4 => chunks!(4),
                6 => chunks!(6),
                _ => chunks!(16),
            }
        }
    }
}
