//! A component in its thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::run::ChainError;
use crate::run::accounts::Accounts;
use crate::run::queue::QueueSender;
use crate::{ComponentError, Outlet, Sink, Source, Transform};

/// A component and where its rows go.
pub(crate) struct Slot {
    /// Its index in the chain.
    pub component: usize,
    pub work: Work,
    /// Where its rows go; `None` once nobody there wants them any more.
    pub outs: Vec<Option<Out>>,
    /// For each input, how many components that feed it have not ended.
    pub open_edges: Vec<usize>,
    /// What accounts for rows that it changes; `None` where the books of its input fit its output.
    pub accounts: Option<Accounts>,
}

/// What a slot does.
pub(crate) enum Work {
    Source(Box<dyn Source>),
    Transform(Box<dyn Transform>),
    Sink(Box<dyn Sink>),
    /// It has ended, failed or was given up.
    Gone,
}

impl Work {
    pub(crate) fn is_source(&self) -> bool {
        matches!(self, Self::Source(_))
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }
}

/// One way out of a component.
pub(crate) enum Out {
    /// To a component of the same thread.
    Local {
        /// Its place in the thread.
        slot: usize,
        /// Which of its inputs.
        input: usize,
    },
    /// To a component of another thread.
    Queue(QueueSender),
}

impl Slot {
    pub(crate) fn new(component: usize, work: Work, open_edges: Vec<usize>) -> Self {
        let is_changing = matches!(&work, Work::Transform(component) if !component.keeps_bursts());
        Self { component, work, outs: Vec::new(), open_edges, accounts: is_changing.then(Accounts::default) }
    }

    /// Calls into the component; a panic there is an error of the component and of nothing else.
    pub(crate) fn call<T>(
        &mut self,
        name: &str,
        out: &mut Outlet,
        call: impl FnOnce(&mut Work, &mut Outlet) -> Result<T, ComponentError>,
    ) -> Result<T, ChainError> {
        match catch_unwind(AssertUnwindSafe(|| call(&mut self.work, out))) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(source)) => Err(ChainError::Failed { component: name.to_owned(), source }),
            Err(panic) => {
                let message = panic
                    .downcast_ref::<&str>()
                    .map(ToString::to_string)
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "no message".to_owned());
                Err(ChainError::Panicked { component: name.to_owned(), message })
            }
        }
    }
}
