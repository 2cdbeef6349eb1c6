//! What was reported of windows that may be asked again.
//!
//! With `late = "correct"`, a window that got flows after it had closed is asked again. What its reports were is kept here
//! for that long, so that only what has changed is reported: a key with another answer, a key that is new, and one that does
//! not hold any more. It is in memory alone: windows that were reported before a restart are not corrected after it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value};

use crate::report::Report;

/// Keys of windows that are remembered; windows beyond are not corrected, but reported as if they were new.
const KEYS_MAX: usize = 1_000_000;

/// What is known of a key of a window.
#[derive(Debug, Clone, Copy)]
struct KnownAnswer {
    /// Of its rows; `None` when the window does not have it any more, so that no id is used twice.
    hash: Option<u64>,
    /// Whether it was reported, and not left out as a repetition.
    is_reported: bool,
    /// How often it was corrected.
    corrections: u32,
}

/// Answers about the last windows, by when they ended and by key.
#[derive(Debug, Default)]
pub(crate) struct Corrections {
    kept_ms: i64,
    windows: BTreeMap<i64, HashMap<String, KnownAnswer>>,
    keys: usize,
}

/// What has changed of a window.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Reports of keys that were reported, with another answer.
    pub(crate) changed: Vec<Report>,
    /// Reports of keys that the window did not have.
    pub(crate) new: Vec<Report>,
    /// Keys that were reported and that the window does not have any more, and how often they were corrected.
    pub(crate) withdrawn: Vec<(String, u32)>,
}

/// Of the rows of a report, in any order: a statement need not give them in one.
fn hash_of(report: &Report) -> u64 {
    let of_row = |row: &Map<String, Value>| {
        let mut hasher = DefaultHasher::new();
        // members of an object are in their order
        serde_json::to_string(row).unwrap_or_default().hash(&mut hasher);
        hasher.finish()
    };
    report.evidence.iter().map(of_row).fold(report.rows, u64::wrapping_add)
}

impl Corrections {
    /// Answers are kept for as long as windows are asked again.
    pub(crate) fn new(kept_ms: i64) -> Self {
        Self { kept_ms, ..Self::default() }
    }

    /// Remembers the answer about a window.
    pub(crate) fn remember(&mut self, end_ms: i64, reports: &[Report]) {
        if self.kept_ms == 0 {
            return;
        }
        while let Some((&first_ms, keys)) = self.windows.first_key_value()
            && (first_ms < end_ms.saturating_sub(self.kept_ms) || self.keys > KEYS_MAX)
        {
            self.keys -= keys.len();
            self.windows.remove(&first_ms);
        }
        let answers = reports.iter().map(|report| {
            (report.key.clone(), KnownAnswer { hash: Some(hash_of(report)), is_reported: false, corrections: 0 })
        });
        let answers: HashMap<_, _> = answers.collect();
        self.keys += answers.len();
        let before = self.windows.insert(end_ms, answers);
        self.keys -= before.map_or(0, |before| before.len());
    }

    /// Remembers that keys of a window were reported.
    pub(crate) fn reported(&mut self, end_ms: i64, reports: &[Report]) {
        let Some(answers) = self.windows.get_mut(&end_ms) else { return };
        for report in reports {
            if let Some(answer) = answers.get_mut(&report.key) {
                answer.is_reported = true;
            }
        }
    }

