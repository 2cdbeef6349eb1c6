//! A chain that was read and checked, ready to be started or drawn.

use std::path::Path;

use crate::config::{self, BlockSpec, Setting};
use crate::graph::Graph;
use crate::{ConfigError, Registry};

/// A chain whose file is right: every block is known, its parameters make sense, the graph has no ring, and each block
/// has a thread. Nothing was opened yet.
pub struct Chain {
    pub(crate) name: String,
    pub(crate) blocks: Vec<BlockSpec>,
    pub(crate) graph: Graph,
}

impl Chain {
    /// Reads a chain file. Relative paths in it are relative to `folder`; `settings` replace what the file says.
    pub fn parse(
        text: &str,
        folder: &Path,
        registry: &Registry,
        settings: &[Setting],
    ) -> Result<Self, Vec<ConfigError>> {
        let parsed = config::parse(text, folder, registry, settings)?;
        let graph = Graph::new(text, &parsed.blocks)?;
        Ok(Self { name: parsed.name, blocks: parsed.blocks, graph })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its blocks, in the order of the file.
    pub fn blocks(&self) -> &[BlockSpec] {
        &self.blocks
    }

    /// Its arrows and threads.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}
