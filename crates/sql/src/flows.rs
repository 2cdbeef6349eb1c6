//! Questions about flows, answered by the faster of two ways that can.
//!
//! [`weir_query`] reads segments directly and answers most questions. The engine answers those about flows that are scaled by
//! sampling intervals or have pseudonyms, unless a list of them is read in threads, and writes to disk what memory does not
//! hold. Starting it takes longer than most questions, so it is started when it is first needed, over the snapshot that the
//! archive was opened with: rows, totals and bars of an answer are of one position. What speaks against two ways is that each
//! must give the same answer; tests compare them.

use std::cell::OnceCell;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use weir_print::{ColumnText, CsvPieces, Format, OutputOptions, PrintError, write_batches};
use weir_query::{Archive, FlowQuery, QueryError, SampleSize, Select};

use crate::engine::Totals;
use crate::masking::FlowMasking;
use crate::output::write_answer;
use crate::samples::FlowSample;
use crate::threads::BusyThreads;
use crate::{Answer, Engine, EngineError, EngineOptions, QueryControl};

/// Answers questions about the flows of an archive.
pub struct FlowAnswers {
    /// `None` when flows are kept elsewhere, and only the engine can answer.
    archive: Option<Archive>,
    approximate: bool,
    options: EngineOptions,
    control: QueryControl,
    engine: OnceCell<Engine>,
}

impl std::fmt::Debug for FlowAnswers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_started = self.engine.get().is_some();
        f.debug_struct("FlowAnswers")
            .field("archive", &self.archive)
            .field("engine", &is_started)
            .finish_non_exhaustive()
    }
}

/// An answer on its way.
// a question has one answer, so its size does not matter
#[allow(clippy::large_enum_variant)]
pub enum FlowAnswer {
    /// By [`weir_query`].
    Direct(weir_query::Answer<RecordBatch>),
    /// By the engine.
    Engine(Answer),
}

impl std::fmt::Debug for FlowAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Direct(_) => "FlowAnswer::Direct",
            Self::Engine(_) => "FlowAnswer::Engine",
        })
    }
}

impl FlowAnswer {
    /// Columns of the answer.
    pub fn schema(&self) -> &SchemaRef {
        match self {
            Self::Direct(answer) => answer.schema(),
            Self::Engine(answer) => answer.schema(),
        }
    }

    /// Of an approximate answer: flows, packets and bytes that a value without a row has at most.
    pub fn unlisted_max(&self) -> Option<[u64; 3]> {
        match self {
            Self::Direct(answer) => answer.unlisted_max(),
            Self::Engine(_) => None,
        }
    }
}

impl Iterator for FlowAnswer {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Direct(answer) => answer.next().map(|batch| batch.map_err(EngineError::from)),
            Self::Engine(answer) => answer.next(),
        }
    }
}

/// What was written of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Rows written.
    pub rows: u64,
    /// Of an approximate answer: flows, packets and bytes that a value without a row has at most.
    pub unlisted_max: Option<[u64; 3]>,
}

impl FlowAnswers {
    /// Answers from `archive`. `approximate` tells whether flows that have expired count by their summaries, which the
    /// engine cannot read.
    pub fn new(archive: Archive, options: EngineOptions, control: QueryControl, approximate: bool) -> Self {
        Self { archive: Some(archive), approximate, options, control, engine: OnceCell::new() }
    }

    /// Answers about the flows that an engine has, whichever store keeps them.
    pub fn by(engine: Engine, control: QueryControl) -> Self {
        let options = EngineOptions::default();
        Self { archive: None, approximate: false, options, control, engine: OnceCell::from(engine) }
    }

    /// The archive, at the position that questions see; `None` when flows are kept elsewhere.
    pub fn archive(&self) -> Option<&Archive> {
        self.archive.as_ref()
    }

    /// The question about what is seen of the flows, for the archive, which knows no views.
    fn narrowed(&self, question: &FlowQuery) -> FlowQuery {
        FlowQuery { filter: self.options.view.narrowed(&question.filter), ..question.clone() }
    }

    /// Asks the archive, without the engine.
    fn direct<'a, T>(&'a self, ask: impl FnOnce(&'a Archive) -> Result<T, QueryError>) -> Result<T, QueryError> {
        if self.options.view.pseudonyms.is_some() {
            return Err(QueryError::NeedsEngine("addresses that are replaced"));
        }
        ask(self.own_archive()?)
    }

