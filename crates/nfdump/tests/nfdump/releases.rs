//! What belongs to a release, and what is done with files that are none, over files of nfcapd 1.7.8.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use weir_archive::{ArchiveOptions, Writer};
use weir_flow::{Column, Delivery, FlowBatchBuilder, SideTables};

use super::{weir_as, weir_nfdump, words};

/// The folder with the files of nfcapd 1.7.8.
fn files() -> Option<PathBuf> {
    let folder = weir_testkit::corpus()?.join("_derived/nfdump-1.7.8/files");
    if folder.is_dir() {
        return std::path::absolute(folder).ok();
    }
    weir_testkit::skip("corpus", "it has no files of nfcapd 1.7.8");
    None
}

fn ask(release: &str, folder: &Path, arguments: &str) -> Output {
    let mut command = weir_as(release);
    command.args(words(arguments)).current_dir(folder).env("TZ", "UTC").env_remove("NFCONF").output().expect("runs")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Files of 1.7.8 are not damaged: their records of exporters have no family.
#[test]
fn nothing_is_said_of_files_of_1_7_8() {
    let Some(folder) = files() else { return };
    for arguments in ["-r rich -o line", "-R gen -s srcip/bytes", "-v rich", "-E rich"] {
        let output = ask("1.7.8", &folder, arguments);
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments}: {}", stderr(&output));
    }
    assert!(stdout(&ask("1.7.8", &folder, "-E rich")).contains("SysID: 24, IP:       127.0.2.33, version: 10"));
}

/// Comma-separated values have as many fields in every line, but for the summary of 1.7.1.
#[test]
fn comma_separated_values_are_of_one_kind() {
    let Some(folder) = files() else { return };
    for arguments in [
        "-r rich -o csv",
        "-r rich -o csv-fast",
        "-r rich -o 'csv:%ts,%sa'",
        "-R gen -A srcip,dstport -o csv",
        "-R gen -s srcip/bytes -o csv",
        "-r empty -o csv",
    ] {
        let text = stdout(&ask("1.7.8", &folder, arguments));
        let fields = |line: &str| line.split(',').count();
        let title = text.lines().next().map(fields);
        assert!(text.lines().all(|line| Some(fields(line)) == title), "{arguments}: {text}");
    }
    let keys = stdout(&ask("1.7.8", &folder, "-R gen -A srcip,dstport -o csv"));
    assert!(keys.starts_with("firstSeen,duration,srcAddr,dstPort,packets,bytes,bps,bpp,flows\n"), "{keys}");
    let old = stdout(&ask("1.7.1", &folder, "-r rich -o csv -c 1"));
    let lines: Vec<_> = old.lines().collect();
    assert_eq!(lines.iter().map(|line| line.split(',').count()).collect::<Vec<_>>(), [48, 48, 1, 6, 6], "{old}");
}

/// The values of a field are objects of JSON, whichever release.
#[test]
fn rankings_as_json() {
    let Some(folder) = files() else { return };
    for release in ["1.7.1", "1.7.8"] {
        for format in ["json", "ndjson"] {
            let text = stdout(&ask(release, &folder, &format!("-R gen -s dstport:p/bytes -s srcip -n 3 -o {format}")));
            let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            let ports = rows.iter().filter(|row| row["dstport"].is_string() && row["proto"].as_u64() > Some(0)).count();
            assert_eq!((rows.len(), ports), (6, 3), "{text}");
        }
    }
}

/// nfdump goes on when a file is none of its own; when there is no other, that is a mistake.
#[test]
fn foreign_files_are_left_out() {
    let Some(folder) = files() else { return };
    let mixed = tempfile::tempdir().expect("a folder");
    for name in ["nfcapd.202611221000", "nfcapd.202611221005"] {
        std::fs::copy(folder.join("gen").join(name), mixed.path().join(name)).expect("copied");
    }
    std::fs::write(mixed.path().join("readme"), "no flows").expect("written");
    std::fs::write(mixed.path().join("nfcapd.202611221001"), "").expect("written");
    let output = ask("1.7.8", mixed.path(), "-R . -s proto -n 0");
    assert!(stdout(&output).contains("Summary: total flows: 1045,"), "{}", stdout(&output));
    for left_out in ["readme", "nfcapd.202611221001"] {
        assert!(stderr(&output).contains(&format!("{left_out} is not an nfcapd file, and is left out")));
    }
    for arguments in ["-I", "-g"] {
        let output = ask("1.7.8", mixed.path(), &format!("-R . {arguments}"));
        assert!(output.status.success() && stderr(&output).contains("readme"), "{arguments}");
    }
    std::fs::create_dir(mixed.path().join("other")).expect("a folder");
    std::fs::write(mixed.path().join("other/readme"), "no flows").expect("written");
    let output = ask("1.7.8", mixed.path(), "-R other");
    assert_eq!(output.status.code(), Some(255));
    assert!(output.stdout.is_empty() || !stderr(&output).is_empty());
    let output = ask("1.7.8", mixed.path(), "-M nothing:other -R . -o null");
    assert!(stderr(&output).contains("nothing is not a directory, and is left out"), "{}", stderr(&output));
}

