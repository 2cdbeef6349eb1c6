//! The decoders against other implementations' answers, over the whole corpus.
//!
//! Every capture and payload file goes through the capture reader and the decoder. What comes out is compared with
//! what other programs say about the same octets, with what `weir_wire` alone finds, and with itself when the
//! datagrams come in reverse. What differs and is no defect stands in the table of `known.rs` with its reason.

mod inputs;
mod rows;
mod walk;

mod events;
mod expected;
mod placement;
mod times;

mod books;
mod captures;
mod doctor;
mod logstash;
mod malformed;
mod netgauze;
mod order;
mod pmacct;
mod sctp_tshark;
mod sflow;
mod sflow_telegraf;
mod sflow_tshark;
mod telegraf;
mod tshark;
mod verdicts;

mod known;
mod outcome;
mod report;

use outcome::Case;
use weir_testkit::pages;

/// Checks an oracle: no difference but the known ones, and at least so many values compared.
fn agrees(oracle: &str, values_min: usize) {
    let Some(cases) = outcome::cases() else { return };
    let present: Vec<_> = cases.iter().map(|case: &Case| case.input.label()).collect();
    let complaints = outcome::complaints(oracle, &present, &outcome::differences(cases, oracle));
    let values: usize = cases.iter().filter_map(|case| case.verdicts.get(oracle)).map(|verdict| verdict.values).sum();
    assert!(complaints.is_empty(), "{values} values compared\n{}", complaints.join("\n"));
    assert!(values >= values_min, "only {values} values were compared");
}

#[test]
fn netgauze_agrees() {
    agrees("NetGauze", 60_000);
}

#[test]
fn logstash_agrees() {
    agrees("logstash", 500);
}

#[test]
fn telegraf_agrees() {
    agrees("telegraf", 500);
}

#[test]
fn pmacct_agrees() {
    let Some(folders) = outcome::pmacct() else { return };
    let present: Vec<_> = folders.iter().map(|folder| folder.label.clone()).collect();
    let mut found = outcome::Differences::new();
    for folder in folders {
        outcome::count(&folder.label, &folder.verdict, &mut found);
    }
    let complaints = outcome::complaints("pmacct", &present, &found);
    let keys: usize = folders.iter().map(|folder| folder.verdict.records).sum();
    assert!(complaints.is_empty(), "{keys} keys compared\n{}", complaints.join("\n"));
    assert!(keys >= 200, "only {keys} keys were compared");
}

#[test]
fn tshark_agrees() {
    let Some((cases, verdicts)) = outcome::cases().zip(outcome::tshark()) else { return };
    let mut found = outcome::Differences::new();
    let mut values = 0;
    for (case, verdict) in cases.iter().zip(verdicts) {
        outcome::count(&case.input.label(), verdict, &mut found);
        values += verdict.values;
    }
    let present: Vec<_> = cases.iter().map(|case| case.input.label()).collect();
    let complaints = outcome::complaints("tshark", &present, &found);
    assert!(complaints.is_empty(), "{values} values compared\n{}", complaints.join("\n"));
    assert!(values >= 100_000, "only {values} values were compared");
}

/// Checks an oracle of sFlow.
fn agrees_on_sflow(oracle: &str, verdicts: &[Option<&expected::Verdict>], values_min: usize) {
    let Some(cases) = sflow::cases() else { return };
    let mut found = outcome::Differences::new();
    let mut values = 0;
    for (case, verdict) in cases.iter().zip(verdicts) {
        let Some(verdict) = verdict else { continue };
        outcome::count(&case.label(), verdict, &mut found);
        values += verdict.values;
    }
    let present: Vec<_> = cases.iter().map(sflow::Case::label).collect();
    let complaints = outcome::complaints(oracle, &present, &found);
    assert!(complaints.is_empty(), "{values} values compared\n{}", complaints.join("\n"));
    assert!(values >= values_min, "only {values} values were compared");
}

#[test]
fn tshark_agrees_on_sflow() {
    let Some(verdicts) = sflow::tshark() else { return };
    agrees_on_sflow("tshark on sFlow", &verdicts.iter().map(Some).collect::<Vec<_>>(), 60_000);
}

#[test]
fn telegraf_agrees_on_sflow() {
    let Some(cases) = sflow::cases() else { return };
    let verdicts: Vec<_> = cases.iter().map(|case| case.telegraf.as_ref()).collect();
    agrees_on_sflow("telegraf on sFlow", &verdicts, 80);
}

#[test]
fn spoiled_sflow_costs_no_more_than_itself() {
    let Some(cases) = sflow::cases() else { return };
    let complaints: Vec<_> = cases.iter().flat_map(sflow::unbalanced).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let fed: usize = cases.iter().map(sflow::spoil).sum();
    assert!(fed > 10_000, "only {fed} datagrams were fed");
}

#[test]
fn every_field_is_in_its_column_or_among_the_elements() {
    agrees("columns", 100_000);
}

