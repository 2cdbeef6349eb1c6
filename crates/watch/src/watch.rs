//! A watch at work: its statement, and which of its reports are new.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use weir_archive::Snapshot;
use weir_chain::ByteSize;
use weir_flow::schema::CONTENT_KEY;
use weir_reports::watches::KeyColumn;
use weir_sql::standing::{QuestionMemory, StandingEngine, StandingOptions, StandingQuery, Window, WindowRows};

use crate::WatchError;
use crate::file::{LateFlows, WatchFile, WindowOptions};
use crate::grown::GrownPane;
use crate::open_windows::OpenWindows;
use crate::panes::{ClosedWindow, PaneOptions, Panes};
use crate::past::NeededPast;
use crate::report::{Report, ReportMaker, WORDS, time_text, too_many};
use crate::sessions::{SessionOptions, Sessions};
use crate::template;

/// Keys whose last report is remembered.
const KEYS_MAX: usize = 1_000_000;

/// A watch whose statement is planned.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) file: WatchFile,
    pub(crate) query: StandingQuery,
    /// The same for windows of which rows were aggregated before they closed.
    early: Option<StandingQuery>,
    maker: ReportMaker,
    past: NeededPast,
    /// What its windows take of the memory of all watches.
    memory: QuestionMemory,
    /// Rows of sessions that were left out, and that no report has said yet: which session they would have been of is not known.
    left_out: u64,
}

impl Watch {
    pub(crate) fn prepare(file: WatchFile, engine: &StandingEngine, archive: &str) -> Result<Self, WatchError> {
        let name = file.name.clone();
        let failed = |source| WatchError::Statement { name, source: Box::new(source) };
        let query = engine.prepare(&file.options.query, &file.setup).map_err(failed)?;
        let failed = |source| WatchError::Statement { name: file.name.clone(), source: Box::new(source) };
        let early = engine.prepare_early(&query, &file.options.query, &file.setup).map_err(failed)?;
        let maker = ReportMaker::new(&file, archive, query.has_sessions());
        let past = NeededPast::of(&file);
        let watch = Self { file, query, early, maker, past, memory: engine.window_memory(), left_out: 0 };
        watch.check_keys()?;
        watch.check_names()?;
        if !watch.query.has_history() && !watch.file.options.reports.history_min.is_zero() {
            let message = "history_min is for statements with HISTORY or SAME_TIME, and there is neither".to_owned();
            return Err(watch.mistake(message, None));
        }
        if watch.query.has_sessions() && watch.late_ms() > 0 {
            let message =
                "late = \"correct\" is for TUMBLE and HOP: a late flow may join sessions that were reported".to_owned();
            return Err(watch.mistake(message, Some("give flows more time with `lateness`")));
        }
        Ok(watch)
    }

    /// Keys are columns of the answer.
    fn check_keys(&self) -> Result<(), WatchError> {
        let schema = self.query.schema();
        for key in &self.file.options.reports.key {
            if schema.field_with_name(key).is_err() {
                let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                let message = format!("the key '{key}' is no column of the answer, which has {}", names.join(", "));
                return Err(self.mistake(message, None));
            }
        }
        Ok(())
    }

    /// The columns of keys, in their order. Those that hold addresses have them in their usual form in reports.
    fn key_columns(&self) -> Vec<KeyColumn> {
        let schema = self.query.schema();
        let is_address = |name: &str| {
            schema.field_with_name(name).is_ok_and(|field| {
                let content = field.metadata().get(CONTENT_KEY).map(String::as_str);
                *field.data_type() == DataType::Binary && content == Some("address")
            })
        };
        let key = self.file.options.reports.key.iter();
        key.map(|name| KeyColumn { name: name.clone(), is_address: is_address(name) }).collect()
    }

