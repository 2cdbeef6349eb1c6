//! What packets say of applications, from a capture by every way to every answer.

use std::path::Path;

use weir_testkit::write_capture;

use crate::process::{Collector, run, weir};

/// Names that are asked for, and how often.
const NAMES: [(&str, u16); 3] = [("www.example.com", 5), ("a.example.com", 2), ("example.org", 1)];

fn ethernet(protocol: u8, src: u8, transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let octets = (20 + transport.len() as u16).to_be_bytes();
    frame.extend([0x45, 0, octets[0], octets[1], 0, 1, 0, 0, 64, protocol, 0, 0]);
    frame.extend([192, 0, 2, src, 198, 51, 100, 7]);
    frame.extend_from_slice(transport);
    frame
}

/// A question for a name (RFC 1035 section 4.1).
fn question(port: u16, name: &str) -> Vec<u8> {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    let octets = (8 + message.len() as u16).to_be_bytes();
    let [high, low] = port.to_be_bytes();
    ethernet(17, 1, &[&[high, low, 0, 53, octets[0], octets[1], 0, 0], &message[..]].concat())
}

/// A request (RFC 9112) whose user agent would turn the terminal.
fn request() -> Vec<u8> {
    let text = b"GET / HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: \x1b[7mcurl/8, \"quoted\"\r\n\r\n";
    let header = [&[0x9c, 0x40, 0x1f, 0x90, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0][..], text].concat();
    ethernet(6, 2, &header)
}

fn capture(path: &Path) {
    let names = NAMES.iter().flat_map(|(name, times)| std::iter::repeat_n(*name, (*times).into()));
    let frames = (40_000..).zip(names).map(|(port, name)| question(port, name)).chain([request()]);
    write_capture(path, (0..).zip(frames).map(|(number, frame)| (1_700_000_000_000_000 + number, frame)));
}

fn told(arguments: &[&str]) -> (String, String) {
    let output = run(arguments);
    let [out, err] = [output.stdout, output.stderr].map(|octets| String::from_utf8(octets).expect("UTF-8"));
    assert!(output.status.success(), "{arguments:?}: {err}");
    (out, err)
}

/// The answer, line by line, without its title.
fn lines(arguments: &[&str]) -> Vec<String> {
    told(arguments).0.lines().skip(1).map(str::to_owned).collect()
}

fn check_answers(archive: &str) {
    let query = |more: &[&str]| lines(&[&["query", "--archive", archive, "-o", "csv"], more].concat());
    let columns = "application,dns_name";
    let found = query(&["--columns", columns, "dns name www.EXAMPLE.com"]);
    assert_eq!(found, ["domain,www.example.com"; 5]);
    assert_eq!(query(&["--columns", columns, "dns name like '%.example.com'"]).len(), 7);
    assert_eq!(query(&["--columns", columns, "application dns and not dns name like '%.com'"]), ["domain,example.org"]);
    let user_agent = "\u{fffd}[7mcurl/8, \"quoted\"";
    let found = query(&["--columns", "http_host,user_agent", "http host example.org:8080"]);
    assert_eq!(found, [format!("example.org:8080,\"{}\"", user_agent.replace('"', "\"\""))]);
    assert_eq!(query(&["--columns", columns, "sni like '%' or ja4 x"]).len(), 0);

    assert_eq!(query(&["--columns", "dnsqtype,DNSName", "dns name example.org"]), ["1,example.org"]);

    let ranked = query(&["-s", "dns_name/flows", "-n", "2"]);
    let named = |line: &String, name: &str, flows: &str| line.contains(name) && line.contains(&format!(",{flows},"));
    assert!(named(&ranked[0], "www.example.com", "5") && named(&ranked[1], "a.example.com", "2"), "{ranked:?}");
    let grouped = query(&["-A", "application"]);
    assert!(grouped.iter().any(|line| line.starts_with("domain,") && line.contains(",8,")), "{grouped:?}");

    let sql = |statement: &str| lines(&["sql", "--archive", archive, "--format", "csv", statement]);
    let sums = sql("SELECT dns_name, count(*) FROM flows WHERE dns_name IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1");
    assert_eq!(sums, ["www.example.com,5", "a.example.com,2", "example.org,1"]);
    assert_eq!(sql("SELECT count(*) FROM flows WHERE http_host = 'example.org:8080'"), ["1"]);
    assert_eq!(sql("SELECT count(*) FROM flows WHERE http_host = 'EXAMPLE.org:8080'"), ["0"]);
    assert_eq!(sql("SELECT count(*) FROM flows WHERE dns_name <> 'example.org'"), ["7"]);
    assert_eq!(sql("SELECT count(*) FROM flows WHERE dns_name LIKE '%.example.com'"), ["7"]);
    assert_eq!(sql("SELECT count(*) FROM flows WHERE dns_name IN ('example.org', 'a.example.com')"), ["3"]);
    assert_eq!(sql("SELECT DISTINCT element(elements, 'DNSQTYPE') FROM flows WHERE application = 'domain'"), ["1"]);
    assert_eq!(sql("SELECT DISTINCT element(elements, 'DNSName') FROM flows"), [""], "a value is in one place");
}

