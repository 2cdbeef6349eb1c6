//! A chain made by a program: components are added with their option structs, no text is printed and parsed.
//!
//! What a chain file would say of it is kept beside the components, for whoever wants to see it: only options that
//! differ from their defaults.

use std::fmt::Write;
use std::path::Path;

use crate::columns::{ColumnRule, FlowColumnRule};
use crate::config::{BURST_RECORDS, ComponentSpec, Place, QUEUE_BURSTS, QueueSpec, ThreadChoice};
use crate::graph::Graph;
use crate::options::{Given, read};
use crate::{Chain, ComponentKind, ConfigError, OptionError, Options};

/// Gathers the components of a chain.
pub struct ChainBuilder {
    name: String,
    queue: QueueSpec,
    components: Vec<ComponentSpec>,
    /// What is wrong with options, by the name of the component.
    errors: Vec<(String, OptionError)>,
    /// The tables of a chain file, one for each component.
    tables: String,
}

impl ChainBuilder {
    pub(crate) fn new(name: &str) -> Self {
        let queue = QueueSpec { burst_records: BURST_RECORDS, queue_bursts: QUEUE_BURSTS };
        Self { name: name.to_owned(), queue, components: Vec::new(), errors: Vec::new(), tables: String::new() }
    }

    /// Rows of a burst (0 for bursts as they come) and bursts of a queue, for the components that are added after this.
    #[must_use]
    pub fn queues(mut self, burst_records: usize, queue_bursts: usize) -> Self {
        self.queue = QueueSpec { burst_records, queue_bursts };
        self
    }

    /// Adds a component with one input or none; `inputs` are the names of the components that feed it.
    #[must_use]
    pub fn add<O: Options>(
        mut self,
        name: &str,
        kind: &'static ComponentKind<O>,
        options: O,
        inputs: &[&str],
        thread: ThreadChoice,
    ) -> Self {
        self.write(name, kind.name, &options, inputs, &thread);
        let inputs: Vec<String> = inputs.iter().map(|input| (*input).to_owned()).collect();
        let inputs = if kind.inputs.is_empty() { Vec::new() } else { vec![inputs] };
        // the way that values of a chain file go, ranges and all
        let given = options.changed().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let read = read::<O>(&Given::from_table(given, Path::new("")));
        match read.and_then(|_| (kind.configure)(options)) {
            Ok(opener) => self.components.push(ComponentSpec {
                name: name.to_owned(),
                kind,
                inputs,
                thread,
                queue: self.queue,
                columns: ColumnRule::Kept,
                flow_columns: FlowColumnRule::Unknown,
                opener,
                place: Place(None),
            }),
            Err(error) => self.errors.push((name.to_owned(), error)),
        }
        self
    }

    /// What is wrong with options, each error with the name of its component. [`build`](Self::build) has the same without a place:
    /// who read the options from a file says where they are in it.
    pub fn option_errors(&self) -> &[(String, OptionError)] {
        &self.errors
    }

    /// The chain, when the options of all components make sense and the graph does.
    pub fn build(self) -> Result<Chain, Vec<ConfigError>> {
        if !self.errors.is_empty() {
            let of_file = |(_, OptionError { message, hint, .. })| ConfigError { line: 0, column: 0, message, hint };
            return Err(self.errors.into_iter().map(of_file).collect());
        }
        let graph = Graph::new("", &self.components)?;
        Ok(Chain { name: self.name, components: self.components, graph })
    }

    /// The chain file that says the same.
    pub fn text(&self) -> String {
        let mut text = format!("name = {}\n", toml::Value::from(self.name.as_str()));
        if self.queue.burst_records != BURST_RECORDS || self.queue.queue_bursts != QUEUE_BURSTS {
            // writing to a text does not fail
            let _ = writeln!(
                text,
                "burst_records = {}\nqueue_bursts = {}",
                self.queue.burst_records, self.queue.queue_bursts
            );
        }
        text + &self.tables
    }

    fn write(&mut self, name: &str, kind: &str, options: &impl Options, inputs: &[&str], thread: &ThreadChoice) {
        let mut lines = vec![("type", toml::Value::from(kind))];
        if !inputs.is_empty() {
            lines.push(("inputs", inputs.to_vec().into()));
        }
        match thread {
            ThreadChoice::Default => {}
            ThreadChoice::Own => lines.push(("thread", "own".into())),
            ThreadChoice::Upstream => lines.push(("thread", "upstream".into())),
            ThreadChoice::Named(thread) => lines.push(("thread", thread.as_str().into())),
        }
        lines.extend(options.changed());
        let _ = write!(self.tables, "\n[components.{name}]\n");
        for (key, value) in lines {
            let _ = writeln!(self.tables, "{key} = {value}");
        }
    }
}
