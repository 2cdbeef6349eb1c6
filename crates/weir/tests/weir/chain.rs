//! Chains from the command line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use crate::process::{run, weir};

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// Gives a chain file to a command on its standard input.
fn with_chain(arguments: &[&str], chain: &str) -> Output {
    let mut child = weir();
    let child = child.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().expect("weir starts");
    child.stdin.take().expect("standard input").write_all(chain.as_bytes()).expect("written");
    child.wait_with_output().expect("it ends")
}

#[test]
fn the_chains_of_the_project_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains");
    let files: Vec<_> = std::fs::read_dir(folder).expect("chains").map(|entry| entry.expect("a file").path()).collect();
    assert!(files.len() >= 2);
    for file in files {
        let output = run(&["chain", "check", file.to_str().expect("UTF-8")]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("nothing wrong"));
    }
}

#[test]
fn built_in_commands_are_chains() {
    for command in [&["collect", "--show-chain"][..], &["import", "--show-chain", "a\"b.pcap"]] {
        let shown = run(&[command, &["--archive", "some where"]].concat());
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        let checked = with_chain(&["chain", "check", "-"], &text(&shown.stdout));
        assert!(checked.status.success(), "{}", text(&checked.stderr));
        let drawn = with_chain(&["chain", "draw", "-"], &text(&shown.stdout));
        assert!(text(&drawn.stdout).contains("archive (archive)"), "{}", text(&drawn.stdout));
    }
    assert!(!Path::new("some where").exists(), "nothing is opened");
}

#[test]
fn collectors_and_meters_keep_statistics_by_more_columns() {
    keeps_statistics_by_more_columns(&["collect", "--archive", "some where", "--show-chain"]);
    keeps_statistics_by_more_columns(&["meter", "lo", "--archive", "some where", "--show-chain"]);
}

fn keeps_statistics_by_more_columns(collect: &[&str]) {
    let shown = |by: &str| run(&[collect, &["--statistics", "--statistics-by", by]].concat());
    let more = shown("src_net,exporter+in_if");
    assert!(more.status.success(), "{}", text(&more.stderr));
    let chain = text(&more.stdout);
    assert!(
        ["total", "host", "src_net", "exporter+in_if"].iter().all(|name| chain.contains(&format!("\"{name}\""))),
        "{chain}"
    );
    let checked = with_chain(&["chain", "check", "-"], &chain);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    let wrong = with_chain(&["chain", "check", "-"], &chain.replace("src_net", "src_nett"));
    assert!(text(&wrong.stderr).contains("'src_nett' is no column to count by"), "{}", text(&wrong.stderr));
    let alone = run(&[collect, &["--statistics-by", "src_net"]].concat());
    assert!(!alone.status.success() && text(&alone.stderr).contains("--statistics"), "{}", text(&alone.stderr));
    let elsewhere = text(&run(&[collect, &["--statistics=else where"]].concat()).stdout);
    for (chain, folder) in [(&chain, "some where/statistics"), (&elsewhere, "else where")] {
        assert!(chain.contains(&format!("statistics = \"{folder}\"\n")), "{folder}: {chain}");
    }
}

#[test]
fn mistakes_in_chain_files_are_told_with_their_place() {
    let chain = "[components.source]\ntype = \"generator\"\nrecord = 5\n[components.out]\ntype = \"countr\"\ninputs = \"source\"\n";
    let output = with_chain(&["chain", "run", "-"], chain);
    assert!(!output.status.success());
    let told = text(&output.stderr);
    for part in ["line 3, column 1", "did you mean 'records'?", "line 5, column 1", "did you mean 'counter'?"] {
        assert!(told.contains(part), "{told}");
    }
    let output = run(&["chain", "kinds", "sorte"]);
    assert!(text(&output.stderr).contains("there is no kind of component 'sorte'"));
    let output = with_chain(&["chain", "check", "-", "--set", "nonsense"], chain);
    assert!(text(&output.stderr).contains("hint: write component.key=value"), "{}", text(&output.stderr));
}

