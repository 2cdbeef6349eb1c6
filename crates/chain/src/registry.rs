//! Kinds of blocks, by the names that chain files give them.

use std::collections::BTreeMap;

use crate::{Block, BlockError, Meter, ParameterError, ParameterSpec, Parameters, Sink, Source, StopSignal};

/// What a block gets when it is made.
#[derive(Debug, Clone, Default)]
pub struct BlockContext {
    /// Name of the block in its chain.
    pub name: String,
    /// Where its counters are.
    pub meter: Meter,
    /// Set when the chain is to stop.
    pub stop: StopSignal,
}

/// A block, ready to work.
pub enum Built {
    /// A source.
    Source(Box<dyn Source>),
    /// A block between source and sink.
    Block(Box<dyn Block>),
    /// A sink.
    Sink(Box<dyn Sink>),
}

/// Makes a block whose parameters were checked: opens files and sockets, starts threads.
pub type Opener = Box<dyn FnOnce(&BlockContext) -> Result<Built, BlockError> + Send>;

/// What a block is in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Rows come out of it only.
    Source,
    /// Rows go in and come out.
    Block,
    /// Rows go into it only.
    Sink,
}

/// A kind of block.
#[derive(Debug, Clone, Copy)]
pub struct BlockKind {
    /// Name as the `type` of a block in chain files.
    pub name: &'static str,
    /// Whether it is a source, a block or a sink.
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

/// The one input of a block that has only one.
pub const ONE_INPUT: &[&str] = &["in"];

/// The kinds of blocks that chains may be made of. Any crate adds its own.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    kinds: BTreeMap<&'static str, BlockKind>,
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
    pub fn add(&mut self, kind: BlockKind) {
        let before = self.kinds.insert(kind.name, kind);
        assert!(before.is_none(), "there are two kinds of block named '{}'", kind.name);
    }

    /// The kind of a name.
    pub fn get(&self, name: &str) -> Option<&BlockKind> {
        self.kinds.get(name)
    }

    /// All kinds, by name.
    pub fn kinds(&self) -> impl Iterator<Item = &BlockKind> + Clone {
        self.kinds.values()
    }
}
