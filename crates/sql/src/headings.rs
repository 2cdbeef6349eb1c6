//! Names of the columns of an answer, and what they hold.
//!
//! The engine names what has no name by its plan: `sum(flows.bytes)`, `element(flows.elements,Utf8("dnsQName"))`. People
//! look for what they wrote, so an item of the outermost SELECT that is neither a column nor named is headed by its own
//! text. Items of subqueries keep the engine's names, which only the statement itself can see.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SetExpr, Statement as Ansi};
use futures::StreamExt;

use crate::contents::Contents;

/// The headings of an answer.
pub(crate) struct Headings {
    texts: Vec<Option<String>>,
    contents: Option<Contents>,
}

impl Headings {
    /// Those of a statement; none when what is selected is not listed item by item.
    pub(crate) fn of(statement: &Statement) -> Self {
        let items = match statement {
            Statement::Statement(ansi) => match &**ansi {
                Ansi::Query(query) => items(&query.body),
                _ => None,
            },
            _ => None,
        };
        let texts = items.map(|items| items.iter().map(text_of).collect()).unwrap_or_default();
        Self { texts, contents: None }
    }

    /// The same, with what the columns of a plan hold.
    pub(crate) fn with_contents_of(self, plan: &LogicalPlan) -> Self {
        Self { contents: Some(Contents::of(plan)), ..self }
    }

    fn changes(&self, schema: &SchemaRef) -> bool {
        self.texts.len() == schema.fields().len() && self.texts.iter().any(Option::is_some)
    }

    /// Columns under these headings.
    pub(crate) fn schema(&self, schema: &SchemaRef) -> SchemaRef {
        let schema = self.contents.as_ref().map_or_else(|| Arc::clone(schema), |contents| contents.schema(schema));
        if !self.changes(&schema) {
            return schema;
        }
        let fields = schema.fields().iter().zip(&self.texts).map(|(field, text)| match text {
            Some(text) => Arc::new(field.as_ref().clone().with_name(text.clone())),
            None => Arc::clone(field),
        });
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
    }

    /// The same rows under these headings.
    pub(crate) fn over(self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let given = rows.schema();
        let schema = self.schema(&given);
        if schema == given {
            return rows;
        }
        let headed = Arc::clone(&schema);
        let rows = rows.map(move |batch| {
            let batch = batch?;
            Ok(RecordBatch::try_new(Arc::clone(&headed), batch.columns().to_vec())?)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

/// The items of the first SELECT, when none of them stands for several columns.
fn items(body: &SetExpr) -> Option<&[SelectItem]> {
    match body {
        SetExpr::Select(select) => {
            let is_listed =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            select.projection.iter().all(is_listed).then_some(&select.projection)
        }
        SetExpr::Query(query) => items(&query.body),
        SetExpr::SetOperation { left, .. } => items(left),
        _ => None,
    }
}

/// The text of an item that has no name.
fn text_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => None,
        SelectItem::UnnamedExpr(other) => Some(other.to_string()),
        _ => None,
    }
}
