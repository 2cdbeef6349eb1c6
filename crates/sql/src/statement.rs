//! What a statement asks for.
//!
//! Most statements go to the planner as they are. Those that ask about the archive itself (`EXPLAIN`, `DESCRIBE`,
//! `SHOW TABLES`) are answered here: the planner knows neither what was pruned nor what a column means. The options of
//! `EXPLAIN` (`VERBOSE`, `FORMAT`) are left to the planner. What changes anything is refused by its first word, before it
//! is planned: an error about the types of an INSERT would only lead astray. What would take too long to plan is refused too.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{SQLOptions, SessionContext};
use datafusion::sql::parser::{ExplainStatement, Statement};
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as Ansi};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use weir_query::Progress;

use crate::headings::Headings;
use crate::inet::{Shift, respelled};
use crate::parameters::{self, ParameterValue, StatementDescription};
use crate::{describe, exact_literals, explain, statement_size, unanswered};

/// A statement that would change something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("only questions are answered, not {word}")]
pub(crate) struct NoQuestion {
    word: String,
}

impl NoQuestion {
    /// How its message begins.
    pub(crate) const BEGIN: &'static str = "only questions are answered";
    pub(crate) const HINT: &'static str = "write one statement that reads: SELECT, EXPLAIN, SHOW or DESCRIBE";
}

/// A statement, by who answers it.
enum Asked {
    /// `SHOW TABLES`.
    Tables,
    /// `DESCRIBE table`.
    Columns(String),
    /// `EXPLAIN`, with `ANALYZE` or without.
    Plan { of: Statement, is_run: bool },
    /// Everything else.
    Rows(Statement),
}

impl Asked {
    fn of(statement: Statement) -> Self {
        match statement {
            Statement::Explain(ExplainStatement { options, statement })
                if !options.verbose
                    && options.format.is_none()
                    && options.analyze_level.is_none()
                    && options.analyze_categories.is_none()
                    && options.show_statistics.is_none() =>
            {
                Self::Plan { of: *statement, is_run: options.analyze }
            }
            Statement::Statement(ansi) => match *ansi {
                Ansi::ExplainTable { table_name, .. } => Self::Columns(name_of(&table_name)),
                Ansi::ShowTables { .. } => Self::Tables,
                other => Self::Rows(Statement::Statement(Box::new(other))),
            },
            other => Self::Rows(other),
        }
    }
}

/// The name of a table without quotes and without its schema.
fn name_of(name: &ObjectName) -> String {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.map(|ident| if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() })
        .unwrap_or_default()
}

/// A statement as it is parsed.
pub(crate) struct Parsed {
    statement: Statement,
    quoted: Quoted,
}

/// Where the text that was parsed differs from the one that was given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quoted {
    /// Where quotes were put around a word, after the rest: places behind them on the line are two further right.
    words: Vec<Location>,
    respelled: Vec<Shift>,
}

impl Parsed {
    /// Parses one statement. `end` need not be quoted where it cannot be the end of a `CASE`.
    pub(crate) fn new(context: &SessionContext, text: &str) -> Result<Self> {
        statement_size::check_text(text, &GenericDialect {})?;
        let state = context.state();
        let dialect = state.config().options().sql_parser.dialect;
        let parse = |text: &str| state.sql_to_statement(text, &dialect);
        let (spelled, respelled) = match respelled(text) {
            Some((spelled, shifts)) => (Cow::Owned(spelled), shifts),
            None => (Cow::Borrowed(text), Vec::new()),
        };
        let (statement, words) = match parse(&spelled) {
            Ok(statement) => (statement, Vec::new()),
            Err(error) => {
                let Some((again, words)) = with_quoted_end(&spelled) else { return Err(error) };
                (parse(&again).map_err(|_| error)?, words)
            }
        };
        refuse_changes(&statement, text)?;
        statement_size::check_reads(&statement)?;
        unanswered::check(&statement)?;
        Ok(Self { statement, quoted: Quoted { words, respelled } })
    }

    /// The same, unless it asks for a plan: plans name the rows, and the filters, that a view hides.
    pub(crate) fn unexplained(self) -> Result<Self> {
        let is_plan = match &self.statement {
            Statement::Explain(_) => true,
            Statement::Statement(ansi) => matches!(&**ansi, Ansi::Explain { .. }),
            _ => false,
        };
        if is_plan {
            return plan_err!("plans are not shown to who sees a part of the flows");
        }
        Ok(self)
    }

    pub(crate) fn quoted(&self) -> Quoted {
        self.quoted.clone()
    }
}

impl Quoted {
    /// The column of a place in the text that was parsed, in the text that was given.
    pub(crate) fn original(&self, line: u64, column: u64) -> u64 {
        let before = self.words.iter().filter(|at| at.line == line);
        let column = before.fold(column, |column, at| if column > at.column + 1 { column - 2 } else { column });
        Shift::original(&self.respelled, line, column)
    }
}

