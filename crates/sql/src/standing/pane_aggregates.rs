//! Aggregates that windows which overlap share.
//!
//! A window that slides by a second and is a minute long is of sixty panes, and the next one is of fifty-nine of them. Where
//! a statement groups the rows of such a window, and what it computes of each group can be combined, each pane is
//! grouped once, and a window combines what its panes made. That goes for sums of whole numbers, counts, extremes and averages,
//! and for distinct values, which the optimiser has turned into groups before. Distinct values of several columns, `approx_distinct`,
//! and percentiles of all rows by sketches, are merged from the states of panes ([`merged_state`](super::merged_state)). Everything
//! else (medians, joins before grouping, rows) reads the rows of all panes, as if there were no panes.
//!
//! The optimised plan is what is split: an aggregate directly over rows of a window becomes one over the rows that panes
//! made, and a projection that gives its columns their names. What speaks against it: an average adds up in another order than
//! over all rows, which differs in the last digit when sums are beyond 2^53.
//!
//! A statement may ask about the rows of some hosts only, which it finds in the same window: `WHERE src_addr IN (…)`, or a join
//! with a table that has each host once, of which the optimiser makes a semi-join. Where the groups are by that host, all rows
//! of a group are kept by the join or none, so groups can be made first and joined then. That makes groups of all hosts, so
//! it is done only for windows whose rows are too many to be kept until they end ([`SemiJoinAfterGrouping`]).

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as SqlColumn, JoinType, Result};
use datafusion::datasource::provider_as_source;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::count::count;
use datafusion::functions_aggregate::min_max::{max, min};
use datafusion::functions_aggregate::sum::sum;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, Cast};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprFunctionExt, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, cast, ident,
    lit,
};

use super::merged_state::state_and_merge;
use super::slot::{Place, Slot};
use super::sources::{of_provider, windows_of};
use super::window_table::WindowTable;
use super::window_time::{WindowSpec, WindowTime};

/// An aggregate whose panes are computed on their own.
#[derive(Debug)]
pub(crate) struct PaneAggregate {
    /// What it computes.
    name: String,
    /// The window relation that it is over.
    pub(crate) relation: usize,
    /// Computes it for the rows that are in the place of the window.
    pub(crate) plan: LogicalPlan,
    /// Makes one part of several that it made of rows of a pane; `None` when they do not merge.
    pub(crate) merging: Option<LogicalPlan>,
    /// The plan before it was optimised.
    found: LogicalPlan,
}

impl PaneAggregate {
    /// What it computes, for people.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether panes that have one of them have the other: with history, a plan is optimised again for each window, and times of
    /// that window may come down to conditions on its rows.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.relation == other.relation && self.found == other.found
    }
}

/// A plan whose aggregates over windows that overlap are over rows that panes made. These are relations of the slot,
/// after those of the windows. `of_all` has it done where windows do not overlap, too, and then before rows are joined.
pub(crate) fn split(
    plan: LogicalPlan,
    windows: &[Option<WindowSpec>],
    slot: &Arc<Slot>,
    of_all: bool,
) -> Result<(LogicalPlan, Vec<PaneAggregate>)> {
    // what panes of overlapping windows have must be the same with `of_all` and without
    let is_grouped_first = of_all && !is_overlapping(windows);
    let mut aggregates = Vec::new();
    let plan = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = &node else { return Ok(Transformed::no(node)) };
        let first = if is_grouped_first { SemiJoinAfterGrouping::of(aggregate)? } else { None };
        let of_rows = first.as_ref().map_or(aggregate, |first| &first.aggregate);
        let Some(relation) = shared_window(of_rows, windows, of_all)? else { return Ok(Transformed::no(node)) };
        let place = Place { slot: Arc::clone(slot), relation: windows.len() + aggregates.len() };
        let Some(SplitAggregate { window: combined, pane: plan, merging }) = split_aggregate(of_rows, place)? else {
            return Ok(Transformed::no(node));
        };
        aggregates.push(PaneAggregate { name: name_of(of_rows), relation, merging, found: plan.clone(), plan });
        Ok(match first {
            // the other side of the join may be over rows of the window, too
            Some(first) => Transformed::yes(first.joined(combined)?),
            None => Transformed::new(combined, true, TreeNodeRecursion::Jump),
        })
    })?;
    Ok((plan.data, aggregates))
}