    /// The command to run next names columns, and the parameters are those of the statement.
    fn check_names(&self) -> Result<(), WatchError> {
        let schema = self.query.schema();
        for name in template::names(&self.file.options.reports.next) {
            if schema.field_with_name(name).is_err() && !WORDS.contains(&name) {
                let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                let message = format!("`next` names {{{name}}}, which is no column of the answer");
                let hint = format!("there are {}, and archive, from, to and since", names.join(", "));
                return Err(self.mistake(message, Some(&hint)));
            }
        }
        let statements =
            || std::iter::once(&self.file.options.query).chain(self.file.setup.views.iter().map(|(_, view)| view));
        for name in self.file.setup.parameters.keys() {
            if !statements().any(|statement| has_parameter(statement, name)) {
                let message = format!("the parameter '{name}' is not in the statement");
                return Err(self.mistake(message, Some(&format!("write :{name} where its value belongs"))));
            }
        }
        Ok(())
    }

    fn mistake(&self, message: String, hint: Option<&str>) -> WatchError {
        let mistake = weir_sql::Mistake { message, place: None, hint: hint.map(str::to_owned) };
        let source = Box::new(weir_sql::EngineError::Mistake(Box::new(mistake)));
        WatchError::Statement { name: self.file.name.clone(), source }
    }

    /// Its windows, without rows. A prepared statement has a window.
    pub(crate) fn open_windows(&self) -> Result<Option<OpenWindows>, WatchError> {
        let options = &self.file.options.windows;
        let windows = self.query.windows();
        let input = self
            .query
            .session_input()
            .map_err(|source| WatchError::Statement { name: self.file.name.clone(), source: Box::new(source) })?;
        let (lateness_ms, skew_ms) = (options.lateness.millis(), options.skew.millis());
        if let Some(input) = input {
            let relation = windows.iter().position(Option::is_some).unwrap_or(0);
            let Some(Some(spec)) = windows.get(relation) else { return Ok(None) };
            let options = SessionOptions {
                windows: *spec,
                relation: (relation, windows.len()),
                lateness_ms,
                skew_ms,
                rows_max: options.rows_max,
                sessions_max: options.sessions_max,
                empty_windows: options.empty_windows,
            };
            let sessions = Sessions::new(input, options).within(Some(self.memory.clone()));
            return Ok(Some(OpenWindows::Sessions(Box::new(sessions))));
        }
        let panes = Panes::new(PaneOptions {
            windows: windows.to_vec(),
            columns: self.query.columns().to_vec(),
            lateness_ms,
            late_ms: self.late_ms(),
            skew_ms,
            rows_max: options.rows_max,
            empty_windows: options.empty_windows,
        });
        let panes = panes.map(|panes| {
            let panes = panes.filtered(self.query.row_filter().cloned()).aggregated_early(self.is_early());
            OpenWindows::Panes(Box::new(panes.within(Some(self.memory.clone()))))
        });
        Ok(panes)
    }

    /// What its windows take of the memory of all watches.
    pub(crate) fn memory(&self) -> &QuestionMemory {
        &self.memory
    }

    /// Whether rows can be aggregated before windows close.
    fn is_early(&self) -> bool {
        self.early.is_some() || self.query.is_releasing()
    }

    /// Aggregates the rows of a pane, and drops them.
    pub(crate) fn aggregate(&self, grown: &GrownPane) -> Result<(), WatchError> {
        let query = self.early.as_ref().unwrap_or(&self.query);
        query
            .aggregate(&grown.rows, self.answer_time_max())
            .map_err(|source| WatchError::Statement { name: self.file.name.clone(), source: Box::new(source) })
    }

    fn answer_time_max(&self) -> Duration {
        Duration::from_millis(self.file.options.windows.answer_time_max.millis().unsigned_abs())
    }

    /// How long after it has closed a window is asked again for late flows, in milliseconds.
    pub(crate) fn late_ms(&self) -> i64 {
        let options = &self.file.options.windows;
        if options.late == LateFlows::Correct { options.late_max.millis() } else { 0 }
    }

    /// The length of the longest window, and the slide.
    pub(crate) fn lengths(&self) -> (i64, i64) {
        let kinds = || self.query.windows().iter().flatten().map(|spec| spec.kind);
        let size_ms = kinds().map(|kind| kind.size_ms).max().unwrap_or(0);
        (size_ms, kinds().map(|kind| kind.slide_ms).next().unwrap_or(0))
    }

