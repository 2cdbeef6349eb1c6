//! Reports as people read them in mail.

use std::fmt::Write;

use serde_json::Value;
use weir_reports::log::LoggedReport;

use crate::target::{Message, severity_of};

/// Rows of evidence of a report that are printed; all of them are in the journal.
const ROWS_MAX: usize = 5;
/// Characters of a subject.
const SUBJECT_MAX: usize = 200;

/// The subject of a message: what it is about, or what there is of each severity.
pub(crate) fn subject(message: &Message<'_>) -> String {
    let severity = message.severity().word();
    let text = match message.0 {
        [report] => {
            let key = report.text("key");
            let key = if key.is_empty() { String::new() } else { format!(" ({key})") };
            let withdrawn = if report.is_withdrawal() { ": no longer so" } else { "" };
            format!("[weir] {severity} {}: {}{key}{withdrawn}", report.text("watch"), report.text("title"))
        }
        reports => {
            let watches: std::collections::BTreeSet<_> = reports.iter().map(|report| report.text("watch")).collect();
            let watches: Vec<_> = watches.into_iter().collect();
            format!("[weir] {} reports, the highest {severity}: {}", reports.len(), watches.join(", "))
        }
    };
    harmless(&text).chars().take(SUBJECT_MAX).collect()
}

/// The text of a message: the reports in their order.
pub(crate) fn body(message: &Message<'_>) -> String {
    message.0.iter().map(report_text).collect::<Vec<_>>().join("\n")
}

fn report_text(report: &LoggedReport) -> String {
    let of = |name: &str| harmless(report.text(name));
    let member = |name: &str| report.members.as_ref().and_then(|members| members.get(name));
    let number = |name: &str| member(name).and_then(Value::as_u64);
    let mut text = format!("{} {} {}: {}\n", of("window_end"), severity_of(report).word(), of("watch"), of("title"));
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            // writing to a text cannot fail
            let _ = writeln!(text, "  {name:<9} {value}");
        }
    };
    line("key", of("key"));
    line("window", format!("{} to {}", of("window_start"), of("window_end")));
    if report.is_withdrawal() {
        line("corrected", "no longer so: late flows have changed the answer".to_owned());
    } else if report.is_correction() {
        line("corrected", "late flows have changed the answer".to_owned());
    }
    let rows = member("evidence").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for row in rows.iter().take(ROWS_MAX) {
        line("found", row_text(row));
    }
    let more = number("rows").unwrap_or(0).saturating_sub(rows.len().min(ROWS_MAX) as u64);
    if more > 0 {
        line("", format!("and {more} more rows"));
    }
    match number("records_lost") {
        Some(0) => {}
        Some(lost) => line("data", format!("incomplete: {lost} records were lost")),
        None => line("data", "not known whether it is complete".to_owned()),
    }
    if let Some(left_out) = number("rows_left_out").filter(|rows| *rows > 0) {
        line("data", format!("incomplete: the watch had no room for {left_out} flows"));
    }
    if member("saturated") == Some(&Value::Bool(true)) {
        line("data", "a sum does not fit into 64 bits, and the largest number stands for it".to_owned());
    }
    if let Some(times) = number("suppressed").filter(|times| *times > 0) {
        line("repeated", format!("{times} times since the last report"));
    }
    line("next", of("next"));
    line("id", of("id"));
    text
}

fn row_text(row: &Value) -> String {
    let Some(members) = row.as_object() else { return harmless(&row.to_string()) };
    let values = members.iter().filter_map(|(name, value)| match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{name}={}", harmless(text))),
        other => Some(format!("{name}={other}")),
    });
    values.collect::<Vec<_>>().join(" ")
}

/// The text without what could end a line or move a cursor.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(key: &str, severity: &str) -> LoggedReport {
        let report = json!({
            "id": format!("scan/x/{key}"), "watch": "scan", "title": "A host\r\nBcc: tries", "severity": severity, "key": key,
            "window_start": "2026-01-01T00:00:00.000Z", "window_end": "2026-01-01T00:00:10.000Z", "rows": 9,
            "evidence": [{ "flows": 7, "name": "a\u{1b}[2Jb" }], "records_lost": 3, "next": "weir query",
        });
        LoggedReport { end: 0, members: report.as_object().cloned(), line: Vec::new() }
    }

    #[test]
    fn what_came_from_the_network_stays_in_its_line() {
        let one = [report("a", "warning")];
        let subject = subject(&Message(&one));
        assert_eq!(subject, "[weir] warning scan: A host  Bcc: tries (a)");
        let body = body(&Message(&one));
        assert!(!body.contains('\u{1b}') && !body.contains('\r'), "{body:?}");
        for expected in
            ["found     flows=7 name=a [2Jb", "and 8 more rows", "incomplete: 3 records", "next      weir query"]
        {
            assert!(body.contains(expected), "{expected}: {body}");
        }
    }

    #[test]
    fn a_correction_reads_as_one() {
        let mut report = report("a", "warning");
        let members = report.members.as_mut().expect("members");
        members.insert("correction".to_owned(), json!(true));
        assert!(body(&Message(std::slice::from_ref(&report))).contains("corrected late flows"));
        let members = report.members.as_mut().expect("members");
        members.extend([("rows".to_owned(), json!(0)), ("evidence".to_owned(), json!([]))]);
        let one = [report];
        assert_eq!(subject(&Message(&one)), "[weir] warning scan: A host  Bcc: tries (a): no longer so");
        assert!(body(&Message(&one)).contains("corrected no longer so"));
    }

    #[test]
    fn a_sum_that_does_not_fit_is_said() {
        let mut report = report("a", "warning");
        assert!(!body(&Message(std::slice::from_ref(&report))).contains("64 bits"));
        let members = report.members.as_mut().expect("members");
        members.insert("saturated".to_owned(), json!(true));
        assert!(body(&Message(&[report])).contains("data      a sum does not fit into 64 bits"));
    }

    #[test]
    fn a_digest_says_what_is_highest() {
        let two = [report("a", "notice"), report("b", "critical")];
        assert_eq!(subject(&Message(&two)), "[weir] 2 reports, the highest critical: scan");
        assert_eq!(body(&Message(&two)).matches("id        scan/x/").count(), 2);
    }
}
