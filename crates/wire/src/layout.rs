//! Where the fields of a data set's records are.
//!
//! A layout is compiled once per template and then applied to whole sets. With fixed lengths only, every position
//! is an arithmetic sequence and locating a set of any size takes constant time. With variable lengths each
//! record's length prefixes must be walked; their positions go into [`Spans`], which the caller reuses. Only the
//! variable fields are written down (each takes at least one octet of the set, so the set's size bounds the
//! memory); a fixed field after one is found relative to its end.

use std::ops::Range;

use crate::element::FieldSpecifier;
use crate::error::{WireError, octets_of};
use crate::value::variable_length;

/// Longest body of a set: its length field has 16 bits and counts the four octets of the header.
pub const SET_BODY_OCTETS_MAX: usize = 65535 - 4;

/// The compiled plan of a template: where each field is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    places: Box<[Place]>,
    /// The variable fields in order, each with the fixed octets before it.
    variables: Box<[VariableField]>,
    /// Fixed octets after the last variable field; the whole record when there is none.
    tail: u32,
    min_record_octets: u32,
}

/// Where one field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// 0: counted from the record's start; n: from the end of the n-th variable field, or, when `variable`, the
    /// field is itself the n-th.
    anchor: u16,
    variable: bool,
    /// Octets from the anchor.
    offset: u32,
    length: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct VariableField {
    /// Fixed octets between the variable field before (or the record's start) and this one's length prefix.
    gap: u32,
    /// Number of the field in its template.
    field: u16,
}

impl Layout {
    pub(crate) fn new(fields: &[FieldSpecifier]) -> Self {
        let mut places = Vec::with_capacity(fields.len());
        let mut variables: Vec<VariableField> = Vec::new();
        let (mut gap, mut fixed) = (0_u32, 0_u32);
        for (field, specifier) in fields.iter().enumerate() {
            if specifier.is_variable() {
                variables.push(VariableField { gap, field: field as u16 });
                gap = 0;
            }
            places.push(Place {
                anchor: variables.len() as u16,
                variable: specifier.is_variable(),
                offset: gap,
                length: specifier.length,
            });
            if !specifier.is_variable() {
                gap += u32::from(specifier.length);
                fixed += u32::from(specifier.length);
            }
        }
        let min_record_octets = fixed + variables.len() as u32;
        Self {
            places: places.into_boxed_slice(),
            variables: variables.into_boxed_slice(),
            tail: gap,
            min_record_octets,
        }
    }

    /// Length of every record in octets; `None` when any field is variable.
    #[inline]
    pub fn fixed_record_len(&self) -> Option<usize> {
        self.variables.is_empty().then_some(self.tail as usize)
    }

    /// Length of the shortest record in octets; at least 1. An empty variable field takes one octet, its prefix.
    #[inline]
    pub fn min_record_len(&self) -> usize {
        self.min_record_octets as usize
    }

    /// Finds all records of a data set body. Reuses `spans`, whose former content is lost.
    ///
    /// Octets left over that are fewer than the shortest record are padding (RFC 7011 section 3.3.1) and no
    /// problem. With records shorter than four octets, padding cannot be distinguished from records; an exporter must
    /// not pad then, and what it wrongly pads is read as records.
    ///
    /// Where a record is spoiled, the ones before it are there and `problem` is what was wrong; nothing after it
    /// can be found, since its length is unknown.
    pub fn locate<'s>(&'s self, body: &[u8], spans: &'s mut Spans) -> LocatedRecords<'s> {
        spans.rows.clear();
        let mut located =
            LocatedRecords { records: 0, unread: body.len(), end: 0, problem: None, layout: self, rows: &[] };
        if body.len() > SET_BODY_OCTETS_MAX {
            located.problem =
                Some(WireError::SetTooLong { octets: octets_of(body.len()), limit: octets_of(SET_BODY_OCTETS_MAX) });
        } else if let Some(length) = self.fixed_record_len() {
            // `Template::new` refuses empty records; without one there is nothing to divide by.
            located.records = body.len().checked_div(length).unwrap_or(0);
            located.end = located.records * length;
            located.unread = body.len() - located.end;
        } else {
            let (records, end, problem) = self.walk(body, &mut spans.rows);
            (located.records, located.end, located.unread) = (records, end, body.len() - end);
            (located.problem, located.rows) = (problem, &spans.rows);
        }
        located
    }

    /// Walks records of variable length. Yields their number, the end of the last whole one, and what stopped it.
    fn walk(&self, body: &[u8], rows: &mut Vec<u32>) -> (usize, usize, Option<WireError>) {
        let (mut records, mut start) = (0, 0);
        // Each round consumes at least the shortest record, so this ends.
        while body.len() - start >= self.min_record_len().max(1) {
            let mark = rows.len();
            rows.push(start as u32);
            let end = self.record_end(body, start, records, |offset, length| {
                rows.extend([offset, length]);
            });
            match end {
                Ok(end) => start = end,
                Err(problem) => {
                    rows.truncate(mark);
                    return (records, start, Some(problem));
                }
            }
            records += 1;
        }
        (records, start, None)
    }

    /// Reads the record at `start`, hands offset and length of each variable field to `keep`, yields its end.
    fn record_end(
        &self,
        body: &[u8],
        start: usize,
        record: usize,
        mut keep: impl FnMut(u32, u32),
    ) -> Result<usize, WireError> {
        let truncated = |end: usize| WireError::RecordTruncated {
            record: octets_of(record),
            need: octets_of(end - start),
            have: octets_of(body.len() - start),
        };
        let mut end = start;
        for variable in &self.variables {
            end += variable.gap as usize;
            let (prefix, length) = body.get(end..).and_then(variable_length).ok_or_else(|| truncated(end + 1))?;
            end += prefix;
            let have = body.len() - end;
            if usize::from(length) > have {
                return Err(WireError::VariableLengthOverrun {
                    record: octets_of(record),
                    field: variable.field,
                    length,
                    have: octets_of(have),
                });
            }
            keep(end as u32, u32::from(length));
            end += usize::from(length);
        }
        end += self.tail as usize;
        if end > body.len() { Err(truncated(end)) } else { Ok(end) }
    }

