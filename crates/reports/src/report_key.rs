//! Keys of reports as texts: what acknowledgements and repetitions are compared by, and what ids end in.

/// The key of a report: `NAME=VALUE` of each column, with commas between them. No two rows with other values have the same. A
/// value that is null is nothing; a text is as it is unless it could be taken for something else (an empty one, one that begins
/// with a quote, or one that has the name of the next column after a comma), and is a string of JSON then.
pub fn report_key(values: &[(&str, Option<String>)]) -> String {
    let mut key = String::new();
    for (number, (name, value)) in values.iter().enumerate() {
        if number > 0 {
            key.push(',');
        }
        key.push_str(name);
        key.push('=');
        let next = values.get(number + 1).map(|(next, _)| before_value(next));
        match value {
            None => {}
            Some(value) if is_clear(value, next.as_deref()) => key.push_str(value),
            Some(value) => key.push_str(&serde_json::Value::from(value.as_str()).to_string()),
        }
    }
    key
}

/// The values of a key of columns with these names.
pub(crate) fn key_values(key: &str, names: &[&str]) -> Option<Vec<Option<String>>> {
    let (mut values, mut rest) = (Vec::new(), key);
    for (number, name) in names.iter().enumerate() {
        let from_value = rest.strip_prefix(*name)?.strip_prefix('=')?;
        let next = names.get(number + 1).map(|next| before_value(next));
        let (value, end) = if from_value.starts_with('"') {
            let mut texts = serde_json::Deserializer::from_str(from_value).into_iter::<String>();
            let text = texts.next()?.ok()?;
            (Some(text), texts.byte_offset())
        } else {
            let end = next.as_deref().map_or(Some(from_value.len()), |next| from_value.find(next))?;
            let text = from_value.get(..end)?;
            (Some(text.to_owned()).filter(|text| !text.is_empty()), end)
        };
        let behind = from_value.get(end..)?;
        rest = match next {
            Some(next) if behind.starts_with(&next) => behind.get(1..)?,
            None if behind.is_empty() => behind,
            _ => return None,
        };
        values.push(value);
    }
    Some(values)
}

/// What is before the value of a column that is not the first.
fn before_value(name: &str) -> String {
    format!(",{name}=")
}

/// Whether a text ends, for who reads it, where it does.
fn is_clear(value: &str, next: Option<&str>) -> bool {
    let ends_before = |next: &str| format!("{value}{next}").find(next) == Some(value.len());
    !value.is_empty() && !value.starts_with('"') && next.is_none_or(ends_before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_values_are_another_key() {
        let texts = [
            None,
            Some(""),
            Some("x"),
            Some("x,b=y"),
            Some("y,b="),
            Some(",b="),
            Some("\""),
            Some("\"\""),
            Some("x,b"),
        ];
        let mut keys = std::collections::BTreeSet::new();
        for a in texts {
            for b in texts {
                let values = [a, b].map(|text| text.map(str::to_owned));
                let key = report_key(&[("a", values[0].clone()), ("b", values[1].clone())]);
                assert_eq!(key_values(&key, &["a", "b"]).as_deref(), Some(&values[..]), "{key}");
                keys.insert(key);
            }
        }
        assert_eq!(keys.len(), texts.len() * texts.len());
    }

    /// What was reported and acknowledged before stays so.
    #[test]
    fn keys_are_as_they_were_where_they_were_clear() {
        let of = |a: Option<&str>, b: &str| report_key(&[("a", a.map(str::to_owned)), ("b", Some(b.to_owned()))]);
        assert_eq!(of(Some("192.0.2.1"), "53"), "a=192.0.2.1,b=53");
        assert_eq!(of(None, "x,y=\"z\""), "a=,b=x,y=\"z\"");
        assert_eq!(of(Some(""), ""), "a=\"\",b=\"\"");
        assert_eq!(of(Some("x,b=y"), "z"), "a=\"x,b=y\",b=z");
        assert_eq!(report_key(&[]), "");
    }
}
