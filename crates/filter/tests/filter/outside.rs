//! What a filter may ask of the world around it: files, host names, the place of records in files.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use weir_filter::{FileRecords, ParseError, Predicate, Reader, parse};

use crate::rows::{batch, row};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for (file, contents) in files {
            std::fs::write(folder.join(file), contents).expect("written");
        }
        Self(folder)
    }

    fn parse(&self, text: &str) -> Result<Predicate, ParseError> {
        Reader::new().with_files(&self.0).parse(text)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_are_part_of_a_filter() {
    let folder = Folder::new(
        "include",
        &[
            ("web", "port in [80 443] # the web\n"),
            ("half", "proto tcp and"),
            ("list", "10.0.0.1, 10.0.0.2\n10.1.0.0/16"),
            ("outer", "(@include web) or\n@include 'with blank'"),
            ("with blank", "proto icmp"),
            ("loop", "@include loop"),
            ("empty", "# nothing"),
        ],
    );
    for (text, meaning) in [
        ("@include web", "port in [80 443]"),
        ("not @include web", "not port in [80 443]"),
        ("(@include web) and proto tcp", "port in [80 443] and proto tcp"),
        ("proto udp or @include half port 80", "proto udp or proto tcp and port 80"),
        ("src ip in [192.0.2.1 @include list]", "src ip in [192.0.2.1 10.0.0.1 10.0.0.2 10.1.0.0/16]"),
        ("@INCLUDE outer", "port in [80 443] or proto icmp"),
        ("any # @include nowhere", "any"),
        ("proto tcp @include empty", "proto tcp"),
        ("asa user '@include'", "asa user '@include'"),
    ] {
        assert_eq!(folder.parse(text), parse(meaning), "{text}");
    }
    let message = |text: &str| folder.parse(text).expect_err(text).message;
    assert_eq!(message("@include loop"), "files include files deeper than 10");
    assert!(message("@include nowhere").starts_with("cannot read 'nowhere': "));
}

#[test]
fn mistakes_in_files_are_told_with_their_lines() {
    let folder = Folder::new(
        "mistakes",
        &[("bad", "# a comment\nproto tcp\n and prot 80"), ("outer", "\n@include bad"), ("odd", "any\n|")],
    );
    let check = |text: &str, rendered: &str| assert_eq!(folder.parse(text).expect_err(text).render(text), rendered);
    check(
        "any and @include bad",
        "any and @include bad\n        ^^^^^^^^^^^^ in 'bad', line 3: unknown word 'prot'\nhint: did you mean 'protocol'?",
    );
    check(
        "(@include outer)",
        "(@include outer)\n ^^^^^^^^^^^^^^ in 'bad', line 3: unknown word 'prot'\nhint: did you mean 'protocol'?",
    );
    check(
        "any and\n @include odd",
        " @include odd\n ^^^^^^^^^^^^ in 'odd', line 2: a filter has no '|'\nhint: write 'or'",
    );
    check(
        "(@include bad) and src prot 3",
        "(@include bad) and src prot 3\n ^^^^^^^^^^^^ in 'bad', line 3: unknown word 'prot'\nhint: did you mean 'protocol'?",
    );
    let folder = Folder::new("mistakes-behind", &[("good", "proto tcp\n")]);
    let text = "@include good and src prot 3";
    assert_eq!(
        folder.parse(text).expect_err(text).render(text),
        "@include good and src prot 3\n                      ^^^^ unknown word 'prot' after 'src'\nhint: did you mean 'port'?"
    );
}

#[test]
fn lists_of_addresses_are_files() {
    let folder = Folder::new(
        "lists",
        &[
            ("blocked.txt", "10.0.0.1\n# comment\n\n2001:db8::/32 # a net\n"),
            ("b c", "10.0.0.2"),
            ("bad.txt", "10.0.0.1\n10.0.0.x\n"),
        ],
    );
    assert_eq!(folder.parse("src ip in blocked.txt"), parse("src ip in [10.0.0.1 2001:db8::/32]"));
    assert_eq!(folder.parse("dst net in 'b c' and port 80"), parse("dst ip in [10.0.0.2] and port 80"));
    let error = folder.parse("src ip in bad.txt").expect_err("no address");
    assert_eq!(error.message, "'bad.txt': line 2 of the address list is neither an address nor a prefix: '10.0.0.x'");
    assert_eq!(error.span, 10..17);
    let message = folder.parse("ip in nowhere.txt").expect_err("no file").message;
    assert!(message.starts_with("cannot read 'nowhere.txt': "), "{message}");
}

fn hosts(name: &str) -> io::Result<Vec<IpAddr>> {
    match name {
        "www.example.net" => Ok(vec!["192.0.2.80".parse().expect("IPv4"), "2001:db8::80".parse().expect("IPv6")]),
        "empty.example.net" => Ok(Vec::new()),
        _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such host")),
    }
}

#[test]
fn host_names_stand_for_all_their_addresses() {
    let reader = Reader::new().with_host_names(hosts);
    let both = parse("src ip in [192.0.2.80 2001:db8::80]");
    assert_eq!(reader.parse("src ip www.example.net"), both);
    assert_eq!(reader.parse("src ip in [2001:db8::80 www.example.net]"), both);
    assert_eq!(reader.parse("not src host www.example.net"), parse("not src ip in [192.0.2.80 2001:db8::80]"));
    let message = |text: &str| reader.parse(text).expect_err(text).message;
    assert_eq!(message("ip nowhere"), "host name 'nowhere' is not known: no such host");
    assert_eq!(message("ip empty.example.net"), "host name 'empty.example.net' is not known: it has no address");
    assert_eq!(message("ip 10.0.0.256"), "expected an address, found '10.0.0.256'");
    assert_eq!(message("ip and"), "expected an address, found 'and'");
    assert!(weir_filter::resolve_by_system("localhost").is_ok_and(|found| found.iter().all(IpAddr::is_loopback)));
}

#[test]
fn records_have_a_place_in_their_file() {
    let reader = Reader::new().with_file_records();
    let flows = batch(&["src_port=1", "src_port=2", "src_port=3"].map(row));
    let taken = |text: &str, before: u64, ident: &str| {
        let predicate = reader.parse(text).unwrap_or_else(|error| panic!("{}", error.render(text)));
        assert!(predicate.reads_file_records(), "{text}");
        assert_eq!(reader.parse(&predicate.to_string()).as_ref(), Ok(&predicate));
        let mask = predicate.mask_in_file(&flows, FileRecords { before, ident });
        mask.values().iter().enumerate().filter(|(_, taken)| *taken).map(|(row, _)| row).collect::<Vec<_>>()
    };
    assert_eq!(taken("count 2", 0, ""), [1]);
    assert_eq!(taken("count > 11", 10, ""), [1, 2]);
    assert_eq!(taken("cnt in [1, 13]", 10, ""), [2]);
    assert_eq!(taken("ident router-7", 0, "router-7"), [0, 1, 2]);
    assert!(taken("ident router-7", 0, "router-8").is_empty());
    assert_eq!(taken("not ident 'a' and src port 2", 0, "b"), [1]);
    assert!(!parse("port 80 and not any").expect("a filter").reads_file_records());
}

/// What is expected is counted by hand: Zurich is two hours ahead of UTC.
#[test]
fn times_may_be_relative_to_a_moment() {
    let now: jiff::Zoned = "2026-03-31T10:20:30+02:00[Europe/Zurich]".parse().expect("a time");
    let reader = Reader::new().in_zone(now.time_zone().clone()).with_now(now);
    for (text, expected) in [
        ("first seen > -1h", "first seen > 2026-03-31T07:20:30.000Z"),
        ("first seen > 3h ago", "first seen > 2026-03-31T05:20:30.000Z"),
        (
            "first seen < now and first seen > 2026",
            "first seen < 2026-03-31T08:20:30.000Z and first seen > 2025-12-31T23:00:00.000Z",
        ),
        ("first seen > yesterday 14:00 and proto = 6", "first seen > 2026-03-30T12:00:00.000Z and proto = 6"),
        ("first seen > 'yesterday 14:00'", "first seen > 2026-03-30T12:00:00.000Z"),
        ("first seen > today and proto = 6", "first seen > 2026-03-30T22:00:00.000Z and proto = 6"),
    ] {
        assert_eq!(reader.parse(text).map(|filter| filter.to_string()).as_deref(), Ok(expected), "{text}");
    }
    let text = "first seen > soon";
    let wrong = reader.parse(text).expect_err("no time").render(text);
    assert!(wrong.ends_with("or now, today, yesterday 14:00, monday or -1h30m"), "{wrong}");
    let text = "first seen > -1h";
    let kept = parse(text).expect_err("a filter that is kept").render(text);
    assert!(kept.ends_with("times relative to now are known on the command line only"), "{kept}");
}
