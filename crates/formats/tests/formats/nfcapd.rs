//! Files of nfdump against nfdump.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_flow::FlowBatch;
use weir_formats::FormatError;
use weir_formats::nfcapd::{Compression, Damage, Reader, Writer, WriterOptions};

use crate::oracle;

fn read(path: &Path) -> (Vec<FlowBatch>, Damage, Option<FormatError>) {
    let mut reader = Reader::open(path).expect("opens");
    let (mut batches, mut error) = (Vec::new(), None);
    for batch in &mut reader {
        match batch {
            Ok(batch) => batches.push(batch),
            Err(told) => error = Some(told),
        }
    }
    (batches, reader.damage(), error)
}

fn corpus(path: &str) -> Option<PathBuf> {
    let path = weir_testkit::corpus().map(|corpus| corpus.join(path)).filter(|path| path.exists());
    if path.is_none() {
        weir_testkit::skip("corpus", "there is no corpus, or it lacks a file");
    }
    weir_testkit::program("nfdump").and(path)
}

fn check_corpus(name: &str, rows: usize) {
    let Some(path) = corpus(&format!("chrispassas+nfdump/testdata/{name}")) else { return };
    let (batches, damage, error) = read(&path);
    assert!(error.is_none(), "{error:?}");
    assert!(!damage.is_damaged(), "{damage:?}");
    assert_eq!(batches.iter().map(FlowBatch::rows).sum::<usize>(), rows);
    let compared = oracle::compare(&path, &batches);
    println!("{name}: {rows} rows, {compared} fields, {damage:?}");
    let statistics = Reader::open(&path).expect("opens").info().statistics.expect("statistics");
    assert_eq!(statistics.total.flows, rows as u64);
}

#[test]
fn layout_1_lzo() {
    check_corpus("nfcapd-small-lzo", 10);
}

#[test]
fn layout_1_bzip2() {
    check_corpus("nfcapd-large-bz2", 100_000);
}

#[test]
fn layout_1_without_flows() {
    check_corpus("nfcapd-empty", 0);
}

