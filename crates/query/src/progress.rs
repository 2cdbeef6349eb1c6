//! How far a question has come: numbers that readers count up and anyone may look at.
//!
//! One [`Progress`] belongs to one question. Whatever reads for the question, the executor of this crate or an engine
//! above it, adds to it batch by batch; who draws it looks now and then. The numbers are plain atomics without order
//! among each other, so that a look may be a batch behind; in return counting costs next to nothing.
//! The way back is one flag: [`Progress::stop`] asks the readers to end, and each looks at it before its next batch.
//!
//! Next to the numbers are warnings: why an answer has less than what was asked for, or may have, where that is no error, and
//! that a sum in it does not fit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Most warnings that are kept of a question.
const WARNINGS_MAX: usize = 20;

/// Whether a sum that an answer was made of does not fit into 64 bits (of decimals: into their digits), so that the nearest
/// number that does stands for it.
/// Clones are the same flag: functions that add hold one, and the question looks at another.
#[derive(Debug, Clone, Default)]
pub struct SaturationFlag(Arc<AtomicBool>);

impl SaturationFlag {
    /// Notes that a sum does not fit.
    pub fn set(&self) {
        // a sum that has met the end meets it with each further row: threads only read then
        if !self.is_set() {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there was such a sum.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Forgets it.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Does something, and gives whether there was such a sum meanwhile. The flag is then as it was before.
    pub fn during<T>(&self, act: impl FnOnce() -> T) -> (T, bool) {
        let was_set = self.0.swap(false, Ordering::Relaxed);
        let done = act();
        (done, self.0.swap(was_set, Ordering::Relaxed))
    }
}

/// The warning about sums that do not fit.
const SATURATED: &str = "a sum does not fit into 64 bits, or one of decimals into 38 digits, and the largest number (or the \
                         smallest) stands for it: sum(CAST(... AS DECIMAL(38, 0))) has 38 digits, and \
                         sum(CAST(... AS DOUBLE)) is near any sum";

/// The warnings of a question, in the order in which they came.
#[derive(Debug, Default)]
struct Warnings {
    texts: Vec<String>,
    /// Whether there were more than are kept.
    is_cut: bool,
    /// The first of them that says for certain that something is missing.
    loss: Option<String>,
}

impl Warnings {
    fn push(&mut self, text: String) {
        if self.texts.contains(&text) {
            return;
        }
        if self.texts.len() == WARNINGS_MAX {
            self.is_cut = true;
            return;
        }
        self.texts.push(text);
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident, $add:ident;)*) => {
        /// How far one question has come.
        #[derive(Debug, Default)]
        pub struct Progress {
            $($name: AtomicU64,)*
            is_stopped: AtomicBool,
            warnings: Mutex<Warnings>,
            saturation: SaturationFlag,
        }

        /// The numbers of a [`Progress`] at one moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct ProgressCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Progress {
            $(
                #[doc = concat!("Adds to [`ProgressCounts::", stringify!($name), "`].")]
                pub fn $add(&self, count: u64) {
                    self.$name.fetch_add(count, Ordering::Relaxed);
                }
            )*

            /// The numbers now.
            pub fn counts(&self) -> ProgressCounts {
                ProgressCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Segments that the archive has of the table.
    segments_all, add_segments_all;
    /// Segments that were read to their end.
    segments_done, add_segments_done;
    /// Segments that need not be read, by their times or their statistics.
    segments_pruned, add_segments_pruned;
    /// Segments of which rollups were read rather than flows.
    segments_summed, add_segments_summed;
    /// Segments whose rollups are damaged, so that flows were read.
    summaries_damaged, add_summaries_damaged;
    /// Keys that rankings by rollups looked up in flows, once for each segment where that was necessary.
    keys_looked_up, add_keys_looked_up;
    /// Rankings that rollups leave open, so that flows had to be read.
    rankings_open, add_rankings_open;
    /// Summaries of expired flows that were read.
    summaries_read, add_summaries_read;
    /// Rows of flows that have expired and of which there are no sums, so that they are in no approximate answer.
    rows_unsummed, add_rows_unsummed;
    /// Rows of the answer of which a sum is larger than 64 bits hold, and given as the largest number.
    rows_saturated, add_rows_saturated;
    /// Rows of all segments and of the tail.
    rows_all, add_rows_all;
    /// Rows that were looked at.
    rows_done, add_rows_done;
    /// Rows that need not be looked at, in segments, row groups or pages that were pruned.
    rows_pruned, add_rows_pruned;
    /// Pages of segments whose index was looked at.
    pages_all, add_pages_all;
    /// Pages of those that need not be read, by the index.
    pages_pruned, add_pages_pruned;
    /// Octets of all segments.
    octets_all, add_octets_all;
    /// Octets read from segments.
    octets_read, add_octets_read;
}

impl Progress {
    /// Asks the threads that work on the question to end.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Whether the question was asked to end.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Notes why the answer has less than what was asked for: one line, lower case, no final period. The same text is noted once, and
    /// of very many only the first.
    pub fn warn(&self, text: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.loss.is_none() {
            warnings.loss = Some(text.clone());
        }
        warnings.push(text);
    }

    /// Notes why the answer may have less than what was asked for, where nobody can know: a warning like others, with which the answer
    /// still counts as whole.
    pub fn warn_of_doubt(&self, text: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// The first reason why the answer has less than what was asked for; `None` when it has everything, as far as can be known.
    pub fn first_loss(&self) -> Option<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).loss.clone()
    }

    /// Set by functions of SQL when a sum does not fit, which is a warning. Questions without SQL count their rows with such sums
    /// ([`ProgressCounts::rows_saturated`]).
    pub fn saturation(&self) -> &SaturationFlag {
        &self.saturation
    }

    /// Why the answer has less than what was asked for, or may have, and that a sum in it does not fit, as far as it was read. Whoever
    /// shows the answer must print them.
    pub fn warnings(&self) -> Vec<String> {
        let warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let more = warnings.is_cut.then(|| "there are more warnings, which are not kept".to_owned());
        let saturated = self.saturation.is_set().then(|| SATURATED.to_owned());
        warnings.texts.iter().cloned().chain(more).chain(saturated).collect()
    }
}

impl ProgressCounts {
    /// The part of the rows that is settled, looked at or pruned, from 0 to 1; `None` before it is known how many there
    /// are.
    pub fn fraction(&self) -> Option<f64> {
        let settled = self.rows_done.saturating_add(self.rows_pruned).min(self.rows_all);
        (self.rows_all > 0).then(|| settled as f64 / self.rows_all as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn readers_in_several_threads_add_up() {
        let progress = Arc::new(Progress::default());
        progress.add_rows_all(4000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| progress.add_rows_done(5)));
            }
        });
        progress.add_rows_pruned(1000);
        let seen = progress.counts();
        assert_eq!((seen.rows_done, seen.rows_pruned, seen.segments_all), (2000, 1000, 0));
        assert_eq!(seen.fraction(), Some(0.75));
    }

