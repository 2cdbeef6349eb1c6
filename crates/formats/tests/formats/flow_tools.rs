//! Files of flow-tools from the corpus.

use arrow::datatypes::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::{Column, FlowBatch};
use weir_formats::flow_tools::Reader;

fn path(name: &str) -> Option<std::path::PathBuf> {
    let folder = weir_testkit::corpus()?.join("sadikovi+spark-netflow/src/test/resources");
    Some(folder.join(name)).filter(|path| path.exists())
}

fn check(name: &str, expected: &str) {
    let Some(path) = path(name) else { return };
    let found = match Reader::open(&path) {
        Err(error) => error.to_string(),
        Ok(reader) => {
            let (mut rows, mut told) = (0, String::new());
            for batch in reader {
                match batch {
                    Ok(batch) => rows += batch.rows(),
                    Err(error) => told = format!(", {error}"),
                }
            }
            format!("{rows} flows{told}")
        }
    };
    let found = found.replace(&*path.to_string_lossy(), "FILE");
    assert!(found.starts_with(expected), "{name}: {found}, not {expected}");
}

#[test]
fn files_of_the_corpus() {
    check("correct/ftv5.2016-01-13.compress.9.sample", "1000 flows");
    check("anomaly/ftv5.2016-03-15.compress2.bigend.empty", "0 flows");
    check("anomaly/ftv5.2016-03-15.compress9.bigend.empty", "0 flows");
    check("anomaly/ftv5.2016-03-15.compress9.bigend.records1", "1 flows");
    check("anomaly/ftv5.2016-04-09.compress9.large-byte-start", "1000 flows");
    check("corrupt/ftv5.2016-01-13.compress.9.sample-01", "FILE is not a flow-tools file");
    check(
        "unsupport/ftv8.2016-01-17.compress.7.bigend.sample",
        "FILE: a flow-tools file of export version 8 cannot be read",
    );
}

/// What flow-gen makes is known: it counts up in every field, addresses of the destination from 255.255.0.0 on.
#[test]
fn values_that_flow_gen_makes() {
    let Some(path) = path("correct/ftv5.2016-01-13.compress.9.sample") else { return };
    let batch: FlowBatch = Reader::open(&path).expect("opens").next().expect("flows").expect("good");
    for row in 0..batch.rows() {
        let number = row as u32;
        let half = (number % 65536) as u16;
        assert_eq!(batch.binary(Column::SrcAddr).expect("addresses").value(row), number.to_be_bytes());
        assert_eq!(batch.binary(Column::DstAddr).expect("addresses").value(row), (0xffff_0000 + number).to_be_bytes());
        assert_eq!(batch.primitive::<UInt16Type>(Column::SrcPort).expect("ports").value(row), half);
        assert_eq!(
            batch.primitive::<UInt16Type>(Column::DstPort).expect("ports").value(row),
            0xff00_u16.wrapping_add(half)
        );
        assert_eq!(batch.primitive::<UInt8Type>(Column::Protocol).expect("protocols").value(row), 17);
        assert_eq!(batch.primitive::<UInt64Type>(Column::Packets).expect("packets").value(row), u64::from(number) + 1);
        assert_eq!(batch.primitive::<UInt32Type>(Column::InIf).expect("interfaces").value(row), number);
    }
}

/// Cut anywhere, nothing panics, and what is missing is told.
#[test]
fn files_cut_short() {
    let Some(path) = path("correct/ftv5.2016-01-13.compress.9.sample") else { return };
    let whole = std::fs::read(&path).expect("read");
    let folder = tempfile::tempdir().expect("a directory");
    let cut = folder.path().join("cut");
    for length in (0..200).chain((200..whole.len()).step_by(997)) {
        std::fs::write(&cut, &whole[..length]).expect("written");
        let told = Reader::open(&cut).is_ok_and(|reader| reader.flatten().count() < 2);
        assert!(told || Reader::open(&cut).is_err(), "cut at {length}");
    }
}

/// A file that is cut short is an error that says so, once, behind the flows that are there.
#[test]
fn what_is_cut_short_is_said_once() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("cut");
    let mut octets = file_of_version(7, 3, 68);
    octets.truncate(octets.len() - 5);
    std::fs::write(&path, &octets).expect("written");
    let items: Vec<_> = Reader::open(&path).expect("opens").collect();
    let [Ok(flows), Err(error)] = items.as_slice() else { panic!("{} items", items.len()) };
    assert_eq!(flows.rows(), 2);
    assert_eq!(error.to_string(), format!("{} is cut short at octet 136", path.display()));
    assert!(std::error::Error::source(error).is_none());
}

/// Records of version 7 name the engine where those of version 5 do (`fts3rec_v7` in ftlib.h of flow-tools 0.68).
#[test]
fn version_7_names_its_engine() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("seven");
    std::fs::write(&path, file_of_version(7, 2, 68)).expect("written");
    let flows = Reader::open(&path).expect("opens").next().expect("flows").expect("good");
    let of = |column| flows.primitive::<UInt8Type>(column).expect("a column").values().to_vec();
    assert_eq!((of(Column::EngineType), of(Column::EngineId)), (vec![3, 3], vec![0, 1]));
    let domains = flows.primitive::<UInt32Type>(Column::ObservationDomain).expect("domains");
    assert_eq!(domains.values().to_vec(), [0x300, 0x301]);
}

/// A file of flow-tools, little-endian and not compressed, whose records name engine type 3 and their own number as engine.
fn file_of_version(version: u8, records: u8, octets: usize) -> Vec<u8> {
    let values = [[2, 0, 2, 0, version, 0].as_slice(), &[8, 0, 4, 0, 0, 0, 0, 0]].concat();
    let mut file = vec![0xcf, 0x10, 1, 3, 8 + values.len() as u8, 0, 0, 0];
    file.extend(values);
    for number in 0..records {
        let mut record = vec![0; octets];
        (record[56], record[57]) = (3, number);
        file.extend(record);
    }
    file
}
