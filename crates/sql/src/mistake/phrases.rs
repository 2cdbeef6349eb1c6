//! What the parser and the planner report, in words of the question.
//!
//! They report what they expected and how types are named inside. People ask what to type instead, so each message that was
//! seen is matched here, with the text around its place, and gets a remedy; one that is not known stays as it is. What speaks
//! against it is that messages change with versions of the engine: a golden file of mistakes holds them to what they are.

use weir_query::times::{TimeError, span};

use super::{Mistake, nearest};

/// What is said of several statements where one is asked.
pub(crate) const SEVERAL_STATEMENTS: &str = "these are several statements";
/// What those are told who group by functions of windows.
pub(super) const WINDOW_IN_FROM: &str = "a window is in FROM, and its times are columns: SELECT window_start, count(*) \
     FROM TUMBLE(flows, received, INTERVAL '1' MINUTE) GROUP BY 1";
/// Words that begin a part of a statement.
const CLAUSES: [&str; 9] = ["FROM", "WHERE", "GROUP", "ORDER", "LIMIT", "HAVING", "JOIN", "UNION", "BETWEEN"];
/// Times that people write without quotes.
const TIME_WORDS: [&str; 9] =
    ["today", "yesterday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
/// How functions are called that are often called wrongly.
const USAGE: [(&str, &str); 16] = [
    ("address", "address('192.0.2.1')"),
    ("family", "family(src_addr)"),
    ("host", "host(src_addr)"),
    ("cidr", "cidr(src_addr, '192.0.2.0/24')"),
    ("prefix", "prefix(src_addr, 24)"),
    ("network", "network(src_addr, 24)"),
    ("time_bucket", "time_bucket('5 minutes', start)"),
    ("local_time", "local_time(start, 'Europe/Zurich')"),
    ("element", "element(elements, 'applicationName')"),
    ("duration_ms", "duration_ms(start, end)"),
    ("packets_per_second", "packets_per_second(start, end, packets)"),
    ("bits_per_second", "bits_per_second(start, end, bytes)"),
    ("bytes_per_packet", "bytes_per_packet(bytes, packets)"),
    ("if_name", "if_name(exporter, in_if)"),
    ("date_trunc", "date_trunc('hour', start)"),
    ("date_bin", "date_bin(INTERVAL '5 minutes', start)"),
];

/// A mistake in words of the question; `notes` are what the planner noted beside its message.
pub(super) fn refined(sql: &str, mistake: Mistake, notes: &[String]) -> Mistake {
    if mistake.hint.is_some() && !mistake.message.contains("incompatible types") && !is_of_engine(&mistake) {
        return mistake;
    }
    let Mistake { message, place, hint } = mistake;
    let before = place.as_ref().map(|place| split(&place.text, place.column - 1)).unwrap_or_default();
    let (message, more) = expected(sql, &message, before)
        .or_else(|| types(&message, notes))
        .or_else(|| fields(&message))
        .or_else(|| calls(&message))
        .or_else(|| clauses(&message))
        .unwrap_or_else(|| (message.replace("found: EOF", "found: the end"), None));
    Mistake { message, place, hint: more.or(hint) }
}

/// A mistake that no column of this question explains: what a name may stand for.
pub(super) fn unknown_name(sql: &str, name: &str, has_columns: bool) -> Option<String> {
    let lower = name.to_lowercase();
    if TIME_WORDS.contains(&lower.as_str()) {
        return Some(format!("write times in quotes: '{lower}'"));
    }
    if name.contains(|letter: char| !letter.is_alphanumeric() && letter != '_') {
        return Some(format!("texts are in single quotes: '{name}'"));
    }
    if !has_columns {
        let asks = sql.to_uppercase();
        let is_limit = asks.contains(&format!("LIMIT {}", name.to_uppercase()));
        return Some(if is_limit { "LIMIT takes a number" } else { "write FROM flows behind the columns" }.to_owned());
    }
    let named = format!(" AS {}", name.to_uppercase());
    if sql.to_uppercase().contains(&named) {
        return Some(format!("WHERE does not know names of SELECT: write what {name} stands for"));
    }
    matches!(lower.as_str(), "sum" | "count" | "avg" | "min" | "max" | "total")
        .then(|| "write it with what it is of, such as sum(bytes) or count(*)".to_owned())
}

/// Whether the hint is one of the engine, in its own words.
fn is_of_engine(mistake: &Mistake) -> bool {
    mistake.hint.as_ref().is_some_and(|hint| {
        hint.starts_with("Either add") || hint.starts_with("this side") || hint.starts_with("has type")
    })
}

fn split(line: &str, letters: usize) -> (String, String) {
    (line.chars().take(letters).collect(), line.chars().skip(letters).collect())
}

type Refined = Option<(String, Option<String>)>;

/// What the parser expected.
fn expected(sql: &str, message: &str, (before, behind): (String, String)) -> Refined {
    let (wanted, found) = message.strip_prefix("expected: ")?.split_once(", found: ")?;
    let said = || message.replace("found: EOF", "found: the end");
    let hint = match (wanted, found) {
        ("an SQL statement", _) if weir_filter::parse(sql).is_ok() && !sql.trim().is_empty() => {
            return Some((
                "this is a filter and no statement".to_owned(),
                Some(format!("weir query takes it: weir query '{}'", sql.trim())),
            ));
        }
        ("an SQL statement", _) => Some("begin with SELECT, EXPLAIN, SHOW or DESCRIBE".to_owned()),
        (")", "EOF") => return Some(("a '(' is not closed".to_owned(), Some("add ')'".to_owned()))),
        ("(", text) if text.starts_with('\'') => {
            let hint = if text.contains('/') {
                format!("write cidr(src_addr, {text}) for a prefix, or IN ({text}) for a list")
            } else {
                format!("write the list in parentheses: IN ({text})")
            };
            return Some(("a list is in parentheses".to_owned(), Some(hint)));
        }
        ("end of statement", _) => behind_the_end(sql, &before, &behind, found),
        ("AND", "EOF") => Some("write BETWEEN the smallest AND the largest value".to_owned()),
        (_, "EOF") if ends_with_word(&before, "WHERE") => {
            Some("write a condition behind WHERE, such as bytes > 1000".to_owned())
        }
        (_, "EOF") => Some("the statement ends too early".to_owned()),
        _ => None,
    };
    Some((said(), hint))
}

fn ends_with_word(text: &str, word: &str) -> bool {
    text.split_whitespace().next_back().is_some_and(|last| last.eq_ignore_ascii_case(word))
}

/// Why a statement goes on where it could have ended.
fn behind_the_end(sql: &str, before: &str, behind: &str, found: &str) -> Option<String> {
    let last_word = before.split_whitespace().next_back().unwrap_or_default();
    let is_digit = last_word.ends_with(|letter: char| letter.is_ascii_digit()) && !before.ends_with(' ');
    if is_digit && found.starts_with('.') {
        let literal =
            |text: &str, is_part: fn(char) -> bool| text.chars().take_while(|c| is_part(*c)).collect::<String>();
        let rest = literal(behind, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | ':'));
        return Some(format!("write addresses in quotes: '{last_word}{rest}'"));
    }
    if is_digit && matches!(found, "k" | "K" | "m" | "M" | "g" | "G") && !before.contains("now()") {
        return Some("write numbers in full: 10000 for 10k".to_owned());
    }
    if is_digit && span(&format!("{last_word}{found}")).is_ok() {
        let unit = unit(found);
        let unit = if last_word == "1" { unit.trim_end_matches('s') } else { unit };
        return Some(format!("write a length of time as INTERVAL '{last_word} {unit}'"));
    }
    if found == "," {
        return Some("write several values as a list: IN (80, 443)".to_owned());
    }
    let upper = sql.to_uppercase();
    if found.eq_ignore_ascii_case("where") && upper.contains("GROUP BY") {
        return Some("WHERE is before GROUP BY; HAVING chooses among groups".to_owned());
    }
    let is_filter = |word: &str| ["ip", "port", "net", "host", "as", "if"].contains(&word);
    if is_filter(&found.to_lowercase()) && matches!(last_word.to_lowercase().as_str(), "src" | "dst" | "in" | "out") {
        return Some(
            "this is a filter of nfdump's language: weir query takes it, or write src_addr = '192.0.2.1'".to_owned(),
        );
    }
    if upper.contains("CASE ") && !upper.contains(" END") {
        return Some("a CASE ends with END".to_owned());
    }
    let clause = nearest(found, CLAUSES.into_iter()).or_else(|| nearest(last_word, CLAUSES.into_iter()));
    let is_clause = |word: &str| CLAUSES.iter().any(|clause| clause.eq_ignore_ascii_case(word));
    match clause.filter(|_| !is_clause(last_word) && !is_clause(found)) {
        Some(hint) => Some(hint),
        None if !upper.contains(" FROM ") || upper.find(" FROM ") > sql.find(behind) => {
            Some("write a comma between columns".to_owned())
        }
        None => None,
    }
}

