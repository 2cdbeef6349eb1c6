//! How large a statement may be.
//!
//! Planning takes time that grows with the square of what a statement has, and nothing can interrupt it: a chain of 100,000
//! additions, 200 KB of text, would take hours. So each kind of part has a limit, with which planning takes some two seconds on a
//! machine of 2020, and a statement over it is refused before it is parsed. What costs little has none: values in lists of
//! `IN` and rows of `VALUES`. What speaks against counting tokens: it knows no grammar, and counts some words twice.
//!
//! Subqueries that are named once and read often multiply what the text has, so what is parsed is counted once more, with each
//! of them as often as it is read. The plan is counted last: there `*` has become columns, and views what they are.

mod reads;
mod written_out;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// A kind of part, and how many of it a statement may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    max: usize,
    /// What they are called.
    what: &'static str,
    hint: &'static str,
}

const OPERATORS: Limit = Limit {
    max: 1_000,
    what: "operators",
    hint: "write values as a list, column IN (1, 2, …), or join a table of them",
};
const QUERIES: Limit = Limit { max: 250, what: "queries in it", hint: "ask in several statements" };
const JOINS: Limit = Limit { max: 50, what: "joins", hint: "ask in several statements" };
const ITEMS: Limit = Limit {
    max: 5_000,
    what: "columns, arguments and casts",
    hint: "name fewer, or put values into a list of IN or VALUES, where they do not count",
};
const READS: Limit = Limit {
    max: 4_000,
    what: "operators, functions and queries, each counted as often as its subquery is read",
    hint: "read a subquery less often, or ask in several statements",
};
const COLUMNS: Limit = Limit {
    max: 50_000,
    what: "columns in all of its subqueries together",
    hint: "name the columns in place of *, and read a subquery less often",
};
const COMPUTED: Limit = Limit {
    max: 20_000,
    what: "operators and functions in all of its subqueries together",
    hint: "read a subquery less often, or ask in several statements",
};
const WRITTEN_OUT: Limit = Limit {
    max: 10_000,
    what: "operators and functions in one expression, with computed columns written out",
    hint: "name a computed column less often",
};
const CONDITIONS: Limit = Limit {
    max: 200_000,
    what: "operators and functions in all conditions together, with computed columns written out",
    hint: "name a computed column less often, or have fewer conditions",
};

/// A statement that has too much of something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the statement has more than {} {}, which would take too long to plan", .limit.max, .limit.what)]
pub(crate) struct TooLarge {
    limit: Limit,
}

impl TooLarge {
    /// What to write instead.
    pub(crate) fn hint(&self) -> &'static str {
        self.limit.hint
    }

    fn check(found: usize, limit: Limit) -> Result<()> {
        if found > limit.max { Err(DataFusionError::External(Box::new(Self { limit }))) } else { Ok(()) }
    }
}

/// Refuses a text that would take too long to plan.
pub(crate) fn check_text(text: &str) -> Result<()> {
    // what is no text of SQL, the parser explains better
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text).tokenize() else { return Ok(()) };
    let parts = Parts::of(&tokens);
    TooLarge::check(parts.operators, OPERATORS)?;
    TooLarge::check(parts.queries, QUERIES)?;
    TooLarge::check(parts.joins, JOINS)?;
    TooLarge::check(parts.items, ITEMS)
}

/// Refuses a statement that reads its subqueries too often.
pub(crate) fn check_reads(statement: &Statement) -> Result<()> {
    TooLarge::check(reads::of(statement), READS)
}

