//! Answers without rows: why they have none.

use serde_json::{Value, json};

use super::service::{Service, archive};

#[test]
fn an_answer_without_rows_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = Service::start(&["--archive", &archive(folder.path(), "1000")]);
    let reaches = &service.get("/info")["archive"];
    let long_ago = "from=2000-01-01T00:00:00Z&until=2000-01-02T00:00:00Z";
    let of_time =
        json!({ "text": "no flows of this time", "first_ms": reaches["first_ms"], "last_ms": reaches["last_ms"] });
    for path in [
        "/rank?by=srcip",
        "/group?by=srcip,proto",
        "/flows?limit=10",
        "/biflows?limit=10",
        "/timeline?points=10",
        "/sankey?by=src_addr,dst_port",
        "/facets?columns=srcip,dstport",
    ] {
        assert_eq!(service.get(&format!("{path}&{long_ago}"))["why_empty"], of_time, "{path}");
        let filtered = service.get(&format!("{path}&filter=bytes%20%3E%2099999999999999"));
        assert!(
            filtered["why_empty"]["text"].as_str().is_some_and(|text| text.starts_with("no flow passes")),
            "{path}"
        );
        assert_eq!(service.get(path)["why_empty"], Value::Null, "{path}");
    }
    let beyond = service.get("/flows?limit=10&offset=5000");
    assert_eq!((&beyond["rows"], &beyond["why_empty"]), (&json!([]), &Value::Null), "there are rows before these");
    let answer = service.sql("SELECT bytes FROM flows WHERE bytes = 0").json();
    assert_eq!(answer["why_empty"]["text"], "no rows");
    assert_eq!(answer["why_empty"]["last_ms"], reaches["last_ms"]);
}

/// A sketch that has read all flows says what the time line does; that it says less of parts is tested with who sees a part.
#[test]
fn an_empty_sketch_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = Service::start(&["--archive", &archive(folder.path(), "1000")]);
    let reaches = &service.get("/info")["archive"];
    let time = |name: &str, add_ms: i64| {
        let ms = reaches[name].as_i64().expect("a time");
        jiff::Timestamp::from_millisecond(ms + add_ms).expect("a time").to_string()
    };
    let long_ago = service.get("/sketch?from=2000-01-01T00:00:00Z&until=2000-01-02T00:00:00Z");
    let of_time =
        json!({ "text": "no flows of this time", "first_ms": reaches["first_ms"], "last_ms": reaches["last_ms"] });
    assert_eq!(long_ago["why_empty"], of_time);
    let window = format!("from={}&until={}", time("first_ms", 0), time("last_ms", 1));
    let nothing = format!("{window}&filter=bytes%20%3E%2099999999999999");
    // all of few flows is read
    for scaled in ["", "&scaled=true"] {
        let [line, sketch] =
            ["timeline", "sketch"].map(|what| service.get(&format!("/{what}?{nothing}{scaled}"))["why_empty"].clone());
        assert_eq!(sketch, line, "{scaled}");
        assert!(line["text"].as_str().is_some_and(|text| text.starts_with("no flow of this time passes")), "{line}");
    }
    assert_eq!(service.get(&format!("/sketch?{window}"))["why_empty"], Value::Null);
}
