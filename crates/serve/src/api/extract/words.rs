//! What libraries say of a request that cannot be read, in the words of the API.
//!
//! serde and its formats name types of Rust and put names between backticks. Nothing but their text can be had, so it is taken
//! apart here; a text that is not known stays as it is.

use crate::problem::Problem;

/// What begins the text of axum.
const OF_QUERY: &str = "Failed to deserialize query string: ";
const OF_BODY: &str = "Failed to deserialize the JSON body into the target type: ";
const OF_SYNTAX: &str = "Failed to parse the request body as JSON: ";

/// The problem of parameters that cannot be read.
pub(super) fn of_query(text: &str) -> Problem {
    of_path(text.strip_prefix(OF_QUERY).unwrap_or(text), "parameter")
}

/// The problem of a body that cannot be read.
pub(super) fn of_body(text: &str) -> Problem {
    if let Some(wrong) = text.strip_prefix(OF_SYNTAX) {
        return Problem::request(format!("the body is not JSON: {}", wrong.replace("EOF while", "it ends while")));
    }
    of_path(text.strip_prefix(OF_BODY).unwrap_or(text), "member")
}

/// A text of serde, which may have the name of what is wrong before it and a place in the body behind it. A `part` of the request
/// has the name.
fn of_path(text: &str, part: &str) -> Problem {
    let (text, place) = match text.rfind(" at line ") {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let is_name = |name: &str| !name.is_empty() && !name.contains([' ', '`']);
    let (name, wrong) = text.split_once(": ").filter(|&(name, _)| is_name(name)).unwrap_or(("", text));
    let (detail, hint) = reworded(name, wrong, part).unwrap_or_else(|| (lowered(text), None));
    let problem = Problem::request(format!("{detail}{place}"));
    match hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

/// What is wrong, and what to do about it; `None` for what is not known.
fn reworded(name: &str, wrong: &str, part: &str) -> Option<(String, Option<String>)> {
    let what = if name.is_empty() { "the body".to_owned() } else { format!("'{}'", name.escape_debug()) };
    let plain = |text: String| Some((text, None));
    match wrong {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            return plain(format!("{what} is not a whole number from 0 on"));
        }
        "number too large to fit in target type" => return plain(format!("{what} is too large a number")),
        "invalid float literal" | "cannot parse float from empty string" => {
            return plain(format!("{what} is not a number"));
        }
        "provided string was not `true` or `false`" => return plain(format!("{what} is neither true nor false")),
        _ => {}
    }
    if wrong.starts_with("data did not match any variant of untagged enum") {
        return plain(format!("{what} is of a kind that is not taken here"));
    }
    if let Some((field, known)) = quoted(wrong, "unknown field `") {
        let known = names(known);
        let hint = (!known.is_empty()).then(|| weir_chain::closest(field, known.iter().copied()));
        return Some((format!("there is no {part} '{}'", field.escape_debug()), hint));
    }
    if let Some((value, known)) = quoted(wrong, "unknown variant `") {
        let known = names(known);
        let hint = (!known.is_empty()).then(|| weir_chain::closest(value, known.iter().copied()));
        return Some((format!("{what} cannot be '{}'", value.escape_debug()), hint));
    }
    if let Some((field, _)) = quoted(wrong, "missing field `") {
        return plain(format!("the {part} '{}' is missing", field.escape_debug()));
    }
    if let Some((field, _)) = quoted(wrong, "duplicate field `") {
        return plain(format!("the {part} '{}' is given twice", field.escape_debug()));
    }
    let found = wrong.strip_prefix("invalid type: ").or_else(|| wrong.strip_prefix("invalid value: "));
    if let Some((found, expected)) = found.and_then(|found| found.rsplit_once(", expected ")) {
        return plain(format!("{what} is {}, and must be {}", found_word(found), expected_word(expected)?));
    }
    if let Some((_, expected)) = wrong.strip_prefix("invalid length ").and_then(|rest| rest.split_once(", expected ")) {
        return plain(format!("{what} must be {}", expected_word(expected)?));
    }
    None
}

/// What is between the end of `before` and the next backtick, and what follows it.
fn quoted<'a>(text: &'a str, before: &str) -> Option<(&'a str, &'a str)> {
    let text = text.strip_prefix(before)?;
    text.split_once("`, ").or_else(|| Some((text.strip_suffix('`')?, "")))
}

