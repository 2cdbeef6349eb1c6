//! Which fields each flow has, and whether the version can express them exactly.

use std::ops::Range;

use weir_flow::registry::DataType;
use weir_flow::{Column, ColumnType, element};
use weir_wire::{ElementId, FieldSpecifier, VARIABLE_LENGTH};

use crate::carriage::is_system;
use crate::clock::Clock;
use crate::columns::{Carried, Columns, Elements, Values};
use crate::config::Version;
use crate::exported::Refusal;

/// A set of columns, one bit each.
pub(crate) type ColumnSet = u128;

const _: () = assert!(Column::COUNT <= ColumnSet::BITS as usize, "more columns than a set has bits");

pub(crate) const fn bit(column: Column) -> ColumnSet {
    1 << column as u8
}

/// What decides about the template of a flow, besides its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    /// Columns that are not null.
    pub present: ColumnSet,
    /// Address columns of 16 octets.
    pub wide: ColumnSet,
}

/// The shapes of some consecutive rows.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    pub shapes: Vec<Shape>,
    pub refused: Vec<Option<Refusal>>,
}

/// Oldest flow that 32 bits of uptime can express, read with a signed difference as collectors do.
const AGE_MAX_MS: i64 = i32::MAX as i64;

impl Shapes {
    /// Looks at these rows, one column after another.
    pub(crate) fn classify(&mut self, version: Version, columns: &Columns<'_>, rows: Range<usize>, clock: Clock) {
        let all = columns.carried.iter().fold(0, |all, carried| all | bit(carried.column));
        self.shapes.clear();
        self.shapes.resize(rows.len(), Shape { present: all, wide: 0 });
        self.refused.clear();
        self.refused.resize(rows.len(), None);
        for carried in &columns.carried {
            if let Some(nulls) = carried.nulls {
                for (shape, row) in self.shapes.iter_mut().zip(rows.clone()) {
                    if nulls.is_null(row) {
                        shape.present &= !bit(carried.column);
                    }
                }
            }
            self.check(version, carried, rows.clone(), clock);
        }
    }

    fn check(&mut self, version: Version, carried: &Carried<'_>, rows: Range<usize>, clock: Clock) {
        match carried.values {
            Values::Time(times) => {
                let (oldest, newest) = match version {
                    Version::Ipfix => (0, i64::MAX),
                    // before the exporter began there is no uptime
                    _ => (clock.now_ms.saturating_sub(AGE_MAX_MS).max(clock.boot_ms), clock.now_ms),
                };
                self.refuse(carried, &times[rows], Refusal::Time, |&time| (oldest..=newest).contains(&time));
            }
            Values::U16(values) if carried.carriage.width < 2 => {
                self.refuse(carried, &values[rows], Refusal::Value, |&value| value <= u8::MAX.into());
            }
            // a system that does not fit is exported as AS_TRANS
            Values::U32(_) if is_system(carried.column) => {}
            Values::U32(values) if carried.carriage.width < 4 => {
                self.refuse(carried, &values[rows], Refusal::Value, |&value| value <= u16::MAX.into());
            }
            Values::U64(values) if carried.carriage.width < 8 => {
                self.refuse(carried, &values[rows], Refusal::Value, |&value| value <= u32::MAX.into());
            }
            Values::Octets(values) => {
                self.check_octets(version, carried.column, &values.value_offsets()[rows.start..=rows.end]);
            }
            Values::Text(values) => {
                self.check_octets(version, carried.column, &values.value_offsets()[rows.start..=rows.end]);
            }
            _ => {}
        }
    }

    /// Refuses rows whose value is there and not acceptable. `values` are those of the rows.
    fn refuse<T>(&mut self, carried: &Carried<'_>, values: &[T], reason: Refusal, accept: impl Fn(&T) -> bool) {
        let present = bit(carried.column);
        for ((shape, refused), value) in self.shapes.iter().zip(&mut self.refused).zip(values) {
            if !accept(value) && shape.present & present != 0 {
                *refused = Some(reason);
            }
        }
    }

    fn check_octets(&mut self, version: Version, column: Column, offsets: &[i32]) {
        let lengths = offsets.windows(2).map(|ends| ends[1] - ends[0]);
        let bit = bit(column);
        for ((shape, refused), length) in self.shapes.iter_mut().zip(&mut self.refused).zip(lengths) {
            if shape.present & bit == 0 {
                continue;
            }
            match (column.column_type(), length) {
                (ColumnType::Address, 4) | (ColumnType::Mac, 6) => {}
                (ColumnType::Address, 16) if version != Version::V5 => shape.wide |= bit,
                (ColumnType::Address | ColumnType::Mac, _) => *refused = Some(Refusal::Address),
                (_, length) if length > i32::from(u16::MAX) => *refused = Some(Refusal::Value),
                _ => {}
            }
        }
    }
}

/// Finds the field specifiers of a row's elements; remembers which elements have a length of their own.
#[derive(Debug, Default)]
pub(crate) struct ElementShapes {
    /// Specifiers of the row looked at last.
    pub fields: Vec<FieldSpecifier>,
    known: Vec<(ElementId, bool)>,
}

/// Most elements whose kind is remembered; others are looked up in the registry each time.
const KNOWN_MAX: usize = 256;

impl ElementShapes {
    /// Looks at a row.
    pub(crate) fn classify(&mut self, elements: Elements<'_>, row: usize) -> Result<(), Refusal> {
        self.fields.clear();
        for (enterprise, id, octets) in elements.row(row) {
            // The highest bit says that an enterprise number follows (RFC 7011 section 3.2).
            let length = u16::try_from(octets.len()).ok().filter(|_| id < 0x8000).ok_or(Refusal::Value)?;
            let element = ElementId { enterprise, id };
            let fixed = length < VARIABLE_LENGTH && self.is_fixed(element);
            self.fields.push(FieldSpecifier { element, length: if fixed { length } else { VARIABLE_LENGTH } });
        }
        Ok(())
    }

    /// Whether values of the element have one length. Unknown ones are taken as variable, so that a value of
    /// another length does not need another template.
    fn is_fixed(&mut self, id: ElementId) -> bool {
        if let Some((_, fixed)) = self.known.iter().find(|(known, _)| *known == id) {
            return *fixed;
        }
        let data_type = element(id.enterprise, id.id).map(|element| element.data_type);
        let variable = matches!(data_type, None | Some(DataType::OctetArray | DataType::Text))
            || data_type.is_some_and(DataType::is_list);
        if self.known.len() < KNOWN_MAX {
            self.known.push((id, !variable));
        }
        !variable
    }
}