/// An aggregate over a semi-join on its own group keys; it may be computed before the join.
#[derive(Debug)]
struct SemiJoinAfterGrouping {
    /// Over all rows.
    aggregate: Aggregate,
    /// As it was of rows.
    join: Join,
    /// What it compares, of groups.
    on: Vec<(Expr, Expr)>,
}

impl SemiJoinAfterGrouping {
    /// `None` when an aggregate is over anything else.
    fn of(aggregate: &Aggregate) -> Result<Option<Self>> {
        let Some(join) = join_below(&aggregate.input) else { return Ok(None) };
        let kept = match join.join_type {
            JoinType::LeftSemi => &join.left,
            JoinType::RightSemi => &join.right,
            _ => return Ok(None),
        };
        let is_of_sets = aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_)));
        if join.filter.is_some() || join.on.is_empty() || is_of_sets {
            return Ok(None);
        }
        let columns = aggregate.schema.columns();
        let groups: Vec<Expr> = aggregate.group_expr.iter().map(|group| resolved(&aggregate.input, group)).collect();
        let mut on = Vec::new();
        for (left, right) in &join.on {
            let is_left = join.join_type == JoinType::LeftSemi;
            let (own, other) = if is_left { (left, right) } else { (right, left) };
            let column = groups.iter().position(|group| group == own).and_then(|number| columns.get(number));
            let Some(column) = column else { return Ok(None) };
            // numbers with fractions that are equal may not be of one group
            if own.get_type(kept.schema())?.is_floating() {
                return Ok(None);
            }
            let own = Expr::Column(column.clone());
            on.push(if is_left { (own, other.clone()) } else { (other.clone(), own) });
        }
        let rows = aggregate.input.as_ref().clone().transform_down(|node| {
            Ok(match &node {
                // its columns are those of the side that it keeps
                LogicalPlan::Join(_) => Transformed::new(kept.as_ref().clone(), true, TreeNodeRecursion::Stop),
                _ => Transformed::no(node),
            })
        })?;
        let mut of_rows = aggregate.clone();
        of_rows.input = Arc::new(rows.data);
        Ok(Some(Self { aggregate: of_rows, join: join.clone(), on }))
    }

    /// The join of groups.
    fn joined(self, groups: LogicalPlan) -> Result<LogicalPlan> {
        let Join { left, right, join_type, join_constraint, null_equality, null_aware, .. } = self.join;
        let groups = Arc::new(groups);
        let (left, right) = if join_type == JoinType::LeftSemi { (groups, right) } else { (left, groups) };
        let join = Join::try_new(left, right, self.on, None, join_type, join_constraint, null_equality, null_aware)?;
        Ok(LogicalPlan::Join(join))
    }
}

/// The join that gives the rows of which a plan makes one row each.
fn join_below(plan: &LogicalPlan) -> Option<&Join> {
    match plan {
        LogicalPlan::Join(join) => Some(join),
        LogicalPlan::Projection(projection) => join_below(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => join_below(&alias.input),
        LogicalPlan::Filter(filter) => join_below(&filter.input),
        _ => None,
    }
}

fn is_overlapping(windows: &[Option<WindowSpec>]) -> bool {
    windows.iter().flatten().any(|spec| spec.kind.size_ms > spec.kind.slide_ms)
}

fn name_of(aggregate: &Aggregate) -> String {
    let names = |parts: &[Expr]| parts.iter().map(|part| part.schema_name().to_string()).collect::<Vec<_>>().join(", ");
    match names(&aggregate.aggr_expr) {
        distinct if distinct.is_empty() => format!("each {}", names(&aggregate.group_expr)),
        functions if aggregate.group_expr.is_empty() => functions,
        functions => format!("{functions} by {}", names(&aggregate.group_expr)),
    }
}

/// The window relation that an aggregate is directly over, if windows of the statement overlap or `of_all`.
fn shared_window(aggregate: &Aggregate, windows: &[Option<WindowSpec>], of_all: bool) -> Result<Option<usize>> {
    let read = windows_of(&aggregate.input)?;
    let [relation] = read.as_slice() else { return Ok(None) };
    // one that does not overlap is of the same panes as others that do; behind the windows are rows that panes made
    let is_shared = *relation < windows.len() && (of_all || is_overlapping(windows));
    Ok(Some(*relation).filter(|_| is_shared && is_of_rows(&aggregate.input)))
}

/// Whether a plan gives rows of a window, each made of one row, and no condition depends on the times of the window.
fn is_of_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => of_provider(plan, WindowTable::relation).is_some(),
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|part| !has_subquery(part)) && is_of_rows(&projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => is_of_rows(&alias.input),
        LogicalPlan::Filter(filter) => {
            let is_plain =
                !has_subquery(&filter.predicate) && !has_window_time(&resolved(&filter.input, &filter.predicate));
            is_plain && is_of_rows(&filter.input)
        }
        _ => false,
    }
}

