//! The wish that files are read again, and options that change while a chain runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toml::Table;

/// Tells components to read again what they have from files. Clones share it, and each answers once for each wish.
#[derive(Debug, Clone, Default)]
pub struct ReloadSignal {
    asked: Arc<AtomicU64>,
    answered: u64,
    /// Options that came after the start, by the name of their component.
    changed: Arc<Mutex<BTreeMap<String, Table>>>,
}

impl ReloadSignal {
    /// Asks everyone who listens.
    pub fn ask(&self) {
        self.asked.fetch_add(1, Ordering::AcqRel);
    }

    /// Asks everyone who listens, and gives the component of this name options in place of those that it began with. Which
    /// ones it can take while it runs is for the kind of component to say.
    pub fn ask_with(&self, component: &str, options: Table) {
        // before the wish, so that who answers finds them
        self.changed().insert(component.to_owned(), options);
        self.ask();
    }

    /// The options that a component was given last while it runs; they are those of later wishes too.
    pub fn options_of(&self, component: &str) -> Option<Table> {
        self.changed().get(component).cloned()
    }

    fn changed(&self) -> MutexGuard<'_, BTreeMap<String, Table>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was asked for since the last call.
    pub fn take(&mut self) -> bool {
        let asked = self.asked.load(Ordering::Acquire);
        std::mem::replace(&mut self.answered, asked) != asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clone_answers_once() {
        let signal = ReloadSignal::default();
        let [mut one, mut other] = [signal.clone(), signal.clone()];
        assert!(!one.take());
        signal.ask();
        signal.ask();
        assert!(one.take() && !one.take() && other.take());
    }

    #[test]
    fn options_are_those_of_one_component_and_the_last_ones() {
        let signal = ReloadSignal::default();
        let mut one = signal.clone();
        let options = |text: &str| text.parse::<Table>().expect("a table");
        signal.ask_with("one", options("allow = '192.0.2.0/24'"));
        signal.ask_with("one", options("allow = '198.51.100.0/24'"));
        assert!(one.take());
        signal.ask();
        assert!(one.take());
        assert_eq!(one.options_of("one"), Some(options("allow = '198.51.100.0/24'")));
        assert_eq!(one.options_of("other"), None);
    }
}