fn unit(letter: &str) -> &str {
    match letter {
        "s" => "seconds",
        "m" => "minutes",
        "h" => "hours",
        "d" => "days",
        "w" => "weeks",
        other => other,
    }
}

/// What a type of the engine is to people.
fn noun(type_name: &str) -> &'static str {
    let name = type_name.trim();
    if name.starts_with("Timestamp") {
        "a time"
    } else if name.starts_with("Binary") {
        "an address"
    } else if name.contains("Utf8") {
        "a text"
    } else if name.starts_with("Boolean") {
        "a condition"
    } else if name.starts_with("Interval") || name.starts_with("Duration") {
        "a length of time"
    } else if name.contains("Int") || name.contains("Float") || name.contains("Decimal") {
        "a number"
    } else {
        "a value of another kind"
    }
}

/// Values of kinds that do not go together.
fn types(message: &str, notes: &[String]) -> Refined {
    if message.starts_with("expressions have incompatible types") {
        let nouns: Vec<&str> = notes.iter().filter_map(|note| note.strip_prefix("has type ")).map(noun).collect();
        let [left, right] = <[&str; 2]>::try_from(nouns).unwrap_or(["a value", "a value of another kind"]);
        let hint = match (left, right) {
            ("a time", "a text") => "write a length of time as INTERVAL '1 hour'",
            ("a time", _) | (_, "a time") => {
                "write a time in quotes, such as '2026-11-21 08:30' or '-1h', or to_timestamp_seconds(1489500000)"
            }
            ("an address", _) | (_, "an address") => "addresses are written as '192.0.2.1' or '2001:db8::1'",
            ("a number", "a number") => {
                let hint = "AND and OR are between conditions, such as bytes > 0 AND packets > 0";
                return Some(("these are numbers and no conditions".to_owned(), Some(hint.to_owned())));
            }
            _ => "cast one of both: CAST(... AS TEXT)",
        };
        return Some((format!("{left} does not go with {right}"), Some(hint.to_owned())));
    }
    if message.contains("in LIKE expression") || message.contains("in ILIKE expression") {
        let hint = "write protocol_name(protocol) LIKE 'TC%', or CAST(... AS TEXT) for other numbers";
        return Some(("LIKE matches texts, and this is none".to_owned(), Some(hint.to_owned())));
    }
    if let Some(rest) = message.strip_prefix("cannot create filter with non-boolean predicate '") {
        let (name, of) = rest.split_once("' returning ")?;
        let name = name.rsplit('.').next().unwrap_or(name);
        let hint = format!("write a comparison, such as {name} > 0");
        return Some((format!("WHERE needs a condition, and {name} is {}", noun(of)), Some(hint)));
    }
    if message.starts_with("invalid input syntax for type interval") {
        let given = message.split('"').nth(1).unwrap_or_default();
        let hint = "write a number and a unit: INTERVAL '15 minutes', INTERVAL '1 hour', INTERVAL '7 days'";
        return Some((format!("'{given}' is no length of time"), Some(hint.to_owned())));
    }
    None
}

