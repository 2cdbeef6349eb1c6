//! How large a statement may be.
//!
//! Planning takes time that grows with the square of what a statement has, and nothing can interrupt it: a chain of 100,000
//! additions, 200 KB of text, would take hours. So each kind of part has a limit, with which planning takes some two seconds on a
//! machine of 2020, and a statement over it is refused before it is parsed. What costs little has none: values in lists of
//! `IN` and rows of `VALUES`. What speaks against counting tokens: it knows no grammar, and counts some words twice.
//!
//! Subqueries that are named once and read often multiply what the text has, so what is parsed is counted once more, with each
//! of them as often as it is read. The plan is counted last: there `*` has become columns, and views what they are.
//!
//! The parser limits how deeply its own calls nest, but not the trees that its loops build (`1 - 1 - 1`, `x::int::int`), nor types
//! in types. Dropping such a tree is a call in a call for each of its levels, and overflows the stack. So whatever parses a text
//! has it counted before, as the same dialect cuts it into tokens.

mod reads;
mod written_out;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::Dialect;
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
const SUFFIXES: Limit =
    Limit { max: 1_000, what: "casts, subscripts and other suffixes of one value", hint: "cast a value once" };
/// More than the parser takes of anything but types.
const NESTED: Limit = Limit {
    max: 100,
    what: "parentheses, types and words like EXPLAIN in one another",
    hint: "give subqueries names with WITH, or ask in several statements",
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

/// Refuses a text that would take too long to plan, or would overflow the stack of who parses it, for the dialect that it is parsed
/// in: what is a name in quotes to one may be an operator to another.
pub(crate) fn check_text(text: &str, dialect: &dyn Dialect) -> Result<()> {
    // what is no text of SQL, the parser explains better
    let Ok(tokens) = Tokenizer::new(dialect, text).tokenize() else { return Ok(()) };
    let parts = Parts::of(&tokens);
    TooLarge::check(parts.operators, OPERATORS)?;
    // a union of so many queries may have no SELECT at all
    TooLarge::check(parts.queries.max(parts.set_operations + 1), QUERIES)?;
    TooLarge::check(parts.joins, JOINS)?;
    TooLarge::check(parts.items, ITEMS)?;
    TooLarge::check(parts.suffixes_max, SUFFIXES)?;
    TooLarge::check(parts.nested_max, NESTED)
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
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// Columns or arguments.
    #[default]
    Items,
    /// Values of `IN`, rows of `VALUES` and values of such a row.
    Values,
    /// Tables.
    Tables,
}

/// What is between two parentheses, or outside of all.
#[derive(Debug, Default)]
struct Level {
    /// What commas part here.
    between: Between,
    /// Suffixes since the last comma or clause. Each of them may be a suffix of what is before it.
    suffixes: usize,
    suffixes_max: usize,
}

/// What a text has.
#[derive(Debug, Default)]
struct Parts {
    operators: usize,
    queries: usize,
    /// `UNION` and the like, and steps of a pipe, of which each has the ones before within it.
    set_operations: usize,
    joins: usize,
    items: usize,
    suffixes_max: usize,
    /// What nests without parentheses: types that have types in angle brackets, `EXPLAIN` and `INTERVAL` before another one.
    prefixes: usize,
    nested_max: usize,
    outside: Level,
    /// The parentheses that are open.
    open: Vec<Level>,
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
                let is_row = self.level().between == Between::Values
                    && (matches!(before, Token::Comma | Token::LParen) || keyword(before) == Some(Keyword::VALUES));
                let is_list = is_row || keyword(before) == Some(Keyword::IN);
                let between = if is_list { Between::Values } else { Between::Items };
                self.open.push(Level { between, ..Level::default() });
                self.note_nested();
            }
            Token::RParen => {
                let inner = self.open.pop().map_or(0, |level| level.suffixes_max);
                self.add_suffixes(inner);
            }
            Token::Comma => {
                let level = self.level();
                level.suffixes = 0;
                match level.between {
                    Between::Items => self.items += 1,
                    Between::Values => {}
                    Between::Tables => self.joins += 1,
                }
            }
            Token::DoubleColon | Token::LBracket => {
                self.items += 1;
                self.add_suffixes(1);
            }
            // `!` of Postgres, `value:path`, and how often a part of a pattern repeats
            Token::ExclamationMark | Token::Colon | Token::LBrace => self.add_suffixes(1),
            Token::Placeholder(name) if name == "?" => self.add_suffixes(1),
            Token::VerticalBarRightAngleBracket => self.set_operations += 1,
            // `count(*)`, `a.*`, and the sign of a number in a list
            Token::Mul | Token::Plus | Token::Minus
                if matches!(before, Token::LParen | Token::Comma | Token::Period) => {}
            token if is_operator(token) => {
                self.operators += 1;
                let outer = [Keyword::ARRAY, Keyword::STRUCT, Keyword::MAP];
                if *token == Token::Lt && keyword(before).is_some_and(|word| outer.contains(&word)) {
                    self.add_prefix();
                }
            }
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
                self.begin(Between::Items);
            }
            Keyword::VALUES => self.begin(Between::Values),
            // not that of IS DISTINCT FROM
            Keyword::FROM if keyword(before) != Some(Keyword::DISTINCT) => self.begin(Between::Tables),
            Keyword::JOIN
            | Keyword::STRAIGHT_JOIN
            | Keyword::APPLY
            | Keyword::PIVOT
            | Keyword::UNPIVOT
            | Keyword::MATCH_RECOGNIZE => self.joins += 1,
            Keyword::AT => {
                self.items += 1;
                self.add_suffixes(1);
            }
            Keyword::EXPLAIN => self.add_prefix(),
            Keyword::INTERVAL if keyword(before) == Some(Keyword::INTERVAL) => self.add_prefix(),
            Keyword::COLLATE | Keyword::NOTNULL => self.add_suffixes(1),
            Keyword::NULL if keyword(before) == Some(Keyword::NOT) => self.add_suffixes(1),
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
            | Keyword::DIV
            | Keyword::MEMBER
            | Keyword::OPERATOR
            | Keyword::OVERLAPS => self.operators += 1,
            Keyword::WHERE | Keyword::GROUP | Keyword::HAVING | Keyword::WINDOW | Keyword::ORDER | Keyword::LIMIT => {
                self.begin(Between::Items);
            }
            Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::MINUS => {
                self.set_operations += 1;
                self.begin(Between::Items);
            }
            _ => {}
        }
    }

    /// The innermost parentheses that are open.
    fn level(&mut self) -> &mut Level {
        self.open.last_mut().unwrap_or(&mut self.outside)
    }

    /// Begins a clause.
    fn begin(&mut self, between: Between) {
        let level = self.level();
        level.between = between;
        level.suffixes = 0;
    }

    fn add_suffixes(&mut self, count: usize) {
        let level = self.level();
        level.suffixes += count;
        level.suffixes_max = level.suffixes_max.max(level.suffixes);
        let suffixes = level.suffixes;
        self.suffixes_max = self.suffixes_max.max(suffixes);
    }

    fn add_prefix(&mut self) {
        self.prefixes += 1;
        self.note_nested();
    }

    fn note_nested(&mut self) {
        self.nested_max = self.nested_max.max(self.open.len() + self.prefixes);
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
            | Token::Assignment
            | Token::DoubleSharp
            | Token::AtSign
            | Token::QuestionMarkDash
            | Token::QuestionMarkSharp
            | Token::QuestionMarkDashVerticalBar
            | Token::QuestionMarkDoubleVerticalBar
            | Token::AmpersandLeftAngleBracket
            | Token::AmpersandRightAngleBracket
            | Token::AmpersandLeftAngleBracketVerticalBar
            | Token::VerticalBarAmpersandRightAngleBracket
            | Token::TwoWayArrow
            | Token::LeftAngleBracketCaret
            | Token::RightAngleBracketCaret
            | Token::TildeEqual
            | Token::ShiftLeftVerticalBar
            | Token::VerticalBarShiftRight
            | Token::CustomBinaryOperator(_)
    )
}

#[cfg(test)]
mod tests;