#[test]
fn names_are_columns_by_every_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let file = path("trace.pcap");
    capture(Path::new(&file));
    let direct = path("direct");
    told(&["meter", &file, "--archive", &direct]);
    check_answers(&direct);

    // as IPFIX, with the preferred elements
    let collected = path("collected");
    let collector = Collector::listen(Path::new(&collected), "tcp://127.0.0.1:0", &[]);
    told(&["meter", &file, "--to", &format!("tcp://{}", collector.address)]);
    collector.stop();
    check_answers(&collected);

    let (printed, _) = told(&["meter", &file, "--to", "-", "--format", "csv", "--measures", "none"]);
    assert!(!printed.contains("dns_name") && !printed.contains("example"), "{printed}");
    let (table, _) =
        told(&["query", "--archive", &direct, "--columns", "user_agent", "-o", "table", "http host like '%'"]);
    assert!(!table.contains('\x1b') && table.contains("curl/8"), "{table}");
}

/// A segment of a connection, to port 443 or from it.
fn segment(is_answer: bool, sequence: u32, flags: u8, text: &[u8]) -> Vec<u8> {
    let ports = if is_answer { [1, 187, 0x9c, 0x40] } else { [0x9c, 0x40, 1, 187] };
    let header = [&ports[..], &sequence.to_be_bytes(), &[0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]].concat();
    let mut frame = ethernet(6, 3, &[&header[..], text].concat());
    if is_answer {
        // the addresses behind an Ethernet header of 14 octets and 12 of IP
        frame[26..34].rotate_left(4);
    }
    frame
}

#[test]
fn what_is_measured_of_connections_has_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [file, archive, without] = ["trace.pcap", "archive", "without"].map(path);
    // SYN, SYN with ACK, ACK, and five octets that are sent twice
    let segments = [
        (0, segment(false, 1_000, 0x02, b"")),
        (10_000, segment(true, 5_000, 0x12, b"")),
        (25_000, segment(false, 1_001, 0x10, b"")),
        (30_000, segment(false, 1_001, 0x18, b"hello")),
        (40_000, segment(false, 1_001, 0x18, b"hello")),
    ];
    let frames = segments.map(|(after_us, frame)| (1_700_000_000_000_000 + after_us, frame));
    write_capture(Path::new(&file), frames);
    told(&["meter", &file, "--archive", &archive, "--biflow", "--measures", "application,tcp"]);
    let columns = "tcp_rtt, retransmissions, retransmissions_reverse";
    let statement = format!("SELECT {columns} FROM flows");
    let sql = |archive: &str| lines(&["sql", "--archive", archive, "--format", "csv", &statement]);
    assert_eq!(sql(&archive), ["25000,1,0"]);
    let query = |filter: &str| {
        lines(&["query", "--archive", &archive, "-o", "csv", "--columns", "tcp_rtt,retransmissions", filter])
    };
    assert_eq!(query("tcp_rtt >= 25000 and retransmissions 1"), ["25000,1"]);
    assert!(query("tcp_rtt > 25000").is_empty());
    // of a file the application is measured by itself, and nothing else
    told(&["meter", &file, "--archive", &without, "--biflow"]);
    assert_eq!(sql(&without), [",,"]);
}

#[test]
fn a_file_is_read_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [file, copy, archive] = ["trace.pcap", "copy.pcap", "archive"].map(path);
    capture(Path::new(&file));
    std::fs::copy(&file, &copy).expect("copied");
    let flows = || lines(&["sql", "--archive", &archive, "--format", "csv", "SELECT count(*) FROM flows"]);
    let (_, first) = told(&["meter", &file, "--archive", &archive]);
    assert!(!first.contains("left out"), "{first}");
    assert_eq!(flows(), ["9"]);
    let (_, second) = told(&["meter", &copy, "--archive", &archive]);
    let expected = format!("{copy} is left out: the archive has its flows, read from {file}\n");
    assert!(second.starts_with(&expected) && second.contains("hint: --again"), "{second}");
    assert_eq!(flows(), ["9"]);
    told(&["meter", &copy, "--archive", &archive, "--again"]);
    assert_eq!(flows(), ["18"]);

    let csv = path("flows.csv");
    std::fs::write(&csv, "src_addr,packets,start\n192.0.2.1,7,2026-11-24T00:00:00Z\n").expect("written");
    let imported = path("imported");
    told(&["import", "--archive", &imported, &csv]);
    let (_, again) = told(&["import", "--archive", &imported, &csv]);
    assert!(again.contains("1 of 1 files left out"), "{again}");
    assert_eq!(lines(&["sql", "--archive", &imported, "--format", "csv", "SELECT count(*) FROM flows"]), ["1"]);
}

