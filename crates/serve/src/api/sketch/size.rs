//! How much is read for a sketch.
//!
//! For users who see all flows it is what takes some tenths of a second, by how many flows there are. Users who see a part of them
//! must not learn that from the share, so for them it is fixed: one of 32 pages, which with finding out whether that is enough costs
//! up to a tenth of what the exact answer does. Where it has flows of too few pages there is no sketch rather than a wrong one;
//! nor is there one of a small archive, whose exact answer is there as soon.
//!
//! What speaks against it is that a large archive is read for longer than a sketch needs, and that how many pages have flows that
//! are seen depends on others that lie between them. It shows in how far a sketch is off, and in whether there is one: a picture says
//! that there are at least some 6.5 million flows of all, since it is made of 25 pages of 8,192, one of 32.

use weir_flow::Column;
use weir_query::{SampleSize, SampleSpread, TimeWindow};

use super::{Wish, list};
use crate::problem::Answered;
use crate::service::{Question, Reads};
use crate::view::View;

/// Flows that are read for the lines, about: some tenths of a second.
const ROWS_MAX: u64 = 3_500_000;
/// Flows that are read to find the values with a series of their own.
const RANKED_ROWS_MAX: u64 = 500_000;

/// For who sees a part of the flows: of so many pages one.
const NARROWED_ONE_OF: u64 = 32;
/// What is read for them at most is one of so many flows: three times the pages, to find whether they are enough, for the values
/// with a series of their own, and for the lines.
const READS_ONE_OF: u64 = 10;
/// Pages of which a sketch is made at least: a standard error of 20 %.
const PAGES_MIN: f64 = 25.0;

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// For the values with a series of their own.
    pub(super) ranked: SampleSize,
    /// For the lines.
    pub(super) lines: SampleSize,
}

/// How much is read, or of how little it would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Enough(Sizes),
    /// One of so many pages has too few flows, this many.
    TooLittle {
        one_of: u64,
        rows: usize,
    },
}

/// What a sketch reads, before anything is read.
pub(super) fn reads(window: TimeWindow, view: &View) -> Reads {
    if view.is_narrowed() { Reads::OneOf(window, READS_ONE_OF) } else { Reads::PartOf(window, ROWS_MAX) }
}

/// How much is read for a sketch of a question.
pub(super) fn size(question: &Question<'_>, wish: &Wish) -> Answered<Size> {
    if !question.view.is_narrowed() {
        let (ranked, lines) = (SampleSize::Rows(RANKED_ROWS_MAX), SampleSize::Rows(ROWS_MAX));
        return Ok(Size::Enough(Sizes { ranked, lines }));
    }
    let query = wish.which.query(list(&[Column::Flows]));
    let (mut spread, mut rows) = (SampleSpread::default(), 0);
    for batch in question.answers.sample(&query, SampleSize::OneOf(NARROWED_ONE_OF))? {
        let found = batch?.num_rows();
        spread.add(found);
        rows += found;
    }
    Ok(narrowed(spread, rows))
}

/// How much is read for who sees a part of the flows, of whose pages that are read so many have flows.
fn narrowed(spread: SampleSpread, rows: usize) -> Size {
    if spread.pages() < PAGES_MIN {
        return Size::TooLittle { one_of: NARROWED_ONE_OF, rows };
    }
    let ranked = NARROWED_ONE_OF * (rows as u64).div_ceil(RANKED_ROWS_MAX).max(1);
    Size::Enough(Sizes { ranked: SampleSize::OneOf(ranked), lines: SampleSize::OneOf(NARROWED_ONE_OF) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much is read where so many pages of those that were drawn have `rows` flows that are seen, each.
    fn of(pages: usize, rows: usize) -> Size {
        let mut spread = SampleSpread::default();
        (0..pages).for_each(|_| spread.add(rows));
        narrowed(spread, rows * pages)
    }

    #[test]
    fn the_share_is_the_same_however_many_flows_there_are() {
        let enough = |ranked: u64| {
            Size::Enough(Sizes { ranked: SampleSize::OneOf(ranked), lines: SampleSize::OneOf(NARROWED_ONE_OF) })
        };
        assert_eq!(of(25, 1), enough(32));
        // fewer than 500,000 flows are ranked
        assert_eq!(of(400, 1_000), enough(32));
        assert_eq!(of(399, 8192), enough(32 * 7));
        assert_eq!(of(100_000, 8192), enough(32 * 1_639));
        // few pages have many flows: they say as much as one flow of each
        assert_eq!(of(24, 8192), Size::TooLittle { one_of: 32, rows: 24 * 8192 });
        assert_eq!(of(0, 0), Size::TooLittle { one_of: 32, rows: 0 });
    }

    #[test]
    fn a_sketch_costs_what_is_said_of_it() {
        let parts = [NARROWED_ONE_OF; 3].map(|one_of| 1.0 / one_of as f64);
        assert!(parts.iter().sum::<f64>() <= 1.0 / READS_ONE_OF as f64);
    }
}
