//! Small tables in text files: one record a line, fields between commas (RFC 4180 without line breaks in fields).

use std::path::Path;

use weir_chain::ComponentError;

/// A record and the line it stands in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) line: usize,
    pub(super) fields: Vec<String>,
}

/// The records of a file that has these columns. A first line with their names is left out, and so are empty lines and
/// those that begin with `#`.
pub(super) fn read(path: &Path, columns: &[&str]) -> Result<Vec<Record>, ComponentError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ComponentError::caused(format!("file {} cannot be read", path.display()), error))?;
    let mut records = Vec::new();
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let record = Record { line: at + 1, fields: fields(line) };
        if record.fields.len() != columns.len() {
            let (found, names) = (record.fields.len(), columns.join(", "));
            return Err(wrong(path, &record, &format!("has {found} fields, but these are needed: {names}")));
        }
        if records.is_empty() && record.fields == columns {
            continue;
        }
        records.push(record);
    }
    Ok(records)
}

/// The error about a record.
pub(super) fn wrong(path: &Path, record: &Record, what: &str) -> ComponentError {
    ComponentError::new(format!("file {}, line {}: {what}", path.display(), record.line))
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut rest = line.trim_end_matches('\r');
    loop {
        let field = rest.trim_start();
        let (value, after) = if let Some(quoted) = field.strip_prefix('"') {
            quoted_field(quoted)
        } else {
            let end = field.find(',').unwrap_or(field.len());
            (field[..end].trim_end().to_owned(), &field[end..])
        };
        fields.push(value);
        match after.split_once(',') {
            Some((_, next)) => rest = next,
            None => return fields,
        }
    }
}

/// A field behind its opening quote, and what comes after its closing one. A quote inside is written twice.
fn quoted_field(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('"') {
        value.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                value.push('"');
                rest = more;
            }
            None => return (value, after),
        }
    }
    value.push_str(rest);
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_split_as_rfc_4180_says() {
        let cases: &[(&str, &[&str])] = &[
            ("10.0.0.0/8,office", &["10.0.0.0/8", "office"]),
            ("10.0.0.0/8 , office \r", &["10.0.0.0/8", "office"]),
            ("a,\"b, \"\"c\"\"\"", &["a", "b, \"c\""]),
            ("a,\" b \",", &["a", " b ", ""]),
            (",", &["", ""]),
            ("a,\"never closed", &["a", "never closed"]),
        ];
        for (line, expected) in cases {
            assert_eq!(fields(line), *expected, "{line:?}");
        }
    }

    #[test]
    fn header_comments_and_empty_lines_are_left_out() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "\u{feff}a,b\n\n# why\n1,2\na,b\n").expect("written");
        let records = read(file.path(), &["a", "b"]).expect("records");
        let found: Vec<_> = records.iter().map(|record| (record.line, record.fields.join(","))).collect();
        assert_eq!(found, [(4, "1,2".to_owned()), (5, "a,b".to_owned())]);
        let error = read(file.path(), &["a", "b", "c"]).expect_err("too few fields");
        assert!(error.to_string().ends_with("line 1: has 2 fields, but these are needed: a, b, c"), "{error}");
    }
}