/// Files whose times are outside the window are not read: a file that is damaged behind its header shows it.
#[test]
fn a_window_passes_files_over() {
    let Some(folder) = files() else { return };
    let copies = tempfile::tempdir().expect("a folder");
    let path = copies.path().join("nfcapd.202611221000");
    let mut content = std::fs::read(folder.join("v1")).expect("read");
    let block = content.len() - 100;
    content[block..].fill(0xff);
    std::fs::write(&path, &content).expect("written");
    let read = ask("1.7.8", copies.path(), "-R . -o null -t 2019/08/12.18:00-2019/08/12.19:00");
    assert!(!stderr(&read).is_empty(), "the damage shows when the file is read");
    for window in ["2019/08/12.19:00-2019/08/12.20:00", "2019/08/13", "-2019/08/12.18:00"] {
        let output = ask("1.7.8", copies.path(), &format!("-R . -o null -t {window}"));
        assert!(output.stderr.is_empty(), "{window}: {}", stderr(&output));
        assert!(stdout(&output).contains("Total records processed: 0, passed: 0"), "{window}");
    }
}

/// `-D` is ignored, as nfdump ignores it, and what -t cannot mean is refused.
#[test]
fn options_without_effect_and_without_meaning() {
    let Some(folder) = files() else { return };
    let [with, without] =
        ["-D 8.8.8.8 ", ""].map(|option| stdout(&ask("1.7.8", &folder, &format!("{option}-r v1 -q"))));
    assert_eq!(with, without);
    for window in ["+60", "+1", "60", "-"] {
        assert_eq!(ask("1.7.8", &folder, &format!("-r v1 -o null -t {window}")).status.code(), Some(255), "{window}");
    }
}

/// The release may also come from the environment, for scripts that call nfdump.
#[test]
fn the_release_comes_from_the_environment() {
    let Some(folder) = files() else { return };
    let output =
        weir_nfdump().args(["-r", "v1", "-o", "csv"]).current_dir(folder).env("WEIR_NFDUMP_AS", "1.7.8").output();
    assert!(stdout(&output.expect("runs")).starts_with("firstSeen,duration,proto,"));
}

/// Behind the name stands what nfdump prints, where scripts look for the release: that of Debian 12, and what nfdump 1.7.8
/// printed when its outputs were captured, without the date.
#[test]
fn the_version_is_that_of_the_release() {
    for (release, expected) in [
        ("1.7.1", " nfdump: Version: NSEL-NEL1.7.1\n"),
        ("1.7.8", " nfdump: Version: 1.7.8-release options: LZ4 ZSTD BZIP2\n"),
    ] {
        for option in ["-V", "--version"] {
            let text = stdout(&ask(release, Path::new("."), option));
            assert!(text.starts_with("weir ") && text.ends_with(expected), "{text}");
        }
    }
}

