//! The file of a watch.

use std::path::Path;

use toml::{Table, Value};
use weir_chain::options::Given;
use weir_chain::{OptionError, TimeSpan, choices, options};
use weir_flow::Column;
use weir_notify::{Action, Zone};
use weir_reports::Severity;
use weir_sql::standing::QuerySetup;
use weir_sql::standing::dialect::{Parameter, Parameters};

use crate::WatchError;

choices! {
    /// The time of a flow that decides in which window it is.
    pub enum TimeColumn {
        /// When the collector received it.
        Received = "received",
        /// When it began.
        Start = "start",
        /// When it ended.
        End = "end",
    }
}

choices! {
    /// What is done with a flow that comes too late for its window.
    pub enum LateFlows {
        /// Leave it out of windows that have closed, and count it.
        Drop = "drop",
        /// Ask the window again, and report what has changed.
        Correct = "correct",
    }
}

impl TimeColumn {
    /// The column.
    pub fn column(self) -> Column {
        match self {
            Self::Received => Column::Received,
            Self::Start => Column::Start,
            Self::End => Column::End,
        }
    }
}

options! {
    /// Options of a watch, which its file gives.
    pub struct WatchOptions {
        /// Ask this statement for each window that closes. Each row of its answer is evidence.
        query: String,
        /// Do not ask the watch: windows that end meanwhile are skipped for good and counted in `windows_skipped`, also over
        /// restarts. Afterwards it goes on with the next whole window.
        paused: bool = false,
    }
    includes {
        /// How windows close.
        windows: WindowOptions,
        /// What is reported.
        reports: ReportOptions,
    }
}

options! {
    /// How the windows of a watch close, and its limits.
    pub struct WindowOptions {
        /// Put flows into windows by this time, and count history back from it.
        time: TimeColumn = TimeColumn::Received,
        /// Read times that the statement has without a zone, and count its days and hours, by the clock of this zone, as
        /// `weir sql` does: `local`, `UTC` or a name such as `Europe/Berlin`.
        zone: Zone = Zone::default(),
        /// Close a window this long after its end. Flows that come later count as late.
        lateness: TimeSpan = TimeSpan::ZERO,
        /// What to do with a flow that comes too late for a window: leave it out, or ask the window again and report what
        /// has changed, as a correction.
        late: LateFlows = LateFlows::Drop,
        /// With `late = "correct"`, keep the flows of a window for this long after it has closed.
        late_max: TimeSpan = TimeSpan::from_secs(600),
        /// Close windows by the clock when no flow was received for this long.
        idle: TimeSpan = TimeSpan::from_secs(1),
        /// Leave a flow that is dated this much after its reception out of windows, and count it: it must not move time. History
        /// has it at the time of its date.
        skew: TimeSpan = TimeSpan::from_secs(60),
        /// Ask also for windows that have no flow, unless time passes more than 100,000 of them at once.
        empty_windows: bool = false,
        /// Keep at most this many flows of open windows. Those beyond are left out and counted in `rows_shed`. As many may be of
        /// closed windows that wait for their answer. All watches together have a limit of memory beside it (`--watch-memory`).
        rows_max: u64 = 20_000_000 => 1..=1_000_000_000_000,
        /// Keep at most this many sessions open. Flows of further keys are left out and counted in `rows_without_session`.
        sessions_max: usize = 1_000_000 => 1..=1_000_000_000,
        /// Keep at most this many closed windows waiting for their answer, and of several no more than have `rows_max` flows.
        /// Further ones are not asked and counted in `windows_shed`.
        windows_waiting_max: usize = 64 => 1..=100_000,
        /// Give an answer up after this time.
        answer_time_max: TimeSpan = TimeSpan::from_secs(60),
    }
}