#[test]
fn books_balance_whatever_transforms_make_of_the_flows() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("exports.pcap");
    let written = run(&["generate", "--records", "2000", "--write", capture.to_str().expect("UTF-8")]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    let transforms = [
        ("filter", "filter = \"proto tcp\""),
        ("sample", "one_in = 3"),
        ("aggregate", "keys = [\"protocol\"]"),
        ("anonymise", "method = \"truncate\""),
    ];
    for (kind, options) in transforms {
        let archive = folder.path().join(kind);
        let chain = format!(
            "[components.source]\ntype = \"capture-reader\"\nfiles = [\"{}\"]\n[components.changed]\ntype = \"{kind}\"\n\
             inputs = \"source\"\n{options}\n[components.archive]\ntype = \"archive\"\ninputs = \"changed\"\n\
             archive = \"{}\"\n",
            capture.display(),
            archive.display()
        );
        let output = with_chain(&["chain", "run", "-"], &chain);
        assert!(output.status.success(), "{kind}: {}", text(&output.stderr));
        let archive = archive.to_str().expect("UTF-8");
        let books = run(&["books", "-R", archive]);
        assert!(books.status.success(), "{kind}: {}", text(&books.stderr));
        let said = text(&books.stderr);
        assert!(said.contains("the books balance"), "{kind}: {said}");
        let count = run(&["sql", "-q", "-o", "csv", "--archive", archive, "SELECT count(*) FROM flows"]);
        let count: u64 = text(&count.stdout).lines().last().and_then(|line| line.parse().ok()).expect("a number");
        assert!(said.contains(&format!("flows in the archive: {count}\n")), "{kind}: {said}");
        // as many have come, whatever was made of them
        let came = "SELECT sum(records_stored) - sum(records_made) FROM exporter_books";
        let came = run(&["sql", "-q", "-o", "csv", "--archive", archive, came]);
        assert_eq!(text(&came.stdout).lines().last(), Some("2000"), "{kind}: {said}");
        assert_eq!(said.contains("made of others by transforms"), kind == "aggregate", "{kind}: {said}");
        // what a filter or a sample leaves out is known one by one
        let dropped = 2000 - count;
        let expected = format!("records stored by the books: 2000, filtered: {dropped},");
        assert!(kind == "aggregate" || said.contains(&expected), "{kind}: {said}");
        assert_eq!(kind == "anonymise", count == 2000, "{kind}: {count}");
    }
}

#[test]
fn a_signal_ends_a_chain_in_order_and_nothing_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let chain = format!(
        "[components.source]\ntype = \"generator\"\nrecords = 0\n[components.count]\ntype = \"counter\"\ninputs = \"source\"\n\
         [components.archive]\ntype = \"archive\"\ninputs = \"source\"\nthread = \"own\"\narchive = \"{}\"\n",
        archive.display()
    );
    let report = folder.path().join("report.json");
    let mut child = weir();
    child.args(["chain", "run", "-", "--report-interval", "1s", "--report"]).arg(&report);
    let mut child = child.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weir starts");
    child.stdin.take().expect("standard input").write_all(chain.as_bytes()).expect("written");
    let mut lines = BufReader::new(child.stderr.take().expect("standard error")).lines();
    let working = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("archive "));
    assert!(working.is_some(), "it tells how it goes");
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it still runs");
    lines.for_each(drop);
    assert!(child.wait().expect("it ends").success());
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).expect("a report")).expect("JSON");
    let block =
        |name: &str| report["components"].as_array().expect("components").iter().find(|b| b["name"] == name).cloned();
    let made = block("source").expect("a block")["rows_out"].as_u64().expect("a number");
    let [counted, kept] = ["count", "archive"].map(|name| block(name).expect("a block")["rows_in"].as_u64());
    assert_eq!([counted, kept], [Some(made); 2]);
    let count =
        run(&["sql", "-q", "-o", "csv", "--archive", archive.to_str().expect("UTF-8"), "SELECT count(*) FROM flows"]);
    assert_eq!(text(&count.stdout).lines().last(), Some(made.to_string().as_str()));
}

#[test]
fn columns_that_a_sink_refuses_are_found_before_anything_is_opened() {
    let chain = |more: &str| {
        format!(
            "[components.source]\ntype = \"generator\"\nrecords = 5\n\
             [components.once]\ntype = \"dedup\"\ninputs = [\"source\"]\n\
             [components.sorted]\ntype = \"sorter\"\ninputs = [\"once\"]\n\
             [components.archive]\ntype = \"archive\"\ninputs = [\"sorted\"]\narchive = \"flows\"\n{more}"
        )
    };
    let refused = with_chain(&["chain", "check", "-"], &chain(""));
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    for part in
        ["line 10, column 1", "'observations', which 'once' adds, is no column of flows", "hint: write extra_columns"]
    {
        assert!(said.contains(part), "{said}");
    }
    let accepted = with_chain(&["chain", "check", "-"], &chain("extra_columns = \"drop\"\n"));
    assert!(accepted.status.success(), "{}", text(&accepted.stderr));
}