pub(super) fn has_subquery(expression: &Expr) -> bool {
    let is_subquery = |part: &Expr| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::OuterReferenceColumn(..)
        ))
    };
    // looking at an expression cannot fail
    expression.exists(is_subquery).unwrap_or(true)
}

/// Whether an expression is a time of the window that its slot holds, and not one that follows from a row.
fn is_window_time(expression: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expression else { return false };
    call.func.inner().downcast_ref::<WindowTime>().is_some_and(|time| time.place.is_some())
}

pub(super) fn has_window_time(expression: &Expr) -> bool {
    // looking at an expression cannot fail
    expression.exists(|part| Ok(is_window_time(part))).unwrap_or(true)
}

/// An expression in terms of the columns of the window.
pub(super) fn resolved(plan: &LogicalPlan, expression: &Expr) -> Expr {
    let definition = |column: &SqlColumn| -> Option<Expr> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let position = projection.schema.maybe_index_of_column(column)?;
                Some(resolved(&projection.input, projection.expr.get(position)?))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let position = alias.schema.maybe_index_of_column(column)?;
                let inner = alias.input.schema().columns().get(position)?.clone();
                Some(resolved(&alias.input, &Expr::Column(inner)))
            }
            LogicalPlan::Filter(filter) => Some(resolved(&filter.input, &Expr::Column(column.clone()))),
            _ => None,
        }
    };
    let replaced = expression.clone().transform_up(|part| {
        let found = if let Expr::Column(column) = &part { definition(column) } else { None };
        Ok(found.map_or_else(|| Transformed::no(part), Transformed::yes))
    });
    let mut replaced = replaced.map_or_else(|_| expression.clone(), |replaced| replaced.data);
    while let Expr::Alias(alias) = replaced {
        replaced = *alias.expr;
    }
    replaced
}

/// A column of what panes made whose value does not matter.
const ANY: &str = "any";

/// What an expression is for all rows of a window, if the times of the window decide alone.
fn of_the_window(expression: Expr) -> Option<Expr> {
    if !has_window_time(&expression) {
        return None;
    }
    let freed = expression.transform_down(|part| {
        let is_time = is_window_time(&part);
        match part {
            // of a column and not of a literal, whose value the optimiser would take for that of all windows
            Expr::ScalarFunction(call) if is_time => {
                Ok(Transformed::new(call.func.call(vec![ident(ANY)]), true, TreeNodeRecursion::Jump))
            }
            part => Ok(Transformed::no(part)),
        }
    });
    let freed = freed.ok()?.data;
    let is_free = freed.column_refs().into_iter().all(|column| *column == SqlColumn::new_unqualified(ANY));
    is_free.then_some(freed)
}

/// A column of an aggregate: what panes compute, and how a window combines it.
struct Combined {
    of_pane: Vec<Expr>,
    of_window: Vec<Expr>,
    /// The value, of columns that `of_window` gives.
    value: Expr,
    /// Whether `of_window` gives what panes compute, of all rows of several.
    is_mergeable: bool,
}

/// The plans of an aggregate.
struct SplitAggregate {
    /// Over what panes made.
    window: LogicalPlan,
    /// Over rows of a pane.
    pane: LogicalPlan,
    /// As `pane`, over what it made of several parts of the rows; `None` when that does not merge.
    merging: Option<LogicalPlan>,
}

