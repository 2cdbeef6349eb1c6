//! How serious a report is.

use weir_chain::choices;

choices! {
    /// How serious a report is.
    pub enum Severity {
        /// Good to know.
        Info = "info",
        /// Look at it some time.
        Notice = "notice",
        /// Look at it today.
        Warning = "warning",
        /// Look at it now.
        Critical = "critical",
    }
}

impl Severity {
    /// That of a word.
    pub fn by_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|severity| severity.word() == word)
    }

    /// Its place among the others: the least serious is 0.
    pub fn rank(self) -> usize {
        Self::ALL.iter().position(|severity| *severity == self).unwrap_or(0)
    }
}