    #[test]
    fn a_part_is_never_more_than_the_whole() {
        assert_eq!(ProgressCounts::default().fraction(), None);
        let seen = ProgressCounts { rows_all: 10, rows_done: 20, ..ProgressCounts::default() };
        assert_eq!(seen.fraction(), Some(1.0));
    }

    #[test]
    fn warnings_are_kept_once_and_not_without_end() {
        let progress = Progress::default();
        assert!(progress.warnings().is_empty());
        for text in ["one", "two", "one"] {
            progress.warn(text.to_owned());
        }
        assert_eq!(progress.warnings(), ["one", "two"]);
        (0..1000).for_each(|number| progress.warn(number.to_string()));
        let kept = progress.warnings();
        assert_eq!(kept.len(), WARNINGS_MAX + 1);
        assert_eq!(kept.last().map(String::as_str), Some("there are more warnings, which are not kept"));
    }

    #[test]
    fn a_doubt_is_a_warning_and_no_loss() {
        let progress = Progress::default();
        (0..1000).for_each(|number| progress.warn_of_doubt(number.to_string()));
        assert_eq!((progress.warnings().len(), progress.first_loss()), (WARNINGS_MAX + 1, None));
        // one that is not kept among so many is a loss all the same
        progress.warn("a step".to_owned());
        progress.warn("another".to_owned());
        assert_eq!(progress.first_loss().as_deref(), Some("a step"));
    }

    #[test]
    fn a_sum_that_does_not_fit_is_a_warning_and_no_loss() {
        let progress = Progress::default();
        assert_eq!(progress.saturation().clone().during(|| progress.saturation().set()), ((), true));
        // it was of something that is not part of the answer
        assert!(progress.warnings().is_empty());
        let adding = progress.saturation().clone();
        adding.set();
        assert_eq!(progress.saturation().during(|| adding.is_set()), (false, false));
        assert_eq!((progress.warnings(), progress.first_loss()), (vec![SATURATED.to_owned()], None));
        adding.clear();
        assert!(progress.warnings().is_empty());
    }

    #[test]
    fn stopping_is_seen() {
        let progress = Progress::default();
        assert!(!progress.is_stopped());
        progress.stop();
        assert!(progress.is_stopped());
    }
}
