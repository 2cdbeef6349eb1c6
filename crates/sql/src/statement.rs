//! What a statement asks for.
//!
//! Most statements go to the planner as they are. Those that ask about the archive itself (`EXPLAIN`, `DESCRIBE`,
//! `SHOW TABLES`) are answered here: the planner knows neither what was pruned nor what a column means. The options of
//! `EXPLAIN` (`VERBOSE`, `FORMAT`) are left to the planner.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{SQLOptions, SessionContext};
use datafusion::sql::parser::{ExplainStatement, Statement};
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as Ansi};
use weir_query::Progress;

use crate::{describe, explain};

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

/// Answers a statement that only reads.
pub(crate) async fn answer(
    context: &SessionContext,
    text: &str,
    progress: &Arc<Progress>,
) -> Result<SendableRecordBatchStream> {
    let state = context.state();
    let dialect = state.config().options().sql_parser.dialect;
    match Asked::of(state.sql_to_statement(text, &dialect)?) {
        Asked::Tables => Ok(whole(describe::tables(context)?)),
        Asked::Columns(table) => Ok(whole(describe::columns(context, &table).await?)),
        Asked::Plan { of, is_run } => {
            let plan = planned(context, of).await?.create_physical_plan().await?;
            let task = context.task_ctx();
            let progress = Arc::clone(progress);
            let report = async move { explain::report(plan, is_run.then_some(task), &progress).await };
            let schema = explain::schema();
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(report))))
        }
        Asked::Rows(statement) => planned(context, statement).await?.execute_stream().await,
    }
}

async fn planned(context: &SessionContext, statement: Statement) -> Result<datafusion::prelude::DataFrame> {
    let plan = context.state().statement_to_plan(statement).await?;
    let read_only = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    read_only.verify_plan(&plan)?;
    context.execute_logical_plan(plan).await
}

/// An answer that is there at once.
fn whole(batch: RecordBatch) -> SendableRecordBatchStream {
    let schema: SchemaRef = batch.schema();
    Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter([Ok(batch)])))
}
