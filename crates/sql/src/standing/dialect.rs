//! Statements in other dialects, and parameters.
//!
//! The parser knows `TUMBLE(flows, received, INTERVAL '1' SECOND)`. Two older ways to write windows are turned into that
//! before it sees them, token by token: `TABLE(TUMBLE(TABLE t, DESCRIPTOR(c), …))` of Flink with its `CUMULATE`, and CQL of
//! `TelegraphCQ`, `t [range by … slide by …]` with `wtime(*)` and `limit n per window`. A parameter, `:name`, becomes its
//! value. All else stays as it is written. What speaks against tokens: a mistake is shown in the statement that came of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Word};

use crate::EngineError;
use crate::mistake::Mistake;

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Parameter {
    /// A length of time in milliseconds.
    Span(i64),
    /// A number, as written.
    Number(String),
    /// A text.
    Text(String),
    /// Several, as in `IN (:hosts)`.
    List(Vec<Parameter>),
}

impl Parameter {
    fn sql(&self) -> String {
        match self {
            Self::Span(ms) => interval(*ms),
            // a minus in front of it would make a comment of the two
            Self::Number(number) if number.starts_with('-') => format!("({number})"),
            Self::Number(number) => number.clone(),
            Self::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Self::List(items) => items.iter().map(Self::sql).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Parameters by name.
pub type Parameters = BTreeMap<String, Parameter>;

fn interval(ms: i64) -> String {
    format!("INTERVAL '{ms} milliseconds'")
}

/// A token, or what is between two parentheses.
#[derive(Debug, Clone)]
enum Node {
    Token(Token),
    /// Text that was made here.
    Made(String),
    Group(Vec<Node>),
}

impl Node {
    fn word(&self) -> Option<&Word> {
        match self {
            Self::Token(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn is_word(&self, text: &str) -> bool {
        self.word().is_some_and(|word| word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
    }

    fn is_space(&self) -> bool {
        matches!(self, Self::Token(Token::Whitespace(_)))
    }

    fn is_token(&self, token: &Token) -> bool {
        matches!(self, Self::Token(found) if found == token)
    }

    fn push_to(&self, text: &mut String) {
        match self {
            // writing to a string cannot fail
            Self::Token(token) => drop(write!(text, "{token}")),
            Self::Made(made) => text.push_str(made),
            Self::Group(nodes) => {
                text.push('(');
                text.push_str(&text_of(nodes));
                text.push(')');
            }
        }
    }
}

fn text_of(nodes: &[Node]) -> String {
    let mut text = String::new();
    for node in nodes {
        node.push_to(&mut text);
    }
    text
}

fn mistake(message: String, hint: &str) -> EngineError {
    Mistake { message, place: None, hint: Some(hint.to_owned()) }.into()
}

/// The statement in the dialect of the parser.
pub(crate) fn rewritten(text: &str, parameters: &Parameters) -> Result<String, EngineError> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize();
    // what cannot be cut into tokens is left to the parser, which says where
    let Ok(tokens) = tokens else { return Ok(text.to_owned()) };
    let mut tokens = tokens.into_iter().peekable();
    let mut nodes = grouped(&mut tokens, parameters)?;
    rewrite(&mut nodes)?;
    Ok(text_of(&nodes))
}

/// Tokens up to a closing parenthesis, with parameters replaced.
fn grouped(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = Token>>,
    parameters: &Parameters,
) -> Result<Vec<Node>, EngineError> {
    let mut nodes = Vec::new();
    let value = |name: &str| {
        let known = parameters.keys().cloned().collect::<Vec<_>>().join(", ");
        let there = if known.is_empty() { "which is not there".to_owned() } else { format!("which has {known}") };
        let hint = format!("parameters are given in the table [parameters], {there}");
        parameters
            .get(name)
            .map(Parameter::sql)
            .ok_or_else(|| mistake(format!("no parameter is named '{name}'"), &hint))
    };
    while let Some(token) = tokens.next() {
        nodes.push(match token {
            Token::RParen => return Ok(nodes),
            Token::LParen => Node::Group(grouped(tokens, parameters)?),
            Token::Placeholder(name) if name.starts_with(':') => Node::Made(value(&name[1..])?),
            Token::Colon => match tokens.next_if(|next| matches!(next, Token::Word(_))) {
                Some(Token::Word(word)) => Node::Made(value(&word.value)?),
                _ => Node::Token(Token::Colon),
            },
            other => Node::Token(other),
        });
    }
    Ok(nodes)
}

/// Rewrites a statement, and those in its parentheses.
fn rewrite(nodes: &mut Vec<Node>) -> Result<(), EngineError> {
    for node in nodes.iter_mut() {
        if let Node::Group(inner) = node {
            rewrite(inner)?;
        }
    }
    flink_partitions(nodes);
    flink_windows(nodes);
    cumulating_windows(nodes)?;
    set_masklen(nodes);
    cidr_of_several(nodes);
    in_empty_list(nodes);
    separate_with_items(nodes);
    let windows = cql_windows(nodes)?;
    limit_per_window(nodes);
    window_times(nodes, &windows);
    Ok(())
}

/// Positions of everything but space.
fn solid(nodes: &[Node]) -> Vec<usize> {
    (0..nodes.len()).filter(|at| nodes.get(*at).is_some_and(|node| !node.is_space())).collect()
}

/// `t PARTITION BY a, b, DESCRIPTOR(c), …` as `t, DESCRIPTOR(c), …, key => (a, b)`.
fn flink_partitions(nodes: &mut Vec<Node>) {
    let solid = solid(nodes);
    let word = |place: usize, text: &str| {
        solid.get(place).and_then(|at| nodes.get(*at)).is_some_and(|node| node.is_word(text))
    };
    let begin = (0..solid.len()).find(|place| word(*place, "partition") && word(place + 1, "by"));
    let is_end = |place: usize| {
        let is_comma = solid.get(place).and_then(|at| nodes.get(*at)).is_some_and(|node| node.is_token(&Token::Comma));
        is_comma && (word(place + 1, "descriptor") || word(place + 1, "timecol"))
    };
    let Some(begin) = begin else { return };
    let Some(end) = (begin..solid.len()).find(|place| is_end(*place)) else { return };
    let (Some(from), Some(keys), Some(to)) = (solid.get(begin), solid.get(begin + 2), solid.get(end)) else { return };
    let key = format!(", key => ({})", text_of(&nodes[*keys..*to]));
    nodes.drain(*from..*to);
    nodes.push(Node::Made(key));
}

/// `TABLE(TUMBLE(TABLE t, DESCRIPTOR(c), …))` without the words that only Flink has. In front of a name, TABLE is one of them
/// where an argument begins: that of `DROP TABLE t` is the parser's.
fn flink_windows(nodes: &mut Vec<Node>) {
    let ends_before_argument = |before: &[Node]| {
        let last = before.iter().rev().find(|node| !node.is_space());
        last.is_none_or(|node| node.is_token(&Token::Comma) || node.is_token(&Token::RArrow))
    };
    let mut at = 0;
    while at < nodes.len() {
        let next = (at + 1..nodes.len()).find(|next| nodes.get(*next).is_some_and(|node| !node.is_space()));
        let (Some(node), Some(next)) = (nodes.get(at), next) else { break };
        let is_table = node.is_word("table");
        let is_descriptor = node.is_word("descriptor");
        let is_argument = is_table && ends_before_argument(&nodes[..at]);
        match nodes.get_mut(next) {
            Some(Node::Group(inner)) if is_table || is_descriptor => {
                let inner = std::mem::take(inner);
                nodes.splice(at..=next, inner);
            }
            Some(Node::Token(Token::Word(_))) if is_argument => {
                nodes.drain(at..next);
            }
            _ => at += 1,
        }
    }
    for (from, to) in [("data", "table"), ("timecol", "time")] {
        for at in 0..nodes.len() {
            let is_named = nodes.get(at).is_some_and(|node| node.is_word(from))
                && nodes[at + 1..]
                    .iter()
                    .find(|node| !node.is_space())
                    .is_some_and(|node| node.is_token(&Token::RArrow));
            if is_named && let Some(node) = nodes.get_mut(at) {
                *node = Node::Made(format!("\"{to}\""));
            }
        }
    }
}

/// `CUMULATE(t, c, step, size)` of Flink: windows that begin together and grow by a step up to a size. Each has the rows of
/// the window of HOP that ends with it, without those from before the last multiple of the size.
fn cumulating_windows(nodes: &mut Vec<Node>) -> Result<(), EngineError> {
    let mut at = 0;
    while at < nodes.len() {
        let next = (at + 1..nodes.len()).find(|next| nodes.get(*next).is_some_and(|node| !node.is_space()));
        let text = match (nodes.get(at), next.and_then(|next| nodes.get(next))) {
            (Some(name), Some(Node::Group(arguments))) if name.is_word("cumulate") => Some(cumulating(arguments)?),
            _ => None,
        };
        if let (Some(text), Some(next)) = (text, next) {
            nodes.splice(at..=next, [Node::Made(text)]);
        }
        at += 1;
    }
    Ok(())
}

/// A call of CUMULATE, by its arguments, as a subquery over HOP.
fn cumulating(arguments: &[Node]) -> Result<String, EngineError> {
    const NAMES: [&str; 5] = ["table", "time", "step", "size", "offset"];
    let mut values: [Option<String>; NAMES.len()] = [const { None }; NAMES.len()];
    let wrong = || {
        let hint = "write: CUMULATE(flows, received, INTERVAL '2' MINUTE, INTERVAL '10' MINUTE)";
        mistake("CUMULATE takes a table, a time, the step and the size of its windows".to_owned(), hint)
    };
    for (place, part) in arguments.split(|node| node.is_token(&Token::Comma)).enumerate() {
        let arrow = part.iter().position(|node| node.is_token(&Token::RArrow));
        let (place, value) = match arrow.and_then(|arrow| part.split_at_checked(arrow)) {
            Some((name, value)) => {
                let name = text_of(name).trim().trim_matches('"').to_lowercase();
                (NAMES.iter().position(|known| *known == name), value.get(1..).unwrap_or_default())
            }
            None => (Some(place), part),
        };
        let value = text_of(value).trim().to_owned();
        let slot = place.filter(|_| !value.is_empty()).and_then(|place| values.get_mut(place)).ok_or_else(wrong)?;
        *slot = Some(value);
    }
    let [Some(table), Some(time), Some(step), Some(size), offset] = values else { return Err(wrong()) };
    let last = "window_end - INTERVAL '1 millisecond'";
    let (begin, offset) = match offset {
        Some(offset) => (format!("(date_bin({size}, {last} - ({offset})) + ({offset}))"), format!(", {offset}")),
        None => (format!("date_bin({size}, {last})"), String::new()),
    };
    Ok(format!(
        "(SELECT * REPLACE (arrow_cast({begin}, 'Timestamp(ms, \"UTC\")') AS window_start) \
         FROM HOP({table}, {time}, {step}, {size}{offset}) WHERE {time} >= {begin})"
    ))
}

/// `network(set_masklen(a, n))` is `network(a, n)`.
fn set_masklen(nodes: &mut [Node]) {
    let solid = solid(nodes);
    for pair in solid.windows(2) {
        let [name, group] = *pair else { continue };
        if !nodes.get(name).is_some_and(|node| node.is_word("network")) {
            continue;
        }
        let Some(Node::Group(arguments)) = nodes.get_mut(group) else { continue };
        let places: Vec<usize> = self::solid(arguments);
        if let [function, inner] = places.as_slice()
            && arguments.get(*function).is_some_and(|node| node.is_word("set_masklen"))
            && let Some(Node::Group(inner)) = arguments.get(*inner)
        {
            *arguments = inner.clone();
        }
    }
}

/// `cidr(a, 'p', 'q')`, which comes of a list as a parameter, is `(cidr(a, 'p') OR cidr(a, 'q'))`. No address is in an
/// empty list.
fn cidr_of_several(nodes: &mut Vec<Node>) {
    let mut at = 0;
    while at < nodes.len() {
        let next = (at + 1..nodes.len()).find(|next| nodes.get(*next).is_some_and(|node| !node.is_space()));
        let several = match (nodes.get(at), next.and_then(|next| nodes.get(next))) {
            (Some(name), Some(Node::Group(arguments))) if name.is_word("cidr") => prefixes(arguments),
            _ => None,
        };
        if let (Some(text), Some(next)) = (several, next) {
            nodes.splice(at..=next, [Node::Made(text)]);
        }
        at += 1;
    }
}

/// The test of an address against each of several prefixes, when there are several or none.
fn prefixes(arguments: &[Node]) -> Option<String> {
    // commas in parentheses are of calls in the arguments
    let mut parts = arguments.split(|node| node.is_token(&Token::Comma));
    let address = text_of(parts.next()?);
    let (mut prefixes, mut has_empty) = (Vec::new(), false);
    for part in parts {
        has_empty |= is_empty_list(part);
        let text = text_of(part);
        prefixes.extend(text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned));
    }
    let is_literal = |text: &String| text.len() > 2 && text.starts_with('\'') && text.ends_with('\'');
    if prefixes.len() < 2 && !has_empty || !prefixes.iter().all(is_literal) {
        return None;
    }
    let tests: Vec<String> = prefixes.iter().map(|prefix| format!("cidr({address}, {prefix})")).collect();
    Some(if tests.is_empty() { "(false)".to_owned() } else { format!("({})", tests.join(" OR ")) })
}

/// Whether this is a parameter whose value is a list of nothing.
fn is_empty_list(nodes: &[Node]) -> bool {
    let mut solid = nodes.iter().filter(|node| !node.is_space());
    matches!((solid.next(), solid.next()), (Some(Node::Made(text)), None) if text.is_empty())
}

/// `a IN ()`, which comes of an empty list as a parameter and is no SQL, is false, and `a NOT IN ()` is true.
fn in_empty_list(nodes: &mut [Node]) {
    let solid = solid(nodes);
    for (place, at) in solid.iter().enumerate() {
        let is_word = |before: usize, text: &str| {
            let node = place.checked_sub(before).and_then(|place| nodes.get(*solid.get(place)?));
            node.is_some_and(|node| node.is_word(text))
        };
        let is_empty = matches!(nodes.get(*at), Some(Node::Group(inner)) if is_empty_list(inner));
        if !is_empty || !is_word(1, "in") {
            continue;
        }
        // null is in no list for certain
        let text = if is_word(2, "not") { "(NULL) IS NOT FALSE" } else { "(NULL) IS TRUE" };
        if let Some(node) = nodes.get_mut(*at) {
            *node = Node::Made(text.to_owned());
        }
    }
}

/// Statements of WITH that follow one another without a comma, as CQL allows.
fn separate_with_items(nodes: &mut Vec<Node>) {
    let solid = solid(nodes);
    let mut places: Vec<usize> = solid
        .windows(4)
        .filter(|window| {
            let [group, name, word, next] = **window else { return false };
            let node = |at: usize| nodes.get(at);
            matches!(node(group), Some(Node::Group(_)))
                && node(name).and_then(Node::word).is_some_and(|word| word.keyword == Keyword::NoKeyword)
                && node(word).is_some_and(|node| node.is_word("as"))
                && matches!(node(next), Some(Node::Group(_)))
        })
        .filter_map(|window| window.get(1).copied())
        .collect();
    while let Some(place) = places.pop() {
        nodes.insert(place, Node::Made(", ".to_owned()));
    }
}

/// A relation with a window, and where its statement has it.
struct Windowed {
    /// What its columns are qualified with.
    name: String,
    at: usize,
}

/// `t [range by … slide by …]` as a function of the table.
fn cql_windows(nodes: &mut Vec<Node>) -> Result<Vec<Windowed>, EngineError> {
    let mut windows = Vec::new();
    while let Some(open) = nodes.iter().position(|node| node.is_token(&Token::LBracket)) {
        let is_window =
            nodes[open + 1..].iter().find(|node| !node.is_space()).is_some_and(|node| node.is_word("range"));
        let close = nodes[open..].iter().position(|node| node.is_token(&Token::RBracket)).map(|close| open + close);
        let (true, Some(close)) = (is_window, close) else { break };
        let (size_ms, slide_ms) = range_and_slide(&nodes[open + 1..close])?;
        let before: Vec<usize> = solid(&nodes[..open]);
        let names: Vec<(usize, String)> = before
            .iter()
            .rev()
            .map_while(|at| {
                let word = nodes.get(*at)?.word().filter(|word| word.keyword == Keyword::NoKeyword)?;
                Some((*at, word.to_string()))
            })
            .take(2)
            .collect();
        let (from, table, alias) = match names.as_slice() {
            [(_, alias), (from, table), ..] => (*from, table.clone(), alias.clone()),
            [(from, table)] => (*from, table.clone(), table.clone()),
            [] => return Err(mistake("[range by …] follows no name".to_owned(), "write: from flow [range by …]")),
        };
        let call = if size_ms == slide_ms {
            format!("TUMBLE({table}, size => {}) {alias}", interval(size_ms))
        } else {
            format!("HOP({table}, slide => {}, size => {}) {alias}", interval(slide_ms), interval(size_ms))
        };
        nodes.splice(from..=close, [Node::Made(call)]);
        windows.push(Windowed { name: alias, at: from });
    }
    Ok(windows)
}

/// The two lengths of time in brackets; without a slide, windows follow one another.
fn range_and_slide(nodes: &[Node]) -> Result<(i64, i64), EngineError> {
    let wrong = || {
        let text = text_of(nodes);
        mistake(format!("[{text}] is no window"), "write: [range by '10 seconds' slide by '1 second']")
    };
    let solid: Vec<&Node> = nodes.iter().filter(|node| !node.is_space()).collect();
    let words = solid.iter().position(|node| node.is_word("slide"));
    let (range, slide) = solid.split_at(words.unwrap_or(solid.len()));
    let size_ms = length(range.get(2..).unwrap_or_default()).ok_or_else(wrong)?;
    let slide_ms = match slide.get(2..) {
        Some(slide) if !slide.is_empty() => length(slide).ok_or_else(wrong)?,
        _ => size_ms,
    };
    Ok((size_ms, slide_ms))
}

/// A product of whole numbers and one length of time.
fn length(nodes: &[&Node]) -> Option<i64> {
    let (mut factor, mut span_ms) = (1_i64, None);
    for node in nodes {
        match node {
            Node::Token(Token::Mul) => {}
            Node::Token(Token::Number(number, _)) => factor = factor.checked_mul(number.parse().ok()?)?,
            Node::Token(Token::SingleQuotedString(text)) => span_ms = Some(millis(text)?),
            Node::Made(text) => match text.strip_prefix("INTERVAL '").and_then(|text| text.strip_suffix('\'')) {
                Some(text) => span_ms = Some(millis(text)?),
                None => span_ms = Some(millis(text.trim_matches('\''))?),
            },
            node if node.is_word("interval") => {}
            _ => return None,
        }
    }
    span_ms?.checked_mul(factor).filter(|ms| *ms > 0)
}

/// Milliseconds of a length of time such as `5 minutes`.
fn millis(text: &str) -> Option<i64> {
    let span: jiff::Span = text.trim().parse().ok()?;
    let ms = span.total((jiff::Unit::Millisecond, jiff::SpanRelativeTo::days_are_24_hours())).ok()?;
    (ms >= 1.0 && ms.fract() == 0.0).then_some(ms as i64)
}

/// `limit n per window` is `limit n`: a statement is asked for each window.
fn limit_per_window(nodes: &mut Vec<Node>) {
    let mut at = 0;
    while at < nodes.len() {
        let rest: Vec<usize> =
            (at..nodes.len()).filter(|place| nodes.get(*place).is_some_and(|node| !node.is_space())).take(2).collect();
        if let [per, window] = rest.as_slice()
            && *per == at
            && nodes.get(*per).is_some_and(|node| node.is_word("per"))
            && nodes.get(*window).is_some_and(|node| node.is_word("window"))
        {
            nodes.drain(*per..=*window);
        } else {
            at += 1;
        }
    }
}

/// Names of functions that make one row of many.
const AGGREGATES: [&str; 5] = ["count", "sum", "min", "max", "avg"];
/// Words that end GROUP BY.
const AFTER_GROUPS: [&str; 8] = ["having", "qualify", "order", "limit", "union", "except", "intersect", "window"];

/// `wtime(*)` is the end of the window, and what is grouped is grouped by it too.
fn window_times(nodes: &mut Vec<Node>, windows: &[Windowed]) {
    let Some(window) = windows.iter().min_by_key(|window| window.at) else { return };
    let end = format!("{}.window_end", window.name);
    let solid = solid(nodes);
    let calls: Vec<(usize, usize)> = solid
        .windows(2)
        .filter_map(|pair| {
            let [name, group] = *pair else { return None };
            let is_call = nodes.get(name).is_some_and(|node| node.is_word("wtime"));
            (is_call && matches!(nodes.get(group), Some(Node::Group(_)))).then_some((name, group))
        })
        .collect();
    if calls.is_empty() {
        return;
    }
    let has_aggregate = solid.windows(2).any(|pair| {
        let [name, group] = *pair else { return false };
        AGGREGATES.iter().any(|function| nodes.get(name).is_some_and(|node| node.is_word(function)))
            && matches!(nodes.get(group), Some(Node::Group(_)))
    });
    let word_at = |words: &[&str], from: usize| {
        let is_one = |node: &Node| words.iter().any(|word| node.is_word(word)) || node.is_token(&Token::SemiColon);
        nodes[from..].iter().position(is_one).map_or(nodes.len(), |at| from + at)
    };
    let groups = nodes.iter().position(|node| node.is_word("group"));
    let insertion = match groups {
        Some(groups) => Some((word_at(&AFTER_GROUPS, groups), format!(", {end} "))),
        None if has_aggregate => Some((word_at(&AFTER_GROUPS, 0), format!(" GROUP BY {end} "))),
        None => None,
    };
    if let Some((at, text)) = insertion {
        nodes.insert(at, Node::Made(text));
    }
    for (name, group) in calls.into_iter().rev() {
        // the insertion is behind every call of the list that is selected
        nodes.splice(name..=group, [Node::Made(end.clone())]);
    }
}

#[cfg(test)]
mod tests;