/// Names between backticks.
fn names(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// What was found, such as ``integer `5` ``, `string "a"` or `null`.
fn found_word(found: &str) -> String {
    match found.split_once(' ') {
        Some(("integer" | "boolean", value)) => value.trim_matches('`').to_owned(),
        Some(("floating", rest)) => rest.trim_start_matches("point ").trim_matches('`').to_owned(),
        Some(("string", value)) => value.to_owned(),
        _ => match found {
            "map" => "an object".to_owned(),
            "sequence" => "a list".to_owned(),
            found => found.to_owned(),
        },
    }
}

/// What is expected; `None` for what is not known.
fn expected_word(expected: &str) -> Option<&'static str> {
    let is_object = |text: &str| text.starts_with("struct ") || text == "a map";
    Some(match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        expected if is_object(expected) => "an object",
        _ => return None,
    })
}

/// The text with a small first letter.
fn lowered(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_lowercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use axum::extract::{Json, Query};
    use axum::http::Uri;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        #[default]
        Flows,
        Bytes,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only what is wrong is read")]
    struct Wanted {
        by: String,
        limit: Option<u32>,
        #[serde(default)]
        kind: Kind,
        #[serde(default)]
        scaled: bool,
    }

    fn of_text(problem: Problem) -> (String, String) {
        (problem.detail, problem.hint.unwrap_or_default())
    }

    /// What the libraries of today say, in our words.
    fn query(text: &str) -> (String, String) {
        let uri: Uri = format!("http://localhost/?{text}").parse().expect("an address");
        of_text(of_query(&Query::<Wanted>::try_from_uri(&uri).expect_err("refused").body_text()))
    }

    fn body(text: &str) -> (String, String) {
        of_text(of_body(&Json::<Wanted>::from_bytes(text.as_bytes()).expect_err("refused").body_text()))
    }

    #[test]
    fn parameters_are_refused_in_words_of_the_api() {
        let cases = [
            ("by=a&limit=x", "'limit' is not a whole number from 0 on", ""),
            ("by=a&limit=-1", "'limit' is not a whole number from 0 on", ""),
            ("by=a&limit=", "'limit' is not a whole number from 0 on", ""),
            ("by=a&limit=99999999999", "'limit' is too large a number", ""),
            ("by=a&kind=byte", "'kind' cannot be 'byte'", "did you mean 'bytes'?"),
            ("by=a&kind=%0A", "'kind' cannot be '\\n'", "known are: flows, bytes"),
            ("by=a&scaled=yes", "'scaled' is neither true nor false", ""),
            ("by=a&limt=1", "there is no parameter 'limt'", "did you mean 'limit'?"),
            ("by=a&q=1", "there is no parameter 'q'", "known are: by, limit, kind, scaled"),
            ("limit=1", "the parameter 'by' is missing", ""),
            ("by=a&by=b", "the parameter 'by' is given twice", ""),
        ];
        for (text, detail, hint) in cases {
            assert_eq!(query(text), (detail.to_owned(), hint.to_owned()), "{text}");
        }
    }

    #[test]
    fn bodies_are_refused_in_words_of_the_api() {
        let cases = [
            (r#"{"by":5}"#, "'by' is 5, and must be a text at line 1 column 7"),
            (r#"{"by":"a","limit":"b"}"#, "'limit' is \"b\", and must be a whole number from 0 on at line 1 column 21"),
            (r#"{"by":"a","limit":-1}"#, "'limit' is -1, and must be a whole number from 0 on at line 1 column 20"),
            (r#"{"by":"a","limit":1.5}"#, "'limit' is 1.5, and must be a whole number from 0 on at line 1 column 21"),
            (r#"{"by":"a","scaled":[]}"#, "'scaled' is a list, and must be true or false at line 1 column 19"),
            ("{}", "the member 'by' is missing at line 1 column 2"),
            (r#""a""#, "the body is \"a\", and must be an object at line 1 column 3"),
            ("{", "the body is not JSON: it ends while parsing an object at line 1 column 1"),
        ];
        for (text, detail) in cases {
            assert_eq!(body(text).0, detail, "{text}");
        }
        assert_eq!(body(r#"{"bye":1}"#).1, "did you mean 'by'?");
    }

    #[test]
    fn what_is_not_known_stays_as_it_is() {
        assert_eq!(of_query("Failed to deserialize query string: Something else").detail, "something else");
    }
}
