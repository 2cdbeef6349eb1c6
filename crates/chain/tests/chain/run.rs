//! The same rows whatever the threads and bursts.

use weir_chain::Progress;

use crate::components::{parse_with, taken};

fn run(text: &str, settings: &[&str]) -> Progress {
    let (progress, ended) = parse_with(text, settings).expect("a chain").start().expect("started").wait();
    ended.expect("no failure");
    progress
}

/// Two sources, a component behind each, their merge, and a sink; the numbers of the two interleave unevenly.
fn merging(into: &str) -> String {
    format!(
        "
[components.one]
type = \"numbers\"
count = 5000
step = 3
[components.two]
type = \"numbers\"
count = 9000
first = 700
step = 2
[components.a]
type = \"pass\"
inputs = [\"one\"]
[components.b]
type = \"pass\"
inputs = [\"two\"]
[components.merge]
type = \"merge\"
inputs = {{ left = \"a\", right = \"b\" }}
[components.c]
type = \"pass\"
inputs = [\"merge\"]
[components.sink]
type = \"note\"
inputs = [\"c\"]
into = \"{into}\"
"
    )
}

fn merged() -> Vec<u64> {
    let mut values: Vec<u64> = (0..5000).map(|n| n * 3).chain((0..9000).map(|n| 700 + n * 2)).collect();
    values.sort_unstable();
    values
}

#[test]
fn any_threads_and_any_bursts_give_the_same_rows() {
    let all_in_one = ["one", "two", "a", "b", "merge", "c", "sink"].map(|component| format!("{component}.thread=main"));
    let each_its_own =
        ["one", "two", "a", "b", "merge", "c", "sink"].map(|component| format!("{component}.thread=own"));
    let sources_together = ["one.thread=in", "two.thread=in", "c.thread=own"].map(str::to_owned);
    let crossed = ["one.thread=x", "two.thread=y", "a.thread=z", "b.thread=z", "merge.thread=own"].map(str::to_owned);
    let assignments = [&[][..], &all_in_one, &each_its_own, &sources_together, &crossed];
    for (number, threads) in assignments.iter().enumerate() {
        for (burst, queue) in [(0, 1), (1, 3), (7, 1), (64, 2), (1000, 100)] {
            let into = format!("threads {number} bursts {burst}");
            let sizes = [format!("burst_records={burst}"), format!("queue_bursts={queue}")];
            let settings: Vec<_> = threads.iter().chain(&sizes).map(String::as_str).collect();
            let progress = run(&merging(&into), &settings);
            assert_eq!(taken(&into).values, merged(), "{into}");
            assert!(taken(&into).finished);
            assert_eq!(progress.component("sink").expect("a sink").rows_in, 14_000);
            assert!(progress.queues.iter().all(|queue| queue.held == 0), "{into}: {:?}", progress.queues);
        }
    }
}

#[test]
fn a_lagging_input_holds_the_other_back() {
    // the right input begins long after the end of the left one's first numbers, and both have threads of their own
    let far = merging("held").replace("first = 700", "first = 100000");
    let settings = ["a.thread=own", "b.thread=own", "burst_records=10", "queue_bursts=2"];
    let progress = run(&far, &settings);
    let kept = progress.component("merge").expect("merge").counter("kept_max");
    assert!(kept <= 200, "{kept} numbers kept, although the queue could have held them back");
    assert_eq!(taken("held").values.len(), 14_000);
}

#[test]
fn a_diamond_does_not_stall() {
    // both inputs of the merge come from one source; one branch keeps everything until the end
    let text = "
queue_bursts = 1
burst_records = 10
[components.source]
type = \"numbers\"
[components.fast]
type = \"pass\"
inputs = [\"source\"]
thread = \"own\"
[components.slow]
type = \"pass\"
hold = true
inputs = [\"source\"]
thread = \"own\"
[components.merge]
type = \"merge\"
inputs = { left = \"fast\", right = \"slow\" }
[components.sink]
type = \"note\"
inputs = [\"merge\"]
into = \"diamond\"
";
    run(text, &[]);
    let expected: Vec<u64> = (0..10_000).flat_map(|number| [number, number]).collect();
    assert_eq!(taken("diamond").values, expected);
    run(text, &["fast.thread=x", "slow.thread=x", "sink.into=\"diamond in two threads\""]);
    assert_eq!(taken("diamond in two threads").values, expected);
}

#[test]
fn queues_cut_and_join_bursts() {
    let text = "
burst_records = 256
[components.source]
type = \"numbers\"
count = 1000
[components.sink]
type = \"note\"
inputs = [\"source\"]
thread = \"own\"
into = \"cut\"
";
    let progress = run(text, &[]);
    assert_eq!(taken("cut").values, (0..1000).collect::<Vec<_>>());
    assert_eq!(taken("cut").bursts, 4, "three of 256 and one of 232");
    assert_eq!((progress.queues[0].bursts, progress.queues[0].rows), (4, 1000));
    run(text, &["burst_records=0", "sink.into=uncut"]);
    assert_eq!(taken("uncut").bursts, 10, "as the source makes them");
}

#[test]
fn all_behind_an_output_see_the_same_rows() {
    let text = "
[components.source]
type = \"numbers\"
count = 500
[components.one]
type = \"note\"
inputs = [\"source\"]
into = \"fan one\"
[components.two]
type = \"note\"
inputs = [\"source\"]
thread = \"own\"
into = \"fan two\"
";
    let progress = run(text, &[]);
    assert_eq!(taken("fan one").values, taken("fan two").values);
    assert_eq!(progress.component("source").expect("a source").rows_out, 500);
}