    /// The longest of the windows that ended: of sessions, from the first of them on.
    pub(crate) fn longest(&self, closed: &ClosedWindow) -> Window {
        let used = closed.rows.iter().zip(self.query.windows()).filter(|(_, spec)| spec.is_some());
        let starts = used.map(|(rows, _)| rows.window.start_ms);
        Window { start_ms: starts.min().unwrap_or(closed.end_ms), end_ms: closed.end_ms }
    }

    /// A report that what was reported of a key of a window does not hold any more.
    pub(crate) fn withdrawn(&self, window: Window, key: String) -> Report {
        self.maker.withdrawn(window, key)
    }

    /// Compares with what the archive has now, and not with what it had.
    pub(crate) fn past_must_be_there(&mut self) {
        self.past.must_be_there();
    }

    /// Why a window is not asked, when the archive has too little of the past for it.
    pub(crate) fn lacks_past(
        &mut self,
        closed: &ClosedWindow,
        history: Option<&Arc<Snapshot>>,
    ) -> Result<Option<String>, WatchError> {
        let Some(archive) = history else { return Ok(None) };
        let window = self.longest(closed);
        let past_ms = self.past.lacking(window.start_ms, archive)?;
        Ok(past_ms.map(|past_ms| self.past.notice(&self.file.name, past_ms)))
    }

    /// The answer about a window, and its reports.
    pub(crate) fn ask(
        &mut self,
        closed: &ClosedWindow,
        history: Option<&Arc<Snapshot>>,
    ) -> Result<(Vec<RecordBatch>, Vec<Report>), WatchError> {
        let window = self.longest(closed);
        let mut rows_left_out = closed.rows_left_out;
        if self.query.has_sessions() {
            self.left_out += rows_left_out;
            rows_left_out = self.left_out;
        }
        let time_max = self.answer_time_max();
        let has_released = closed.rows.iter().any(WindowRows::has_released);
        let query = self.early.as_mut().filter(|_| has_released).unwrap_or(&mut self.query);
        let answer = query.answer(&closed.rows, history, time_max).map_err(|source| WatchError::Answer {
            name: self.file.name.clone(),
            window_end: time_text(window.end_ms),
            source: Box::new(source),
        })?;
        let is_saturated = query.is_saturated();
        let mut reports = self.maker.reports(window, &answer);
        for report in &mut reports {
            report.rows_left_out = rows_left_out;
            report.is_saturated = is_saturated;
        }
        Ok((answer, reports))
    }

    /// Notes that the last window that was asked has a report which is kept: it says how many rows were left out.
    pub(crate) fn note_reported(&mut self) {
        self.left_out = 0;
    }
}

/// Whether `:name` is in a statement.
fn has_parameter(statement: &str, name: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    statement.split(':').skip(1).any(|after| after.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_word)))
}

/// Plans the statement of a watch, and tells how it is answered.
pub fn plan(file: WatchFile) -> Result<String, WatchError> {
    plan_with_keys(file).map(|(plan, _)| plan)
}

/// The same, and the columns of keys of its reports.
pub(crate) fn plan_with_keys(file: WatchFile) -> Result<(String, Vec<KeyColumn>), WatchError> {
    let name = file.name.clone();
    let options = StandingOptions::default();
    let engine =
        StandingEngine::new(&options).map_err(|source| WatchError::Statement { name, source: Box::new(source) })?;
    let memory = ByteSize::from_bytes(options.window_octets_max);
    let WindowOptions { zone, rows_max, sessions_max, windows_waiting_max, answer_time_max, .. } =
        file.options.windows.clone();
    let watch = Watch::prepare(file, &engine, "")?;
    let is_sessions = matches!(watch.open_windows()?, Some(OpenWindows::Sessions(_)));
    let sessions =
        if is_sessions { format!(" of at most {sessions_max} sessions (sessions_max)") } else { String::new() };
    let keys = if is_sessions { ", with the keys of open sessions" } else { "" };
    let early = watch.early.iter().flat_map(StandingQuery::aggregated_names);
    let early = early.map(|name| format!("computed before a window closes, when it has many flows: {name}\n"));
    let early = early.collect::<String>();
    let text = watch.query.explain();
    let (window, rest) = text.split_once('\n').unwrap_or((text.as_str(), ""));
    let zone = zone.time_zone().iana_name().unwrap_or("UTC");
    let plan = format!(
        "{window}\nzone: {zone}\nstate: at most {rows_max} flows{sessions} in open windows (rows_max), \
         {windows_waiting_max} closed windows that wait (windows_waiting_max), \
         {answer_time_max} for an answer (answer_time_max), by default {memory} for windows of all watches{keys} (--watch-memory)\n\
         {early}{rest}"
    );
    Ok((plan, watch.key_columns()))
}