#[test]
fn a_file_that_has_grown_is_read_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [whole, growing, archive] = ["trace.pcap", "growing.pcap", "archive"].map(path);
    capture(Path::new(&whole));
    let octets = std::fs::read(&whole).expect("a capture");
    // the second time within a packet, as of a capture that is still written
    for (length, has_grown) in [(octets.len() / 2, false), (octets.len() - 3, true), (octets.len(), true)] {
        std::fs::write(&growing, &octets[..length]).expect("written");
        let told = String::from_utf8(run(&["meter", &growing, "--archive", &archive]).stderr).expect("UTF-8");
        let expected = format!("WARN {growing} has grown since it was read: what it had then comes twice\n");
        assert_eq!(told.contains(&expected), has_grown, "{told}");
    }
    let (_, again) = told(&["meter", &growing, "--archive", &archive]);
    assert!(again.contains("is left out") && !again.contains("WARN"), "{again}");

    // a table of which a line has changed
    let [csv, copy, imported] = ["flows.csv", "copy.csv", "imported"].map(path);
    for (packets, warnings) in [(7, 0), (8, 1)] {
        let lines = format!("src_addr,packets,start\n192.0.2.1,{packets},2026-11-24T00:00:00Z\n");
        std::fs::write(&csv, lines).expect("written");
        std::fs::copy(&csv, &copy).expect("copied");
        let (_, told) = told(&["import", "--archive", &imported, &csv, &copy]);
        let warning =
            format!("WARN {csv} was read before and had other content: what it had then as well comes twice\n");
        assert_eq!(told.matches(&warning).count(), warnings, "{told}");
        assert!(told.contains(&format!("{copy} is left out: it has the content of {csv}\n")), "{told}");
    }
}

#[test]
fn a_command_that_is_repeated_reads_only_what_failed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let said = |arguments: &[&str]| {
        let output = run(arguments);
        (output.status.success(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let flows = |archive: &str| lines(&["sql", "--archive", archive, "--format", "csv", "SELECT count(*) FROM flows"]);

    let [first, second, imported] = ["first.csv", "second.csv", "imported"].map(path);
    let csv = |address: &str| format!("src_addr,packets,start\n{address},7,2026-11-24T00:00:00Z\n");
    std::fs::write(&first, csv("192.0.2.1")).expect("written");
    let import = || said(&["import", "--archive", &imported, "--input-format", "csv", &first, &second]);
    let (is_fine, error) = import();
    assert!(!is_fine && error.contains("second.csv"), "{error}");
    std::fs::write(&second, csv("192.0.2.2")).expect("written");
    let (is_fine, told) = import();
    let left_out = |file: &str| format!("{file} is left out: the archive has its flows\n");
    assert!(is_fine && told.starts_with(&left_out(&first)), "{told}");
    assert_eq!(flows(&imported), ["2"]);

    let [whole, garbage, cut, metered, of_cut] = ["trace.pcap", "garbage", "cut.pcap", "metered", "of-cut"].map(path);
    capture(Path::new(&whole));
    std::fs::write(&garbage, [7; 100]).expect("written");
    for told_before in ["", left_out(&whole).as_str()] {
        let (is_fine, told) = said(&["meter", &whole, &garbage, "--archive", &metered]);
        assert!(!is_fine && told.starts_with(told_before), "{told}");
    }
    assert_eq!(flows(&metered), ["9"]);

    // what is before the damage is in the archive already
    let octets = std::fs::read(&whole).expect("a capture");
    std::fs::write(&cut, &octets[..octets.len() - 3]).expect("written");
    assert!(!said(&["meter", &cut, "--archive", &of_cut]).0);
    let before = flows(&of_cut);
    let (is_fine, told) = said(&["meter", &cut, "--archive", &of_cut]);
    let left_out = format!("{cut} is left out: the archive has all that can be read of it, for it is damaged\n");
    assert!(is_fine && told.starts_with(&left_out), "{told}");
    assert_eq!(flows(&of_cut), before);
}

/// What waits for a Template is in the books and not in the archive, so the next try is as the first.
#[test]
fn a_file_of_which_nothing_could_be_read_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [file, archive] = ["late.pcap", "archive"].map(path);
    // more than all datagrams, so that no Template comes
    let late = ["--protocol", "ipfix", "--records", "300", "--late-template", "100000"];
    told(&[&["generate", "--write", &file], &late[..]].concat());
    for _ in 0..2 {
        let output = run(&["import", "--archive", &archive, &file]);
        let errors = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(!output.status.success() && errors.contains("error: nothing could be read\n"), "{errors}");
        assert!(!errors.contains("left out"), "{errors}");
    }
    // nor is it begun after another file that was read
    let good = path("good.pcap");
    told(&["generate", "--write", &good, "--protocol", "ipfix", "--records", "300"]);
    told(&["import", "--archive", &archive, &good]);
    assert!(!Path::new(&archive).join("sources/begun").exists());
}

/// The archive has all flows; what else the chain was to do with them fails.
#[test]
fn a_file_is_noted_when_something_else_than_its_archive_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [file, archive] = ["trace.pcap", "archive"].map(path);
    capture(Path::new(&file));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let mut metering = weir();
    metering.args(["meter", &file, "--archive", &archive, "--to", "-"]).stdout(full);
    let output = metering.output().expect("weir runs");
    let errors = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(!output.status.success() && errors.contains("metering ended"), "{errors}");
    let (_, second) = told(&["meter", &file, "--archive", &archive]);
    assert!(second.starts_with(&format!("{file} is left out: the archive has its flows\n")), "{second}");
    assert_eq!(lines(&["sql", "--archive", &archive, "--format", "csv", "SELECT count(*) FROM flows"]), ["9"]);
}