/// Refuses a plan that would take too long to optimise.
pub(crate) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    let (mut columns, mut computed) = (0, 0);
    plan.apply_with_subqueries(|step| {
        columns += step.schema().fields().len().max(1);
        step.apply_expressions(|expression| {
            expression.apply(|part| {
                computed += usize::from(is_computed(part));
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        // a plan may have more steps than anybody could count
        let is_enough = columns > COLUMNS.max || computed > COMPUTED.max;
        Ok(if is_enough { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    TooLarge::check(columns, COLUMNS)?;
    TooLarge::check(computed, COMPUTED)?;
    let sizes = written_out::sizes(plan)?;
    TooLarge::check(sizes.largest, WRITTEN_OUT)?;
    TooLarge::check(sizes.conditions, CONDITIONS)
}

/// Whether a part of an expression is neither a column nor a value.
fn is_computed(part: &Expr) -> bool {
    !is_value(part) && !matches!(part, Expr::Column(_) | Expr::Alias(_))
}

/// Whether it is a value, also one that is written with its type.
fn is_value(part: &Expr) -> bool {
    match part {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Cast(cast) => is_value(&cast.expr),
        _ => false,
    }
}

/// What commas part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// Columns or arguments.
    Items,
    /// Values of `IN`, rows of `VALUES` and values of such a row.
    Values,
    /// Tables.
    Tables,
}

/// What a text has.
#[derive(Debug, Default)]
struct Parts {
    operators: usize,
    queries: usize,
    joins: usize,
    items: usize,
    /// What commas part outside of all parentheses, and within each that is open.
    outside: Option<Between>,
    open: Vec<Between>,
}

impl Parts {
    fn of(tokens: &[Token]) -> Self {
        let mut parts = Self::default();
        let mut before = &Token::EOF;
        for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
            parts.add(token, before);
            before = token;
        }
        parts
    }

    fn add(&mut self, token: &Token, before: &Token) {
        match token {
            Token::LParen => {
                let is_row = self.between() == Between::Values
                    && (matches!(before, Token::Comma | Token::LParen) || keyword(before) == Some(Keyword::VALUES));
                let is_list = is_row || keyword(before) == Some(Keyword::IN);
                self.open.push(if is_list { Between::Values } else { Between::Items });
            }
            Token::RParen => {
                self.open.pop();
            }
            Token::Comma => match self.between() {
                Between::Items => self.items += 1,
                Between::Values => {}
                Between::Tables => self.joins += 1,
            },
            Token::DoubleColon | Token::LBracket => self.items += 1,
            // `count(*)`, `a.*`, and the sign of a number in a list
            Token::Mul | Token::Plus | Token::Minus
                if matches!(before, Token::LParen | Token::Comma | Token::Period) => {}
            token if is_operator(token) => self.operators += 1,
            token => {
                if let Some(word) = keyword(token) {
                    self.add_word(word, before);
                }
            }
        }
    }

    fn add_word(&mut self, word: Keyword, before: &Token) {
        match word {
            Keyword::SELECT => {
                self.queries += 1;
                self.set(Between::Items);
            }
            Keyword::VALUES => self.set(Between::Values),
            // not that of IS DISTINCT FROM
            Keyword::FROM if keyword(before) != Some(Keyword::DISTINCT) => self.set(Between::Tables),
            Keyword::JOIN => self.joins += 1,
            Keyword::AT => self.items += 1,
            Keyword::AND
            | Keyword::OR
            | Keyword::XOR
            | Keyword::IS
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::RLIKE
            | Keyword::REGEXP
            | Keyword::SIMILAR
            | Keyword::DIV => self.operators += 1,
            Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::WINDOW
            | Keyword::ORDER
            | Keyword::LIMIT
            | Keyword::UNION
            | Keyword::INTERSECT
            | Keyword::EXCEPT => self.set(Between::Items),
            _ => {}
        }
    }

    fn between(&self) -> Between {
        self.open.last().copied().or(self.outside).unwrap_or(Between::Items)
    }

    fn set(&mut self, between: Between) {
        match self.open.last_mut() {
            Some(innermost) => *innermost = between,
            None => self.outside = Some(between),
        }
    }
}

/// The keyword that a word without quotes is.
fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// Whether it is between two values.
fn is_operator(token: &Token) -> bool {
    matches!(
        token,
        Token::DoubleEq
            | Token::Eq
            | Token::Neq
            | Token::Lt
            | Token::Gt
            | Token::LtEq
            | Token::GtEq
            | Token::Spaceship
            | Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::DuckIntDiv
            | Token::Mod
            | Token::StringConcat
            | Token::Ampersand
            | Token::Pipe
            | Token::Caret
            | Token::Sharp
            | Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::Overlap
            | Token::CaretAt
            | Token::Arrow
            | Token::LongArrow
            | Token::HashArrow
            | Token::HashLongArrow
            | Token::HashMinus
            | Token::AtArrow
            | Token::ArrowAt
            | Token::AtAt
            | Token::AtQuestion
            | Token::Question
            | Token::QuestionAnd
            | Token::QuestionPipe
            | Token::CustomBinaryOperator(_)
    )
}

#[cfg(test)]
mod tests;
