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