/// An archive has the names that nfdump computes from payloads; they are written as nfdump's `String_ja4` and
/// `String_sniName` write them.
#[test]
fn names_of_tls_and_large_numbers_of_as_are_printed() {
    const JA4: &str = "t13d1516h2_8daaf6152771_e5627efa2ab1";
    let folder = tempfile::tempdir().expect("a folder");
    let mut builder = FlowBatchBuilder::new(2);
    builder.begin_rows(2);
    for (port, name, ja4) in [(443, Some("www.example.com"), Some(JA4)), (80, None, None)] {
        builder.time(Column::Received).push(Some(1_700_000_001_000));
        builder.time(Column::Start).push(Some(1_700_000_000_000));
        builder.time(Column::End).push(Some(1_700_000_000_000));
        builder.u8(Column::Protocol).push(Some(6));
        builder.u16(Column::DstPort).push(Some(port));
        builder.u32(Column::NextAs).push(Some(4_200_000_000));
        builder.u32(Column::PrevAs).push(Some(1_234_567));
        builder.text(Column::ServerName).push(name.map(str::as_bytes));
        builder.text(Column::Ja4).push(ja4.map(str::as_bytes));
    }
    let options = ArchiveOptions::default();
    let (mut writer, _) = Writer::open(&folder.path().join("archive"), options).expect("an archive");
    let delivery = Delivery { flows: Some(builder.finish()), side_tables: SideTables::default() };
    writer.append(delivery).expect("appended");
    writer.close().expect("sealed");
    for (release, arguments, expected) in [
        ("1.7.8", "-o 'fmt:%sni|%ja4' 'dst port 443'", format!("www.example.com|ja4 : {JA4}\n")),
        ("1.7.1", "-o 'fmt:%sni|%ja4' 'dst port 443'", format!("www.example.com|{JA4}\n")),
        ("1.7.8", "-o 'csv:%sni,%ja4' 'dst port 443'", format!("www.example.com,{JA4}\n")),
        // as nfdump 1.7.1 prints them
        ("1.7.1", "-o 'fmt:%nas|%pas|' 'dst port 80'", " 4200000000| 1234567|\n".to_owned()),
        ("1.7.8", "-o 'fmt:%sni|%ja4' 'dst port 80'", format!("   0|{:>38}\n", "no ja4")),
        ("1.7.8", "-o 'csv:%sni,%ja4' 'dst port 80'", "0,no-ja4\n".to_owned()),
    ] {
        let text = stdout(&ask(release, folder.path(), &format!("-r archive -q {arguments}")));
        assert_eq!(text, expected, "{release} {arguments}");
    }
    // the window of what is there, also when not all of it is listed
    for arguments in ["", " -c 1"] {
        let text = stdout(&ask("1.7.1", folder.path(), &format!("-r archive{arguments}")));
        assert!(text.contains("Time window: 2023-11-14 22:13:20 - "), "{text}");
    }
}

/// Records with all their fields, of as many flows as the captured output has. Records about exporters have numbers, too,
/// which weir does not count; and those of nfdump 1.6 have no layout of 1.7.
#[test]
fn records_have_the_fields_of_1_7_8() {
    let Some(folder) = files() else { return };
    let captured = std::fs::read_to_string(folder.with_file_name("commands.ndjson")).expect("the captured outputs");
    for (arguments, records_min, others) in [
        ("-r rich -o raw", 40, &["RecordCount"][..]),
        ("-r v1 -o raw", 10, &["RecordCount", "Flags", "Elements", "size"]),
    ] {
        let mut captured = captured.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let line = captured.find(|line| line["args"] == arguments).expect("the command is there");
        let lines = |text: &str| {
            let is_other = |line: &&str| others.iter().any(|other| line.trim_start().starts_with(other));
            text.lines().filter(|line| !is_other(line)).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut theirs = lines(line["stdout"].as_str().expect("an output"));
        if line["stdout_cut"] == true {
            theirs.pop();
        }
        let ours = lines(&stdout(&ask("1.7.8", &folder, arguments)));
        let records = theirs.iter().filter(|line| line.starts_with("Flow Record:")).count();
        assert!(records >= records_min, "{records}");
        for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours, theirs, "{arguments}: line {number}");
        }
        assert!(ours.len() >= theirs.len());
    }
}

/// What 1.7.1 prints otherwise: no ident, the label stack, the TOS of the source twice, and why a flow ended.
#[test]
fn records_have_the_fields_of_1_7_1() {
    let Some(folder) = files() else { return };
    let text = stdout(&ask("1.7.1", &folder, "-r rich -o raw"));
    for line in [
        "  Flags        =              0x02 NETFLOW v5, Sampled",
        "  Elements     =                11: 1 2 4 6 7 8 10 12 14 38 42 ",
        "  size         =               232",
        "  export sysid =                 6",
        "  first        =                 0 [<unknown>.000]",
        "  ICMP         =               0.136 type.code",
        "  src as       =             4294967295",
        "  src mask     =                32 213.3.216.138/32",
        "  dst mask     =                 0 /0",
        "  dst tos      =               184",
        "  end reason   =              0x02 active timeout",
        "  in src mac   = 30:fb:b8:e6:67:b1",
        "  MPLS Lbl  1  =            69-5-0",
        "  MPLS Lbl  2  =         24305-5-1",
    ] {
        assert!(text.lines().any(|printed| printed == line), "{line}");
    }
    assert!(!text.contains("Ident") && !text.contains("vlanID"));
}
