//! Files of other programs, imported and questioned.

use std::path::Path;
use std::process::Output;

use crate::process::run;

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

fn import(archive: &Path, arguments: &[&str]) -> Output {
    run(&[&["import", "--archive", archive.to_str().expect("UTF-8")], arguments].concat())
}

#[track_caller]
fn check(archive: &Path, question: &str, expected: &str) {
    let output = run(&["sql", "--archive", archive.to_str().expect("UTF-8"), "-o", "csv", question]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), expected);
}

/// Lines of every format that can be written by hand.
fn files(folder: &Path) -> [String; 3] {
    let written = |name: &str, content: &str| {
        let path = folder.join(name);
        std::fs::write(&path, content).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    [
        written(
            "conn.log",
            "#separator \\x09\n#fields\tts\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\torig_pkts\torig_ip_bytes\n\
             1565635847.958\t10.0.0.1\t49152\t10.0.0.2\t80\ttcp\t3\t300\n",
        ),
        written(
            "silk.txt",
            "sIP|dIP|sPort|dPort|pro|packets|bytes|sTime|\n10.0.0.3|10.0.0.4|1|2|17|1|64|2019/08/12T18:50:47.958|\n",
        ),
        written(
            "flows.csv",
            "start,src_addr,dst_addr,protocol,packets,bytes\n1565635847.958,10.0.0.5,10.0.0.6,17,1,100\nbad,,,,,\n",
        ),
    ]
}

#[test]
fn foreign_files_of_every_kind_are_imported() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let files = files(folder.path());
    let output = import(&archive, &files.each_ref().map(String::as_str));
    assert!(output.status.success(), "{}", text(&output.stderr));
    for told in ["3 files: 3 read, 0 failed, 3 flows", "line 3: 'bad' is no value of 'start'"] {
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
    check(
        &archive,
        "SELECT src_addr, dst_addr, packets, bytes FROM flows ORDER BY bytes",
        "src_addr,dst_addr,packets,bytes\n\
         10.0.0.3,10.0.0.4,1,64\n10.0.0.5,10.0.0.6,1,100\n10.0.0.1,10.0.0.2,3,300\n",
    );
    check(&archive, "SELECT sum(records_stored) AS stored FROM exporter_books", "stored\n3\n");
}

/// The nfcapd files of the corpus: the archive has as many flows, packets and octets as the files say.
#[test]
fn a_file_of_which_nothing_can_be_read_is_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flows.csv");
    std::fs::write(&path, "start,src_addr,dst_addr,protocol,packets,bytes\nbad,,,,,\nworse,,,,,\n").expect("written");
    let output = import(&folder.path().join("archive"), &[path.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("error: nothing could be read"), "{}", text(&output.stderr));
}

/// Messages of IPFIX (RFC 7011 section 3.1): a Template with two addresses, a record, and one that ends an octet short.
#[test]
fn an_ipfix_file_that_is_cut_short_is_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flows.ipfix");
    let message = |sequence: u8, sets: &[u8]| {
        let head = [0, 10, 0, 16 + sets.len() as u8, 0x65, 0xa0, 0, 0, 0, 0, 0, sequence, 0, 0, 0, 0];
        [&head[..], sets].concat()
    };
    let template = message(0, &[0, 2, 0, 16, 1, 0, 0, 2, 0, 8, 0, 4, 0, 12, 0, 4]);
    let record = |sequence| message(sequence, &[1, 0, 0, 12, 10, 0, 0, 1, 10, 0, 0, 2]);
    let mut octets = [template, record(0), record(1)].concat();
    octets.pop();
    std::fs::write(&path, &octets).expect("written");
    let archive = folder.path().join("archive");
    let output = import(&archive, &[path.to_str().expect("UTF-8")]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let expected = format!(
        "error: cannot read {} to its end: damaged at octet 60: the file is cut short within this message\n",
        path.display()
    );
    assert!(told.contains(&expected), "{told}");
    check(&archive, "SELECT src_addr, dst_addr FROM flows", "src_addr,dst_addr\n10.0.0.1,10.0.0.2\n");
}

/// A frame of Ethernet with a UDP datagram, without checksums.
fn datagram(port: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let octets = payload.len() as u8;
    frame.extend([0x45, 0, 0, 28 + octets, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1]);
    frame.extend([0x15, 0xb3, 0, port, 0, 8 + octets, 0, 0]);
    frame.extend(payload);
    frame
}

/// A datagram of sFlow version 5 with one counters sample of one record of generic interface counters: every field of all is a
/// number of 32 bits, some of them two (`sflow.org/sflow_version_5.txt`, chapter 5).
#[test]
fn a_capture_with_counters_of_sflow_alone_is_noted_as_others_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [capture, archive] = ["counters.pcap", "archive"].map(path);
    let header = [5_u32, 1, 0x0a00_0009, 0, 1, 1000, 1];
    let sample = [2, 108, 1, 1, 1];
    let record = [1, 88, 1, 6, 0, 1_000_000_000, 1, 3, 0, 1000, 1, 2, 3, 4, 5, 6, 0, 2000, 1, 2, 3, 4, 5, 0];
    let sflow: Vec<u8> = [&header[..], &sample, &record].concat().into_iter().flat_map(u32::to_be_bytes).collect();
    let frames = [(1_760_000_000_000_000, datagram(199, &sflow)), (1_760_000_001_000_000, datagram(53, b"of others"))];
    weir_testkit::write_capture(Path::new(&capture), frames);
    let output = import(Path::new(&archive), &[&capture]);
    let told = text(&output.stderr);
    assert!(output.status.success() && told.contains("1 UDP datagrams skipped"), "{told}");
    let output = import(Path::new(&archive), &[&capture]);
    let told = text(&output.stderr);
    assert!(told.contains(&format!("{capture} is left out: the archive has its flows\n")), "{told}");
    check(Path::new(&archive), "SELECT count(*) AS stored FROM interface_counters", "stored\n1\n");
}