    fn own_archive(&self) -> Result<&Archive, QueryError> {
        self.archive.as_ref().ok_or(QueryError::NeedsEngine("flows that are kept elsewhere"))
    }

    /// Answers with record batches.
    pub fn ask(&self, question: &FlowQuery) -> Result<FlowAnswer, EngineError> {
        match self.direct(|archive| archive.ask(&self.narrowed(question))) {
            Ok(answer) => Ok(FlowAnswer::Direct(answer)),
            Err(error) => self.by_engine(question, error).map(FlowAnswer::Engine),
        }
    }

    /// Gives the flows of a list to states, batch by batch: each thread that reads has one, which `make` makes. Flows are scaled and
    /// replaced as those of its answer would be. A column that is missing from a batch is null in all of its rows. The engine, where
    /// only it can answer, gives all flows to one state. The question must be a list in no order, without a limit. A state may take
    /// up to `state_octets`.
    ///
    /// Once `add` breaks, reading ends, and the answer is `None`.
    pub fn fold<S: Send>(
        &self,
        question: &FlowQuery,
        state_octets: usize,
        make: impl Fn() -> S + Sync,
        add: impl Fn(&mut S, &RecordBatch) -> ControlFlow<()> + Sync,
    ) -> Result<Option<Vec<S>>, EngineError> {
        match self.fold_directly(question, state_octets, &make, &add) {
            Ok(folded) => Ok(folded),
            Err(error) => {
                let mut state = make();
                for batch in self.by_engine(question, error)? {
                    if add(&mut state, &batch?).is_break() {
                        return Ok(None);
                    }
                }
                Ok(Some(vec![state]))
            }
        }
    }

    /// As [`fold`](Self::fold), without the engine.
    fn fold_directly<S: Send>(
        &self,
        question: &FlowQuery,
        state_octets: usize,
        make: impl Fn() -> S + Sync,
        add: impl Fn(&mut S, &RecordBatch) -> ControlFlow<()> + Sync,
    ) -> Result<Option<Vec<S>>, QueryError> {
        let archive = self.own_archive()?;
        if !question.scaled && self.options.view.pseudonyms.is_none() {
            return archive.fold(&self.narrowed(question), state_octets, make, |state, batch| Ok(add(state, batch)));
        }
        let Select::List { columns, sorting: None, limit: None } = &question.select else {
            return Err(QueryError::NeedsEngine("reading other answers than lists of flows in threads"));
        };
        let (kept, masking) = FlowMasking::of_list(columns, question, &self.options);
        let thread_octets = state_octets.saturating_add(masking.thread_octets());
        archive.fold(&kept, thread_octets, make, |state, batch| Ok(add(state, &masking.seen(batch)?)))
    }

    /// A list of a part of the flows of a question, scaled and replaced as its answer would be. The question must be a list in no
    /// order, without a limit.
    ///
    /// # Errors
    ///
    /// The archive cannot be read, or flows are kept elsewhere: of these no part can be drawn.
    pub fn sample(&self, question: &FlowQuery, size: SampleSize) -> Result<FlowSample, EngineError> {
        Ok(FlowSample::draw(self.own_archive()?, question, size, &self.options)?)
    }

    /// Answers a question once for each of `selects`, which take the place of its own, and gives what `take` makes of the
    /// answers, in their order. The flows are read once where that is possible; the engine answers one after the other.
    pub fn ask_several<T, E: From<EngineError>>(
        &self,
        question: &FlowQuery,
        selects: &[Select],
        mut take: impl FnMut(FlowAnswer) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        match self.direct(|archive| archive.ask_several(&self.narrowed(question), selects)) {
            Ok(answers) => answers.into_iter().map(|answer| take(FlowAnswer::Direct(answer))).collect(),
            Err(QueryError::NeedsEngine(_) | QueryError::Memory(_)) => {
                let question = |select: &Select| FlowQuery { select: select.clone(), ..question.clone() };
                selects.iter().map(|select| take(self.ask(&question(select))?)).collect()
            }
            Err(error) => Err(EngineError::from(error).into()),
        }
    }

