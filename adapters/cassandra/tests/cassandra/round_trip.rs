//! What is read back is what was written: every column, extremes, nulls, twice.

use weir_cassandra::{Operand, Operator, Predicate};
use weir_flow::{Column, ColumnType, FlowBatch, FlowBatchBuilder};
use weir_testkit::cassandra::Cassandra;

use crate::cluster::{BEGIN_MS, forward, numbered, options, read, read_packets, rows, write};

/// Every column with its smallest, its largest and another value, and null; rows that are equal in everything.
fn extremes() -> FlowBatch {
    let mut flows = FlowBatchBuilder::new(16);
    for row in 0..12_u64 {
        flows.begin_rows(1);
        // the last rows are equal
        let row = row.min(9);
        flows.time(Column::Received).push(Some(BEGIN_MS + row as i64 * 30_000));
        for (at, &column) in Column::ALL.iter().enumerate().filter(|(_, column)| **column != Column::Received) {
            // a third of the values of each row is null, in the fourth all are
            if (row + at as u64).is_multiple_of(3) || row == 3 {
                continue;
            }
            push(&mut flows, column, row, at as u64);
        }
    }
    flows.finish()
}

fn push(flows: &mut FlowBatchBuilder, column: Column, row: u64, at: u64) {
    let number = [0, u64::MAX, 1 << 63, row * 1000 + at][row as usize % 4];
    let octets = [&[][..], &[0; 16], &[255; 300], &[1, 2, 3]][row as usize % 4];
    match column.column_type() {
        ColumnType::U8 => flows.u8(column).push(Some(number as u8)),
        ColumnType::U16 => flows.u16(column).push(Some(number as u16)),
        ColumnType::U32 => flows.u32(column).push(Some(number as u32)),
        ColumnType::U64 => flows.u64(column).push(Some(number)),
        ColumnType::Time => flows.time(column).push(Some([0, -1, i64::MAX, BEGIN_MS][row as usize % 4])),
        ColumnType::Address if row.is_multiple_of(2) => {
            flows.address(column).push(Some(&(number as u32).to_be_bytes()));
        }
        ColumnType::Address => flows.address(column).push(Some(&u128::from(number).to_be_bytes())),
        ColumnType::Mac => flows.address(column).push(Some(&number.to_be_bytes()[2..])),
        ColumnType::Octets => flows.address(column).push(Some(octets)),
        ColumnType::Text => {
            let text = [format!("{number:x}"), "ü".repeat(500), "a'b;--".to_owned(), " ".to_owned()];
            flows.text(column).push(Some(text[row as usize % 4].as_bytes()));
        }
        ColumnType::Elements => {
            let elements = flows.elements();
            elements.push(0, 352, octets);
            elements.push(29305, u16::MAX, &vec![7; 70_000]);
            elements.push_nested(35632, 1, b"in a list", (1, 65_535));
            elements.end_row();
        }
    }
}

#[test]
fn every_column_comes_back_and_nothing_twice() {
    let Some(cluster) = Cassandra::shared() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let options = options(&cluster, "bucket=1m&shards=3");
    let written = [extremes(), numbered(0..5000), extremes()];
    write(dir.path(), written.clone());
    let counts = forward(dir.path(), &options).expect("forwarded");
    assert_eq!((counts.rows_forwarded, counts.rows_refused, counts.deliveries_waiting), (5024, 0, 0));
    let stored = read(&options, i64::MIN..i64::MAX, None, &[]);
    assert_eq!(rows(&stored), rows(&written));

    // the position is lost, so everything is written again, now from segments whose rows have another order
    std::fs::remove_file(dir.path().join("forward/forward")).expect("removed");
    assert_eq!(forward(dir.path(), &options).expect("forwarded").rows_forwarded, 5024);
    assert_eq!(rows(&read(&options, i64::MIN..i64::MAX, None, &[])), rows(&written));

    // nothing new, so nothing is written
    assert_eq!(forward(dir.path(), &options).expect("forwarded").rows_forwarded, 5024);
}

