//! Questions as text: for the audit, and for the list of those that run.

/// When the flows of a question begin and end: milliseconds since the epoch, or `open`.
pub(super) fn span(from_ms: Option<i64>, until_ms: Option<i64>) -> String {
    let time = |ms: Option<i64>| ms.map_or_else(|| "open".to_owned(), |ms| ms.to_string());
    format!("from={} until={}", time(from_ms), time(until_ms))
}

/// A parameter with a blank before it, whose value is in quotes; nothing when it was not given.
pub(super) fn given(name: &str, value: Option<&str>) -> String {
    value.map(|value| format!(" {name}={value:?}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_given_is_not_written_down() {
        assert_eq!(span(None, Some(1_767_225_600_000)), "from=open until=1767225600000");
        assert_eq!(given("key", Some("app=\"x\"\n")), " key=\"app=\\\"x\\\"\\n\"");
        assert_eq!(given("key", None), "");
    }
}