#[test]
fn a_file_is_known_whether_it_is_compressed_or_not() {
    let Some(gzip) = weir_testkit::program("gzip") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [plain, packed] = ["trace.pcap", "trace.pcap.gz"].map(path);
    capture(Path::new(&plain));
    assert!(std::process::Command::new(gzip).args(["-k", &plain]).status().expect("gzip runs").success());
    for (archive, first, second) in [("one", &plain, &packed), ("two", &packed, &plain)] {
        let archive = path(archive);
        told(&["meter", first, "--archive", &archive]);
        let (_, again) = told(&["meter", second, "--archive", &archive]);
        let expected = format!("{second} is left out: the archive has its flows, read from {first}\n");
        assert!(again.starts_with(&expected), "{again}");
    }

    // a pipe can be read only once
    let archive = path("three");
    let pipe = path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let writing = std::thread::spawn({
        let (octets, pipe) = (std::fs::read(&plain).expect("a capture"), pipe.clone());
        move || std::fs::write(pipe, octets)
    });
    let (_, piped) = told(&["meter", &pipe, "--archive", &archive]);
    writing.join().expect("no panic").expect("written");
    let expected = format!("{pipe} is not a file: whether the archive has its flows already is not checked\n");
    assert!(piped.starts_with(&expected), "{piped}");
}

/// Elements that have no column are ranked and grouped by their registered names: all eight questions are for addresses.
#[test]
fn elements_without_a_column_are_ranked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [file, archive] = ["trace.pcap", "archive"].map(path);
    capture(Path::new(&file));
    told(&["meter", &file, "--archive", &archive]);
    let query = |more: &[&str]| lines(&[&["query", "--archive", &archive, "-o", "csv"], more].concat());
    for asked in [&["-s", "element DNSQType/flows"][..], &["-A", "element DNSQType", "-O", "flows"]] {
        let ranked = query(asked);
        assert_eq!(ranked.len(), 2, "{ranked:?}");
        assert!(ranked[0].starts_with("1,8,") && ranked[1].starts_with(",1,"), "{ranked:?}");
    }
    // one that fills a column is that column
    let port = query(&["-s", "element destinationTransportPort/flows", "-n", "1"]);
    assert!(port[0].starts_with("53,8,"), "{port:?}");
    for asked in ["-s", "-A"] {
        let bare = run(&["query", "--archive", &archive, asked, "ipVersion"]);
        let said = String::from_utf8_lossy(&bare.stderr).into_owned();
        assert!(said.contains("hint: it is an Information Element: write 'element ipVersion'"), "{said}");
    }
    let wrong = run(&["query", "--archive", &archive, "-A", "element nonsense"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("hint: write element tlsCipherSuite"), "{said}");
}
