//! What a check found.

/// What a check looked at and what was wrong.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// What was looked at, for the line on success: "9 crates, 23 edges".
    pub(crate) seen: String,
    /// One line for each breach; the check passes when there is none.
    pub(crate) violations: Vec<String>,
    /// What could not be looked at. Printed, and the check passes all the same.
    pub(crate) warnings: Vec<String>,
    /// What to do about a violation.
    pub(crate) hint: &'static str,
}

impl Verdict {
    /// Prints one line on success; on failure one line for each violation and one `hint:` line.
    pub(crate) fn print(&self, name: &str) {
        for warning in &self.warnings {
            println!("{name:<14} WARNING {warning}");
        }
        if self.violations.is_empty() {
            println!("{name:<14} ok      {}", self.seen);
            return;
        }
        println!("{name:<14} FAILED  {} found", self.violations.len());
        for violation in &self.violations {
            println!("  {violation}");
        }
        println!("  hint: {}", self.hint);
    }
}
