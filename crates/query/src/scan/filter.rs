//! A filter with what the index of a segment knows about each of its parts.
//!
//! Of a page, parts are computed one after the other, and a column is decoded for the first part that needs it. A part
//! that the index has decided for the page costs nothing; an `and` begins with the part that passes on the fewest pages
//! and stops when no row is left. What speaks against it: how many rows of a page pass a part is only guessed from the
//! number of pages.

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use weir_archive::{PageSet, SegmentIndex};
use weir_filter::Predicate;
use weir_flow::{Column, ColumnType};

use super::ScanSpec;
use super::prune::{self, Pages};
use super::spec::flow_batch;
use super::window::WindowEnd;
use crate::QueryError;

/// A part of a filter.
#[derive(Debug)]
pub(super) struct PagedFilter {
    part: Part,
    /// `None` when there is no index.
    known: Option<Pages>,
    /// How much its columns cost to decode.
    cost: u32,
}

#[derive(Debug)]
enum Part {
    Constant(bool),
    Not(Box<PagedFilter>),
    And(Vec<PagedFilter>),
    Or(Vec<PagedFilter>),
    /// One test, with its columns in the order of the table.
    Test(Predicate, Vec<Column>),
    Window(WindowEnd),
}

/// Which rows of a page pass.
#[derive(Debug, Clone)]
pub(super) enum RowMask {
    All,
    None,
    /// Neither all nor none.
    Some(BooleanBuffer),
}

impl RowMask {
    fn of(bits: BooleanBuffer) -> Self {
        match bits.count_set_bits() {
            0 => Self::None,
            count if count == bits.len() => Self::All,
            _ => Self::Some(bits),
        }
    }
}

/// The columns of a page, decoded when they are asked for; `None` for one without a value.
pub(super) trait PageColumns {
    fn rows(&self) -> usize;
    fn column(&mut self, column: Column) -> Result<Option<ArrayRef>, QueryError>;
}

impl PagedFilter {
    /// The filter and the window of what is wanted.
    pub(super) fn of_wanted(wanted: &ScanSpec, index: Option<&SegmentIndex>) -> Result<Self, QueryError> {
        let mut parts = Vec::new();
        let mut among = index.map(|index| PageSet::all(index.pages()));
        for end in &wanted.window {
            let part = Self::of_window(*end, index)?;
            part.narrow(&mut among);
            parts.push(part);
        }
        if !wanted.window.is_empty() && wanted.predicate == Predicate::True {
            return Ok(Self::and(parts, index));
        }
        parts.push(Self::new(&wanted.predicate, index, among.as_ref())?);
        Ok(Self::and(parts, index))
    }

    /// Pages that may pass `hint`, of those among which the filter leaves some.
    pub(super) fn pages_of_hint(
        hint: &Predicate,
        index: &SegmentIndex,
        among: &PageSet,
    ) -> Result<Option<PageSet>, QueryError> {
        Ok(Self::new(hint, Some(index), Some(among))?.known.map(|known| known.may))
    }

    /// The pages that may have rows which pass; `None` when that is not known.
    pub(super) fn pages(&self) -> Option<&PageSet> {
        self.known.as_ref().map(|known| &known.may)
    }

    fn new(predicate: &Predicate, index: Option<&SegmentIndex>, among: Option<&PageSet>) -> Result<Self, QueryError> {
        Ok(match predicate {
            Predicate::True | Predicate::False => {
                let passes = *predicate == Predicate::True;
                let known =
                    index.map(|index| if passes { Pages::all(index.pages()) } else { Pages::none(index.pages()) });
                Self { part: Part::Constant(passes), known, cost: 0 }
            }
            Predicate::Not(part) => {
                let part = Self::new(part, index, among)?;
                let (known, cost) = (part.known.as_ref().map(Pages::opposite), part.cost);
                Self { part: Part::Not(Box::new(part)), known, cost }
            }
            Predicate::And(parts) => {
                let mut among = among.cloned();
                let mut ordered: Vec<&Predicate> = parts.iter().collect();
                // cheap parts may leave no page for which lists of hosts have to be read
                ordered.sort_by_key(|part| is_costly(part));
                let mut made = Vec::with_capacity(parts.len());
                for part in ordered {
                    let part = Self::new(part, index, among.as_ref())?;
                    part.narrow(&mut among);
                    made.push(part);
                }
                Self::and(made, index)
            }
            Predicate::Or(parts) => {
                let parts = parts.iter().map(|part| Self::new(part, index, among)).collect::<Result<Vec<_>, _>>()?;
                Self::or(parts, index)
            }
            Predicate::Test(test) => {
                let mut columns = test.columns().to_vec();
                columns.sort_unstable();
                let known = match index.zip(among) {
                    Some((index, among)) => Some(prune::of_test(index, test, among)?),
                    None => None,
                };
                let cost = columns.iter().copied().map(cost_of).sum();
                Self { part: Part::Test(predicate.clone(), columns), known, cost }
            }
        })
    }

