//! What the octets in the columns of an answer are.
//!
//! Addresses, MAC addresses and other octets are one type for the engine; which of them a column holds is metadata of its field.
//! The engine keeps the metadata of a column, and loses it in most expressions: `max(src_addr)`, `coalesce(src_addr, dst_addr)`,
//! `CASE`, subqueries. Clients with a type for addresses would get octets there. So the columns of an answer are traced through
//! the plan to the columns that their values come from.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, JoinType, LogicalPlan};
use weir_flow::schema::CONTENT_KEY;

/// Plans and expressions that are looked at for one column. A column that is further away has no content.
const STEPS_MAX: usize = 500;

/// The contents of the columns of an answer, where the plan tells.
pub(crate) struct Contents(Vec<Option<String>>);

impl Contents {
    /// Those of a plan as the planner makes it.
    pub(crate) fn of(plan: &LogicalPlan) -> Self {
        let columns = 0..plan.schema().fields().len();
        Self(columns.map(|position| Trace { steps: STEPS_MAX }.column(plan, position)).collect())
    }

    /// Columns with their contents, where they are octets of which nothing is said.
    pub(crate) fn schema(&self, schema: &SchemaRef) -> SchemaRef {
        if self.0.len() != schema.fields().len() {
            return Arc::clone(schema);
        }
        let fields = schema.fields().iter().zip(&self.0).map(|(field, content)| match content {
            Some(content) if *field.data_type() == DataType::Binary && !field.metadata().contains_key(CONTENT_KEY) => {
                let mut metadata = field.metadata().clone();
                metadata.insert(CONTENT_KEY.to_owned(), content.clone());
                Arc::new(field.as_ref().clone().with_metadata(metadata))
            }
            _ => Arc::clone(field),
        });
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
    }
}

/// The way from one column to where its values come from.
struct Trace {
    /// Steps that are left.
    steps: usize,
}

impl Trace {
    fn column(&mut self, plan: &LogicalPlan, position: usize) -> Option<String> {
        self.steps = self.steps.checked_sub(1)?;
        let field = plan.schema().fields().get(position)?;
        if let Some(content) = field.metadata().get(CONTENT_KEY) {
            return Some(content.clone());
        }
        match plan {
            LogicalPlan::Projection(projection) => self.value(projection.expr.get(position)?, &projection.input),
            LogicalPlan::Aggregate(aggregate) => {
                let keys = aggregate.schema.fields().len().checked_sub(aggregate.aggr_expr.len())?;
                let value = match position.checked_sub(keys) {
                    Some(place) => aggregate.aggr_expr.get(place)?,
                    None => grouping_set_to_exprlist(&aggregate.group_expr).ok()?.get(position).copied()?,
                };
                self.value(value, &aggregate.input)
            }
            LogicalPlan::Window(window) => match position.checked_sub(window.input.schema().fields().len()) {
                Some(place) => self.value(window.window_expr.get(place)?, &window.input),
                None => self.column(&window.input, position),
            },
            LogicalPlan::Distinct(Distinct::On(distinct)) => {
                self.value(distinct.select_expr.get(position)?, &distinct.input)
            }
            LogicalPlan::Union(union) => {
                let columns: Vec<_> = union.inputs.iter().map(|input| self.column(input, position)).collect();
                agreed(columns)
            }
            LogicalPlan::Join(join) => {
                let is_right_only =
                    matches!(join.join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
                let left_columns = if is_right_only { 0 } else { join.left.schema().fields().len() };
                match position.checked_sub(left_columns) {
                    Some(place) => self.column(&join.right, place),
                    None => self.column(&join.left, position),
                }
            }
            LogicalPlan::RecursiveQuery(query) => self.column(&query.static_term, position),
            other => match other.inputs().as_slice() {
                [input] if input.schema().fields().len() == other.schema().fields().len() => {
                    self.column(input, position)
                }
                _ => None,
            },
        }
    }

    /// The content of a value that is computed from columns of `input`.
    fn value(&mut self, value: &Expr, input: &LogicalPlan) -> Option<String> {
        self.steps = self.steps.checked_sub(1)?;
        match value {
            Expr::Alias(alias) => self.value(&alias.expr, input),
            Expr::Column(column) => self.column(input, input.schema().maybe_index_of_column(column)?),
            Expr::ScalarSubquery(subquery) => self.column(&subquery.subquery, 0),
            Expr::Case(case) => {
                let thens = case.when_then_expr.iter().map(|(_, then)| then);
                self.values(thens.chain(&case.else_expr).map(|then| &**then), input)
            }
            Expr::ScalarFunction(call) if gives_an_argument(call.name()) => self.values(call.args.iter(), input),
            Expr::AggregateFunction(call) if gives_a_row(call.func.name()) => {
                self.value(call.params.args.first()?, input)
            }
            Expr::WindowFunction(call) if gives_a_row(call.fun.name()) => self.value(call.params.args.first()?, input),
            other => {
                let (_, field) = other.to_field(&**input.schema()).ok()?;
                field.metadata().get(CONTENT_KEY).cloned()
            }
        }
    }

    fn values<'a>(&mut self, values: impl Iterator<Item = &'a Expr>, input: &LogicalPlan) -> Option<String> {
        let contents: Vec<_> = values.map(|value| self.value(value, input)).collect();
        agreed(contents)
    }
}

/// The content of all that have one; `None` where they differ.
fn agreed(contents: Vec<Option<String>>) -> Option<String> {
    let mut known = contents.into_iter().flatten();
    let first = known.next()?;
    known.all(|content| content == first).then_some(first)
}

/// Functions whose value is that of one of their arguments.
fn gives_an_argument(name: &str) -> bool {
    matches!(name, "coalesce" | "nvl" | "nullif" | "greatest" | "least")
}

/// Functions whose value is that of their first argument in one of the rows.
fn gives_a_row(name: &str) -> bool {
    matches!(name, "any_value" | "min" | "max" | "first_value" | "last_value" | "nth_value" | "lag" | "lead")
}
