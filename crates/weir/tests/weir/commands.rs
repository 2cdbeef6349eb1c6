//! Commands, what they print, and what they say when something is wrong.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use crate::process::{Collector, Exporter, run, weir};

/// An archive with 90 flows of one NetFlow v5 exporter; see `process::record` for what they are.
fn archive(folder: &Path) -> PathBuf {
    let archive = folder.join("archive");
    let collector = Collector::start(&archive, &[]);
    let mut exporter = Exporter::new(0);
    for _ in 0..3 {
        exporter.send(collector.address);
    }
    collector.stop();
    archive
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).expect("UTF-8")
}

fn ask(archive: &Path, command: &str, arguments: &[&str]) -> Output {
    let archive = archive.to_str().expect("UTF-8");
    run(&[&[command, "--archive", archive], arguments].concat())
}

#[track_caller]
fn check(archive: &Path, command: &str, arguments: &[&str], expected: &str) {
    let output = ask(archive, command, arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), expected);
}

#[track_caller]
fn check_error(output: &Output, parts: &[&str]) {
    assert!(!output.status.success());
    let said = text(&output.stderr);
    for part in parts {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
}

#[test]
fn a_wrong_value_comes_with_the_usage_of_its_command() {
    let output = weir().args(["collect", "--archive", "flows", "--max-age", "5"]).output().expect("weir runs");
    check_error(&output, &["error: --max-age: '5' is not a duration\nhint: write a number with a unit: 250ms, 30s, "]);
    check_error(&output, &["12h, 7d, 4w, 1y\n\nUsage: weir collect "]);
    // one that is no option of a component has the same words
    let output = weir().args(["query", "--archive", "flows", "--memory-limit", "2"]).output().expect("weir runs");
    check_error(
        &output,
        &["for '--memory-limit <SIZE>': '2' is not a size\nhint: write a number with a unit: 4096B, "],
    );
    let output =
        weir().args(["archive", "expire", "--archive", "flows", "--max-age", "5"]).output().expect("weir runs");
    check_error(&output, &["--max-age: '5' is not a duration", "Usage: weir archive expire "]);
}

#[test]
fn an_archive_that_is_not_named_may_be_named_by_the_environment() {
    for command in [&["query"][..], &["archive", "ls"], &["collect"], &["import", "flows.csv"]] {
        let output = run(command);
        check_error(&output, &["  --archive <DIR>\n", "\nhint: the variable WEIR_ARCHIVE of the environment names"]);
    }
    // what is missing here is something else
    let output = run(&["import", "--archive", "flows"]);
    let said = text(&output.stderr);
    assert!(said.contains("<FILE>") && !said.contains("WEIR_ARCHIVE"), "{said}");
}

#[test]
fn clocks_are_a_mean_and_not_a_sum() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = |arguments: &[&str]| {
        let output = weir().args(arguments).current_dir(folder.path()).output().expect("weir runs");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    told(&["generate", "--write", "flows.pcap", "--records", "300", "--protocol", "ipfix"]);
    let (_, counters) = told(&["import", "--archive", "archive", "flows.pcap"]);
    let number = |name: &str| {
        let line = counters.lines().find_map(|line| line.trim_start().strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.unwrap_or_else(|| panic!("no {name} in {counters}")).parse::<i64>().expect("a number")
    };
    // datagrams that are made have whole seconds in their headers (RFC 7011 section 3.1)
    assert!((-1_000..=0).contains(&number("clock ahead, mean ms")), "{counters}");
    assert!(!counters.contains("clock_behind_ms"), "{counters}");
    let (all, _) = told(&["books", "--archive", "archive", "--all"]);
    assert!(all.contains("datagrams_decoded") && !all.contains("clock_behind_ms"), "{all}");
    let (csv, _) = told(&["books", "--archive", "archive", "--format", "csv"]);
    assert!(csv.contains("clock_behind_ms"), "{csv}");
}

#[test]
fn questions_and_their_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path());
    check(&archive, "sql", &["-o", "csv", "SELECT count(*) AS n FROM flows WHERE dst_port = 22"], "n\n2\n");
    check(
        &archive,
        "sql",
        &["-o", "ndjson", "SELECT src_addr, dst_port, bytes FROM flows WHERE src_addr = '10.0.0.50'"],
        "{\"src_addr\":\"10.0.0.50\",\"dst_port\":22,\"bytes\":50}\n",
    );
    // numbers 0, 7, 14, ... 84 went to 192.0.2.0: 13 flows of 0 + 7 + ... + 84 = 546 octets
    check(
        &archive,
        "query",
        &["-o", "csv", "-A", "dstip", "dst ip 192.0.2.0 and packets < 2"],
        "dst_addr,flows,packets,bytes,start,end,duration_ms,packets_per_second,bits_per_second,bytes_per_packet\n\
         192.0.2.0,13,13,546,2023-11-14T22:13:10.000Z,2023-11-14T22:13:15.000Z,5000,2,873,42\n",
    );
    let listed = ask(&archive, "query", &["-o", "csv", "bytes > 50 and bytes < 53"]);
    assert_eq!(text(&listed.stdout).lines().count(), 3, "a header and two flows");
    let books = ask(&archive, "books", &[]);
    assert!(books.status.success());
    assert!(text(&books.stderr).contains("the books balance"));
    assert!(text(&books.stdout).contains("127.0.0.1"));
}