    fn of_window(end: WindowEnd, index: Option<&SegmentIndex>) -> Result<Self, QueryError> {
        let known = index.map(|index| prune::of_window(index, &end)).transpose()?;
        Ok(Self { part: Part::Window(end), known, cost: cost_of(end.column) })
    }

    fn and(mut parts: Vec<Self>, index: Option<&SegmentIndex>) -> Self {
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return only;
        }
        let known = index.map(|index| joined(Pages::all(index.pages()), &parts, Pages::and));
        parts.sort_by_key(|part| (part.pages().map_or(0, PageSet::count), part.cost));
        let cost = parts.iter().map(|part| part.cost).sum();
        Self { part: Part::And(parts), known, cost }
    }

    fn or(mut parts: Vec<Self>, index: Option<&SegmentIndex>) -> Self {
        let known = index.map(|index| joined(Pages::none(index.pages()), &parts, Pages::or));
        parts.sort_by_key(|part| part.cost);
        let cost = parts.iter().map(|part| part.cost).sum();
        Self { part: Part::Or(parts), known, cost }
    }

    fn narrow(&self, among: &mut Option<PageSet>) {
        if let (Some(among), Some(pages)) = (among, self.pages()) {
            among.and(pages);
        }
    }

    /// Which rows of a page pass.
    pub(super) fn mask(&self, page: usize, columns: &mut impl PageColumns) -> Result<RowMask, QueryError> {
        if let Some(known) = &self.known {
            if known.whole.contains(page) {
                return Ok(RowMask::All);
            }
            if !known.may.contains(page) {
                return Ok(RowMask::None);
            }
        }
        match &self.part {
            Part::Constant(passes) => Ok(if *passes { RowMask::All } else { RowMask::None }),
            Part::Not(part) => Ok(match part.mask(page, columns)? {
                RowMask::All => RowMask::None,
                RowMask::None => RowMask::All,
                RowMask::Some(bits) => RowMask::Some(!&bits),
            }),
            Part::And(parts) => of_all(parts, page, columns),
            Part::Or(parts) => of_any(parts, page, columns),
            Part::Test(test, needed) => {
                let mut decoded = Vec::with_capacity(needed.len());
                for column in needed {
                    if let Some(values) = columns.column(*column)? {
                        decoded.push((*column, values));
                    }
                }
                let batch = flow_batch(columns.rows(), decoded)?;
                Ok(RowMask::of(test.mask(&batch).values().clone()))
            }
            Part::Window(end) => {
                let values = columns.column(end.column)?;
                let received =
                    if WindowEnd::needs_received(values.as_ref()) { columns.column(Column::Received)? } else { None };
                Ok(RowMask::of(end.mask(columns.rows(), values.as_ref(), received.as_ref())))
            }
        }
    }
}

/// Which rows of a page pass every part.
fn of_all(parts: &[PagedFilter], page: usize, columns: &mut impl PageColumns) -> Result<RowMask, QueryError> {
    let mut all = RowMask::All;
    for part in parts {
        all = match (all, part.mask(page, columns)?) {
            (_, RowMask::None) => return Ok(RowMask::None),
            (all, RowMask::All) => all,
            (RowMask::Some(left), RowMask::Some(right)) => RowMask::of(&left & &right),
            (_, part) => part,
        };
        if matches!(all, RowMask::None) {
            break;
        }
    }
    Ok(all)
}

/// Which rows of a page pass some part.
fn of_any(parts: &[PagedFilter], page: usize, columns: &mut impl PageColumns) -> Result<RowMask, QueryError> {
    let mut any = RowMask::None;
    for part in parts {
        any = match (any, part.mask(page, columns)?) {
            (_, RowMask::All) => return Ok(RowMask::All),
            (any, RowMask::None) => any,
            (RowMask::Some(left), RowMask::Some(right)) => RowMask::of(&left | &right),
            (_, part) => part,
        };
        if matches!(any, RowMask::All) {
            break;
        }
    }
    Ok(any)
}

/// Joins what is known of parts.
fn joined(mut all: Pages, parts: &[PagedFilter], join: fn(&mut Pages, &Pages)) -> Pages {
    for part in parts {
        // parts of a filter of a segment with an index are all known
        let known = part.known.clone().unwrap_or_else(|| Pages::unknown(all.may.pages()));
        join(&mut all, &known);
    }
    all
}

fn is_costly(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::True | Predicate::False => false,
        Predicate::Not(part) => is_costly(part),
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().any(is_costly),
        Predicate::Test(test) => prune::is_costly(test),
    }
}

/// About how long a page of the column takes to decode, relative to one of numbers in few bits.
fn cost_of(column: Column) -> u32 {
    match column.column_type() {
        ColumnType::U8 | ColumnType::U16 | ColumnType::U32 => 2,
        ColumnType::U64 | ColumnType::Time => 3,
        ColumnType::Address | ColumnType::Mac | ColumnType::Octets => 6,
        ColumnType::Text => 8,
        ColumnType::Elements => 100,
    }
}
