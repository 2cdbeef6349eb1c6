//! A chain that was read and checked, ready to be started or drawn.

use std::path::Path;

use crate::config::{self, ComponentSpec, Setting};
use crate::graph::Graph;
use crate::{ChainBuilder, ConfigError, Registry};

/// A chain whose file is right: every component is known, its options are valid, the graph has no ring, and each component
/// has a thread. Nothing was opened yet.
pub struct Chain {
    pub(crate) name: String,
    pub(crate) components: Vec<ComponentSpec>,
    pub(crate) graph: Graph,
}

impl Chain {
    /// A chain of components whose options are structs, for commands that are chains.
    pub fn builder(name: &str) -> ChainBuilder {
        ChainBuilder::new(name)
    }

    /// Reads a chain file. Relative paths in it are relative to `folder`; `settings` replace what the file says.
    pub fn parse(
        text: &str,
        folder: &Path,
        registry: &Registry,
        settings: &[Setting],
    ) -> Result<Self, Vec<ConfigError>> {
        let parsed = config::parse(text, folder, registry, settings)?;
        let graph = Graph::new(text, &parsed.components)?;
        Ok(Self { name: parsed.name, components: parsed.components, graph })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its components, in the order of the file.
    pub fn components(&self) -> &[ComponentSpec] {
        &self.components
    }

    /// Its arrows and threads.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}
