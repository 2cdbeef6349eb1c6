//! The reference page has every option, and every watch that comes with weir.

use std::fmt::Write;

use weir_chain::Options;
use weir_notify::action::ActionOptions;
use weir_testkit::pages;
use weir_watch::transform::WatchTransformOptions;
use weir_watch::{WatchFile, WatchOptions};

const PAGE: &str = "docs/reference/watch.md";

/// The text with something else between two marks.
fn between(text: &str, mark: &str, inside: &str) -> String {
    let (begin, end) = (format!("<!-- {mark}: begin"), format!("<!-- {mark}: end -->"));
    let (before, rest) = text.split_once(&begin).expect("a begin");
    let (of_mark, rest) = rest.split_once('\n').expect("a line");
    let (_, after) = rest.split_once(&end).expect("an end");
    format!("{before}{begin}{of_mark}\n{inside}{end}{after}")
}

fn options<O: Options>() -> String {
    let mut text = "| option | default | effect |\n| --- | --- | --- |\n".to_owned();
    for spec in O::specs() {
        let default = match spec.default {
            Some(default) if !default.is_empty() => format!("`{default}`"),
            _ if spec.is_required => "must be given".to_owned(),
            _ => String::new(),
        };
        writeln!(text, "| `{}` | {default} | {} |", spec.key, spec.doc.replace('|', "\\|")).expect("text");
    }
    text
}

fn watches() -> String {
    let mut text = "| watch | severity | finds |\n| --- | --- | --- |\n".to_owned();
    let files = std::fs::read_dir(pages::path("watches")).expect("watches").map(|entry| entry.expect("a file").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    files.sort();
    for path in files {
        let file = WatchFile::read(&path).unwrap_or_else(|error| panic!("{error}"));
        let reports = &file.options.reports;
        let severity = reports.severity.word();
        writeln!(
            text,
            "| [`{0}`](../../watches/{0}.toml) | {severity} | {1}. {2} |",
            file.name,
            reports.title,
            reports.method.trim_end()
        )
        .expect("text");
    }
    text
}

#[test]
fn the_page_is_fresh() {
    let page = between(&pages::committed(PAGE), "options", &options::<WatchOptions>());
    let page = between(&page, "actions", &options::<ActionOptions>());
    let page = between(&page, "transform", &options::<WatchTransformOptions>());
    pages::check(PAGE, &between(&page, "watches", &watches()));
}