    /// What has changed of a window, with ids of their own.
    pub(crate) fn changes(&mut self, end_ms: i64, reports: Vec<Report>) -> Changes {
        let mut changes = Changes::default();
        let mut before = self.windows.remove(&end_ms).unwrap_or_default();
        self.keys -= before.len();
        let mut now = HashMap::new();
        for mut report in reports {
            report.is_correction = true;
            let known = before.remove(&report.key);
            let mut answer = KnownAnswer {
                hash: Some(hash_of(&report)),
                is_reported: known.is_some_and(|known| known.is_reported),
                corrections: known.map_or(0, |known| known.corrections),
            };
            let is_changed = known.is_none_or(|known| known.hash != answer.hash);
            if is_changed {
                answer.corrections += 1;
                report.id = corrected_id(&report.id, answer.corrections);
            }
            now.insert(report.key.clone(), answer);
            match known {
                Some(known) if known.is_reported && is_changed => changes.changed.push(report),
                None | Some(KnownAnswer { hash: None, .. }) => changes.new.push(report),
                Some(_) => {}
            }
        }
        for (key, known) in before {
            let is_gone = known.hash.is_some();
            let corrections = known.corrections + u32::from(is_gone);
            if is_gone && known.is_reported {
                changes.withdrawn.push((key.clone(), corrections));
            }
            now.insert(key, KnownAnswer { hash: None, corrections, ..known });
        }
        changes.withdrawn.sort();
        self.keys += now.len();
        self.windows.insert(end_ms, now);
        changes
    }
}

/// The id of a report that corrects another one.
pub(crate) fn corrected_id(id: &str, corrections: u32) -> String {
    format!("{id}/corrected-{corrections}")
}

#[cfg(test)]
mod tests {
    use weir_reports::Severity;
    use weir_sql::standing::Window;

    use super::*;

    fn report(key: &str, flows: &[u64]) -> Report {
        let row = |flows: &u64| Map::from_iter([("flows".to_owned(), Value::from(*flows))]);
        Report {
            id: format!("w/10/{key}"),
            watch: "w".to_owned(),
            title: "w".to_owned(),
            severity: Severity::Info,
            window: Window { start_ms: 0, end_ms: 10 },
            key: key.to_owned(),
            rows: flows.len() as u64,
            evidence: flows.iter().map(row).collect(),
            columns: vec!["flows".to_owned()],
            next: String::new(),
            records_lost: None,
            rows_left_out: 0,
            suppressed: 0,
            is_saturated: false,
            is_correction: false,
        }
    }

    fn ids(reports: &[Report]) -> Vec<&str> {
        reports.iter().map(|report| report.id.as_str()).collect()
    }

    /// A key that goes and comes back is corrected each time, and no id is used twice.
    #[test]
    fn each_correction_of_a_key_has_an_id_of_its_own() {
        let mut corrections = Corrections::new(60_000);
        let first = [report("a", &[1, 2]), report("b", &[5])];
        corrections.remember(10, &first);
        corrections.reported(10, &first);
        // the order of rows is no change
        let same = corrections.changes(10, vec![report("a", &[2, 1]), report("b", &[5])]);
        assert!(same.changed.is_empty() && same.new.is_empty() && same.withdrawn.is_empty(), "{same:?}");
        let changed = corrections.changes(10, vec![report("a", &[1, 2]), report("b", &[6])]);
        assert_eq!(ids(&changed.changed), ["w/10/b/corrected-1"]);
        let gone = corrections.changes(10, vec![report("a", &[1, 2])]);
        assert_eq!(gone.withdrawn, [("b".to_owned(), 2)]);
        let still = corrections.changes(10, vec![report("a", &[1, 2])]);
        assert!(still.withdrawn.is_empty(), "{still:?}");
        let back = corrections.changes(10, vec![report("a", &[1, 2]), report("b", &[6])]);
        assert_eq!(ids(&back.changed), ["w/10/b/corrected-3"]);
        let new = corrections.changes(10, vec![report("a", &[1, 2]), report("b", &[6]), report("c", &[1])]);
        assert_eq!((ids(&new.new), ids(&new.changed).len()), (vec!["w/10/c/corrected-1"], 0));
    }

    #[test]
    fn windows_are_forgotten_after_their_time() {
        let mut corrections = Corrections::new(20);
        for end_ms in [10, 20, 30, 40] {
            corrections.remember(end_ms, &[report("a", &[1])]);
        }
        assert_eq!((corrections.windows.keys().copied().collect::<Vec<_>>(), corrections.keys), (vec![20, 30, 40], 3));
    }
}
