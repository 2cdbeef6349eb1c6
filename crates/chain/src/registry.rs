//! Kinds of components, by the names that chain files give them.

use std::collections::BTreeMap;

use crate::columns::{ColumnRule, FlowColumnRule};
use crate::options::{self, Given, OptionSpec, Options};
use crate::{ComponentError, Counters, Notices, OptionError, ReloadSignal, Sink, Source, StopSignal, Transform};

/// What a component gets when it is made.
#[derive(Debug, Clone, Default)]
pub struct ComponentContext {
    /// Name of the component in its chain.
    pub name: String,
    /// Where its counters are.
    pub counters: Counters,
    /// Set when the chain is to stop.
    pub stop: StopSignal,
    /// Set when files are to be read again.
    pub reload: ReloadSignal,
    /// Where lines for whoever runs the chain go.
    pub notices: Notices,
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

/// Makes a component whose options were checked: opens files and sockets, starts threads.
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

/// A kind of component: its option struct, and what makes a component of it.
pub struct ComponentKind<O> {
    /// Name as the `type` of a component in chain files.
    pub name: &'static str,
    /// Whether it is a source, a transform or a sink.
    pub role: Role,
    /// Names of its inputs, in the order of their indexes. Empty for a source; `["in"]` for most others.
    pub inputs: &'static [&'static str],
    /// Documentation: the first sentence says what it does, the rest what rows it needs and hands on.
    pub doc: &'static str,
    /// Makes sense of the options without touching anything outside: what `weir chain check` does. What it returns
    /// does the rest when the chain starts.
    pub configure: fn(O) -> Result<Opener, OptionError>,
}

/// A kind of component whose option struct is not named: what a registry holds.
pub trait AnyKind: Sync {
    /// Name as the `type` of a component in chain files.
    fn name(&self) -> &'static str;
    /// Whether it is a source, a transform or a sink.
    fn role(&self) -> Role;
    /// Names of its inputs, in the order of their indexes.
    fn inputs(&self) -> &'static [&'static str];
    /// Its documentation.
    fn doc(&self) -> &'static str;
    /// Its options.
    fn options(&self) -> Vec<OptionSpec>;
    /// Reads the options and makes sense of them.
    fn configure(&self, given: &Given) -> Result<Opener, OptionError>;
    /// What a component with these options does to columns that flows do not have.
    fn columns(&self, _given: &Given) -> ColumnRule {
        ColumnRule::Kept
    }
    /// Which columns of flows a component with these options needs and hands on.
    fn flow_columns(&self, _given: &Given) -> FlowColumnRule {
        FlowColumnRule::Unknown
    }
}

impl<O: Options> AnyKind for ComponentKind<O> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn role(&self) -> Role {
        self.role
    }

    fn inputs(&self) -> &'static [&'static str] {
        self.inputs
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn options(&self) -> Vec<OptionSpec> {
        O::specs()
    }

    fn configure(&self, given: &Given) -> Result<Opener, OptionError> {
        (self.configure)(options::read(given)?)
    }
}

/// A kind whose components do more to columns than keeping them, or need some.
pub struct KindWithColumns<O: 'static> {
    /// The kind.
    pub kind: ComponentKind<O>,
    /// What a component with these options does to columns that flows do not have.
    pub columns: fn(&O) -> ColumnRule,
    /// Which columns of flows it needs and hands on.
    pub flow_columns: fn(&O) -> FlowColumnRule,
}

impl<O: Options> AnyKind for KindWithColumns<O> {
    fn name(&self) -> &'static str {
        self.kind.name
    }

    fn role(&self) -> Role {
        self.kind.role
    }

    fn inputs(&self) -> &'static [&'static str] {
        self.kind.inputs
    }

    fn doc(&self) -> &'static str {
        self.kind.doc
    }

    fn options(&self) -> Vec<OptionSpec> {
        O::specs()
    }

    fn configure(&self, given: &Given) -> Result<Opener, OptionError> {
        (self.kind.configure)(options::read(given)?)
    }

    fn columns(&self, given: &Given) -> ColumnRule {
        // options that cannot be read are an error of `configure`
        options::read(given).map_or(ColumnRule::Kept, |options| (self.columns)(&options))
    }

    fn flow_columns(&self, given: &Given) -> FlowColumnRule {
        options::read(given).map_or(FlowColumnRule::Unknown, |options| (self.flow_columns)(&options))
    }
}

impl std::fmt::Debug for dyn AnyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyKind").field("name", &self.name()).field("role", &self.role()).finish_non_exhaustive()
    }
}

crate::options! {
    /// Options of a kind that has none.
    pub struct NoOptions {}
}

/// The one input of a component that has only one.
pub const ONE_INPUT: &[&str] = &["in"];

/// The kinds of components that chains may be made of. Any crate adds its own.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    kinds: BTreeMap<&'static str, &'static dyn AnyKind>,
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
    pub fn add(&mut self, kind: &'static dyn AnyKind) {
        let before = self.kinds.insert(kind.name(), kind);
        assert!(before.is_none(), "there are two kinds of component named '{}'", kind.name());
    }

    /// The kind of a name.
    pub fn get(&self, name: &str) -> Option<&'static dyn AnyKind> {
        self.kinds.get(name).copied()
    }

    /// All kinds, by name.
    pub fn kinds(&self) -> impl Iterator<Item = &'static dyn AnyKind> + Clone {
        self.kinds.values().copied()
    }
}