options! {
    /// What a watch reports.
    pub struct ReportOptions {
        /// Say in one line what the watch finds.
        title: String = String::new(),
        /// Give reports this severity.
        severity: Severity = Severity::Notice,
        /// Make a report for each value of these columns of the answer. Without, a window makes one report of all rows.
        key: Vec<String> = Vec::new(),
        /// Do not report a key again within this time.
        repeat_after: TimeSpan = TimeSpan::from_secs(600),
        /// Do not ask the watch about a window before which the archive has flows of less than this time: to a watch that
        /// compares with the past everything is new there. What counts is the oldest flow of the last 2 x `history_min` before
        /// the window. An archive that has removed older flows has enough, but not for a backtest, which compares with what is
        /// there now. It is printed once, and counted in `windows_without_past`.
        history_min: TimeSpan = TimeSpan::ZERO,
        /// Make at most this many reports of a window; one more stands for those left out.
        reports_max: usize = 100 => 1..=1_000_000,
        /// Put at most this many rows into a report.
        evidence_rows_max: usize = 20 => 1..=10_000,
        /// Print this command with a report, with `{column}` for values of its first row, and `{archive}`, `{from}`, `{since}` and
        /// `{to}`. `{archive}` has quotes of its own where its path needs some.
        next: String = String::new(),
        /// Explain how the watch decides, for readers of its reports.
        method: String = String::new(),
        /// Explain what it takes for something else, and what it misses.
        pitfalls: String = String::new(),
    }
}

/// A watch, as its file has it.
#[derive(Debug, Clone)]
pub struct WatchFile {
    /// Its name: that of the file without its ending.
    pub name: String,
    /// Its options.
    pub options: WatchOptions,
    /// What the statement needs besides its text.
    pub setup: QuerySetup,
    /// Where its reports go besides the journal.
    pub actions: Vec<Action>,
}

impl WatchFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, WatchError> {
        Self::read_with_text(path).map(|(file, _)| file)
    }

    /// Reads a file; gives its text, too.
    pub(crate) fn read_with_text(path: &Path) -> Result<(Self, String), WatchError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| WatchError::Read { path: path.to_owned(), source })?;
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let file = Self::parse(&text, &name, path.parent().unwrap_or(Path::new("")))
            .map_err(|error| WatchError::File { path: path.to_owned(), error })?;
        Ok((file, text))
    }

    /// Reads the text of a file; relative paths in it are relative to `folder`.
    pub fn parse(text: &str, name: &str, folder: &Path) -> Result<Self, OptionError> {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(is_fit) {
            let message = format!("'{}' is no name of a watch", name.escape_debug());
            return Err(OptionError::new("", message).with_hint("use letters, digits, - and _ in the name of the file"));
        }
        let mut table: Table =
            text.parse().map_err(|error: toml::de::Error| OptionError::new("", error.to_string()))?;
        let parameters = sub_table(&mut table, "parameters")?;
        let views = sub_table(&mut table, "views")?;
        let actions = Action::read_all(table.remove("actions"), folder)?;
        let options: WatchOptions = weir_chain::options::read(&Given::from_table(table, folder))?;
        let parameters: Result<Parameters, _> =
            parameters.into_iter().map(|(name, value)| Ok((name.clone(), parameter(&name, &value)?))).collect();
        let views = views.into_iter().map(|(name, value)| match value {
            Value::String(text) => Ok((name, text)),
            _ => Err(OptionError::new("views", format!("view '{name}' is no statement in quotes"))),
        });
        let setup = QuerySetup {
            time: options.windows.time.column(),
            views: views.collect::<Result<_, _>>()?,
            parameters: parameters?,
            zone: options.windows.zone.time_zone().clone(),
        };
        Ok(Self { name: name.to_owned(), options, setup, actions })
    }
}

fn sub_table(table: &mut Table, key: &str) -> Result<Table, OptionError> {
    match table.remove(key) {
        None => Ok(Table::new()),
        Some(Value::Table(found)) => Ok(found),
        Some(_) => Err(OptionError::new(key, format!("'{key}' is a table [{key}]"))),
    }
}

/// A text that is a length of time is one; all other texts are texts.
fn parameter(name: &str, value: &Value) -> Result<Parameter, OptionError> {
    match value {
        Value::String(text) => Ok(match text.parse::<TimeSpan>() {
            Ok(span) if !span.is_zero() => Parameter::Span(span.millis()),
            _ => Parameter::Text(text.clone()),
        }),
        Value::Integer(number) => Ok(Parameter::Number(number.to_string())),
        Value::Float(number) => Ok(Parameter::Number(number.to_string())),
        Value::Boolean(is_true) => Ok(Parameter::Number(is_true.to_string())),
        Value::Array(items) => {
            items.iter().map(|item| parameter(name, item)).collect::<Result<_, _>>().map(Parameter::List)
        }
        Value::Datetime(_) | Value::Table(_) => {
            Err(OptionError::new("parameters", format!("parameter '{name}' is no text, number or list of them")))
        }
    }
}