#[test]
fn an_answer_tells_how_complete_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let collector = Collector::start(&archive, &["--filter", "not dst port 22"]);
    let mut exporter = Exporter::new(0);
    exporter.send(collector.address);
    exporter.skip();
    exporter.send(collector.address);
    collector.stop();
    let output = ask(&archive, "query", &["-q", "--completeness", "-o", "null"]);
    let said = text(&output.stderr);
    // 60 records came, 30 did not; the filter left out those to port 22
    assert!(said.contains("% complete: 30 records lost on the way"), "{said}");
    let stored = ask(
        &archive,
        "sql",
        &["-q", "-o", "csv", "SELECT count(*) FILTER (WHERE dst_port = 22) AS ssh, count(*) < 60 AS some FROM flows"],
    );
    assert_eq!(text(&stored.stdout), "ssh,some\n0,true\n");
    let books = ask(&archive, "books", &["--all"]);
    assert!(books.status.success(), "{}", text(&books.stderr));
    assert!(text(&books.stdout).contains("records_filtered"), "{}", text(&books.stdout));
}

#[test]
fn the_doctor_sees_what_is_wrong_in_a_capture() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flows.pcap");
    let made = run(&["generate", "--records", "3000", "--write", path.to_str().expect("UTF-8")]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let output = run(&["doctor", path.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // half of the capture: sequence numbers do not say what never came, but a capture cut short is told
    let octets = std::fs::read(&path).expect("a capture");
    std::fs::write(&path, &octets[..octets.len() / 2]).expect("written");
    let output = run(&["doctor", path.to_str().expect("UTF-8")]);
    check_error(&output, &["cut short"]);
    assert!(!output.stdout.is_empty(), "what came before the cut is reported");
    // no firewall held up what a file never had
    for octets in [&[7_u8; 100][..], &[]] {
        std::fs::write(&path, octets).expect("written");
        let output = run(&["doctor", path.to_str().expect("UTF-8")]);
        check_error(&output, &["to its end"]);
        assert_eq!(text(&output.stdout), "");
    }
    check_error(&run(&["doctor", "--duration", "1s", "--listen", "127.0.0.1:0", "x.pcap"]), &["cannot be used with"]);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path());
    let mut command = weir();
    command.args(["query", "-o", "csv", "--archive"]).arg(&archive);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weir starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stderr), "");
    assert!(output.status.success());
}

