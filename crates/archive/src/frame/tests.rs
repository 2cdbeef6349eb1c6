use weir_flow::{BooksBatch, BooksRow, Column, Counter, FlowBatchBuilder, SideTables};

use super::*;

fn delivery(first: u64, rows: u64) -> Delivery {
    let mut builder = FlowBatchBuilder::new(rows as usize);
    builder.begin_rows(rows as usize);
    builder.time(Column::Received).repeat(1_763_683_200_000, rows as usize);
    builder.u64(Column::FlowId).extend((0..rows as usize).map(|row| first + row as u64));
    let row = BooksRow {
        minute_ms: 1_763_683_200_000,
        exporter: None,
        observation_domain: None,
        export_version: None,
        counts: [first; Counter::COUNT],
    };
    let books = first.is_multiple_of(200).then(|| BooksBatch::from_rows(&[row]));
    Delivery { flows: Some(builder.finish()), side_tables: SideTables { books, ..SideTables::default() } }
}

/// A tail of frames with these rows, and where each of them ends.
fn tail(rows: &[u64]) -> (Vec<u8>, Vec<usize>) {
    let (mut octets, mut ends, mut position) = (Vec::new(), Vec::new(), Position::new(40));
    for &rows in rows {
        position = position.next();
        let frame = EncodedFrame::new(position, &delivery(position.get() * 100, rows)).expect("a frame");
        octets.extend_from_slice(&frame.header_octets);
        frame.payload.iter().for_each(|buffer| octets.extend_from_slice(buffer));
        assert_eq!(octets.len() as u64 - ends.last().map_or(0, |&end| end as u64), frame.header.frame_octets());
        ends.push(octets.len());
    }
    (octets, ends)
}

#[test]
fn frames_give_back_what_they_were_given() {
    let (octets, _) = tail(&[3, 1]);
    let octets = Buffer::from_vec(octets);
    let scan = scan(&octets[..]);
    assert_eq!((scan.end, scan.rows(), scan.last()), (TailEnd::Clean, 4, Some(Position::new(42))));
    for (frame, expected) in scan.frames.iter().copied().zip([delivery(4100, 3), delivery(4200, 1)]) {
        let found = decode(&frame, &octets).expect("decoded");
        let flows = expected.flows.iter().map(|flows| (Table::Flows, flows.record_batch()));
        let expected: Vec<_> =
            flows.chain(expected.side_tables.batches()).map(|(table, batch)| (table, batch.clone())).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn columns_lie_where_they_were_read() {
    use arrow::array::Array;
    // numbers so far apart that they cannot be packed
    let mut builder = FlowBatchBuilder::new(3);
    builder.begin_rows(3);
    builder.u64(Column::FlowId).extend([0, u64::MAX, 7].into_iter());
    let frame = EncodedFrame::new(Position::new(1), &Delivery::from(builder.finish())).expect("a frame");
    let mut octets = frame.header_octets.to_vec();
    frame.payload.iter().for_each(|buffer| octets.extend_from_slice(buffer));
    let mut aligned = arrow::buffer::MutableBuffer::new(octets.len());
    aligned.extend_from_slice(&octets);
    let octets: Buffer = aligned.into();
    let frame = scan(&octets[..]).frames[0];
    let batches = decode(&frame, &octets).expect("decoded");
    let ids = batches[0].1.column_by_name("flow_id").expect("a column").to_data();
    let range = octets.as_ptr() as usize..octets.as_ptr() as usize + octets.len();
    assert!(range.contains(&(ids.buffers()[0].as_ptr() as usize)), "the column was copied");
}

#[test]
fn a_cut_at_any_octet_of_the_last_frame_loses_that_frame_alone() {
    let (octets, ends) = tail(&[3, 1, 2]);
    for cut in ends[1] + 1..ends[2] {
        let scan = scan(&octets[..cut]);
        assert_eq!((scan.whole_octets, scan.end), (ends[1], TailEnd::Torn), "cut at {cut}");
    }
    assert_eq!(scan(&octets[..ends[1]]).end, TailEnd::Clean);
    assert_eq!(scan([].as_slice()).end, TailEnd::Clean);
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let (mut octets, ends) = tail(&[3, 1, 2]);
    for at in 0..octets.len() {
        let bit = 1 << (at % 8);
        octets[at] ^= bit;
        let scan = scan(&octets[..]);
        octets[at] ^= bit;
        let spoilt = ends.iter().filter(|&&end| end <= at).count();
        assert_eq!(scan.frames.len(), spoilt, "flipped in octet {at}");
        let expected = match spoilt {
            0 => TailEnd::Damaged { frames: 2, rows: 3, last: Position::new(43) },
            1 => TailEnd::Damaged { frames: 1, rows: 2, last: Position::new(43) },
            _ => TailEnd::Torn,
        };
        assert_eq!(scan.end, expected, "flipped in octet {at}");
    }
}

#[test]
fn a_frame_out_of_its_turn_does_not_count() {
    let (octets, ends) = tail(&[3, 1, 2]);
    let without_second = [&octets[..ends[0]], &octets[ends[1]..]].concat();
    let scan = scan(&without_second[..]);
    assert_eq!((scan.frames.len(), scan.whole_octets), (1, ends[0]));
}

#[test]
fn lengths_of_a_header_are_not_trusted() {
    let mut header = EncodedFrame::new(Position::new(1), &delivery(0, 1)).expect("a frame").header;
    for octets in [u64::MAX, 1 << 48, (1 << 48) - 1] {
        header.flows_octets = octets;
        assert_eq!(scan(&header.to_octets()[..]).frames.len(), 0);
    }
}