fn split_aggregate(aggregate: &Aggregate, place: Place) -> Result<Option<SplitAggregate>> {
    let (mut groups, mut group_values, mut combined) = (Vec::new(), Vec::new(), Vec::new());
    let mut pane_groups = Vec::new();
    let mut columns = Vec::new();
    for group in &aggregate.group_expr {
        if matches!(group, Expr::GroupingSet(_)) {
            return Ok(None);
        }
        let name = format!("g{}", groups.len());
        let of_rows = resolved(&aggregate.input, group);
        match of_the_window(of_rows.clone()) {
            Some(of_window) => groups.push(of_window.alias(&name)),
            None if has_window_time(&of_rows) => return Ok(None),
            None => {
                let field = SqlColumn::new_unqualified(group.schema_name().to_string());
                let field = if let Expr::Column(column) = group { column.clone() } else { field };
                columns.push(Expr::Column(field).alias(&name));
                groups.push(ident(&name));
                pane_groups.push(ident(&name));
            }
        }
        group_values.push(ident(&name));
    }
    for (number, expression) in aggregate.aggr_expr.iter().enumerate() {
        match combination(aggregate, expression, number)? {
            Some(of_one) => combined.push(of_one),
            None => return Ok(None),
        }
    }
    let of_pane = combined.iter().flat_map(|combined| combined.of_pane.clone());
    let grouped =
        Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr.clone(), of_pane.clone().collect())?;
    columns.push(lit(0_i64).alias(ANY));
    columns.extend(of_pane.map(|part| ident(part.schema_name().to_string())));
    let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(grouped)).project(columns)?.build()?;
    let schema = Arc::new(Schema::new(plan.schema().fields().clone()));
    // plans compare scans by their names
    let name = format!("panes_{}", place.relation);
    let table = Arc::new(WindowTable::new(schema, place));
    let of_window = combined.iter().flat_map(|combined| combined.of_window.clone()).collect::<Vec<_>>();
    let is_mergeable = combined.iter().all(|combined| combined.is_mergeable);
    let values = group_values.into_iter().chain(combined.into_iter().map(|combined| combined.value));
    let named = aggregate.schema.iter().zip(values).map(|((qualifier, field), value)| {
        Ok(cast_if_needed(value, field.data_type()).alias_qualified(qualifier.cloned(), field.name()))
    });
    let rows = LogicalPlanBuilder::scan(name, provider_as_source(table), None)?;
    let merges = is_mergeable && !(pane_groups.is_empty() && of_window.is_empty());
    let merging = merges.then(|| merged_parts(rows.clone(), pane_groups, of_window.clone(), &plan)).transpose()?;
    let window = rows.aggregate(groups, of_window)?.project(named.collect::<Result<Vec<_>>>()?)?.build()?;
    Ok(Some(SplitAggregate { window, pane: plan, merging }))
}

/// Groups rows that a pane made of parts of its rows once more, so that the columns are the same.
fn merged_parts(
    rows: LogicalPlanBuilder,
    groups: Vec<Expr>,
    combined: Vec<Expr>,
    pane: &LogicalPlan,
) -> Result<LogicalPlan> {
    let columns = pane.schema().fields().iter().map(|field| match field.name().as_str() {
        ANY => lit(0_i64).alias(ANY),
        // a sum of decimal sums has more digits than it needs
        name => cast(ident(name), field.data_type().clone()).alias(name),
    });
    rows.aggregate(groups, combined)?.project(columns.collect::<Vec<_>>())?.build()
}

fn cast_if_needed(value: Expr, kind: &DataType) -> Expr {
    // a sum of decimal sums has more digits than it needs
    if matches!(kind, DataType::Decimal128(..) | DataType::Decimal256(..)) { cast(value, kind.clone()) } else { value }
}