    /// Writes the answer to a question. CSV is made by the threads that make the rows.
    pub fn write(
        &self,
        question: &FlowQuery,
        format: Format,
        options: &OutputOptions,
        to: &mut dyn Write,
    ) -> Result<Written, EngineError> {
        let written = match format {
            Format::Csv => self.write_csv(question, options, to),
            _ => self.direct(|archive| archive.ask(&self.narrowed(question))).map(|answer| {
                let (schema, unlisted_max) = (Arc::clone(answer.schema()), answer.unlisted_max());
                write_batches(answer, &schema, format, options, to).map(|rows| Written { rows, unlisted_max })
            }),
        };
        match written {
            Ok(written) => written.map_err(|error| match error {
                PrintError::Batches(error) => error.into(),
                PrintError::Write(error) => EngineError::Write(error),
            }),
            Err(error) => {
                let rows = write_answer(self.by_engine(question, error)?, format, options, to)?;
                Ok(Written { rows, unlisted_max: None })
            }
        }
    }

    /// The first column of an answer as texts, as tables have them.
    pub fn labels(&self, question: &FlowQuery) -> Result<Vec<String>, EngineError> {
        labels_of(self.ask(question)?)
    }

    /// The same of the answer to a question about the flows of a sample, which have passed its filter.
    pub fn labels_among(&self, question: &FlowQuery, sample: FlowSample) -> Result<Vec<String>, EngineError> {
        let answer = self.own_archive()?.ask_sample(question, sample.flows())?;
        labels_of(answer.map(|batch| batch.map_err(EngineError::from)))
    }

    /// What all flows that a question is about carried together.
    pub fn totals(&self, question: &FlowQuery) -> Result<Totals, EngineError> {
        let is_simple = !question.scaled && self.options.view.pseudonyms.is_none();
        let Some(archive) = self.archive.as_ref().filter(|_| is_simple) else {
            return self.engine()?.totals_on(question, &self.control);
        };
        let totals = archive.totals(&self.options.view.narrowed(&question.filter), &question.window)?;
        let (packets, bytes) = (totals.packets.unwrap_or(0), totals.bytes.unwrap_or(0));
        Ok(Totals { flows: totals.flows, packets, bytes })
    }

    /// Ends the engine, when it was started, and removes what it wrote to disk; waits for that at most so long, and gives back
    /// the threads that are still busy then.
    pub fn close(self, wait_max: Duration) -> Option<BusyThreads> {
        self.engine.into_inner().and_then(|engine| engine.close(wait_max))
    }

    fn write_csv(
        &self,
        question: &FlowQuery,
        options: &OutputOptions,
        to: &mut dyn Write,
    ) -> Result<Result<Written, PrintError<QueryError>>, QueryError> {
        let pieces = Arc::new(CsvPieces::new(options));
        let maker = Arc::clone(&pieces);
        let answer =
            self.direct(|archive| archive.ask_each(&self.narrowed(question), move |batch| maker.piece(&batch)))?;
        let (schema, unlisted_max) = (Arc::clone(answer.schema()), answer.unlisted_max());
        Ok(pieces.write(answer, &schema, to).map(|rows| Written { rows, unlisted_max }))
    }

    /// The engine's answer, where the engine can do what was refused.
    fn by_engine(&self, question: &FlowQuery, refused: QueryError) -> Result<Answer, EngineError> {
        match refused {
            QueryError::NeedsEngine(_) | QueryError::Memory { .. } if !self.approximate => {
                self.engine()?.ask_on(question, &self.control)
            }
            error => Err(error.into()),
        }
    }

    /// The engine, over the snapshot that questions without it see.
    fn engine(&self) -> Result<&Engine, EngineError> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let engine = Engine::over(self.own_archive()?.snapshot(), &self.options)?;
        Ok(self.engine.get_or_init(|| engine))
    }
}

/// The first column of an answer as texts.
fn labels_of(answer: impl Iterator<Item = Result<RecordBatch, EngineError>>) -> Result<Vec<String>, EngineError> {
    let mut labels = Vec::new();
    for batch in answer {
        let batch = batch?;
        let Some((field, values)) = batch.schema_ref().fields().first().zip(batch.columns().first()) else { continue };
        let mut texts = ColumnText::new(field, values);
        for row in 0..batch.num_rows() {
            let mut text = Vec::new();
            texts.push(row, &mut text);
            labels.push(String::from_utf8_lossy(&text).into_owned());
        }
    }
    Ok(labels)
}
