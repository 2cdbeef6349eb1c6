//! How much is read for a sketch.
//!
//! For users who see all flows it is what takes some tenths of a second, by how many flows there are. Users who see a part of them
//! must not learn that from the share: for them one of so many pages is read, in fixed steps, and the step at which it ends depends
//! on flows that they see. All steps together read up to a tenth of what the exact answer does. Where the last one has flows of too
//! few pages there is no sketch rather than a wrong one; nor is there one of a small archive, whose exact answer is there as soon.
//!
//! What speaks against it is that how many pages have flows that are seen depends on others that lie between them. It shows in how
//! far a sketch is off, in the choice of a step, and in nothing finer.

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

/// For who sees a part of the flows: of so many pages one, until that is enough.
const STEPS: [u64; 3] = [2048, 256, LAST_STEP];
const LAST_STEP: u64 = 32;
/// All steps, the values with a series of their own and the lines read one of so many flows together, or less.
const READS_ONE_OF: u64 = 10;
/// Pages that are enough: a standard error of 5 %.
const PAGES_ENOUGH: f64 = 400.0;
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
    stepwise(|one_of| {
        let (mut spread, mut rows) = (SampleSpread::default(), 0);
        for batch in question.answers.sample(&query, SampleSize::OneOf(one_of))? {
            let found = batch?.num_rows();
            spread.add(found);
            rows += found;
        }
        Ok((spread, rows))
    })
}

/// The first step that is enough; `drawn` gives what one of so many pages has of flows that are seen.
fn stepwise(mut drawn: impl FnMut(u64) -> Answered<(SampleSpread, usize)>) -> Answered<Size> {
    let mut rows_last = 0;
    for one_of in STEPS {
        let (spread, rows) = drawn(one_of)?;
        let pages_min = if one_of == LAST_STEP { PAGES_MIN } else { PAGES_ENOUGH };
        if spread.pages() >= pages_min {
            let ranked = one_of * (rows as u64).div_ceil(RANKED_ROWS_MAX).max(1);
            let (ranked, lines) = (SampleSize::OneOf(ranked), SampleSize::OneOf(one_of));
            return Ok(Size::Enough(Sizes { ranked, lines }));
        }
        rows_last = rows;
    }
    Ok(Size::TooLittle { one_of: LAST_STEP, rows: rows_last })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is drawn of flows in so many pages, each of which has `rows` of them.
    fn drawn(pages: u64, rows: usize) -> impl Fn(u64) -> Answered<(SampleSpread, usize)> {
        move |one_of| {
            let mut spread = SampleSpread::default();
            (0..pages / one_of).for_each(|_| spread.add(rows));
            Ok((spread, rows * (pages / one_of) as usize))
        }
    }

    fn one_of(lines: u64, ranked: u64) -> Size {
        Size::Enough(Sizes { ranked: SampleSize::OneOf(ranked), lines: SampleSize::OneOf(lines) })
    }

    #[test]
    fn what_is_read_depends_on_flows_that_are_seen() {
        let of = |pages: u64, rows: usize| stepwise(drawn(pages, rows)).expect("a size");
        assert_eq!(of(2048 * 400, 8192), one_of(2048, 2048 * 7));
        assert_eq!(of(2048 * 399, 1), one_of(256, 256));
        // below five percent of error only what the last step reads
        assert_eq!(of(256 * 399, 1000), one_of(32, 32 * 7));
        assert_eq!(of(32 * 25, 1), one_of(32, 32));
        // few pages have many flows: they say as much as one flow of each
        assert_eq!(of(32 * 24, 8192), Size::TooLittle { one_of: 32, rows: 24 * 8192 });
        assert_eq!(of(0, 0), Size::TooLittle { one_of: 32, rows: 0 });
    }

    #[test]
    fn steps_cost_what_is_said_of_them() {
        // each step, and at most as much as the last one for values and for lines
        let parts = STEPS.into_iter().chain([LAST_STEP; 2]).map(|one_of| 1.0 / one_of as f64);
        assert!(parts.sum::<f64>() <= 1.0 / READS_ONE_OF as f64);
    }
}