/// A file of nfcapd 1.7.8, whose records of exporters have no family, against what `nfdump -E` of 1.7.8 prints.
#[test]
fn exporters_of_1_7_8() {
    let Some(folder) = corpus("_derived/nfdump-1.7.8") else { return };
    let captured = std::fs::read_to_string(folder.join("commands.ndjson")).expect("the captured outputs");
    let mut captured = captured.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let printed = captured.find(|line| line["args"] == "-E rich").expect("the command is there");
    let expected: Vec<(u16, String, u64)> =
        printed["stdout"].as_str().expect("text").lines().filter_map(printed_exporter).collect();
    assert_eq!(expected.len(), 24);

    let mut reader = Reader::open_with_headers(folder.join("files/rich")).expect("opens");
    let batches: Vec<FlowBatch> = reader.by_ref().collect::<Result<_, _>>().expect("reads");
    let damage = reader.damage();
    assert!(!damage.is_damaged(), "{damage:?}");
    let found = reader.exporters().iter().map(|(number, exporter)| {
        (number, weir_flow::AddressText(&exporter.address).to_string(), u64::from(exporter.domain))
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(batches.iter().map(FlowBatch::rows).sum::<usize>(), 995);
}

/// `SysID: 4, IP:       127.0.2.18, version: netflow v9, ID: 70 - no flows sent`.
fn printed_exporter(line: &str) -> Option<(u16, String, u64)> {
    let mut fields = line.strip_prefix("SysID: ")?.split(", ");
    let number = fields.next()?.parse().ok()?;
    let address = fields.next()?.strip_prefix("IP:")?.trim().to_owned();
    let domain = fields.nth(1)?.strip_prefix("ID:")?.trim().split(' ').next()?.parse().ok()?;
    Some((number, address, domain))
}

/// Files of every kind that nfdump writes, made of those of the corpus.
#[test]
fn layout_2_in_every_compression() {
    let folder = tempfile::tempdir().expect("a directory");
    for source in ["nfcapd-small-lzo", "nfcapd-large-bz2"] {
        let Some(source) = corpus(&format!("chrispassas+nfdump/testdata/{source}")) else { return };
        for (option, compression) in [
            (None, Compression::None),
            (Some("-z"), Compression::Lzo),
            (Some("-y"), Compression::Lz4),
            (Some("-j"), Compression::Bzip2),
        ] {
            let path = folder.path().join(compression.name());
            let status = Command::new("nfdump").arg("-r").arg(&source).args(option).arg("-w").arg(&path).output();
            assert!(status.expect("nfdump runs").status.success());
            let (batches, damage, error) = read(&path);
            assert!(error.is_none() && !damage.is_damaged(), "{error:?} {damage:?}");
            assert_eq!((damage.records_unknown, damage.extensions_unknown), (0, 0), "{damage:?}");
            let info = Reader::open(&path).expect("opens").info().clone();
            assert_eq!((info.layout, info.compression), (2, compression));
            let rows: u64 = batches.iter().map(|batch| batch.rows() as u64).sum();
            assert_eq!(info.statistics.map(|statistics| statistics.total.flows), Some(rows));
            oracle::compare(&path, &batches);
        }
    }
}

/// What we write, nfdump reads as the same flows, and so do we.
#[test]
fn written_files() {
    let folder = tempfile::tempdir().expect("a directory");
    for source in ["nfcapd-small-lzo", "nfcapd-large-bz2"] {
        let Some(source) = corpus(&format!("chrispassas+nfdump/testdata/{source}")) else { return };
        let (batches, _, _) = read(&source);
        let expected = oracle::nfdump_rows(&source);
        // the large file once: it takes its time
        let large = expected.len() > 1000;
        for &compression in Compression::ALL.iter().filter(|way| !large || **way == Compression::Lz4) {
            let path = folder.path().join(compression.name());
            let options = WriterOptions { compression, ident: "written".to_owned() };
            let mut writer = Writer::create(&path, options).expect("made");
            for batch in &batches {
                writer.write(batch).expect("written");
            }
            let statistics = writer.finish().expect("finished");
            let (ours, damage, error) = read(&path);
            assert!(error.is_none() && !damage.is_damaged(), "{error:?} {damage:?}");
            let info = Reader::open(&path).expect("opens").info().clone();
            assert_eq!((info.ident.as_str(), info.statistics), ("written", Some(statistics)));
            assert_eq!(ours.iter().map(FlowBatch::rows).sum::<usize>(), expected.len());
            if compression == Compression::Zstd {
                // the nfdump that is compared with knows no zstd
                continue;
            }
            oracle::compare(&path, &ours);
            let theirs = oracle::nfdump_rows(&path);
            for (index, (written, expected)) in theirs.iter().zip(&expected).enumerate() {
                for (name, value) in
                    expected.iter().filter(|(name, _)| !["sampled", "export_sysid"].contains(&name.as_str()))
                {
                    assert_eq!(written.get(name), Some(value), "{compression} row {index} {name}");
                }
            }
        }
    }
}

/// A small file that is cut at every octet, and one in which every octet is changed.
#[test]
fn damaged_files() {
    let Some(source) = corpus("chrispassas+nfdump/testdata/nfcapd-small-lzo") else { return };
    let folder = tempfile::tempdir().expect("a directory");
    let (batches, _, _) = read(&source);
    for compression in [Compression::None, Compression::Lz4, Compression::Lzo] {
        let path = folder.path().join("whole");
        let mut writer =
            Writer::create(&path, WriterOptions { compression, ..WriterOptions::default() }).expect("made");
        for batch in &batches {
            writer.write(batch).expect("written");
        }
        writer.finish().expect("finished");
        let whole = std::fs::read(&path).expect("read");
        let damaged = folder.path().join("damaged");
        let appendix_at = u64::from_le_bytes(whole[24..32].try_into().expect("eight octets")) as usize;
        for length in 0..whole.len() {
            std::fs::write(&damaged, &whole[..length]).expect("written");
            let found = Reader::open(&damaged);
            let Ok(mut reader) = found else { continue };
            let rows: usize = reader.by_ref().filter_map(Result::ok).map(|batch| batch.rows()).sum();
            assert!(rows <= 10);
            if length < appendix_at {
                let mut reader = Reader::open(&damaged).expect("opens");
                assert!(reader.any(|batch| batch.is_err()), "cut at {length}, and nothing is said");
            }
        }
        let mut changed = whole.clone();
        for at in 0..whole.len() {
            for bits in [0x01, 0x80, 0xff] {
                changed[at] = whole[at] ^ bits;
                std::fs::write(&damaged, &changed).expect("written");
                if let Ok(reader) = Reader::open(&damaged) {
                    assert!(reader.filter_map(Result::ok).map(|batch| batch.rows()).sum::<usize>() <= 10_000);
                }
            }
            changed[at] = whole[at];
        }
    }
}
