//! The arguments of a function in FROM.

use std::collections::VecDeque;

use datafusion::common::{DFSchema, Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast::{Expr as Ast, FunctionArg, FunctionArgExpr, ObjectName, TableFactor};

/// The arguments of a function, taken one by one.
pub(super) struct Call<'a> {
    pub(super) function: String,
    positional: VecDeque<&'a Ast>,
    named: Vec<(String, &'a Ast)>,
}

impl<'a> Call<'a> {
    pub(super) fn new(function: &str, args: &'a [FunctionArg]) -> Result<Self> {
        let function = function.to_uppercase();
        let (mut positional, mut named) = (VecDeque::new(), Vec::new());
        for arg in args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => positional.push_back(value),
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. }
                | FunctionArg::ExprNamed { name: Ast::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
                    named.push((name.value.to_lowercase(), value));
                }
                other => return plan_err!("{function} cannot take the argument {other}"),
            }
        }
        Ok(Self { function, positional, named })
    }

    /// Whether an argument is given by this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.named.iter().any(|(given, _)| given == name)
    }

    /// Whether there is a next argument without a name.
    pub(super) fn has_positional(&self) -> bool {
        !self.positional.is_empty()
    }

    /// The argument of this name, or the next without a name.
    pub(super) fn optional(&mut self, name: &str) -> Option<&'a Ast> {
        match self.named.iter().position(|(given, _)| given == name) {
            Some(position) => Some(self.named.remove(position).1),
            None => self.positional.pop_front(),
        }
    }

    /// The argument of this name only.
    pub(super) fn named(&mut self, name: &str) -> Option<&'a Ast> {
        let position = self.named.iter().position(|(given, _)| given == name)?;
        Some(self.named.remove(position).1)
    }

    pub(super) fn required(&mut self, name: &str) -> Result<&'a Ast> {
        let function = self.function.clone();
        self.optional(name).ok_or_else(|| plan_datafusion_err!("{function} needs {name}"))
    }

    pub(super) fn nothing_left(&self) -> Result<()> {
        let left = self.positional.front().map(ToString::to_string);
        match left.or_else(|| self.named.first().map(|(name, value)| format!("{name} => {value}"))) {
            Some(argument) => plan_err!("{} has no argument for {argument}", self.function),
            None => Ok(()),
        }
    }

    /// A length of time in milliseconds, at least 1.
    pub(super) fn millis(&self, value: &Ast, context: &mut dyn RelationPlannerContext) -> Result<i64> {
        let wrong = || {
            let function = &self.function;
            plan_datafusion_err!("{function}: {value} is no length of time\nhint: write INTERVAL '5' MINUTE")
        };
        let Expr::Literal(literal, _) = context.sql_to_expr(value.clone(), &DFSchema::empty())? else {
            return Err(wrong());
        };
        let ms = match literal {
            ScalarValue::IntervalMonthDayNano(Some(span)) if span.months == 0 && span.nanoseconds % 1_000_000 == 0 => {
                i64::from(span.days) * 86_400_000 + span.nanoseconds / 1_000_000
            }
            ScalarValue::IntervalDayTime(Some(span)) => {
                i64::from(span.days) * 86_400_000 + i64::from(span.milliseconds)
            }
            _ => return Err(wrong()),
        };
        Some(ms).filter(|ms| *ms > 0).ok_or_else(wrong)
    }

    /// A length of time that windows begin later by; none by default.
    pub(super) fn offset(&mut self, context: &mut dyn RelationPlannerContext) -> Result<i64> {
        self.optional("offset").map_or(Ok(0), |value| self.millis(value, context))
    }

    pub(super) fn number(&self, value: &Ast, context: &mut dyn RelationPlannerContext) -> Result<i64> {
        let value_of = context.sql_to_expr(value.clone(), &DFSchema::empty())?;
        let Expr::Literal(ScalarValue::Int64(Some(number)), _) = value_of else {
            return plan_err!("{}: {value} is no whole number", self.function);
        };
        Ok(number)
    }
}

/// A table by its name.
pub(super) fn named_table(name: ObjectName) -> TableFactor {
    TableFactor::Table {
        name,
        alias: None,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}
