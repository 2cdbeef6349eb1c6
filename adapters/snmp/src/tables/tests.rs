use arrow::array::{Array, AsArray};
use arrow::datatypes::{UInt32Type, UInt64Type};
use weir_chain::OptionText;

use super::*;

const HOUR_MS: i64 = 3_600_000;

fn polled(interfaces: &[(u32, &str)]) -> Polled {
    let named = |(index, name): &(u32, &str)| (*index, Interface::named(name));
    Polled { interfaces: interfaces.iter().map(named).collect(), uptime_ms: Some(5000), ..Polled::default() }
}

fn maker(text: &str) -> RowMaker {
    RowMaker::new(&PolledExporter::parse_text(text).expect("an exporter"))
}

#[test]
fn names_are_written_when_they_are_new_or_others_and_once_an_hour() {
    let mut maker = maker("192.0.2.1");
    let mut written =
        |interfaces: &[(u32, &str)], at_ms: i64| maker.rows(&polled(interfaces), UnreadTexts::default(), at_ms).1;
    assert_eq!(written(&[(1, "lo"), (2, "eth0")], 1000), 2);
    assert_eq!(written(&[(1, "lo"), (2, "eth0")], 2000), 0);
    assert_eq!(written(&[(1, "lo"), (2, "uplink")], 3000), 1);
    assert_eq!(written(&[(1, "lo"), (2, "uplink")], 1000 + HOUR_MS), 1);
    assert_eq!(written(&[(2, "uplink")], 2000 + HOUR_MS), 0);
    assert_eq!(written(&[(1, "lo"), (2, "uplink")], 3000 + HOUR_MS), 2, "one came back, one is an hour old");
    assert_eq!(written(&[(1, "lo"), (2, "uplink")], 500), 2, "the clock was set back");
}

#[test]
fn where_names_were_lost_those_that_were_written_stay() {
    let (mut maker, all) = (maker("192.0.2.1"), UnreadTexts::default());
    assert_eq!(maker.rows(&polled(&[(1, "lo"), (2, "eth0")]), all, 1000).1, 2);
    let lost = Polled { interfaces: [(1, Interface::of_type(6))].into(), ..Polled::default() };
    let (tables, names) = maker.rows(&lost, UnreadTexts::of(&Text::ALL), 2000);
    assert_eq!((tables.others.len(), tables.others[0].table(), names), (1, Table::InterfaceCounters, 0));
    assert_eq!(maker.rows(&polled(&[(1, "lo"), (2, "eth0")]), all, 3000).1, 0, "they are as they were");
    assert_eq!(maker.rows(&Polled::default(), UnreadTexts::of(&Text::ALL), 4000).0.others.len(), 0);
}

#[test]
fn a_name_without_its_alias_has_the_description_that_was_written() {
    let (mut maker, alias) = (maker("192.0.2.1"), UnreadTexts::of(&[Text::Alias]));
    let described = |name: &str| {
        let interface = Interface::named(name).described("to Berlin");
        Polled { interfaces: [(2, interface)].into(), ..Polled::default() }
    };
    let texts = |tables: &SideTables| {
        let batch = tables.others[0].record_batch();
        let text = |column: &str| {
            let texts = batch.column_by_name(column).expect(column).as_string::<i32>();
            texts.is_valid(0).then(|| texts.value(0).to_owned())
        };
        (text("name"), text("description"))
    };
    let text = |text: &str| Some(text.to_owned());
    let (tables, names) = maker.rows(&polled(&[(2, "eth0")]), alias, 1000);
    assert_eq!((names, texts(&tables)), (1, (text("eth0"), None)), "nothing is known of it yet");
    let (tables, names) = maker.rows(&described("eth0"), UnreadTexts::default(), 2000);
    assert_eq!((names, texts(&tables)), (1, (text("eth0"), text("to Berlin"))));
    assert_eq!(maker.rows(&polled(&[(2, "eth0")]), alias, 3000).1, 0);
    let (tables, names) = maker.rows(&polled(&[(2, "uplink")]), alias, 4000);
    assert_eq!((names, texts(&tables)), (1, (text("uplink"), text("to Berlin"))));
}

#[test]
fn interfaces_that_are_gone_are_forgotten_though_descriptions_are_never_read() {
    let (mut maker, alias) = (maker("192.0.2.1"), UnreadTexts::of(&[Text::Alias]));
    for index in 1..100 {
        assert_eq!(maker.rows(&polled(&[(index, "eth0")]), alias, 1000).1, 1);
        assert_eq!(maker.written.len(), 1);
    }
}

#[test]
fn rows_are_those_of_options_data_and_of_sflow() {
    let mut maker = maker("192.0.2.1=10.0.0.1");
    let (tables, _) = maker.rows(&polled(&[(7, "eth0")]), UnreadTexts::default(), 1_700_000_000_000);
    let [names, counters] = &tables.others[..] else { panic!("two tables, not {}", tables.others.len()) };
    assert_eq!((names.table(), counters.table()), (Table::ExporterOptions, Table::InterfaceCounters));
    let column = |batch: &TableBatch, name: &str| Arc::clone(batch.record_batch().column_by_name(name).expect(name));
    assert_eq!(column(names, "exporter").as_binary::<i32>().value(0), [192, 0, 2, 1]);
    assert_eq!(column(names, "key").as_primitive::<UInt64Type>().value(0), 7);
    assert_eq!(column(names, "name").as_string::<i32>().value(0), "eth0");
    assert_eq!(column(names, "kind").as_string::<i32>().value(0), "interface");
    assert_eq!(column(counters, "exporter").as_binary::<i32>().value(0), [192, 0, 2, 1]);
    assert_eq!(column(counters, "sender").as_binary::<i32>().value(0), [10, 0, 0, 1]);
    for (name, value) in [("source_class", 0), ("source_index", 7), ("if_index", 7), ("uptime_ms", 5000)] {
        assert_eq!(column(counters, name).as_primitive::<UInt32Type>().value(0), value, "{name}");
    }
    assert!(column(counters, "in_errors").is_null(0), "SNMP was not asked for it");
    let (same, _) = maker.rows(&polled(&[(7, "eth0")]), UnreadTexts::default(), 1_700_000_001_000);
    assert_eq!(same.others.len(), 1, "the name is known, the counters are new");
}
