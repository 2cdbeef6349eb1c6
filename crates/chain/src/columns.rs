//! Columns that flows do not have, followed through a chain before anything is opened.
//!
//! A component that adds columns in front of one that takes flows only ends a chain at its first row, after hours perhaps.
//! What a component does to such columns follows from its options, so the check needs no row. It knows those that are added;
//! whether a column that a component needs is there depends on what comes, and stays an error of the first row.

use std::collections::BTreeMap;

use crate::ConfigError;
use crate::OptionError;
use crate::config::{ComponentSpec, error_at};
use crate::graph::Edge;
use crate::options::{self, Given, OptionSpec, Options};
use crate::registry::{AnyKind, ComponentKind, Opener, Role};

/// What a component does to columns that flows do not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnRule {
    /// It hands them on as they come.
    Kept,
    /// It hands them on, and adds these.
    Adds(Vec<&'static str>),
    /// Of such columns its rows have these only.
    Replaced(Vec<&'static str>),
    /// It takes none; what can be done about it.
    Refused(&'static str),
}

/// A kind whose components do more to columns than keeping them.
pub struct KindWithColumns<O: 'static> {
    /// The kind.
    pub kind: ComponentKind<O>,
    /// What a component with these options does.
    pub columns: fn(&O) -> ColumnRule,
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
}

/// Finds components that get columns which they refuse. Indexes of `order` are those of `components`, each after those that
/// feed it.
pub(crate) fn check(
    text: &str,
    components: &[ComponentSpec],
    edges: &[Edge],
    order: &[usize],
) -> Result<(), Vec<ConfigError>> {
    // for each component what it hands on, by name, and who added it
    let mut handed_on: Vec<BTreeMap<&'static str, usize>> = vec![BTreeMap::new(); components.len()];
    let mut errors = Vec::new();
    for &at in order {
        let upstream = edges.iter().filter(|edge| edge.to == at).map(|edge| edge.from);
        let mut columns: BTreeMap<_, _> = upstream.flat_map(|from| handed_on[from].clone()).collect();
        let component = &components[at];
        match &component.columns {
            ColumnRule::Kept => {}
            ColumnRule::Adds(more) => columns.extend(more.iter().map(|name| (*name, at))),
            ColumnRule::Replaced(these) => columns = these.iter().map(|name| (*name, at)).collect(),
            ColumnRule::Refused(hint) => {
                if let Some((name, by)) = columns.first_key_value() {
                    let (taker, by) = (&component.name, &components[*by].name);
                    let message = format!(
                        "component '{taker}' takes flows only, and '{name}', which '{by}' adds, is no column of flows"
                    );
                    errors.push(error_at(text, component.place, message, Some((*hint).to_owned())));
                }
            }
        }
        handed_on[at] = columns;
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
