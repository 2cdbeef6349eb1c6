//! Information Elements as filters name them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use weir_flow::element;

/// The word before the name of an element.
pub(crate) const WORD: &str = "element";

/// Numbers of an element, as tests have them: tests of elements are of those in the table of primitives, or of those here.
/// Only registered elements get here, so there is an end of them, whoever writes filters.
static NUMBERS: Mutex<BTreeSet<&'static [(u32, u16)]>> = Mutex::new(BTreeSet::new());

pub(crate) fn interned(numbers: &[(u32, u16)]) -> &'static [(u32, u16)] {
    // nothing under the lock can leave it half done
    let mut known = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(numbers) {
        return found;
    }
    let new: &'static [(u32, u16)] = Box::leak(numbers.into());
    known.insert(new);
    new
}

/// The words that read an element, for canonical text.
pub(crate) fn element_phrase(elements: &[(u32, u16)]) -> String {
    let names = elements.iter().filter_map(|(enterprise, id)| element(*enterprise, *id));
    let name = names.map(|element| element.name.as_str()).next().unwrap_or_default();
    format!("{WORD} {name}")
}