/// It has exports and none of their flows: the next import does not say that the archive has them.
#[test]
fn a_capture_whose_exports_cannot_be_read_is_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [cut, tunneled, archive] = ["cut.pcap", "tunneled.pcap", "archive"].map(path);
    let header: Vec<u8> = [5_u32, 1, 0x0a00_0009, 0, 1, 1000, 0, 0].into_iter().flat_map(u32::to_be_bytes).collect();
    let whole = datagram(199, &header);
    let mut short = whole.clone();
    short.truncate(whole.len() - 8);
    // IP in IP (RFC 2003)
    let packet = &whole[14..];
    let outer = [0x45, 0, 0, 20 + packet.len() as u8, 0, 1, 0, 0, 64, 4, 0, 0, 10, 0, 0, 8, 10, 0, 0, 7];
    let inside = [&whole[..14], &outer, packet].concat();
    for (file, frame, expected) in
        [(&cut, short, "1 datagram cut short"), (&tunneled, inside, "1 export not read: a tunnel carries them")]
    {
        weir_testkit::write_capture(Path::new(file), [(1_760_000_000_000_000, frame)]);
        for _ in 0..2 {
            let output = import(Path::new(&archive), &[file]);
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{told}");
            assert!(told.contains(expected) && told.contains("error: nothing could be read\n"), "{told}");
            assert!(!told.contains("weir meter") && !told.contains("left out"), "{told}");
            assert_eq!(told.contains("tcpdump -s 0"), file == &cut, "{told}");
        }
    }
}

/// Each command names the other one that reads a file.
#[test]
fn files_for_another_command_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [packets, archive] = ["packets.pcap", "archive"].map(path);
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    frame.extend([156, 64, 0, 53, 0, 12, 0, 0, 0, 0, 0, 0]);
    frame.resize(60, 0);
    weir_testkit::write_capture(Path::new(&packets), [(1_700_000_000_000_000, frame)]);
    let output = import(Path::new(&archive), &[&packets]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.ends_with("error: nothing could be read\nhint: weir meter makes flows of packets\n"), "{told}");
    let [_, _, table] = files(folder.path());
    let output = run(&["meter", &table, "--archive", &archive]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.ends_with(&format!("hint: {table} has flows and no packets: weir import reads it\n")), "{told}");
}

/// Nobody has named what is found in a folder.
#[test]
fn files_of_no_format_are_left_out_of_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [flows, readme, archive] = ["flows", "flows/readme", "archive"].map(path);
    std::fs::create_dir(&flows).expect("a folder");
    files(Path::new(&flows));
    std::fs::write(&readme, "no flows").expect("written");
    let output = import(Path::new(&archive), &[&flows]);
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains(&format!("WARN {readme} is of no known format, and is left out\n")), "{told}");
    assert!(told.contains("3 files: 3 read, 0 failed") && !told.contains("frames"), "{told}");
    let output = import(Path::new(&archive), &[&readme]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("not a pcap or pcapng file"), "{}", text(&output.stderr));
}

#[test]
fn foreign_nfcapd_files_are_imported() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let source = corpus.join("chrispassas+nfdump/testdata");
    let output = import(&archive, &[source.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    check(&archive, "SELECT count(*) AS flows FROM flows", "flows\n100010\n");
    check(&archive, "SELECT sum(records_stored) AS stored FROM exporter_books", "stored\n100010\n");
}

#[test]
fn foreign_mistakes_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let files = files(folder.path());
    let output = import(&archive, &["--input-format", "nfcapd", &files[0]]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("is not an nfcapd file"), "{}", text(&output.stderr));
    let output = import(&archive, &["--input-format", "none", &files[0]]);
    assert!(text(&output.stderr).contains("invalid value 'none'"), "{}", text(&output.stderr));
    let output = import(&archive, &[&files[2], "--column", "x=y"]);
    assert!(text(&output.stderr).contains("'y' is no column that text can fill"), "{}", text(&output.stderr));
    // a field can be left out, and then nothing is said of it
    let path = folder.path().join("more.csv");
    std::fs::write(&path, "start,src_addr,bytes\n1565635847,10.0.0.1,many\n").expect("written");
    let output = import(&archive, &[path.to_str().expect("UTF-8"), "--column", "bytes="]);
    assert!(output.status.success() && !text(&output.stderr).contains("bytes"), "{}", text(&output.stderr));
    check(&archive, "SELECT src_addr, bytes FROM flows", "src_addr,bytes\n10.0.0.1,\n");
}
