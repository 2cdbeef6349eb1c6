//! Text and Parquet files: what Zeek, rwcut and nfdump write, against what is known of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use arrow::array::Array;
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt64Type};
use weir_flow::{AddressText, Column, FlowBatch};
use weir_formats::{AnyReader, Format, ReadLosses};

fn read(path: &Path, format: Option<Format>, mapping: &[(String, Option<Column>)]) -> (Vec<FlowBatch>, ReadLosses) {
    let mut reader = AnyReader::open(path, format, mapping).expect("opens");
    let batches = reader.by_ref().collect::<Result<_, _>>().expect("good");
    (batches, reader.lost())
}

fn written(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    (folder, path)
}

fn rows(batches: &[FlowBatch]) -> usize {
    batches.iter().map(FlowBatch::rows).sum()
}

/// Values of a column as text, `-` where there is none.
fn texts(batches: &[FlowBatch], column: Column) -> Vec<String> {
    let mut found = Vec::new();
    for batch in batches {
        let number = |row| {
            let u8s = batch.primitive::<UInt8Type>(column).filter(|values| values.is_valid(row));
            let u16s = batch.primitive::<UInt16Type>(column).filter(|values| values.is_valid(row));
            let u64s = batch.primitive::<UInt64Type>(column).filter(|values| values.is_valid(row));
            let times = batch.primitive::<TimestampMillisecondType>(column).filter(|values| values.is_valid(row));
            let octets = batch.binary(column).filter(|values| values.is_valid(row));
            u8s.map(|values| values.value(row).to_string())
                .or_else(|| u16s.map(|values| values.value(row).to_string()))
                .or_else(|| u64s.map(|values| values.value(row).to_string()))
                .or_else(|| times.map(|values| values.value(row).to_string()))
                .or_else(|| octets.map(|values| AddressText(values.value(row)).to_string()))
                .unwrap_or_else(|| "-".to_owned())
        };
        found.extend((0..batch.rows()).map(number));
    }
    found
}

/// Logs of Zeek's own tests, with times where those have none.
fn zeek_logs() -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.file_name().is_some_and(|name| name == "conn.log") {
                found.push(path);
            }
        }
    }
    let Some(corpus) = weir_testkit::corpus() else { return Vec::new() };
    let mut paths = Vec::new();
    walk(&corpus.join("zeek+zeek/testing/btest/Baseline"), &mut paths);
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let logs = paths.iter().map(read).filter(|text| text.contains("\n#fields\tts\tuid\tid.orig_h\t"));
    logs.map(|text| text.replace("XXXXXXXXXX.XXXXXX", "1565635847.958123")).collect()
}

