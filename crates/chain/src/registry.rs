//! Kinds of components, by the names that chain files give them.

use std::collections::BTreeMap;

use crate::{ComponentError, Counters, ParameterError, ParameterSpec, Parameters, Sink, Source, StopSignal, Transform};

/// What a component gets when it is made.
#[derive(Debug, Clone, Default)]
pub struct ComponentContext {
    /// Name of the component in its chain.
    pub name: String,
    /// Where its counters are.
    pub counters: Counters,
    /// Set when the chain is to stop.
    pub stop: StopSignal,
}

/// A component, ready to work.
pub enum Built {
    /// A source.
    Source(Box<dyn Source>),
    /// A component between source and sink.
    Transform(Box<dyn Transform>),
    /// A sink.
    Sink(Box<dyn Sink>),
}

/// Makes a component whose parameters were checked: opens files and sockets, starts threads.
pub type Opener = Box<dyn FnOnce(&ComponentContext) -> Result<Built, ComponentError> + Send>;

/// What a component is in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Rows come out of it only.
    Source,
    /// Rows go in and come out.
    Transform,
    /// Rows go into it only.
    Sink,
}

/// A kind of component.
#[derive(Debug, Clone, Copy)]
pub struct ComponentKind {
    /// Name as the `type` of a component in chain files.
    pub name: &'static str,
    /// Whether it is a source, a transform or a sink.
    pub role: Role,
    /// Names of its inputs, in the order of their indexes. Empty for a source; `["in"]` for most others.
    pub inputs: &'static [&'static str],
    /// Documentation: the first sentence tells what it does, the rest what rows it needs and hands on.
    pub doc: &'static str,
    /// Its parameters.
    pub parameters: &'static [ParameterSpec],
    /// Makes sense of the parameters without touching anything outside: what `weir chain check` does. What it returns
    /// does the rest when the chain starts.
    pub configure: fn(&Parameters) -> Result<Opener, ParameterError>,
}

/// The one input of a component that has only one.
pub const ONE_INPUT: &[&str] = &["in"];

/// The kinds of components that chains may be made of. Any crate adds its own.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    kinds: BTreeMap<&'static str, ComponentKind>,
}

impl Registry {
    /// A registry without a kind.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind.
    ///
    /// # Panics
    /// When there is one of the same name.
    pub fn add(&mut self, kind: ComponentKind) {
        let before = self.kinds.insert(kind.name, kind);
        assert!(before.is_none(), "there are two kinds of component named '{}'", kind.name);
    }

    /// The kind of a name.
    pub fn get(&self, name: &str) -> Option<&ComponentKind> {
        self.kinds.get(name)
    }

    /// All kinds, by name.
    pub fn kinds(&self) -> impl Iterator<Item = &ComponentKind> + Clone {
        self.kinds.values()
    }
}