/// Answers a statement that only reads, with values in place of `$1`, `$2` and so on.
pub(crate) async fn answer(
    context: &SessionContext,
    parsed: Parsed,
    values: &[ParameterValue],
    progress: &Arc<Progress>,
) -> Result<SendableRecordBatchStream> {
    match Asked::of(parsed.statement) {
        Asked::Tables => Ok(whole(describe::tables(context)?)),
        Asked::Columns(table) => Ok(whole(describe::columns(context, &table).await?)),
        Asked::Plan { of, is_run } => {
            let plan = parameters::replaced(planned(context, of).await?, values)?;
            let plan = context.execute_logical_plan(plan).await?.create_physical_plan().await?;
            let task = context.task_ctx();
            let progress = Arc::clone(progress);
            let report = async move { explain::report(plan, is_run.then_some(task), &progress).await };
            let schema = explain::schema();
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(report))))
        }
        Asked::Rows(statement) => {
            let headings = Headings::of(&statement);
            let plan = parameters::replaced(planned(context, statement).await?, values)?;
            let headings = headings.with_contents_of(&plan);
            Ok(headings.over(context.execute_logical_plan(plan).await?.execute_stream().await?))
        }
    }
}

/// What a statement takes and gives, without answering it.
pub(crate) async fn description(
    context: &SessionContext,
    parsed: Parsed,
    declared: &[Option<DataType>],
) -> Result<StatementDescription> {
    let without_parameters = |schema| StatementDescription { columns: schema, parameters: Vec::new() };
    match Asked::of(parsed.statement) {
        Asked::Tables => Ok(without_parameters(describe::tables(context)?.schema())),
        Asked::Columns(table) => Ok(without_parameters(describe::columns(context, &table).await?.schema())),
        Asked::Plan { of, .. } => {
            let parameters = parameters::fields(&planned(context, of).await?, declared)?;
            Ok(StatementDescription { columns: explain::schema(), parameters })
        }
        Asked::Rows(statement) => {
            let headings = Headings::of(&statement);
            let plan = planned(context, statement).await?;
            let parameters = parameters::fields(&plan, declared)?;
            let plan = parameters::with_nulls(plan, &parameters)?;
            let headings = headings.with_contents_of(&plan);
            // types are known only when they have been coerced
            let plan = context.execute_logical_plan(plan).await?.create_physical_plan().await?;
            Ok(StatementDescription { columns: headings.schema(&plan.schema()), parameters })
        }
    }
}

/// Refuses what does not only read, by its first word.
fn refuse_changes(statement: &Statement, text: &str) -> Result<()> {
    let is_question = match statement {
        Statement::Explain(_) => true,
        Statement::Statement(ansi) => matches!(
            &**ansi,
            Ansi::Query(_)
                | Ansi::Explain { .. }
                | Ansi::ExplainTable { .. }
                | Ansi::ShowTables { .. }
                | Ansi::ShowColumns { .. }
                | Ansi::ShowVariable { .. }
                | Ansi::ShowVariables { .. }
                | Ansi::ShowFunctions { .. }
        ),
        _ => false,
    };
    if is_question {
        return Ok(());
    }
    let word = text.split_whitespace().next().unwrap_or_default().trim_end_matches(';').to_uppercase();
    Err(DataFusionError::External(Box::new(NoQuestion { word })))
}

/// The text with quotes around each `end` that ends no `CASE`; `None` when there is no such word.
fn with_quoted_end(text: &str) -> Option<(String, Vec<Location>)> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location().ok()?;
    let (mut cases, mut quoted, mut again) = (0_usize, Vec::new(), String::with_capacity(text.len() + 8));
    for token in tokens {
        match &token.token {
            Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::CASE => cases += 1,
            Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::END => {
                if cases == 0 {
                    quoted.push(token.span.start);
                    again.push_str("\"end\"");
                    continue;
                }
                cases -= 1;
            }
            _ => {}
        }
        again.push_str(&token.token.to_string());
    }
    (!quoted.is_empty()).then_some((again, quoted))
}

async fn planned(context: &SessionContext, mut statement: Statement) -> Result<LogicalPlan> {
    exact_literals::keep_texts(&mut statement);
    let plan = context.state().statement_to_plan(statement).await?;
    statement_size::check_plan(&plan)?;
    let read_only = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    read_only.verify_plan(&plan)?;
    Ok(plan)
}

/// An answer that is there at once.
fn whole(batch: RecordBatch) -> SendableRecordBatchStream {
    let schema: SchemaRef = batch.schema();
    Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter([Ok(batch)])))
}