#[test]
fn zeek_in_both_forms() {
    let logs = zeek_logs();
    for log in &logs {
        let mut lines = log.lines().filter(|line| !line.starts_with('#'));
        let names: Vec<&str> =
            log.lines().find_map(|line| line.strip_prefix("#fields\t")).expect("names").split('\t').collect();
        let expected: Vec<Vec<&str>> = lines.by_ref().map(|line| line.split('\t').collect()).collect();
        let objects = expected.iter().map(|values| {
            let fields = names.iter().zip(values).filter(|(_, value)| **value != "-");
            let value = |value: &str| {
                value
                    .parse::<f64>()
                    .map_or_else(|_| value.into(), |_| serde_json::from_str(value).unwrap_or_else(|_| value.into()))
            };
            let object: serde_json::Map<String, serde_json::Value> =
                fields.map(|(name, text)| ((*name).to_owned(), value(text))).collect();
            serde_json::Value::Object(object).to_string()
        });
        let objects: Vec<String> = objects.collect();
        let (_folder, tabs) = written("conn.log", log);
        let (_other, json) = written("conn.json", &objects.join("\n"));
        assert_eq!(Format::of_file(&tabs).expect("read"), Some(Format::Zeek), "{log}");
        for path in [tabs, json] {
            if expected.is_empty() && path.ends_with("conn.json") {
                continue;
            }
            let (batches, lost) = read(&path, Some(Format::Zeek), &[]);
            assert_eq!((rows(&batches), lost.records), (expected.len(), 0), "{lost:?}\n{log}");
            let of = |name: &str| {
                let at = names.iter().position(|known| *known == name);
                expected.iter().map(|values| at.map_or("-", |at| values[at]).to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(texts(&batches, Column::SrcAddr), of("id.orig_h"));
            assert_eq!(texts(&batches, Column::DstAddr), of("id.resp_h"));
            assert_eq!(texts(&batches, Column::Packets), of("orig_pkts"));
            assert_eq!(texts(&batches, Column::Bytes), of("orig_ip_bytes"));
            assert_eq!(texts(&batches, Column::BytesReverse), of("resp_ip_bytes"));
            let icmp: Vec<bool> = of("proto").iter().map(|proto| proto == "icmp").collect();
            let ports = texts(&batches, Column::SrcPort).into_iter().zip(texts(&batches, Column::IcmpType));
            let ports: Vec<_> = ports.zip(icmp).map(|((port, kind), icmp)| if icmp { kind } else { port }).collect();
            assert_eq!(ports, of("id.orig_p"));
        }
    }
    println!("{} logs", logs.len());
}

/// Zeek calls ICMP of both families by one name, and other protocols by none; of messages that are answered the second
/// port is the type of the answer.
#[test]
fn protocols_and_codes_of_zeek() {
    let text = "#separator \\x09\n#fields\tts\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tip_proto\n\
        1565635849.0\t2001:db8::1\t128\t2001:db8::2\t129\ticmp\t58\n\
        1565635849.0\t2001:db8::1\t135\t2001:db8::2\t136\ticmp\t-\n\
        1565635849.0\t10.0.0.1\t8\t10.0.0.2\t0\ticmp\t1\n\
        1565635849.0\t10.0.0.1\t14\t10.0.0.2\t13\ticmp\t1\n\
        1565635849.0\t10.0.0.1\t3\t10.0.0.2\t13\ticmp\t1\n\
        1565635849.0\t10.0.0.1\t0\t10.0.0.2\t0\tunknown_transport\t132\n";
    let (_folder, path) = written("conn.log", text);
    let (batches, lost) = read(&path, Some(Format::Zeek), &[]);
    assert_eq!(lost.records, 0, "{lost:?}");
    assert_eq!(texts(&batches, Column::Protocol), ["58", "58", "1", "1", "1", "132"]);
    assert_eq!(texts(&batches, Column::IcmpType), ["128", "135", "8", "14", "3", "-"]);
    assert_eq!(texts(&batches, Column::IcmpCode), ["0", "0", "0", "0", "13", "-"]);
}

/// ICMP of IPv4 in a packet of IPv6 is what a number says, and a name of nfdump, which calls that of IPv6 ICMP6.
#[test]
fn icmp_between_addresses_of_version_6() {
    let ours = "start,protocol,src_addr,dst_addr\n1,1,2001:db8::1,2001:db8::2\n1,58,2001:db8::1,2001:db8::2\n\
        1,icmp,2001:db8::1,2001:db8::2\n1,ICMP,10.0.0.1,10.0.0.2\n";
    let nfdump = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows\n\
        2017-07-25 12:32:10.055,0.000,1,2001:db8::1,0,2001:db8::2,8.0,100,8400,1\n\
        2017-07-25 12:32:10.055,0.000,ICMP,2001:db8::1,0,2001:db8::2,8.0,100,8400,1\n\
        2017-07-25 12:32:10.055,0.000,ICMP6,2001:db8::1,0,2001:db8::2,128.0,100,8400,1\n";
    let rwcut = "sIP|dIP|sPort|dPort|pro|sTime|\n2001:db8::1|2001:db8::2|0|2048|1|2009/02/12T00:00:00.123|\n";
    for (text, expected) in
        [(ours, ["1", "58", "58", "1"].as_slice()), (nfdump, ["1", "1", "58"].as_slice()), (rwcut, ["1"].as_slice())]
    {
        let (_folder, path) = written("flows.csv", text);
        let (batches, lost) = read(&path, None, &[]);
        assert_eq!(lost.records, 0, "{lost:?}");
        assert_eq!(texts(&batches, Column::Protocol), expected, "{text}");
    }
}

/// As in the manual of rwcut, with its blanks.
#[test]
fn rwcut() {
    let text = "\
            sIP|            dIP|sPort|dPort|pro|   packets|     bytes|   flags|                  sTime| duration|                  eTime|sen|\n\
       10.0.0.1|    192.0.2.254|49152|   80|  6|        12|      3456|FS PA   |2009/02/12T00:00:00.123|    1.500|2009/02/12T00:00:01.623| S0|\n\
    2001:db8::1|    2001:db8::2|    0|    0| 58|         1|        64|        |2009/02/12T00:00:00.123|    0.000|2009/02/12T00:00:00.123| S0|\n\
       10.0.0.1|\n";
    let (_folder, path) = written("flows.txt", text);
    let (batches, lost) = read(&path, None, &[]);
    assert_eq!(rows(&batches), 2);
    assert_eq!((lost.records, lost.lines[0].number), (1, 4));
    assert_eq!(lost.lines[0].what, "1 fields, where 12 have names");
    assert_eq!(lost.fields, ["sen"]);
    assert_eq!(texts(&batches, Column::SrcAddr), ["10.0.0.1", "2001:db8::1"]);
    assert_eq!(texts(&batches, Column::TcpFlags), ["27", "-"]);
    assert_eq!(texts(&batches, Column::Start), ["1234396800123", "1234396800123"]);
    assert_eq!(texts(&batches, Column::End), ["1234396801623", "1234396800123"]);
    assert_eq!(texts(&batches, Column::Received), ["1234396801623", "1234396800123"]);
    assert_eq!(texts(&batches, Column::Protocol), ["6", "58"]);
}

#[test]
fn csv_with_names_of_ours_and_of_others() {
    let text = "\"start\",src_addr,Quelle,bytes,duration_ms,note\n\
                2019-08-12T18:50:47.958Z,10.0.0.1,17,\"1000\",1500,\"a, b\"\n\
                2019-08-12T18:50:47.958Z,10.0.0.x,17,1000,1500,\n\
                ,10.0.0.1,17,1000,1500,\n";
    let (_folder, path) = written("flows.csv", text);
    let mapping = [("Quelle".to_owned(), Some(Column::Protocol))];
    let (batches, lost) = read(&path, None, &mapping);
    assert_eq!(texts(&batches, Column::End), ["1565635849458"]);
    assert_eq!(texts(&batches, Column::Protocol), ["17"]);
    assert_eq!(lost.fields, ["note"]);
    let told: Vec<_> = lost.lines.iter().map(|line| format!("{}: {}", line.number, line.what)).collect();
    assert_eq!(told, ["3: '10.0.0.x' is no value of 'src_addr'", "4: there is no time"]);
}

/// What nfdump prints as CSV has the same flows as its file.
#[test]
fn csv_of_nfdump() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    if weir_testkit::program("nfdump").is_none() {
        return;
    }
    let source = corpus.join("chrispassas+nfdump/testdata/nfcapd-small-lzo");
    let output = Command::new("nfdump").env("TZ", "UTC").args(["-o", "csv", "-r"]).arg(&source).output().expect("runs");
    let (_folder, path) = written("nfdump.csv", &String::from_utf8_lossy(&output.stdout));
    assert_eq!(Format::of_file(&path).expect("read"), Some(Format::Csv));
    let (found, lost) = read(&path, None, &[]);
    let (expected, _) = read(&source, None, &[]);
    assert_eq!((rows(&found), lost.records), (10, 0), "{lost:?}");
    let columns = [
        Column::SrcAddr,
        Column::DstAddr,
        Column::SrcPort,
        Column::Protocol,
        Column::TcpFlags,
        Column::Packets,
        Column::Bytes,
        Column::SrcMask,
        Column::Exporter,
        Column::Received,
    ];
    for column in columns {
        assert_eq!(texts(&found, column), texts(&expected, column), "{column}");
    }
}

/// The names of protocols 0 to 137 that nfdump 1.7.1 prints (`nfdump -o csv` of one flow of each); 1.7.8 has the same.
const NFDUMP_PROTOCOLS: &str = "\
    0 ICMP IGMP GGP IPIP ST TCP CBT EGP IGP BBN NVPII PUP ARGUS ENCOM XNET CHAOS UDP MUX DCN HMP PRM XNS Trnk1 \
    Trnk2 Leaf1 Leaf2 RDP IRTP ISO-4 NETBK MFESP MEINP DCCP 3PC IDPR XTP DDP IDPR TP++ IL IPv6 SDRP Rte6 Frag6 \
    IDRP RSVP GRE MHRP BNA ESP AH INLSP SWIPE NARP MOBIL TLSP SKIP ICMP6 NOHE6 OPTS6 HOST CFTP NET SATNT KLAN \
    RVD IPPC FS SATM VISA IPCV CPNX CPHB WSN PVP BSATM SUNND WBMON WBEXP ISOIP VMTP SVMTP VINES TTP NSIGP DGP \
    TCF EIGRP OSPF S-RPC LARP MTP AX.25 OS MICP SCCSP ETHIP ENCAP 99 GMTP IFMP PNNI PIM ARIS SCPS QNX A/N IPcmp \
    SNP CpqPP IPXIP VRRP PGM 0hop L2TP DDX IATP STP SRP UTI SMP SM PTP ISIS4 FIRE CRTP CRUDP 128 IPLT SPS PIPE \
    SCTP FC 134 MHEAD UDP-L MPLS";

/// All protocols of nfdump's CSV are read as what they are, but for the second of the two that it calls IDPR.
#[test]
fn protocols_of_nfdump() {
    let numbers = (138..=255_u8).map(|number| format!("{number:<5}"));
    let names: Vec<String> = NFDUMP_PROTOCOLS.split_whitespace().map(str::to_owned).chain(numbers).collect();
    let expected = (0..=255_u8).map(|number| match number {
        38 => "35".to_owned(),
        _ => number.to_string(),
    });
    let expected: Vec<String> = expected.collect();
    // of 1.7.1, and of 1.7.8 with other fields (csv:%ts,%pr,%sa)
    for (title, before, behind) in [
        ("ts,sa,da,pr,ipkt", "2026-09-21 14:13:10,10.0.0.1,10.0.0.2,", ",1"),
        ("firstSeen,proto", "1790000000.000,", ""),
    ] {
        let lines = names.iter().map(|name| format!("{before}{name}{behind}\n"));
        let (_folder, path) = written("nfdump.csv", &format!("{title}\n{}", lines.collect::<String>()));
        let (batches, lost) = read(&path, Some(Format::Csv), &[]);
        assert_eq!((rows(&batches), lost.records), (256, 0), "{lost:?}");
        assert_eq!(texts(&batches, Column::Protocol), expected);
    }
}

/// nfdump 1.7.8 prints type and code of ICMP with a dot where 1.7.1 prints the port of NetFlow v5.
#[test]
fn icmp_of_nfdump() {
    let text = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows\n\
        2017-07-25 12:32:10.055,0.000,1,192.168.1.100,0,192.168.1.1,8.0,100,8400,1\n\
        2017-07-25 12:32:10.055,0.000,ICMP,192.168.1.100,0,192.168.1.1,3.13,100,8400,1\n\
        2017-07-25 12:32:10.055,0.000,1,192.168.1.100,0,192.168.1.1,2048,100,8400,1\n\
        2017-07-25 12:32:10.055,0.000,1,192.168.1.100,0,192.168.1.1,8.256,100,8400,1\n";
    let (_folder, path) = written("nfdump.csv", text);
    let (batches, lost) = read(&path, None, &[]);
    assert_eq!(texts(&batches, Column::DstPort), ["2048", "781", "2048"]);
    assert_eq!((lost.records, lost.lines[0].what.as_str()), (1, "'8.256' is no value of 'dstPort'"));
}

/// In the CSV of others names are keywords of IANA's registry first, then those of filters; nfdump's own are none.
#[test]
fn protocols_of_other_files() {
    let text = "start,protocol\n1,OSPF\n1,ospfigp\n1,IPv6-Frag\n1,ipip\n1,Sprite-RPC\n1,UDP-L\n";
    let (_folder, path) = written("flows.csv", text);
    let (batches, lost) = read(&path, None, &[]);
    assert_eq!(texts(&batches, Column::Protocol), ["89", "89", "44", "94", "90"]);
    assert_eq!((lost.records, lost.lines[0].what.as_str()), (1, "'UDP-L' is no value of 'protocol'"));
}

/// As `ra -c,` of argus prints, whose arrows are no direction at the observation point: the column is not kept. Where
/// it has that of nfdump, it is.
#[test]
fn arrows_of_argus_are_no_direction() {
    type Mapping = [(String, Option<Column>)];
    #[track_caller]
    fn check(arrows: [&str; 3], mapping: &Mapping, expected: &[&str], (fields, records): (&[&str], u64)) {
        let line = |arrow: &str| format!("1790000000.5,tcp,10.0.0.1,1000,{arrow},10.0.0.2,80\n");
        let lines = format!("StartTime,Proto,SrcAddr,Sport,Dir,DstAddr,Dport\n{}", arrows.map(line).concat());
        let (_folder, path) = written("argus.csv", &lines);
        let (batches, lost) = read(&path, Some(Format::Csv), mapping);
        assert_eq!(texts(&batches, Column::Direction), expected);
        assert_eq!(lost.fields, fields);
        assert_eq!(lost.records, records);
    }
    let start = || ("StartTime".to_owned(), Some(Column::Start));
    let usual = [start()];
    let is_left_out: (&[&str], u64) = (&["Dir (arrows)"], 0);
    check(["->", "<?>", "who"], &usual, &["-", "-", "-"], is_left_out);
    check(["0", "1", "egress"], &usual, &["0", "1", "1"], (&[], 0));
    check(["0", "x", "1"], &usual, &["0", "1"], (&[], 1));
    // the first arrow says what the column is
    check(["0", "->", "1"], &usual, &["0", "-", "-"], is_left_out);
    // as the user says
    let named = |column| [start(), ("Dir".to_owned(), column)];
    check(["->", "x", "1"], &named(None), &["-", "-", "-"], (&[], 0));
    check(["->", "x", "1"], &named(Some(Column::Direction)), &["1"], (&[], 2));
}

/// Segments of an archive are such files, and so are those of others, whose columns have other types.
#[test]
fn parquet_of_ours_and_of_others() {
    let text = "start,end,src_addr,dst_addr,protocol,tcp_flags,bytes\n\
                1565635847.958,1565635848.001,10.0.0.1,10.0.0.2,6,...A..S.,1000\n\
                1565635847.958,1565635848.001,2001:db8::1,2001:db8::2,17,,64\n";
    let (folder, path) = written("flows.csv", text);
    let (batches, _) = read(&path, None, &[]);
    let ours = folder.path().join("ours.parquet");
    write_parquet(&ours, &batches[0].to_full());
    let (found, lost) = read(&ours, None, &[]);
    assert_eq!(found[0].to_full(), batches[0].to_full());
    assert_eq!((lost.values, lost.fields.len()), (0, 0));

    let column = |texts: [Option<&str>; 2]| {
        std::sync::Arc::new(arrow::array::StringArray::from(texts.to_vec())) as arrow::array::ArrayRef
    };
    let others = arrow::array::RecordBatch::try_from_iter([
        ("ts", column([Some("2019-08-12 18:50:47.958"), Some("2019-08-12 18:50:47.958")])),
        ("sa", column([Some("10.0.0.1"), Some("nonsense")])),
        ("proto", column([Some("TCP"), Some("17")])),
        ("bytes", std::sync::Arc::new(arrow::array::Int32Array::from(vec![1000, -1])) as arrow::array::ArrayRef),
        ("dp", std::sync::Arc::new(arrow::array::Float64Array::from(vec![80.0, 443.0])) as arrow::array::ArrayRef),
        ("comment", column([None, None])),
    ]);
    let theirs = folder.path().join("theirs.parquet");
    write_parquet(&theirs, &others.expect("a batch"));
    let (_, lost) = read(&theirs, None, &[("comment".to_owned(), None), ("sa".to_owned(), None)]);
    assert_eq!((lost.values, lost.fields.len()), (1, 0), "what is left out is neither read nor named");
    let (found, lost) = read(&theirs, None, &[]);
    assert_eq!((lost.values, lost.fields.as_slice()), (2, ["comment".to_owned()].as_slice()));
    assert_eq!(texts(&found, Column::SrcAddr), ["10.0.0.1", "-"]);
    assert_eq!(texts(&found, Column::Bytes), ["1000", "-"]);
    assert_eq!(texts(&found, Column::DstPort), ["80", "443"]);
    assert_eq!(texts(&found, Column::Protocol), ["6", "17"]);
    assert_eq!(texts(&found, Column::Received), ["1565635847958", "1565635847958"]);
}

fn write_parquet(path: &Path, rows: &arrow::array::RecordBatch) {
    let file = std::fs::File::create(path).expect("made");
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, rows.schema(), None).expect("a writer");
    writer.write(rows).expect("written");
    writer.close().expect("closed");
}

#[test]
fn what_is_no_file_of_flows() {
    for text in ["", "hello\nworld\n", "a,b\n1,2\n", "{", "PAR1", "\u{0}\u{0}"] {
        let (_folder, path) = written("file", text);
        match AnyReader::open(&path, None, &[]) {
            Ok(mut reader) => assert!(reader.all(|batch| batch.is_err()), "{text:?}"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
