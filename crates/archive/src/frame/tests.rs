use weir_flow::{BooksBatch, BooksRow, Column, Counter, FlowBatchBuilder, SideTables};

use super::*;

/// The number of the tail.
const NUMBER: TailNumber = 7;

fn found(octets: &[u8]) -> Scan {
    scan(octets, NUMBER)
}

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
    tail_of(rows, TailMark { nonce: 0x1234_5678_9abc, number: NUMBER as u32 })
}

fn tail_of(rows: &[u64], mark: TailMark) -> (Vec<u8>, Vec<usize>) {
    let (mut octets, mut ends, mut position) = (Vec::new(), Vec::new(), Position::new(40));
    for &rows in rows {
        position = position.next();
        let frame = EncodedFrame::new(position, &delivery(position.get() * 100, rows)).expect("a frame");
        octets.extend_from_slice(&frame.header_octets(mark));
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
    let scan = found(&octets[..]);
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
    let mut octets = frame.header_octets(TailMark::default()).to_vec();
    frame.payload.iter().for_each(|buffer| octets.extend_from_slice(buffer));
    let mut aligned = arrow::buffer::MutableBuffer::new(octets.len());
    aligned.extend_from_slice(&octets);
    let octets: Buffer = aligned.into();
    let frame = found(&octets[..]).frames[0];
    let batches = decode(&frame, &octets).expect("decoded");
    let ids = batches[0].1.column_by_name("flow_id").expect("a column").to_data();
    let range = octets.as_ptr() as usize..octets.as_ptr() as usize + octets.len();
    assert!(range.contains(&(ids.buffers()[0].as_ptr() as usize)), "the column was copied");
}

#[test]
fn a_cut_at_any_octet_of_the_last_frame_loses_that_frame_alone() {
    let (octets, ends) = tail(&[3, 1, 2]);
    for cut in ends[1] + 1..ends[2] {
        let scan = found(&octets[..cut]);
        assert_eq!((scan.whole_octets, scan.end), (ends[1], TailEnd::Torn), "cut at {cut}");
    }
    assert_eq!(found(&octets[..ends[1]]).end, TailEnd::Clean);
    assert_eq!(found(&[]).end, TailEnd::Clean);
}

#[test]
fn a_flipped_bit_anywhere_costs_its_frame_alone() {
    let rows = [3, 1, 2];
    let (mut octets, ends) = tail(&rows);
    for at in 0..octets.len() {
        let bit = 1 << (at % 8);
        octets[at] ^= bit;
        let scan = found(&octets[..]);
        octets[at] ^= bit;
        let spoilt = ends.iter().filter(|&&end| end <= at).count();
        assert_eq!(scan.frames.len(), spoilt, "flipped in octet {at}");
        assert_eq!(scan.behind.frames.len(), 2 - spoilt, "flipped in octet {at}");
        let begin = ends.get(spoilt.wrapping_sub(1)).copied().unwrap_or(0);
        let in_header = at - begin < HEADER_OCTETS;
        assert_eq!(scan.behind.rows_lost, if in_header { 0 } else { rows[spoilt] }, "flipped in octet {at}");
        let is_torn = spoilt == 2 && !in_header;
        assert_eq!(scan.end, if is_torn { TailEnd::Torn } else { TailEnd::Damaged }, "flipped in octet {at}");
    }
}

#[test]
fn tails_of_older_programs_are_read_and_searched_too() {
    let (mut octets, ends) = tail_of(&[3, 1, 2], TailMark::default());
    assert_eq!((found(&octets).end, found(&octets).rows()), (TailEnd::Clean, 6));
    octets[ends[0] + 70] ^= 1;
    let scan = found(&octets);
    assert_eq!((scan.end, scan.rows(), scan.behind.rows()), (TailEnd::Damaged, 3, 2));
}

/// Frames that a sender has put into the octets of a flow: whole, but without the nonce, which nobody outside knows.
#[test]
fn frames_within_a_damaged_frame_are_not_taken_for_frames_of_the_tail() {
    let (octets, ends) = tail(&[3, 1, 2]);
    for mark in [TailMark::default(), TailMark { nonce: 5, number: NUMBER as u32 }] {
        let (crafted, _) = tail_of(&[1, 1, 1, 1], mark);
        // in place of the payload of the first frame, whose header says another checksum
        let mut spoilt = octets[..HEADER_OCTETS].to_vec();
        spoilt.extend(&crafted);
        spoilt.extend(&octets[ends[0]..]);
        let scan = found(&spoilt);
        let positions: Vec<u64> = scan.behind.frames.iter().map(|frame| frame.header.position.get()).collect();
        assert_eq!((scan.frames.len(), positions), (0, vec![42, 43]), "{mark:?}");
        // at the end, as a write that did not finish leaves it
        let torn = [&octets[..ends[1] + HEADER_OCTETS], &crafted[..]].concat();
        assert_eq!((found(&torn).end, found(&torn).frames.len()), (TailEnd::Torn, 2), "{mark:?}");
    }
}

#[test]
fn positions_that_have_no_room_are_not_believed() {
    let mark = TailMark::default();
    let (octets, ends) = tail_of(&[3, 1], mark);
    for (position, is_taken) in [(43, true), (44, true), (45, false), (1 << 40, false), (u64::MAX, false)] {
        let mut frame = EncodedFrame::new(Position::new(position), &delivery(0, 1)).expect("a frame");
        frame.header.mark = mark;
        let mut found_octets = octets[..ends[1]].to_vec();
        found_octets.extend([0xaa; HEADER_OCTETS]);
        found_octets.extend(frame.header_octets(mark));
        frame.payload.iter().for_each(|buffer| found_octets.extend_from_slice(buffer));
        let scan = found(&found_octets);
        assert_eq!(scan.behind.frames.len(), usize::from(is_taken), "position {position}");
    }
}

#[test]
fn a_frame_of_another_number_is_not_taken() {
    let (octets, _) = tail(&[3, 1, 2]);
    let scan = scan(&octets[..], NUMBER + 1);
    assert_eq!((scan.end, scan.frames.len(), scan.behind.frames.len()), (TailEnd::Damaged, 0, 0));
    assert!(TailMark::random(NUMBER) != TailMark::random(NUMBER));
}

#[test]
fn a_frame_out_of_its_turn_does_not_count() {
    let (octets, ends) = tail(&[3, 1, 2]);
    let without_second = [&octets[..ends[0]], &octets[ends[1]..]].concat();
    let scan = found(&without_second);
    assert_eq!((scan.frames.len(), scan.whole_octets), (1, ends[0]));
}

#[test]
fn lengths_of_a_header_are_not_trusted() {
    let mut header = EncodedFrame::new(Position::new(1), &delivery(0, 1)).expect("a frame").header;
    for octets in [u64::MAX, 1 << 48, (1 << 48) - 1] {
        header.flows_octets = octets;
        assert_eq!(found(&header.to_octets()).frames.len(), 0);
    }
}
