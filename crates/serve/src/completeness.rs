//! How complete an answer is, for its reader.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_flow::Completeness;

/// Whether flows are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// Nothing is known to be missing.
    Complete,
    /// Something is.
    Incomplete,
    /// Nobody can tell.
    Unknown,
}

/// How complete the flows of a window are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct CompletenessBody {
    /// Whether flows are missing.
    pub(crate) verdict: Verdict,
    /// The same in a sentence.
    pub(crate) sentence: String,
    /// Flows that are there.
    pub(crate) stored: u64,
    /// Records that did not come, by sequence numbers that count records.
    pub(crate) lost_records: u64,
    /// Datagrams that did not come, by sequence numbers that count datagrams.
    pub(crate) lost_datagrams: u64,
    /// Datagrams that this machine dropped.
    pub(crate) dropped_datagrams: u64,
    /// The share of records that are there, 0 to 1; null when it is unknown.
    pub(crate) share: Option<f64>,
}

impl CompletenessBody {
    /// What the books say.
    pub(crate) fn of(found: &Completeness) -> Self {
        let is_nothing = found.stored == 0 && found.received == 0;
        let verdict = match (found.is_complete(), found.unsequenced_datagrams) {
            (false, _) => Verdict::Incomplete,
            (true, 0) if !is_nothing => Verdict::Complete,
            (true, _) => Verdict::Unknown,
        };
        // perhaps no collector was listening
        let sentence = match (verdict, is_nothing) {
            (Verdict::Unknown, true) => {
                "the books have no flows of this time: whether any are missing is not known".to_owned()
            }
            _ => found.to_string().replace('\n', "; "),
        };
        Self {
            verdict,
            sentence,
            stored: found.stored,
            lost_records: found.lost_records,
            lost_datagrams: found.lost_datagrams,
            dropped_datagrams: found.dropped_datagrams,
            share: (verdict != Verdict::Unknown).then(|| found.share() as f64 / 10_000.0),
        }
    }

    /// The same for who sees a part of the flows: whether something is missing, and no number of all flows.
    pub(crate) fn without_counts(self) -> Self {
        let sentence = match self.verdict {
            Verdict::Complete => "complete",
            Verdict::Incomplete => "incomplete: of all flows some are missing, perhaps of those that you see",
            Verdict::Unknown => "unknown",
        };
        Self { verdict: self.verdict, sentence: sentence.to_owned(), ..Self::of_statement() }
    }

    /// Of a statement, which has no window of its own.
    pub(crate) fn of_statement() -> Self {
        let sentence = "not known of a statement: ask for the completeness of the time that it is about".to_owned();
        Self {
            verdict: Verdict::Unknown,
            sentence,
            stored: 0,
            lost_records: 0,
            lost_datagrams: 0,
            dropped_datagrams: 0,
            share: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_flows_is_not_complete() {
        let of = |found: Completeness| CompletenessBody::of(&found);
        let nothing = of(Completeness::default());
        assert_eq!((nothing.verdict, nothing.share), (Verdict::Unknown, None));
        assert!(nothing.sentence.contains("no flows of this time"), "{}", nothing.sentence);
        assert_eq!(of(Completeness { stored: 1, ..Completeness::default() }).verdict, Verdict::Complete);
        assert_eq!(of(Completeness { received: 1, ..Completeness::default() }).verdict, Verdict::Complete);
        assert_eq!(
            of(Completeness { lost_records: 1, missing: 1, ..Completeness::default() }).verdict,
            Verdict::Incomplete
        );
    }
}
