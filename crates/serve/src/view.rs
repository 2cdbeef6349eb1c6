//! What of the flows a user sees.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_chain::OptionError;
use weir_filter::Predicate;
use weir_flow::Column;
use weir_sql::{FlowView, Pseudonyms};

use crate::problem::{Answered, Problem, with_causes};

/// What of the flows a user sees: all of them, unless a rule or a key says otherwise.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub(crate) flows: FlowView,
    /// The key of the images, by a number that no other has had; 0 without one.
    key_number: u64,
}

/// A key that addresses are replaced under.
#[derive(Debug, Clone)]
pub struct PseudonymKey {
    pseudonyms: Arc<Pseudonyms>,
    number: u64,
}

impl PseudonymKey {
    /// Reads it from a file: 32 octets, or 64 hexadecimal digits.
    pub fn read(path: &Path) -> Result<Self, OptionError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let pseudonyms = Pseudonyms::read(path).map_err(|error| {
            OptionError::new("pseudonym_key_file", with_causes(&error))
                .with_hint("32 octets of 'head -c 32 /dev/urandom' make a key")
        })?;
        Ok(Self { pseudonyms: Arc::new(pseudonyms), number: NUMBERS.fetch_add(1, Ordering::Relaxed) })
    }
}

impl View {
    /// The flows that a filter takes, with addresses as they are kept or with images of them.
    pub fn of(rows: Predicate, key: Option<&PseudonymKey>) -> Self {
        let key_number = key.map_or(0, |key| key.number);
        Self { flows: FlowView { rows, pseudonyms: key.map(|key| Arc::clone(&key.pseudonyms)) }, key_number }
    }

    /// Whether all flows are seen as they are.
    pub(crate) fn is_whole(&self) -> bool {
        self.flows.is_whole()
    }

    /// Whether some flows are not seen.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.flows.rows != Predicate::True
    }

    /// Whether addresses are replaced by images.
    pub(crate) fn has_pseudonyms(&self) -> bool {
        self.flows.pseudonyms.is_some()
    }

    /// A text that is the same for views in which every question has the same answer.
    pub(crate) fn identity(&self) -> String {
        format!("{} {}", self.key_number, self.flows.rows)
    }

    /// Whether it shows no more and no less than another, under whatever key addresses are replaced.
    pub(crate) fn is_as_wide_as(&self, other: &Self) -> bool {
        self.flows.rows == other.flows.rows && self.has_pseudonyms() == other.has_pseudonyms()
    }

    /// Refuses a column that is not shown.
    pub(crate) fn check(&self, column: Column) -> Answered<()> {
        if self.has_pseudonyms() && Pseudonyms::hides(column) {
            let name = column.name();
            return Err(Problem::forbidden(format!("'{name}' is not shown to who sees pseudonyms of addresses")));
        }
        Ok(())
    }
}