#[test]
fn mistakes_are_pointed_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path());
    check_error(&ask(&archive, "query", &["dst prot 22"]), &["error: wrong filter\ndst prot 22\n    ^^^^ ", "hint:"]);
    check_error(&ask(&archive, "query", &["-s", "srcipp"]), &["srcipp", "srcip"]);
    check_error(&ask(&archive, "query", &["-O", "size"]), &["'size' is not an order", "hint:"]);
    check_error(&ask(&archive, "query", &["--columns", "sorce"]), &["'sorce' is not a column", "src_addr"]);
    check_error(&ask(&archive, "sql", &["SELECT src_adr FROM flows"]), &["src_adr", "src_addr"]);
    check_error(&ask(&archive, "sql", &["SELECT * FROM flow"]), &["flow", "flows"]);
    check_error(&ask(&archive, "sql", &["SELECT 1 FROM flows WHERE src_addr = '10.0.0'"]), &["10.0.0", "address"]);
    check_error(&run(&["query", "--archive", "/nonexistent/archive"]), &["/nonexistent/archive"]);
    check_error(&run(&["query"]), &["--archive"]);
    check_error(&run(&["collect", "--listen", "here", "--archive", "x"]), &["here"]);
}

#[test]
fn one_writer_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let collector = Collector::start(&archive, &[]);
    let archive = archive.to_str().expect("UTF-8");
    check_error(
        &run(&["collect", "--listen", "127.0.0.1:0", "--archive", archive]),
        &[&collector.child.id().to_string()],
    );
    collector.stop();
}

#[test]
fn a_port_in_use_and_files_that_are_no_captures() {
    let folder = tempfile::tempdir().expect("a folder");
    let holder = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = holder.local_addr().expect("an address").to_string();
    let archive = folder.path().join("archive");
    let archive = archive.to_str().expect("UTF-8");
    check_error(&run(&["collect", "--listen", &address, "--archive", archive]), &["cannot listen on", &address]);
    check_error(&run(&["import", "--archive", archive, "/nonexistent.pcap"]), &["cannot open /nonexistent.pcap"]);
    let garbage = folder.path().join("garbage");
    std::fs::File::create(&garbage).and_then(|mut file| file.write_all(&[7; 100])).expect("a file");
    check_error(&run(&["import", "--archive", archive, garbage.to_str().expect("UTF-8")]), &["not a pcap or pcapng"]);
}

/// What is no file, or no file of this kind, leaves no archive; one that was there stays.
#[test]
fn files_that_cannot_be_read_leave_no_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (above, archive, missing, labels) = (path("a"), path("a/b"), path("nosuch.pcap"), path("labels.csv"));
    std::fs::write(&labels, "10.0.0.0/8,inside\n").expect("written");
    for arguments in [["import", &missing], ["meter", &missing], ["meter", &labels]] {
        let output = run(&[&arguments[..], &["--archive", &archive]].concat());
        assert!(!output.status.success(), "{arguments:?}");
        assert!(!std::path::Path::new(&above).exists(), "{arguments:?}");
    }
    std::fs::create_dir(&above).expect("a folder");
    for command in ["import", "meter"] {
        assert!(!run(&[command, &missing, "--archive", &above]).status.success());
        assert!(std::path::Path::new(&above).exists(), "a folder that was there stays");
    }
}

#[test]
fn options_of_nfcapd_have_a_hint() {
    let error = run(&["collect", "-p", "9995", "-l", "/nowhere"]);
    check_error(
        &error,
        &["unexpected argument '-p'", "\nhint: --listen 0.0.0.0:PORT names the address and the port; "],
    );
    // another command has no option of this meaning
    assert!(!text(&run(&["query", "-p", "9995"]).stderr).contains("0.0.0.0:PORT"));
}

#[test]
fn help_tells_every_command() {
    let output = run(&["--help"]);
    for command in ["collect", "import", "generate", "query", "sql", "books", "doctor"] {
        assert!(text(&output.stdout).contains(command), "{command}");
        assert!(run(&[command, "--help"]).status.success(), "{command} --help");
    }
}

