//! How chains end: sources first, last and failing midway; by request; by a component that fails or panics.

use std::time::Duration;

use weir_chain::{ChainError, Progress};

use crate::components::{parse_with, taken};

const TWO_SOURCES: &str = "
burst_records = 50
queue_bursts = 4
[components.one]
type = \"numbers\"
count = 20000
[components.two]
type = \"numbers\"
count = 20000
[components.hold]
type = \"pass\"
hold = true
inputs = [\"two\"]
thread = \"own\"
[components.first]
type = \"note\"
inputs = [\"one\"]
thread = \"own\"
into = \"\"
[components.second]
type = \"note\"
inputs = [\"hold\"]
thread = \"own\"
into = \"\"
";

fn run(name: &str, settings: &[&str]) -> (Progress, Result<(), ChainError>) {
    let into = [format!("first.into={name} first"), format!("second.into={name} second")];
    let settings: Vec<_> = into.iter().map(String::as_str).chain(settings.iter().copied()).collect();
    parse_with(TWO_SOURCES, &settings).expect("a chain").start().expect("started").wait()
}

fn is_prefix(values: &[u64]) -> bool {
    values.iter().enumerate().all(|(at, &value)| value == at as u64)
}

#[test]
fn a_source_may_end_long_before_the_other() {
    for (name, setting) in [("first ends", "one.count=1"), ("last ends", "two.count=1"), ("empty", "one.count=0")] {
        let (progress, ended) = run(name, &[setting]);
        ended.expect("no failure");
        for sink in ["first", "second"] {
            let taken = taken(&format!("{name} {sink}"));
            assert!(taken.finished && is_prefix(&taken.values), "{name} {sink}");
            assert_eq!(taken.values.len() as u64, progress.component(sink).expect("a sink").rows_in);
        }
    }
}

#[test]
fn a_source_that_fails_midway_stops_the_chain_and_loses_nothing_it_gave() {
    let (progress, ended) = run("fails", &["two.fail_after=1234", "one.endless=true"]);
    let error = ended.expect_err("a failure");
    assert!(matches!(&error, ChainError::Failed { component, .. } if component == "two"), "{error}");
    assert_eq!(taken("fails second").values, (0..1234).collect::<Vec<_>>(), "held rows are handed on");
    assert!(taken("fails first").finished, "the other branch ends in order");
    assert_eq!(taken("fails first").values.len() as u64, progress.component("one").expect("a source").rows_out);
}

#[test]
fn a_block_that_fails_or_panics_is_named_and_the_others_end_in_order() {
    for (name, how) in [("error", "hold.how=error"), ("panic", "hold.how=panic")] {
        let (progress, ended) = run(name, &[how, "hold.fail_after=777", "one.endless=true", "two.endless=true"]);
        let error = ended.expect_err("a failure");
        match (&error, name) {
            (ChainError::Failed { component, source }, "error") => {
                assert_eq!((component.as_str(), source.chain().as_str()), ("hold", "cannot go on: no more paper"));
            }
            (ChainError::Panicked { component, message }, "panic") => {
                assert_eq!((component.as_str(), message.as_str()), ("hold", "the component is broken"));
            }
            _ => panic!("{error:?}"),
        }
        let first = taken(&format!("{name} first"));
        assert!(first.finished, "{name}: the other branch ends in order");
        assert_eq!(first.values.len() as u64, progress.component("one").expect("a source").rows_out);
        assert!(taken(&format!("{name} second")).finished, "{name}: what is behind the component is closed");
        let (source, hold) =
            (progress.component("two").expect("a source"), progress.component("hold").expect("a component"));
        let queue = progress.queues.iter().find(|queue| progress.components[queue.to].name == "hold").expect("a queue");
        assert!(hold.rows_in <= queue.rows && queue.rows <= source.rows_out, "{progress:?}");
        let accounted = hold.rows_in + hold.rows_discarded + source.rows_discarded;
        assert_eq!(source.rows_out, accounted, "each row was taken or counted as discarded: {progress:?}");
    }
}

#[test]
fn stopping_ends_endless_sources_and_keeps_what_they_gave() {
    let settings = ["one.endless=true", "two.endless=true", "first.into=stop first", "second.into=stop second"];
    let running = parse_with(TWO_SOURCES, &settings).expect("a chain").start().expect("started");
    while running.progress().component("hold").is_none_or(|hold| hold.rows_in < 1000) {
        std::thread::yield_now();
    }
    running.stop();
    assert!(running.wait_for(Duration::from_mins(1)), "it ends");
    let (progress, ended) = running.wait();
    ended.expect("no failure");
    for (source, sink) in [("one", "first"), ("two", "second")] {
        let taken = taken(&format!("stop {sink}"));
        assert_eq!(taken.values.len() as u64, progress.component(source).expect("a source").rows_out, "{sink}");
        assert!(taken.finished && is_prefix(&taken.values));
    }
}

#[test]
fn a_full_sink_ends_what_only_it_took_rows_from() {
    let (progress, ended) = run("full", &["first.rows_max=120", "one.endless=true"]);
    ended.expect("no failure");
    assert_eq!(taken("full first").values, (0..120).collect::<Vec<_>>());
    assert!(taken("full first").finished && progress.component("one").expect("a source").ended);
    assert_eq!(taken("full second").values.len(), 20_000, "the other branch goes on to its end");
}

#[test]
fn a_sink_that_fails_stops_the_chain() {
    for threads in [&["first.fail_after=500"][..], &["first.fail_after=500", "first.thread=one"]] {
        let name = format!("sink fails {}", threads.len());
        let (_, ended) = run(&name, &[threads, &["one.endless=true", "two.endless=true"]].concat());
        assert!(matches!(ended, Err(ChainError::Failed { component, .. }) if component == "first"));
        assert_eq!(taken(&format!("{name} first")).values, (0..500).collect::<Vec<_>>(), "what was written stays");
        assert!(taken(&format!("{name} second")).finished);
    }
}

#[test]
fn a_block_that_cannot_be_opened_is_named() {
    let error = parse_with(TWO_SOURCES, &["first.into=x"]).expect("a chain").start().expect_err("a failure");
    assert!(matches!(&error, ChainError::Open { component, .. } if component == "second"), "{error}");
}

#[test]
fn dropping_a_chain_ends_it() {
    let settings = ["one.endless=true", "two.endless=true", "first.into=drop first", "second.into=drop second"];
    drop(parse_with(TWO_SOURCES, &settings).expect("a chain").start().expect("started"));
    assert!(taken("drop first").finished && taken("drop second").finished);
}