#[test]
fn columns_that_a_reader_leaves_out_are_found_before_anything_is_opened() {
    let chain = |columns: &str| {
        format!(
            "[components.read]\ntype = \"archive-reader\"\narchive = \"flows\"\ncolumns = [{columns}]\n\
             [components.sorted]\ntype = \"sorter\"\ninputs = [\"read\"]\n\
             [components.web]\ntype = \"filter\"\ninputs = [\"sorted\"]\nfilter = \"dst port 443\"\n\
             [components.hosts]\ntype = \"topn\"\ninputs = [\"web\"]\nkeys = [\"src_addr/24\"]\n\
             [components.count]\ntype = \"counter\"\ninputs = [\"hosts\"]\n"
        )
    };
    let refused = with_chain(&["chain", "check", "-"], &chain("\"start\", \"bytes\""));
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    for part in [
        "line 8, column 13: component 'web' needs 'dst_port', which 'read' does not read",
        "hint: add \"dst_port\" to the columns of 'read'",
        "line 12, column 13: component 'hosts' needs 'src_addr', which 'read' does not read",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let accepted = with_chain(&["chain", "check", "-"], &chain("\"start\", \"bytes\", \"dst_port\", \"src_addr\""));
    assert!(accepted.status.success(), "{}", text(&accepted.stderr));
}

/// A flow that an exporter reports half an hour after its start is of the hour of its start.
#[test]
fn the_chain_of_talkers_takes_flows_that_come_late() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let flows = "start,received,src_addr,dst_addr,protocol,dst_port,packets,bytes\n\
                 2026-01-01T11:05:00Z,2026-01-01T11:06:00Z,192.0.2.1,198.51.100.1,6,443,1,100\n\
                 2026-01-01T10:50:00Z,2026-01-01T11:20:00Z,192.0.2.2,198.51.100.1,6,443,1,200\n";
    std::fs::write(path("flows.csv"), flows).expect("written");
    let imported = run(&["import", "--archive", &path("flows"), &path("flows.csv")]);
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    let chain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains/talkers.toml");
    let [reader, csv] =
        [("reader.archive", "flows"), ("csv.path", "talkers.csv")].map(|(key, name)| format!("{key}={}", path(name)));
    let arguments = ["chain", "run", chain.to_str().expect("UTF-8"), "--set", &reader, "--set", &csv];
    let ran = run(&arguments);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let talkers = std::fs::read_to_string(path("talkers.csv")).expect("an answer");
    let lines: Vec<&str> = talkers.lines().skip(1).collect();
    assert_eq!(lines.len(), 2, "{talkers}");
    assert!(lines[0].contains("10:50:00") && lines[1].contains("11:05:00"), "{talkers}");
}

/// Longer steps are there when they have ended: of less than two minutes there are steps of a second and one of a minute.
#[test]
fn statistics_of_two_minutes_are_drawn_over_a_day() {
    let folder = tempfile::tempdir().expect("a folder");
    let statistics = folder.path().join("statistics").display().to_string();
    let chain = format!(
        "[components.flows]\ntype = \"generator\"\nrecords = 1000\nflows_per_second = 10\nstart = \"2026-01-01T00:00:05Z\"\n\
         [components.kept]\ntype = \"statistics\"\ninputs = [\"flows\"]\nstatistics = \"{statistics}\"\n"
    );
    let output = with_chain(&["chain", "run", "-"], &chain);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let day = ["--utc", "--from", "2026-01-01", "--until", "2026-01-02"];
    let output = run(&[&["series", "plot", "--statistics", &statistics, "--by", "total"], &day[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("bytes by total"), "{}", text(&output.stdout));
    let named =
        run(&[&["series", "plot", "--statistics", &statistics, "--by", "total", "--step", "1h"], &day[..]].concat());
    assert!(text(&named.stderr).contains("there are no steps of this time"), "{}", text(&named.stderr));
    // of another day the error has the time of which there are some
    let later = ["--utc", "--from", "2026-02-01", "--until", "2026-02-02"];
    let output = run(&[&["series", "plot", "--statistics", &statistics, "--by", "total"], &later[..]].concat());
    let there_are = "error: there are no steps of this time; there are steps of 1s from 2026-01-01 00:00 to 00:0";
    assert!(text(&output.stderr).starts_with(there_are), "{}", text(&output.stderr));
}