/// A capture of one NetFlow v5 datagram, written by hand as RFC 791, RFC 768 and the pcap format have it.
#[test]
fn a_capture_is_imported() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut datagram = vec![0, 5, 0, 1, 0, 0, 0x27, 0x10, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    datagram.extend([10, 1, 1, 1, 10, 2, 2, 2, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 1, 0]);
    datagram.extend([0, 0, 0x13, 0x88, 0, 0, 0x1f, 0x40, 0x30, 0x39, 0, 53, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut packet =
        vec![0x45, 0, 0, (28 + datagram.len()) as u8, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 9, 192, 0, 2, 1];
    packet.extend([0x20, 0, 0x08, 0x07, 0, (8 + datagram.len()) as u8, 0, 0]);
    packet.extend(&datagram);
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0];
    for word in [1_700_000_001, 0, packet.len() as u32, packet.len() as u32] {
        capture.extend(u32::to_le_bytes(word));
    }
    capture.extend(&packet);
    let (file, archive) = (folder.path().join("one.pcap"), folder.path().join("archive"));
    std::fs::write(&file, &capture).expect("a file");
    let output = ask(&archive, "import", &[file.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    check(
        &archive,
        "sql",
        &["-o", "csv", "SELECT exporter, src_addr, dst_addr, dst_port, packets, bytes, start, \"end\" FROM flows"],
        "exporter,src_addr,dst_addr,dst_port,packets,bytes,start,end\n\
         192.0.2.9,10.1.1.1,10.2.2.2,53,3,256,2023-11-14T22:13:15.000Z,2023-11-14T22:13:18.000Z\n",
    );
}

/// A connection whose Templates are in one capture and whose data is in the next one, by hand as RFC 791, RFC 9293 and RFC
/// 7011 have it; and one with TLS.
#[test]
fn connections_in_captures_are_imported() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, ports: [u8; 4], sequence: u8, payload: &[u8]| {
        let mut packet =
            vec![0x45, 0, 0, (40 + payload.len()) as u8, 0, 1, 0, 0, 64, 6, 0, 0, 192, 0, 2, 9, 192, 0, 2, 1];
        packet.extend(ports);
        packet.extend([0, 0, 0, sequence, 0, 0, 0, 1, 0x50, 16, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend(payload);
        let mut capture =
            vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0];
        for word in [1_700_000_001, 0, packet.len() as u32, packet.len() as u32] {
            capture.extend(u32::to_le_bytes(word));
        }
        capture.extend(&packet);
        let path = folder.path().join(name);
        std::fs::write(&path, &capture).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (exports, tls) = ([0x9c, 0x40, 0x12, 0x83], [0x9c, 0x40, 0x12, 0x84]);
    let header = |length: u8| [0, 10, 0, length, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let templates = [&header(36)[..], &[0, 2, 0, 20, 1, 0, 0, 3, 0, 8, 0, 4, 0, 12, 0, 4, 0, 1, 0, 4]].concat();
    let data = [&header(32)[..], &[1, 0, 0, 16, 10, 1, 1, 1, 10, 2, 2, 2, 0, 0, 1, 0]].concat();
    let files = [write("one.pcap", exports, 100, &templates), write("two.pcap", exports, 136, &data)];
    let archive = folder.path().join("archive");
    let output = ask(&archive, "import", &files.each_ref().map(String::as_str));
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let line = "2 TCP connections with 2 messages of IPFIX, 0 octets missing in the capture, 0 octets skipped\n";
    assert!(said.contains(line) && !said.contains("hint: weir meter"), "{said}");
    let expected = "exporter,src_addr,dst_addr,bytes\n192.0.2.9,10.1.1.1,10.2.2.2,256\n";
    check(&archive, "sql", &["-o", "csv", "SELECT exporter, src_addr, dst_addr, bytes FROM flows"], expected);
    let encrypted = write("tls.pcap", tls, 100, &[22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]);
    let output = ask(&folder.path().join("other"), "import", &[encrypted.as_str()]);
    check_error(&output, &["1 TCP connection with TLS to a port of IPFIX", "nothing could be read"]);
    assert!(!text(&output.stderr).contains("hint: weir meter"), "{}", text(&output.stderr));
}

/// The same messages in an association, by hand as RFC 9260 has it: the data in two chunks of which the last comes first; and
/// one with DTLS.
#[test]
fn associations_in_captures_are_imported() {
    let folder = tempfile::tempdir().expect("a folder");
    let header = |length: u8| [0, 10, 0, length, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let templates = [&header(36)[..], &[0, 2, 0, 20, 1, 0, 0, 3, 0, 8, 0, 4, 0, 12, 0, 4, 0, 1, 0, 4]].concat();
    let data = [&header(32)[..], &[1, 0, 0, 16, 10, 1, 1, 1, 10, 2, 2, 2, 0, 0, 1, 0]].concat();
    // flags, TSN, and a payload of whole words
    let write = |name: &str, port: u8, chunks: &[(u8, u8, &[u8])]| {
        let mut capture =
            vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0];
        for (flags, tsn, payload) in chunks {
            let length = payload.len() as u8;
            let mut packet = vec![0x45, 0, 0, 48 + length, 0, 1, 0, 0, 64, 132, 0, 0, 192, 0, 2, 9, 192, 0, 2, 1];
            packet.extend([0x9c, 0x40, 0x12, port, 0, 0, 0, 7, 0, 0, 0, 0]);
            packet.extend([0, *flags, 0, 16 + length, 0, 0, 0, *tsn, 0, 0, 0, 0, 0, 0, 0, 0]);
            packet.extend(*payload);
            for word in [1_700_000_001, 0, packet.len() as u32, packet.len() as u32] {
                capture.extend(u32::to_le_bytes(word));
            }
            capture.extend(&packet);
        }
        let path = folder.path().join(name);
        std::fs::write(&path, &capture).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let file = write("one.pcap", 0x83, &[(3, 1, &templates[..]), (1, 3, &data[20..]), (2, 2, &data[..20])]);
    let archive = folder.path().join("archive");
    let output = ask(&archive, "import", &[file.as_str()]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let line = "1 SCTP association with 2 messages of IPFIX, 0 chunks missing in the capture, 0 octets skipped\n";
    assert!(said.contains(line) && !said.contains("hint: weir meter"), "{said}");
    let expected = "exporter,src_addr,dst_addr,bytes\n192.0.2.9,10.1.1.1,10.2.2.2,256\n";
    check(&archive, "sql", &["-o", "csv", "SELECT exporter, src_addr, dst_addr, bytes FROM flows"], expected);
    let encrypted = write("dtls.pcap", 0x84, &[(3, 1, &[22_u8, 254, 253, 0][..])]);
    let output = ask(&folder.path().join("other"), "import", &[encrypted.as_str()]);
    check_error(&output, &["1 SCTP association with DTLS to a port of IPFIX", "nothing could be read"]);
    assert!(!text(&output.stderr).contains("hint: weir meter"), "{}", text(&output.stderr));
    // cut short by the capture: the packet has fewer octets than its chunk
    let whole = std::fs::read(&file).expect("the capture");
    let cut = folder.path().join("cut.pcap");
    let mut octets = whole[..24 + 16 + 48 + templates.len() - 8].to_vec();
    octets[32] -= 8;
    std::fs::write(&cut, octets).expect("a file");
    let output = ask(&folder.path().join("third"), "import", &[cut.to_str().expect("UTF-8")]);
    check_error(&output, &["1 SCTP packet cut short by the capture", "nothing could be read", "tcpdump -s 0"]);
}

/// `docs/reference/cli.md` is what `--help` prints, of every command that the help of another one lists.
#[test]
fn the_reference_of_the_command_line_is_fresh() {
    let mut page = String::from(
        "# Command line\n\nWhat `weir --help` and `weir COMMAND --help` print. `cargo xtask docs` writes this page.\n",
    );
    let commands = add_help(&mut page, &[]);
    assert!(commands > 15 && page.contains("\n## weir archive check\n"), "only {commands} commands were found");
    weir_testkit::pages::check("docs/reference/cli.md", &page);
}

/// Adds the help of a command and of those below it; returns how many these are.
fn add_help(page: &mut String, command: &[&str]) -> usize {
    let help = text(&run(&[command, &["--help"]].concat()).stdout);
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    let title = [&["weir"], command].concat().join(" ");
    page.extend(["\n## ", &title, "\n\n```text\n", &lines.join("\n"), "\n```\n"]);
    1 + listed_commands(&lines).map(|name| add_help(page, &[command, &[name]].concat())).sum::<usize>()
}

/// Names below `Commands:`. The one that clap adds prints what is here already.
fn listed_commands<'a>(help: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let lines = help.iter().skip_while(|line| **line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with(' '));
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|name| !name.starts_with(' ')));
    names.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help")
}

/// Called by a link of that name, the program is nfdump.
#[test]
fn called_as_nfdump() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("nfdump");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), &link).expect("linked");
    let called = |arguments: &[&str]| std::process::Command::new(&link).args(arguments).output().expect("weir runs");
    let output = called(&["-V"]);
    assert!(output.status.success() && text(&output.stdout).contains(" nfdump: Version: NSEL-NEL1.7.1"), "{output:?}");
    assert_eq!(called(&["-k"]).status.code(), Some(255));
    assert_eq!(called(&["-Z", "proto nonsense"]).status.code(), Some(254));
}

/// Three thousand flows in five minutes, and a hundred tries with their answers and sixty spoofed flows on top.
#[test]
fn scenes_are_planted_and_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let generate = |arguments: &[&str]| {
        run(&[&["generate", "--density", "10", "--write", &path("flows.pcap")], arguments].concat())
    };
    let scenes = "brute-force@1m,spoofed@2026-01-01T00:02:00Z";
    let made = generate(&["--records", "3000", "--scene", scenes, "--truth", &path("truth.ndjson")]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(text(&made.stdout).contains(" 3260 records"), "{}", text(&made.stdout));
    let truth = std::fs::read_to_string(path("truth.ndjson")).expect("the truth");
    let lines: Vec<serde_json::Value> = truth.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    let first = &lines[0];
    assert_eq!(first["scene"], "brute-force");
    assert_eq!(first["watch"], "brute-force");
    assert_eq!(first["from"], "2026-01-01T00:01:00.000Z");
    assert_eq!(first["until"], "2026-01-01T00:02:30.000Z");
    assert_eq!((first["flows"].as_u64(), first["flows_sent"].as_u64()), (Some(200), Some(200)));
    assert_eq!(first["key"]["dst_port"], "22");
    assert_eq!(lines[1]["key"]["network"], "240.0.0.0/8");
    // ten seconds of an hour
    let cut = generate(&["--records", "100", "--scene", "beaconing@1s"]);
    assert!(text(&cut.stderr).contains("the flows end before the scene beaconing does"), "{}", text(&cut.stderr));
    check_error(
        &generate(&["--scene", "flood@1m"]),
        &["--scene: there is no scene 'flood'", "hint: there are portscan"],
    );
    check_error(
        &generate(&["--scene", "sampling-changed@1m", "--protocol", "netflow-v5"]),
        &["flows of NetFlow v5 have no sampling interval"],
    );
    let silent = ["generate", "--to", "127.0.0.1:9", "--scene", "exporter-silent@1m"];
    check_error(&run(&silent), &["silence in simulated time"]);
}

#[test]
fn nothing_is_sent_to_no_port() {
    let nowhere = run(&["generate", "--to", "127.0.0.1:0", "--records", "10"]);
    check_error(&nowhere, &["--to 127.0.0.1:0 names no port", "hint: name the one that the collector listens on"]);
    assert_eq!(text(&nowhere.stdout), "");
}
