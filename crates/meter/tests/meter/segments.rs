//! A `ClientHello` in segments of TCP that come as networks have them.

use arrow::array::Array;
use arrow::datatypes::UInt16Type;
use weir_flow::{Column, FlowBatch};
use weir_meter::{Measures, MeterOptions};
use weir_testkit::write_capture;

use crate::tunnels::meter;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Sequence number of the first octet; they begin again at 0 within the hello.
const FIRST: u32 = u32::MAX - 40;

/// A record with a `ClientHello` (RFC 8446 section 4.1.2).
fn hello() -> Vec<u8> {
    let extensions = [
        &b"\0\0\0\x14\0\x12\0\0\x0fwww.Example.com"[..],
        b"\0\x0a\0\x04\0\x02\0\x1d",
        b"\0\x0d\0\x04\0\x02\x04\x03",
        b"\0\x10\0\x05\0\x03\x02h2",
        b"\0\x2b\0\x03\x02\x03\x04",
    ]
    .concat();
    let begin = b"\x16\x03\x01\0\x69\x01\0\0\x65\x03\x03";
    [&begin[..], &[b'r'; 32], b"\0\0\x04\x13\x01\x13\x02\x01\0\0\x38", &extensions].concat()
}

/// A frame of Ethernet with a segment from this port.
fn frame(port: u16, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((40 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9]);
    frame.extend([port, 8443].into_iter().flat_map(u16::to_be_bytes));
    frame.extend([sequence, 1].into_iter().flat_map(u32::to_be_bytes));
    frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(payload);
    frame
}

/// Source port, server name, JA4, JA3 of each flow.
fn rows(batch: &FlowBatch) -> Vec<(u16, [String; 3])> {
    let ports = batch.primitive::<UInt16Type>(Column::SrcPort).expect("ports");
    let text = |column: Column, row: usize| {
        let texts = batch.text(column).filter(|texts| texts.is_valid(row));
        texts.map_or_else(String::new, |texts| texts.value(row).to_owned())
    };
    let columns = [Column::ServerName, Column::Ja4, Column::Ja3];
    (0..batch.rows()).map(|row| (ports.value(row), columns.map(|column| text(column, row)))).collect()
}

#[test]
fn a_hello_is_whole_however_its_segments_come() {
    let hello = hello();
    assert_eq!(hello.len(), 110);
    let piece = |from: usize, to: usize| (FIRST.wrapping_add(from as u32), ACK, hello[from..to].to_vec());
    let flows = [
        vec![piece(0, 110)],
        // sent again, as after the time for an acknowledgement, and put into other segments then
        vec![piece(0, 60), piece(0, 60), piece(60, 110)],
        vec![piece(0, 60), piece(40, 110)],
        vec![piece(0, 60), piece(0, 110)],
        // another way through the network
        vec![piece(0, 30), piece(60, 110), piece(30, 60)],
        // a keep-alive (RFC 9293 section 3.8.4), of one octet before
        vec![piece(0, 60), (FIRST.wrapping_sub(1), ACK, vec![0]), piece(60, 110)],
        // TCP Fast Open (RFC 7413): what the SYN carries follows its own sequence number
        vec![(FIRST.wrapping_sub(1), SYN, hello[..60].to_vec()), piece(60, 110)],
    ];
    let count = flows.len() as u16;
    let frames = (1..).zip(flows).flat_map(|(port, pieces)| {
        pieces.into_iter().map(move |(sequence, flags, octets)| frame(port, sequence, flags, &octets))
    });
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.pcap");
    write_capture(&path, (1_700_000_000_000_000..).zip(frames));
    let measures = Measures { application: true, ..Measures::default() };
    let batches = meter(&path, &MeterOptions { measures, ..MeterOptions::default() }, 2);
    let mut found: Vec<_> = batches.iter().flat_map(rows).collect();
    found.sort();
    // tshark's, of the hello in one segment
    let texts = ["www.Example.com", "t13d0205h2_62ed6f6ca7ad_9a0586ea5dd0", "3297d7e75908782bcd3356073465aa1f"];
    let expected: Vec<_> = (1..=count).map(|port| (port, texts.map(str::to_owned))).collect();
    assert_eq!(found, expected);
}
