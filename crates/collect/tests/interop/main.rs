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

mod logstash;
mod netgauze;
mod order;
mod pmacct;
mod telegraf;

mod known;
mod outcome;

use outcome::Case;

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
    let Some((cases, corpus)) = outcome::cases().zip(weir_testkit::corpus()) else { return };
    let folders = pmacct::check(&corpus, cases);
    let present: Vec<_> = folders.iter().map(|folder| folder.label.clone()).collect();
    let mut found = outcome::Differences::new();
    for folder in &folders {
        outcome::count(&folder.label, &folder.verdict, &mut found);
    }
    let complaints = outcome::complaints("pmacct", &present, &found);
    let keys: usize = folders.iter().map(|folder| folder.verdict.records).sum();
    assert!(complaints.is_empty(), "{keys} keys compared\n{}", complaints.join("\n"));
    assert!(keys >= 200, "only {keys} keys were compared");
}

#[test]
fn every_field_is_in_its_column_or_among_the_elements() {
    agrees("columns", 100_000);
}

#[test]
fn data_before_templates_yield_the_same_flows() {
    agrees("order", 100);
}
