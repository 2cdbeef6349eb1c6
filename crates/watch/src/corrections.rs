//! What was reported of windows that may be asked again.
//!
//! With `late = "correct"`, a window that got flows after it had closed is asked again. What its reports were is kept here
//! for that long, so that only what has changed is reported: a key with another answer, a key that is new, and one that does
//! not hold any more. It is in memory alone: windows that were reported before a restart are not corrected after it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::report::Report;

/// Keys of windows that are remembered; windows beyond are not corrected, but reported as if they were new.
const KEYS_MAX: usize = 1_000_000;

/// What is known of a key of a window.
#[derive(Debug, Clone, Copy)]
struct KnownAnswer {
    /// Of its rows.
    hash: u64,
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

fn hash_of(report: &Report) -> u64 {
    let mut hasher = DefaultHasher::new();
    report.rows.hash(&mut hasher);
    for row in &report.evidence {
        // members of an object are in their order
        serde_json::to_string(row).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
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
            (report.key.clone(), KnownAnswer { hash: hash_of(report), is_reported: false, corrections: 0 })
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
                hash: hash_of(&report),
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
                None => changes.new.push(report),
                Some(known) if is_changed && known.is_reported => changes.changed.push(report),
                Some(_) => {}
            }
        }
        let gone = before.into_iter().filter(|(_, known)| known.is_reported);
        changes.withdrawn = gone.map(|(key, known)| (key, known.corrections + 1)).collect();
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