    /// How many records `octets` are, when they are whole records and nothing else.
    pub(crate) fn whole_records(&self, octets: &[u8]) -> Option<usize> {
        if let Some(length) = self.fixed_record_len() {
            return (octets.len().checked_rem(length)? == 0).then(|| octets.len() / length);
        }
        let (mut records, mut start) = (0, 0);
        while start < octets.len() {
            start = self.record_end(octets, start, records, |_, _| ()).ok()?;
            records += 1;
        }
        Some(records)
    }
}

/// Room for the positions of variable-length fields, kept by the caller between sets so that none is allocated.
///
/// Grows with the number of variable fields located at once, which the length of a set bounds: at most twelve
/// octets for each octet of the set.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    /// For each record: its start, then offset and length of each variable field.
    rows: Vec<u32>,
}

/// The records found in one data set. Offsets are octets from the start of the set's body.
#[derive(Debug, Clone, Copy)]
pub struct LocatedRecords<'s> {
    /// Number of whole records.
    pub records: usize,
    /// Octets after the last whole record: padding, or what `problem` is about.
    pub unread: usize,
    /// Where the last whole record ends.
    end: usize,
    /// What stopped the search before the end of the set.
    pub problem: Option<WireError>,
    layout: &'s Layout,
    rows: &'s [u32],
}

impl<'s> LocatedRecords<'s> {
    /// Positions of field number `field`, in the order of the template. Every position of a record below
    /// `records` is within the body. A number past the template's last field yields empty positions.
    #[inline]
    pub fn field(&self, field: usize) -> FieldPositions<'s> {
        let Some(&place) = self.layout.places.get(field) else {
            return FieldPositions::Fixed { offset: 0, stride: 0, length: 0 };
        };
        match self.layout.fixed_record_len() {
            Some(stride) => {
                FieldPositions::Fixed { offset: place.offset as usize, stride, length: usize::from(place.length) }
            }
            None => FieldPositions::Variable(VariablePositions {
                rows: self.rows,
                row_len: 1 + 2 * self.layout.variables.len(),
                place,
            }),
        }
    }

    /// Where this record is, length prefixes of its fields included. `None` for one that is not there.
    #[inline]
    pub fn range(&self, record: usize) -> Option<Range<usize>> {
        if record >= self.records {
            return None;
        }
        if let Some(length) = self.layout.fixed_record_len() {
            return Some(record * length..(record + 1) * length);
        }
        let row_len = 1 + 2 * self.layout.variables.len();
        let start = |record: usize| self.rows.get(record * row_len).map(|start| *start as usize);
        Some(start(record)?..start(record + 1).unwrap_or(self.end))
    }
}

/// Where one field is in each record of a set.
#[derive(Debug, Clone, Copy)]
pub enum FieldPositions<'s> {
    /// In record `n` at `offset + n * stride`, always `length` octets.
    Fixed {
        /// Octets from the start of the body to the field in the first record.
        offset: usize,
        /// Length of a record.
        stride: usize,
        /// Length of the field.
        length: usize,
    },
    /// Somewhere else in each record.
    Variable(VariablePositions<'s>),
}

impl FieldPositions<'_> {
    /// Offset in the body and length of the field in this record. Only records below [`LocatedRecords::records`] exist.
    #[inline]
    pub fn get(&self, record: usize) -> (usize, usize) {
        match self {
            Self::Fixed { offset, stride, length } => (offset.saturating_add(record.saturating_mul(*stride)), *length),
            Self::Variable(positions) => positions.get(record),
        }
    }

    /// The field's octets in this record of `body`, the one that was located; only records below
    /// [`LocatedRecords::records`] exist. `None` when the position is not in `body`.
    #[inline]
    pub fn octets<'b>(&self, body: &'b [u8], record: usize) -> Option<&'b [u8]> {
        let (offset, length) = self.get(record);
        body.get(offset..)?.get(..length)
    }
}

/// Positions of a field in records that have variable-length fields.
#[derive(Debug, Clone, Copy)]
pub struct VariablePositions<'s> {
    rows: &'s [u32],
    row_len: usize,
    place: Place,
}

impl VariablePositions<'_> {
    /// Offset in the body and length of the field in this record; `(0, 0)` for a record that is not there.
    #[inline]
    pub fn get(&self, record: usize) -> (usize, usize) {
        let start = record.saturating_mul(self.row_len);
        let row = self.rows.get(start..).and_then(|rows| rows.get(..self.row_len));
        row.and_then(|row| self.in_row(row)).unwrap_or((0, 0))
    }

    /// Offset and length in each record, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (usize, usize)> + '_ {
        self.rows.chunks_exact(self.row_len).map(|row| self.in_row(row).unwrap_or((0, 0)))
    }

    #[inline]
    fn in_row(&self, row: &[u32]) -> Option<(usize, usize)> {
        let anchor = usize::from(self.place.anchor);
        let offset = self.place.offset as usize;
        if anchor == 0 {
            return Some((*row.first()? as usize + offset, usize::from(self.place.length)));
        }
        let &[from, octets] = row.get(2 * anchor - 1..=2 * anchor)? else { return None };
        if self.place.variable {
            return Some((from as usize, octets as usize));
        }
        Some((from as usize + octets as usize + offset, usize::from(self.place.length)))
    }
}
