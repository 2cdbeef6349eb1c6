//! `weir query`, its filters and its mistakes.

use std::path::Path;
use std::process::Output;

use crate::process::weir;

/// Three flows in an archive of `folder`, an hour apart.
fn archive(folder: &Path) {
    let flows = "start,src_addr,dst_addr,protocol,packets,bytes\n\
                 1704103200.000,127.0.0.1,10.0.0.9,17,1,100\n\
                 1704106800.000,10.0.0.2,10.0.0.9,17,1,200\n\
                 1704110400.000,10.0.0.3,10.0.0.9,6,1,300\n";
    std::fs::write(folder.join("flows.csv"), flows).expect("written");
    std::fs::write(folder.join("hosts.txt"), "10.0.0.2\n10.0.0.3\n").expect("written");
    std::fs::write(folder.join("more.nf"), "proto udp").expect("written");
    let output = ask(folder, &["import", "--archive", "archive", "flows.csv"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn ask(folder: &Path, arguments: &[&str]) -> Output {
    // Kolkata is five and a half hours ahead
    weir().args(arguments).current_dir(folder).env("TZ", "Asia/Kolkata").output().expect("weir runs")
}

#[track_caller]
fn check(folder: &Path, filter: &str, expected: &[&str]) {
    let asked = ["query", "--archive", "archive", "-q", "--columns", "bytes", "-o", "csv", "-O", "bytes:a", filter];
    let output = ask(folder, &asked);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let bytes: Vec<&str> = text.lines().filter(|line| line.bytes().all(|octet| octet.is_ascii_digit())).collect();
    assert_eq!(bytes, expected, "{filter}");
}

#[test]
fn query_reads_filters_as_nfdump_does() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path());
    check(folder.path(), "src ip in hosts.txt", &["200", "300"]);
    check(folder.path(), "@include more.nf", &["100", "200"]);
    check(folder.path(), "src host localhost", &["100"]);
    // 11:00 UTC
    check(folder.path(), "first seen < 2024-01-01T16:30", &["100"]);
    check(folder.path(), "first seen < yesterday 14:00", &["100", "200", "300"]);
}

#[test]
fn query_mistakes_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path());
    let check = |arguments: &[&str], told: &str| {
        let output = ask(folder.path(), arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(told), "{arguments:?}: {error}");
    };
    check(&["query", "--archive", "nothing"], "nothing");
    check(&["query", "--archive", "archive", "--nothing"], "unexpected argument '--nothing'");
    for format in ["csv", "json"] {
        let two = ["query", "--archive", "archive", "-s", "srcip", "-s", "dstip", "-o", format];
        check(&two, &format!("--format {format} has one answer, and each of 2 --statistic is an answer"));
        check(&two, "hint: ask for one at a time, or write them with --format ndjson");
    }
    check(&["query", "--archive", "archive", "src ip in nothing.txt"], "nothing.txt");
    check(&["query", "--archive", "archive", "@include nothing.nf"], "nothing.nf");
}

#[test]
fn an_answer_without_rows_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path());
    let said = |arguments: &[&str]| {
        let output = ask(folder.path(), arguments);
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    let check = |arguments: &[&str], expected: &str| {
        let arguments = [&["query", "--archive", "archive"], arguments].concat();
        assert_eq!(said(&arguments), expected, "{arguments:?}");
    };
    // 10:00 to 12:00 UTC
    let extent = "the archive has flows from 2024-01-01 15:30 to 17:30 Asia/Kolkata\n";
    check(&["proto icmp"], "no flow passes the filter\n");
    check(&["--from", "2024-01-02", "proto udp"], &format!("no flows of this time; {extent}"));
    check(&["--from", "2024-01-01", "proto icmp"], "no flow of this time passes the filter\n");
    check(&["-s", "srcas/bytes"], "no flow has a value of this field\n");
    check(&["country DE"], "no flow passes the filter; no flow has a value of src_country or dst_country\n");
    check(&["not country DE"], "");
    check(
        &["--from", "2024-01-01", "proto udp and sni example.com"],
        "no flow of this time passes the filter; no flow of this time has a value of server_name\n",
    );
    let names =
        "start,src_addr,dst_addr,packets,bytes,server_name\n1704103200.000,10.0.0.5,10.0.0.6,1,100,www.example.com\n";
    std::fs::write(folder.path().join("names.csv"), names).expect("written");
    said(&["import", "--archive", "names", "names.csv"]);
    let of_names = |filter: &str| said(&["query", "--archive", "names", filter]);
    let like = "no flow passes the filter\nhint: write server_name like '%example%' for texts with this in them\n";
    assert_eq!(["sni Example", "sni like example"].map(of_names), [like, like]);
    assert_eq!(["sni like '%google%'", "sni de"].map(of_names), ["no flow passes the filter\n"; 2]);
    assert_eq!(of_names("sni like '%example%'"), "");
    check(&["proto udp"], "");
    // programs read this
    check(&["-o", "csv", "proto icmp"], "");
    check(&["-q", "proto icmp"], "");
    let statement = "SELECT bytes FROM flows WHERE bytes = 7";
    assert_eq!(said(&["sql", "--archive", "archive", statement]), format!("no rows; {extent}"));

    std::fs::write(folder.path().join("none.csv"), "start,src_addr,dst_addr,protocol,packets,bytes\n")
        .expect("written");
    said(&["import", "--archive", "empty", "none.csv"]);
    assert_eq!(said(&["query", "--archive", "empty"]), "no flows: the archive is empty\n");
    assert_eq!(said(&["sql", "--archive", "empty", statement]), "no rows: the archive has no flows\n");
}

#[test]
fn sql_warns_of_a_sum_that_does_not_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path());
    for (values, expected, is_said) in [
        ("(9223372036854775806), (1)", "9223372036854775807", false),
        ("(9223372036854775807), (1)", "9223372036854775807", true),
    ] {
        let statement = format!("SELECT sum(v) FROM (VALUES {values}) AS t(v)");
        let output = ask(folder.path(), &["sql", "--archive", "archive", "-q", "-o", "csv", &statement]);
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && stdout.lines().last() == Some(expected), "{stdout}{stderr}");
        assert_eq!(stderr.contains("warning: a sum does not fit into 64 bits"), is_said, "{stderr}");
    }
}