#[test]
fn a_range_some_columns_and_predicates_are_read() {
    let Some(cluster) = Cassandra::shared() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let options = options(&cluster, "bucket=1s&shards=2");
    // 400 ms each, over ten buckets
    write(dir.path(), (0..25).map(|at| numbered(at * 4000..(at + 1) * 4000)));
    forward(dir.path(), &options).expect("forwarded");
    let columns = [Column::FlowId, Column::DstPort];
    let range = BEGIN_MS + 1500..BEGIN_MS + 3500;
    let found = read(&options, range.clone(), Some(&columns), &[]);
    let of = |batches: &[FlowBatch]| {
        let values = batches.iter().filter_map(|batch| batch.primitive::<arrow::datatypes::UInt64Type>(Column::FlowId));
        let mut numbers: Vec<u64> = values.flat_map(|values| values.values().to_vec()).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(of(&found), (15_000..35_000).collect::<Vec<_>>());
    assert!(found.iter().all(|batch| batch.record_batch().num_columns() == 2));

    let port = |operator, number| Predicate { column: Column::DstPort, operator, operand: Operand::Number(number) };
    let ports = |number: &u64| (number % 4000) % 1024;
    let expected: Vec<_> = (15_000..35_000).filter(|number| ports(number) == 53).collect();
    assert_eq!(of(&read(&options, range.clone(), Some(&columns), &[port(Operator::Equal, 53)])), expected);
    let between = [port(Operator::GreaterOrEqual, 1000), port(Operator::Less, 1010)];
    let expected: Vec<_> = (15_000..35_000).filter(|number| (1000..1010).contains(&ports(number))).collect();
    assert_eq!(of(&read(&options, range.clone(), Some(&columns), &between)), expected);
    let address =
        Predicate { column: Column::SrcAddr, operator: Operator::Equal, operand: Operand::Octets(vec![0, 0, 0, 9]) };
    let expected: Vec<_> = (15_000..35_000).filter(|number| number % 4000 == 9).collect();
    assert_eq!(of(&read(&options, range, Some(&columns), &[address])), expected);
    let none = read(&options, BEGIN_MS - 86_400_000..BEGIN_MS, None, &[]);
    assert!(none.is_empty());
}

#[test]
fn export_packets_are_messages_that_anybody_can_read() {
    let Some(cluster) = Cassandra::shared() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let options = options(&cluster, "model=packets&shards=2&packet_flows=30");
    let archive = dir.path().join("archive");
    write(&archive, (0..5).map(|at| numbered(at * 4000..(at + 1) * 4000)));
    let counts = forward(&archive, &options).expect("forwarded");
    assert_eq!((counts.rows_forwarded, counts.rows_refused), (20_000, 0));
    let messages = |file: &std::path::Path| {
        let found = read_packets(&options);
        let octets: Vec<u8> = found.iter().flat_map(|packet| packet.message.clone()).collect();
        std::fs::write(file, octets).expect("a file");
        found
    };
    let file = dir.path().join("messages.ipfix");
    let packets = messages(&file);
    assert!(packets.iter().all(|packet| (1..=30).contains(&packet.flows)));
    assert_eq!(packets.iter().map(|packet| u64::from(packet.flows)).sum::<u64>(), 20_000);
    // seconds of 10,000 flows: some 134 packets for each delivery of a second
    assert!(packets.len() < 20_000 / 30 + 20, "{} packets", packets.len());
    let parameters = format!("files = ['{}']", file.display());
    let outcome = weir_chain::compliance::source(&weir_blocks::sources::capture_reader::KIND, &parameters);
    let rows = outcome.rows.expect("flows");
    let numbers = rows.column_by_name("flow_id").expect("numbers");
    let numbers = arrow::array::AsArray::as_primitive::<arrow::datatypes::UInt64Type>(numbers);
    let mut numbers: Vec<u64> = numbers.values().to_vec();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..20_000), "each flow once");

    // the same packets again, though deliveries come in another order of rows by now
    std::fs::remove_file(archive.join("forward/forward")).expect("removed");
    forward(&archive, &options).expect("forwarded");
    let sorted = |mut packets: Vec<weir_cassandra::ExportPacket>| {
        packets.sort_by(|a, b| a.message.cmp(&b.message));
        packets
    };
    assert_eq!(sorted(messages(&file)), sorted(packets));
}

#[test]
fn components_of_chains_keep_their_contracts() {
    let Some(cluster) = Cassandra::shared() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let parameters =
        format!("to = 'cassandra://{}/chains'\nbucket = '1m'\nspool = '{}'", cluster.hosts(), dir.path().display());
    let flows = numbered(0..3000);
    let counters =
        weir_chain::compliance::sink(&weir_cassandra::sink::KIND, &parameters, &[flows.record_batch().clone()], 700);
    let counter = |name: &str| counters.iter().find(|(known, _)| *known == name).expect("a counter").1;
    assert_eq!([counter("rows_spooled"), counter("rows_forwarded"), counter("rows_lost")], [3000, 3000, 0]);

    let outcome = weir_chain::compliance::source(
        &weir_cassandra::source::KIND,
        &format!("to = 'cassandra://{}/chains'", cluster.hosts()),
    );
    assert_eq!(outcome.counter("rows_read"), 3000);
    let found = FlowBatch::try_new(outcome.rows.expect("flows")).expect("flows");
    assert_eq!(rows([&found]), rows([&flows]));
}