/// How an aggregate is combined; `None` when it cannot be.
fn combination(aggregate: &Aggregate, expression: &Expr, number: usize) -> Result<Option<Combined>> {
    let mut expression = expression;
    while let Expr::Alias(alias) = expression {
        expression = &alias.expr;
    }
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expression else { return Ok(None) };
    let mut of_rows = params.args.iter().chain(params.filter.as_deref()).map(|part| resolved(&aggregate.input, part));
    if of_rows.any(|part| has_window_time(&part) || has_subquery(&part)) {
        return Ok(None);
    }
    let (part, other) = (format!("a{number}"), format!("b{number}"));
    if is_merged(aggregate, func.name(), params) {
        return merged(aggregate, func, params, &part).map(Some);
    }
    let is_plain = !params.distinct && params.order_by.is_empty() && params.null_treatment.is_none();
    let (true, [argument]) = (is_plain, params.args.as_slice()) else { return Ok(None) };
    let kind = argument.get_type(aggregate.input.schema())?;
    let one = |of_window: Expr, value: Expr| {
        Some(Combined {
            of_pane: vec![expression.clone().alias(&part)],
            of_window: vec![of_window.alias(&part)],
            value,
            is_mergeable: true,
        })
    };
    Ok(match func.name() {
        // by the function of the statement, which stays at the largest number
        "sum" if is_exact(&kind) => one(func.call(vec![ident(&part)]), ident(&part)),
        "count" => one(sum(ident(&part)), coalesce(vec![ident(&part), lit(0_i64)])),
        "min" => one(min(ident(&part)), ident(&part)),
        "max" => one(max(ident(&part)), ident(&part)),
        "avg" if kind == DataType::Float64 && is_whole(aggregate, argument) => {
            let (summed, counted) =
                (filtered(sum(argument.clone()), params)?, filtered(count(argument.clone()), params)?);
            Some(Combined {
                of_pane: vec![summed.alias(&part), counted.alias(&other)],
                of_window: vec![sum(ident(&part)).alias(&part), sum(ident(&other)).alias(&other)],
                value: ident(&part) / cast(ident(&other), DataType::Float64),
                is_mergeable: true,
            })
        }
        _ => None,
    })
}

/// A function with the filter of another.
fn filtered(function: Expr, params: &AggregateFunctionParams) -> Result<Expr> {
    match &params.filter {
        Some(filter) => function.filter(filter.as_ref().clone()).build(),
        None => Ok(function),
    }
}

/// Whether windows merge what panes know of a function: distinct values where the optimiser has made no groups of them, their
/// estimates, and percentiles by sketches that are not by group, whose states would be larger than the rows.
fn is_merged(aggregate: &Aggregate, function: &str, params: &AggregateFunctionParams) -> bool {
    let is_literal = |argument: &Expr| matches!(argument, Expr::Literal(..));
    let is_of_all = !params.distinct && aggregate.group_expr.is_empty();
    let [argument, others @ ..] = params.args.as_slice() else { return false };
    params.null_treatment.is_none()
        && match function {
            "count" => params.distinct && params.order_by.is_empty() && others.is_empty(),
            "approx_distinct" => !params.distinct && params.order_by.is_empty() && others.is_empty(),
            "approx_median" => is_of_all && params.order_by.is_empty() && others.is_empty(),
            "approx_percentile_cont" => {
                let is_upward = params.order_by.iter().all(|order| order.asc);
                is_of_all && is_upward && !is_literal(argument) && others.iter().all(is_literal)
            }
            _ => false,
        }
}

fn merged(
    aggregate: &Aggregate,
    function: &Arc<AggregateUDF>,
    params: &AggregateFunctionParams,
    part: &str,
) -> Result<Combined> {
    let (of_state, merge) = state_and_merge(function, params.distinct, &params.args, aggregate.input.schema())?;
    Ok(Combined {
        of_pane: vec![filtered(of_state.call(params.args.clone()), params)?.alias(part)],
        of_window: vec![merge.call(vec![ident(part)]).alias(part)],
        value: ident(part),
        // windows have the value, not the state
        is_mergeable: false,
    })
}

/// Whether sums are the same in any order.
fn is_exact(kind: &DataType) -> bool {
    kind.is_integer() || matches!(kind, DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Duration(_))
}

/// Whether a floating number comes of a whole one.
fn is_whole(aggregate: &Aggregate, argument: &Expr) -> bool {
    let of_rows = resolved(&aggregate.input, argument);
    let Expr::Cast(Cast { expr, .. }) = &of_rows else { return false };
    let scan = scan_of(&aggregate.input);
    expr.get_type(scan.schema()).is_ok_and(|kind| kind.is_integer())
}

/// The window that a plan of rows is over.
fn scan_of(plan: &LogicalPlan) -> &LogicalPlan {
    match plan.inputs().first() {
        Some(input) => scan_of(input),
        None => plan,
    }
}