#[test]
fn every_options_record_is_in_its_table() {
    let Some(cases) = outcome::cases() else { return };
    let (mut compared, mut kinds) = (0, std::collections::BTreeMap::new());
    for case in cases {
        for record in case.messages.iter().flat_map(walk::Message::records).filter(|record| record.scopes > 0) {
            let fields = record.fields.iter().filter(|field| !field.scope_type && field.length > 0);
            let wanted: Vec<_> =
                fields.map(|field| (field.element.enterprise, field.element.id, field.octets.clone())).collect();
            let row = case.decoded.options.iter().find(|row| row.elements == wanted);
            let row = row.unwrap_or_else(|| panic!("{}: no row for {record:?}", case.input.label()));
            compared += 1;
            *kinds.entry(row.kind.as_str()).or_insert(0) += 1;
            let text = |id: u16| record.iana(id).and_then(|field| expected::text(&field.octets));
            let named = text(82).or_else(|| text(96)).or_else(|| text(236)).or_else(|| text(341)).or_else(|| text(84));
            assert_eq!(
                row.name,
                named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()),
                "{record:?}"
            );
        }
        assert!(case.decoded.options.len() as u64 <= case.decoded.statistics.total(weir_flow::Counter::RecordsOptions));
    }
    println!("{compared} records: {kinds:?}");
    assert!(compared >= 700 && kinds.len() >= 5, "only {compared} records were compared: {kinds:?}");
}

#[test]
fn data_before_templates_yield_the_same_flows() {
    agrees("order", 100);
}

#[test]
fn the_books_of_every_input_balance() {
    let Some(cases) = outcome::cases() else { return };
    let complaints = cases.iter().flat_map(|case| {
        books::check(case).into_iter().map(|complaint| format!("{}: {complaint}", case.input.label()))
    });
    let complaints: Vec<_> = complaints.collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_doctor_finds_no_fault_where_there_is_none() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let (examined, complaints) = doctor::check(&corpus);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(examined >= 10, "only {examined} captures were examined");
}

#[test]
fn spoiled_datagrams_cost_no_more_than_themselves() {
    let Some(cases) = outcome::cases() else { return };
    let mut fed = 0;
    for case in cases {
        let (spoiled, complaints) = malformed::spoil(case);
        assert!(complaints.is_empty(), "{}: {}", case.input.label(), complaints.join(", "));
        fed += spoiled;
    }
    assert!(fed > 10_000, "only {fed} datagrams were fed");
}

#[test]
fn captures_of_any_traffic_are_read_to_their_end() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let (same, complaints) = captures::check(&corpus);
    assert!(complaints.is_empty(), "{same} captures agree\n{}", complaints.join("\n"));
    assert!(same >= 1_400, "only {same} captures agree");
}

#[test]
fn captures_cut_short_are_read_as_far_as_they_go() {
    let Some((cases, corpus)) = outcome::cases().zip(weir_testkit::corpus()) else { return };
    let mut cuts = 0;
    for case in cases.iter().filter(|case| case.input.files[0].contains(".pcap")) {
        let path = corpus.join(&case.input.files[0]);
        cuts += malformed::cut_capture(&path, &inputs::read_capture(&path));
    }
    assert!(cuts > 1_000, "only {cuts} cuts were read");
}

#[test]
fn malformed_files_get_the_verdicts_of_their_authors() {
    let Some((cases, corpus)) = outcome::cases().zip(weir_testkit::corpus()) else { return };
    let (present, complaints) = verdicts::check(cases);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let (warnings, complaints) = verdicts::check_ipfixcol(&corpus, cases);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(present >= 8 && warnings >= 5, "only {present} files and {warnings} warnings were compared");
}

#[test]
fn new_and_vanished_differences_are_complained_of() {
    let known = &known::KNOWN[0];
    let present = [known.input.to_owned()];
    let times = |times| {
        let difference = ((known.input.to_owned(), known.field.to_owned()), (times, String::new()));
        outcome::complaints(known.oracle, &present, &outcome::Differences::from([difference])).len()
    };
    let others = known::KNOWN.iter().filter(|other| other.oracle == known.oracle && other.input == known.input).count();
    assert_eq!((times(known.times), times(known.times + 1)), (others - 1, others));
    assert_eq!(outcome::complaints(known.oracle, &present, &outcome::Differences::new()).len(), others);
    let new = ((known.input.to_owned(), "new".to_owned()), (1, String::new()));
    assert_eq!(outcome::complaints(known.oracle, &present, &outcome::Differences::from([new])).len(), others + 1);
}

#[test]
fn the_report_is_fresh() {
    let (Some(cases), Some(tshark), Some(pmacct)) = (outcome::cases(), outcome::tshark(), outcome::pmacct()) else {
        return;
    };
    let (Some(sflow), Some(sflow_tshark)) = (sflow::cases(), sflow::tshark()) else { return };
    let page = report::page(&report::Findings { cases, tshark, pmacct, sflow, sflow_tshark });
    let is_other = report::fingerprint(&pages::committed(report::PAGE)) != report::fingerprint(&page);
    if std::env::var_os("WEIR_CORPUS").is_some() && is_other && !pages::are_written() {
        weir_testkit::skip("page-corpus", "the page was written from another corpus");
        return;
    }
    pages::check(report::PAGE, &page);
}