/// Which keys were reported lately.
#[derive(Debug)]
pub(crate) struct RepeatFilter {
    repeat_after_ms: i64,
    last: HashMap<String, (i64, u64)>,
    /// When keys of long ago were dropped last.
    cleaned_ms: i64,
}

impl RepeatFilter {
    pub(crate) fn new(file: &WatchFile, last: HashMap<String, i64>) -> Self {
        let last = last.into_iter().map(|(key, end_ms)| (key, (end_ms, 0))).collect();
        Self { repeat_after_ms: file.options.reports.repeat_after.millis(), last, cleaned_ms: i64::MIN }
    }

    /// The reports that are new, at most this many and one that stands for the rest. Keys of the rest are reported when
    /// there is room.
    pub(crate) fn select(&mut self, reports: Vec<Report>, reports_max: usize) -> Selection {
        let mut selection = Selection { new: Vec::new(), suppressed: 0 };
        let mut rest = Vec::new();
        for mut report in reports {
            if self.is_repeated(&report) {
                selection.suppressed += 1;
            } else if selection.new.len() < reports_max {
                self.remember(&mut report);
                selection.new.push(report);
            } else {
                rest.push(report);
            }
        }
        selection.new.extend(too_many(rest));
        selection
    }

    /// Whether its key was reported lately; then it is counted for the next report.
    fn is_repeated(&mut self, report: &Report) -> bool {
        let end_ms = report.window.end_ms;
        match self.last.get_mut(&report.key) {
            // a clock that was ahead may have reported it in what is the future now
            Some((last_ms, suppressed)) if (0..self.repeat_after_ms).contains(&(end_ms - *last_ms)) => {
                *suppressed += 1;
                true
            }
            _ => false,
        }
    }

    /// The reports of a window that is asked again whose keys were not reported at about that time.
    pub(crate) fn select_later(&mut self, mut reports: Vec<Report>) -> Selection {
        let found = reports.len();
        reports.retain_mut(|report| {
            let end_ms = report.window.end_ms;
            match self.last.get(&report.key) {
                Some((last_ms, _)) if (end_ms - last_ms).abs() < self.repeat_after_ms => false,
                // what was reported of later windows counts for the next ones
                Some((last_ms, _)) if *last_ms > end_ms => true,
                _ => {
                    self.remember(report);
                    true
                }
            }
        });
        Selection { suppressed: (found - reports.len()) as u64, new: reports }
    }

    /// What was reported of a key of a window does not hold: the next report of the key is no repetition of it.
    pub(crate) fn forget(&mut self, key: &str, end_ms: i64) {
        if self.last.get(key).is_some_and(|(last_ms, _)| *last_ms == end_ms) {
            self.last.remove(key);
        }
    }

    fn remember(&mut self, report: &mut Report) {
        let end_ms = report.window.end_ms;
        if self.last.len() >= KEYS_MAX && end_ms > self.cleaned_ms {
            let repeat_after_ms = self.repeat_after_ms;
            self.last.retain(|_, (last_ms, _)| end_ms - *last_ms < repeat_after_ms);
            self.cleaned_ms = end_ms;
        }
        let room = KEYS_MAX.saturating_sub(self.last.len());
        if let Some((_, suppressed)) = self.last.remove(&report.key) {
            report.suppressed = suppressed;
        } else if room == 0 {
            // it is reported again rather than remembered
            return;
        }
        self.last.insert(report.key.clone(), (end_ms, 0));
    }
}

/// What is left of the reports of a window.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) new: Vec<Report>,
    /// Reports whose key was reported lately.
    pub(crate) suppressed: u64,
}