/// Fields of a column that has none. Mostly a table was meant: in a subquery, a column goes before a table of the outer query that
/// has the same name.
fn fields(message: &str) -> Refined {
    let (_, rest) = message.split_once("annot access field at argument ")?;
    let (_, type_name) = rest.strip_suffix(" is not Struct, Map, or Null")?.split_once(": type ")?;
    let hint = "flows is a column too, and a subquery reads it as that: give the outer table another name, as in FROM flows f1 and \
                f1.src_addr";
    Some((
        format!("what is before a point is a column here, and {} has no fields", noun(type_name)),
        Some(hint.to_owned()),
    ))
}

/// Functions and their arguments.
fn calls(message: &str) -> Refined {
    let name = message
        .split_once("a call to '")
        .or_else(|| message.split_once("unction '"))
        .and_then(|(_, rest)| rest.split_once('\''))
        .map(|(name, _)| name)?;
    let usage = USAGE.iter().find(|(known, _)| *known == name).map(|(_, usage)| format!("write {usage}"));
    if let Some((_, rest)) = message.split_once("expects ")
        && let Some((wanted, rest)) = rest.split_once(" arguments but received ")
    {
        let given = rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
        let noun = if wanted == "1" { "argument" } else { "arguments" };
        let once = (wanted == "1").then(|| format!("call it for each: {name}(bytes), {name}(packets)"));
        return Some((format!("{name}() takes {wanted} {noun}, not {given}"), usage.or(once)));
    }
    if message.contains("takes text and received Binary") {
        let brackets = if name.starts_with(char::is_alphabetic) { "()" } else { "" };
        let hint = "write host(src_addr) for the text of an address";
        return Some((format!("{name}{brackets} does not take an address"), Some(hint.to_owned())));
    }
    if message.contains("received Binary") {
        let hint = "count addresses with count(DISTINCT src_addr), or write host(src_addr) for their text";
        return Some((format!("{name}() does not take an address"), Some(hint.to_owned())));
    }
    if let Some(cast) = cast_of_decimal(message).filter(|_| usage.is_none()) {
        let hint = format!("cast them: {name}(CAST(... AS {cast}))");
        return Some((format!("{name}() takes whole numbers, and sums of counters are decimals"), Some(hint)));
    }
    let is_known = message.contains("coerce arguments") || message.contains("failed to match");
    is_known.then(|| (format!("{name}() does not take these arguments"), usage))
}

