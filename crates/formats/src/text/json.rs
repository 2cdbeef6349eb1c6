//! One object of JSON on one line, as Zeek writes its logs: names and plain values.
//!
//! What is inside lists and objects is passed over, because no field that has a column is one.

/// Names and values of an object; values are without their quotes. `None` when the line is no object.
pub(super) fn fields(line: &str) -> Option<Vec<(String, String)>> {
    let mut rest = line.trim().strip_prefix('{')?.trim_start();
    let mut found = Vec::new();
    if rest == "}" {
        return Some(found);
    }
    loop {
        let (name, behind) = text(rest)?;
        let (value, behind) = value(behind.trim_start().strip_prefix(':')?.trim_start())?;
        found.push((name, value));
        rest = behind.trim_start();
        match rest.strip_prefix(',') {
            Some(behind) => rest = behind.trim_start(),
            None => return (rest == "}").then_some(found),
        }
    }
}

/// A value and what stands behind it.
fn value(rest: &str) -> Option<(String, &str)> {
    match rest.as_bytes().first()? {
        b'"' => text(rest),
        b'[' | b'{' => passed_over(rest).map(|rest| (String::new(), rest)),
        _ => {
            let end = rest.find([',', '}', ']']).unwrap_or(rest.len());
            Some((rest[..end].trim_end().to_owned(), &rest[end..]))
        }
    }
}

/// What stands behind a list or an object.
fn passed_over(mut rest: &str) -> Option<&str> {
    let mut depth = 0_usize;
    loop {
        match rest.as_bytes().first()? {
            b'"' => {
                rest = text(rest)?.1;
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        let mut letters = rest.chars();
        letters.next();
        rest = letters.as_str();
        if depth == 0 {
            return Some(rest);
        }
    }
}

/// A text in quotes and what stands behind it.
fn text(rest: &str) -> Option<(String, &str)> {
    let mut letters = rest.strip_prefix('"')?.chars();
    let mut found = String::new();
    loop {
        match letters.next()? {
            '"' => return Some((found, letters.as_str())),
            '\\' => match letters.next()? {
                'n' => found.push('\n'),
                't' => found.push('\t'),
                'r' => found.push('\r'),
                'b' => found.push('\u{8}'),
                'f' => found.push('\u{c}'),
                'u' => {
                    let digits = letters.as_str().get(..4)?;
                    // half of a pair is no letter, and stands in no field that has a column
                    found.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?).unwrap_or('\u{fffd}'));
                    letters = letters.as_str()[4..].chars();
                }
                other => found.push(other),
            },
            other => found.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&[(&str, &str)]>) {
        let found = fields(line);
        let found: Option<Vec<_>> =
            found.as_ref().map(|found| found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect());
        assert_eq!(found.as_deref(), expected, "{line}");
    }

    #[test]
    fn objects() {
        check("{}", Some(&[]));
        check(
            r#"{"ts":1.5,"id.orig_h":"10.0.0.1", "local":true ,"peers":[{"a":"}]"},2],"n":null}"#,
            Some(&[("ts", "1.5"), ("id.orig_h", "10.0.0.1"), ("local", "true"), ("peers", ""), ("n", "null")]),
        );
        check(r#"{"a\"b":"x\u0041\n"}"#, Some(&[("a\"b", "xA\n")]));
        for line in ["", "{", "[]", r#"{"a"}"#, r#"{"a":1"#, r#"{"a":[1}"#, r#"{"a":"\u00"}"#, r#"{"a":"#] {
            check(line, None);
        }
    }
}