/// What a decimal is to be cast to for a function that wants whole numbers.
fn cast_of_decimal(message: &str) -> Option<&'static str> {
    let forms = message.split_once("coercion from ").and_then(|(_, rest)| rest.split_once(" to the signature "));
    let class = || {
        let (wanted, given) = message.split_once(" requires ")?.1.split_once(", but received ")?;
        Some((given, wanted))
    };
    let (given, wanted) = forms.or_else(class)?;
    let is_whole = ["Int32", "Int64", "Integer"].iter().any(|name| wanted.contains(name));
    let is_signed = wanted.contains("Int64") && !wanted.contains("UInt64");
    (given.contains("Decimal128(") && is_whole).then_some(if is_signed { "BIGINT" } else { "BIGINT UNSIGNED" })
}

/// Clauses that are not understood, or not like that.
fn clauses(message: &str) -> Refined {
    if let Some((name, _)) = message.split_once("' must appear in GROUP BY clause") {
        let name = name.trim_start_matches('\'');
        let name = name.rsplit('.').next().unwrap_or(name);
        let hint = format!("add {name} to GROUP BY, or write any_value({name}) for one of its values");
        return Some((format!("{name} is neither in GROUP BY nor in a function that sums up"), Some(hint)));
    }
    if message.contains("only supports a single SQL statement") {
        let hint = "weir sql without a statement takes one after the other, also from a pipe";
        return Some((SEVERAL_STATEMENTS.to_owned(), Some(hint.to_owned())));
    }
    if let Some(what) = message.strip_prefix("this feature is not implemented: ") {
        let hint = match what {
            "TOP" => Some("write LIMIT 10 at the end".to_owned()),
            "COUNT DISTINCT with multiple arguments" => {
                Some("write count(DISTINCT struct(src_addr, dst_addr))".to_owned())
            }
            _ => None,
        };
        return Some((format!("{what} is not supported"), hint));
    }
    if message.contains("is not a variable which can be viewed") {
        let hint = "SHOW TABLES lists the tables, DESCRIBE flows the columns of one";
        return Some(("SHOW does not know that".to_owned(), Some(hint.to_owned())));
    }
    if message.contains("different number of columns") {
        let hint = "select as many columns on one side as on the other";
        return Some(("both sides of UNION have other numbers of columns".to_owned(), Some(hint.to_owned())));
    }
    if let Some(function) = message.strip_suffix(" needs size") {
        let hint = format!("write {function}(flows, received, INTERVAL '1' MINUTE)");
        return Some((format!("{function} needs the size of its windows"), Some(hint)));
    }
    if message.contains("does not support zero arguments") {
        return Some((message.to_owned(), Some("write what it is of, such as sum(bytes)".to_owned())));
    }
    if message.starts_with("unsupported date_trunc granularity") || message.contains("date_trunc granularity") {
        let given = message.split('\'').nth(1).unwrap_or_default();
        let hint = "write second, minute, hour, day, week, month, quarter or year";
        return Some((format!("'{given}' is no unit of date_trunc"), Some(hint.to_owned())));
    }
    message.starts_with("unterminated string literal").then(|| {
        ("a quote is not closed".to_owned(), Some("add ' behind the text; a quote within is written twice".to_owned()))
    })
}

/// What to write instead of a text that is no time.
pub(crate) fn time_hint(text: &str) -> String {
    if span(text).is_ok() {
        return format!("write '-{}' for so long ago", text.trim());
    }
    let parts: Vec<&str> = text.trim().split(['.', '/', '-']).collect();
    match parts[..] {
        [day, month, year] if year.len() == 4 && year.bytes().all(|digit| digit.is_ascii_digit()) => {
            format!("write the year first: {year}-{month:0>2}-{day:0>2}")
        }
        _ => TimeError::HINT.to_owned(),
    }
}
