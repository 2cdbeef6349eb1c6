//! Windows of the stream against a model that looks at one row at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use weir_flow::Column;
use weir_sql::standing::{
    PaneRows, QuerySetup, StandingEngine, StandingOptions, Window, WindowKind, WindowMemory, WindowPane, WindowRows,
    WindowSpec,
};
use weir_watch::panes::{ClosedWindow, PaneCounts, PaneOptions, Panes};
use weir_watch::{Backtest, RunnerOptions};

use crate::scene::{Flow, NEW_YEAR_MS, Random, archive, batch, lines, traffic, watch};

fn options(size_ms: i64, slide_ms: i64, lateness_ms: i64, time: Column) -> PaneOptions {
    let kind = WindowKind { size_ms, slide_ms, offset_ms: 0 };
    PaneOptions {
        windows: vec![Some(WindowSpec { kind, time })],
        columns: vec![Column::Bytes, time],
        lateness_ms,
        late_ms: 0,
        skew_ms: 60_000,
        rows_max: u64::MAX,
        empty_windows: false,
    }
}

/// The `bytes` of the rows of windows, by when they end.
fn rows_of(closed: &[ClosedWindow]) -> BTreeMap<i64, Vec<u64>> {
    let mut rows = BTreeMap::new();
    for window in closed {
        let batches = window.rows.iter().flat_map(WindowRows::batches);
        let mut found: Vec<u64> = batches
            .flat_map(|batch| {
                batch.column_by_name("bytes").expect("bytes").as_primitive::<UInt64Type>().values().to_vec()
            })
            .collect();
        found.sort_unstable();
        assert!(rows.insert(window.end_ms, found).is_none(), "window {} twice", window.end_ms);
    }
    rows
}

/// What windows hold when each row is looked at alone.
fn model(flows: &[Flow], options: &PaneOptions, until_ms: i64) -> (BTreeMap<i64, Vec<u64>>, u64, u64) {
    let spec = options.windows[0].expect("a window");
    let WindowKind { size_ms, slide_ms, .. } = spec.kind;
    let mut open: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    let mut closed = BTreeMap::new();
    let (mut latest, mut late, mut dropped) = (i64::MIN, 0, 0);
    let mut edge = i64::MIN;
    let close = |open: &mut BTreeMap<i64, Vec<u64>>, closed: &mut BTreeMap<i64, Vec<u64>>, edge: i64| {
        let still = open.split_off(&(edge + 1));
        closed.append(&mut std::mem::replace(open, still));
    };
    for flow in flows {
        let time_ms = if spec.time == Column::Start { flow.start_ms } else { flow.received_ms };
        if time_ms > latest {
            if edge == i64::MIN {
                edge = (time_ms - options.lateness_ms).div_euclid(slide_ms) * slide_ms;
            }
            latest = time_ms;
            edge = edge.max((latest - options.lateness_ms).div_euclid(slide_ms) * slide_ms);
            close(&mut open, &mut closed, edge);
        }
        let first = time_ms.div_euclid(slide_ms) * slide_ms + slide_ms;
        let ends: Vec<i64> = (0..size_ms / slide_ms).map(|slides| first + slides * slide_ms).collect();
        if first <= edge {
            late += 1;
            dropped += u64::from(ends.iter().all(|end| *end <= edge));
        }
        for end in ends.into_iter().filter(|end| *end > edge) {
            open.entry(end).or_default().push(flow.bytes);
        }
    }
    close(&mut open, &mut closed, (until_ms - options.lateness_ms).div_euclid(slide_ms) * slide_ms);
    for rows in closed.values_mut() {
        rows.sort_unstable();
    }
    (closed, late, dropped)
}

/// Flows in disorder: starts are spread, and now and then nothing comes for long.
fn disorder(seed: u64) -> Vec<Flow> {
    let mut random = Random::new(seed);
    let mut now_ms = NEW_YEAR_MS;
    (0..2_000)
        .map(|number| {
            now_ms += if random.below(300) == 0 { 40_000 } else { random.below(60) as i64 };
            let start_ms = now_ms - random.below(9_000) as i64;
            Flow { start_ms, bytes: number, ..Flow::new(now_ms, "10.0.0.1", "192.0.2.1") }
        })
        .collect()
}

#[test]
fn windows_are_those_of_a_model_however_flows_are_delivered() {
    for seed in 0..40 {
        let mut random = Random::new(seed + 1_000);
        let flows = disorder(seed);
        let slide_ms = [1_000, 2_000, 5_000][random.below(3) as usize];
        let size_ms = slide_ms * (1 + random.below(6) as i64);
        let lateness_ms = [0, 0, 500, 3_000, 20_000][random.below(5) as usize];
        let time = [Column::Start, Column::Received][random.below(2) as usize];
        let options = options(size_ms, slide_ms, lateness_ms, time);
        let until_ms = flows.last().expect("flows").received_ms + 100_000;
        let (expected, late, dropped) = model(&flows, &options, until_ms);
        for _ in 0..3 {
            let mut panes = Panes::new(options.clone()).expect("windows");
            let (mut rest, mut closed) = (flows.as_slice(), Vec::new());
            while !rest.is_empty() {
                let (part, left) = rest.split_at(rest.len().min(1 + random.below(200) as usize));
                panes.take(batch(part).record_batch(), &mut closed);
                rest = left;
            }
            panes.advance(until_ms, &mut closed);
            assert_eq!(rows_of(&closed), expected, "seed {seed}: {size_ms} {slide_ms} {lateness_ms} {time:?}");
            let PaneCounts { rows, rows_late, rows_late_dropped, .. } = panes.counts();
            assert_eq!((rows, rows_late, rows_late_dropped), (flows.len() as u64, late, dropped), "seed {seed}");
            assert_eq!(panes.rows_kept(), 0, "all windows have closed");
        }
    }
}

/// With corrections, a window has in the end every row but those that came after it was kept.
#[test]
fn windows_that_are_given_again_have_the_late_rows() {
    for seed in 0..20 {
        let mut random = Random::new(seed + 7_000);
        let flows = disorder(seed);
        let slide_ms = [1_000, 2_000][random.below(2) as usize];
        let size_ms = slide_ms * (1 + random.below(4) as i64);
        let late_ms = [2_000, 5_000, 60_000][random.below(3) as usize];
        let options = PaneOptions { late_ms, ..options(size_ms, slide_ms, 0, Column::Start) };
        let until_ms = flows.last().expect("flows").received_ms + 200_000;
        let (mut expected, mut dropped) = (BTreeMap::<i64, Vec<u64>>::new(), 0);
        let edge_of = |ms: i64| ms.div_euclid(slide_ms) * slide_ms;
        let (first_ms, mut edge_ms) = (edge_of(flows[0].start_ms), i64::MIN);
        for flow in &flows {
            edge_ms = edge_ms.max(edge_of(flow.start_ms));
            let first = edge_of(flow.start_ms) + slide_ms;
            let ends = (0..size_ms / slide_ms).map(|slides| first + slides * slide_ms);
            let given: Vec<i64> =
                ends.filter(|end| *end > edge_ms || *end > (edge_ms - late_ms).max(first_ms)).collect();
            dropped += u64::from(given.is_empty());
            for end in given {
                expected.entry(end).or_default().push(flow.bytes);
            }
        }
        for rows in expected.values_mut() {
            rows.sort_unstable();
        }
        let mut panes = Panes::new(options.clone()).expect("windows");
        let (mut rest, mut closed) = (flows.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (part, left) = rest.split_at(rest.len().min(1 + random.below(200) as usize));
            panes.take(batch(part).record_batch(), &mut closed);
            rest = left;
        }
        panes.advance(until_ms, &mut closed);
        panes.advance(until_ms + 1_000_000, &mut closed);
        let mut last = BTreeMap::new();
        for window in &closed {
            let before = last.insert(window.end_ms, rows_of(std::slice::from_ref(window)).remove(&window.end_ms));
            assert!(before.is_none() || window.is_correction, "window {} twice", window.end_ms);
        }
        let last: BTreeMap<i64, Vec<u64>> =
            last.into_iter().map(|(end, rows)| (end, rows.unwrap_or_default())).collect();
        assert!(closed.iter().any(|window| window.is_correction));
        assert_eq!(last, expected, "seed {seed}: {size_ms} {slide_ms} {late_ms}");
        assert_eq!(panes.counts().rows_late_dropped, dropped);
        assert_eq!(panes.rows_kept(), 0);
    }
}

/// What panes made is combined, of live flows that come late and in disorder, and the rows are dropped.
#[test]
fn what_panes_made_is_combined_however_flows_are_delivered() {
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let text = "SELECT src_port, count(*) AS n, sum(bytes) AS s, min(bytes) AS l, max(bytes) AS u, count(DISTINCT dst_port) AS d \
                FROM HOP(flows, start, INTERVAL '1' SECOND, INTERVAL '9' SECOND) GROUP BY src_port";
    for seed in 0..6 {
        let mut random = Random::new(seed + 3_000);
        let mut flows = disorder(seed);
        for flow in &mut flows {
            flow.ports = (random.below(7) as u16, random.below(5) as u16);
        }
        let lateness_ms = [0, 500, 3_000][random.below(3) as usize];
        let options = options(9_000, 1_000, lateness_ms, Column::Start);
        let until_ms = flows.last().expect("flows").received_ms + 100_000;
        let (expected, _, _) = model(&flows, &options, until_ms);
        let setup = QuerySetup { time: Column::Start, ..QuerySetup::default() };
        let mut query = engine.prepare(text, &setup).expect("a statement");
        let options = PaneOptions { windows: query.windows().to_vec(), columns: query.columns().to_vec(), ..options };
        let mut panes = Panes::new(options).expect("windows");
        let (mut rest, mut waiting, mut answers, mut kept) = (flows.as_slice(), Vec::new(), BTreeMap::new(), 0);
        while !rest.is_empty() || !waiting.is_empty() {
            let (part, left) = rest.split_at(rest.len().min(1 + random.below(60) as usize));
            panes.take(batch(part).record_batch(), &mut waiting);
            rest = left;
            if rest.is_empty() {
                panes.advance(until_ms, &mut waiting);
            }
            // windows are answered some time after they have closed
            let ready = if rest.is_empty() { waiting.len() } else { random.below(waiting.len() as u64 + 1) as usize };
            for window in waiting.drain(..ready) {
                let answer = query.answer(&window.rows, None, Duration::from_mins(1)).expect("an answer");
                assert!(answers.insert(window.end_ms, lines(&answer)).is_none());
            }
            if waiting.is_empty() {
                kept = kept.max(panes.rows_kept());
            }
        }
        for (end_ms, bytes) in expected {
            let mut groups = BTreeMap::<u16, Vec<&Flow>>::new();
            for number in bytes {
                let flow = &flows[number as usize];
                groups.entry(flow.ports.0).or_default().push(flow);
            }
            let mut lines: Vec<String> = groups
                .into_iter()
                .map(|(port, flows)| {
                    let bytes: Vec<u64> = flows.iter().map(|flow| flow.bytes).collect();
                    let (sum, min, max) = (bytes.iter().sum::<u64>(), bytes.iter().min(), bytes.iter().max());
                    let ports: std::collections::BTreeSet<u16> = flows.iter().map(|flow| flow.ports.1).collect();
                    format!("{port},{},{sum},{},{},{}", flows.len(), min.expect("one"), max.expect("one"), ports.len())
                })
                .collect();
            lines.sort();
            assert_eq!(answers.remove(&end_ms), Some(lines), "seed {seed}, window until {end_ms}");
        }
        assert!(answers.is_empty());
        // of a window there are some 300 rows
        assert!(kept > 0 && panes.rows_kept() == 0, "{kept}");
    }
}

/// Statements that sum rows up, over one window of an hour.
const SUMS: [&str; 8] = [
    "SELECT src_port, count(*) AS n, sum(bytes) AS s, min(bytes) AS l, max(bytes) AS u, count(DISTINCT dst_port) AS d \
     FROM TUMBLE(flows, received, INTERVAL '1' HOUR) GROUP BY src_port",
    "SELECT count(*) AS n, avg(bytes) AS mean, sum(bytes_scaled) AS s FROM TUMBLE(flows, received, INTERVAL '1' HOUR)",
    "SELECT DISTINCT dst_port FROM TUMBLE(flows, received, INTERVAL '1' HOUR) WHERE bytes > 700",
    "WITH ports AS (SELECT dst_port, sum(bytes) AS bytes FROM TUMBLE(flows, received, INTERVAL '1' HOUR) GROUP BY 1) \
     SELECT dst_port, bytes FROM ports CROSS JOIN (SELECT max(bytes) AS most FROM ports) WHERE 2 * bytes > most",
    "SELECT src_port, p.n FROM (SELECT src_port, sum(bytes) AS n FROM TUMBLE(flows, received, INTERVAL '1' HOUR) GROUP BY 1) p \
     WHERE n > 10 ORDER BY n DESC LIMIT 3",
    // of some groups only, which the same window decides: ports from 4 on, and from 2 on
    "WITH many AS (SELECT src_port FROM TUMBLE(flows, received, INTERVAL '1' HOUR) GROUP BY 1 \
     HAVING src_port * count(*) >= 4 * count(*)) \
     SELECT w.src_port, w.dst_port, sum(w.bytes) AS s, count(*) AS n, min(w.start) AS l \
     FROM many JOIN TUMBLE(flows, received, INTERVAL '1' HOUR) w ON w.src_port = many.src_port WHERE w.bytes > 700 GROUP BY 1, 2",
    "SELECT dst_port, count(DISTINCT src_port) AS d FROM TUMBLE(flows, received, INTERVAL '1' HOUR) WHERE dst_port IN \
     (SELECT dst_port FROM TUMBLE(flows, received, INTERVAL '1' HOUR) GROUP BY 1 HAVING dst_port * count(*) >= 2 * count(*)) \
     GROUP BY dst_port",
    // below zero for most flows
    "SELECT src_port, sum(bytes) - sum(dst_port) AS b, sum(dst_port - bytes) AS s, min(dst_port - bytes) AS l \
     FROM TUMBLE(flows, received, INTERVAL '1' HOUR) GROUP BY src_port",
];

/// Of a window that is long, rows go while it is open.
#[test]
fn windows_that_were_aggregated_while_they_were_open_are_answered_alike() {
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let window = Window { start_ms: NEW_YEAR_MS, end_ms: NEW_YEAR_MS + 3_600_000 };
    for (seed, text) in (0..).zip(SUMS) {
        let mut random = Random::new(seed + 11_000);
        let mut flows = disorder(seed);
        for flow in &mut flows {
            flow.ports = (random.below(7) as u16, random.below(5) as u16);
        }
        let setup = QuerySetup::default();
        let mut plain = engine.prepare(text, &setup).expect("a statement");
        let mut early = engine.prepare_early(&plain, text, &setup).expect("a statement").expect(text);
        assert!(!plain.is_releasing() && early.columns() == plain.columns());
        let rows = |panes: Vec<WindowPane>| vec![WindowRows { window, panes }; plain.windows().len()];
        let (kept, mut rest) = (Arc::new(AtomicU64::new(0)), flows.as_slice());
        let pane = Arc::new(PaneRows::new(&kept));
        while rest.len() > 100 {
            let (part, left) = rest.split_at(rest.len().min(1 + random.below(200) as usize));
            pane.push(batch(part).record_batch().clone());
            rest = left;
            // of at most 42 groups
            if random.below(3) == 0 && pane.rows() >= 100 {
                let open = rows(vec![WindowPane::of(&pane)]);
                early.aggregate(&open, Duration::from_mins(1)).expect("aggregated");
                assert_eq!(pane.rows(), 0, "rows are gone: {text}");
                assert!(open[0].has_released());
            }
        }
        pane.push(batch(rest).record_batch().clone());
        assert!(kept.load(Ordering::Relaxed) < flows.len() as u64 / 2, "{text}");
        let found = early.answer(&rows(vec![WindowPane::of(&pane)]), None, Duration::from_mins(1)).expect("an answer");
        let all = rows(vec![WindowPane::single(vec![batch(&flows).record_batch().clone()])]);
        let expected = plain.answer(&all, None, Duration::from_mins(1)).expect("an answer");
        assert_eq!(lines(&found), lines(&expected), "{text}");
        assert!(!lines(&found).is_empty());
    }
    // nor may rows go of which a join keeps some of a group, or which overlapping windows share
    let some = "count(*) AS n FROM {w} WHERE src_port IN (SELECT src_port FROM {w} GROUP BY 1 HAVING count(*) > 3)";
    let window = "TUMBLE(flows, received, INTERVAL '1' HOUR)";
    let overlapping = "HOP(flows, received, INTERVAL '1' MINUTE, INTERVAL '1' HOUR)";
    for of_rows in [
        format!("median(bytes) FROM {window}"),
        format!("max(window_end) FROM {window}"),
        format!("dst_port, {} GROUP BY dst_port", some.replace("{w}", window)),
        format!("src_port, {} GROUP BY src_port", some.replace("{w}", overlapping)),
    ] {
        let text = format!("SELECT {of_rows}");
        let plain = engine.prepare(&text, &QuerySetup::default()).expect("a statement");
        assert!(engine.prepare_early(&plain, &text, &QuerySetup::default()).expect("a statement").is_none());
    }
}

/// A window that is open for long has each group again and again: what was made of parts of its rows is merged.
#[test]
fn what_was_aggregated_has_each_group_twice_at_most() {
    let distinct = "SELECT src_port, count(DISTINCT dst_port) AS d, sum(bytes) AS s FROM TUMBLE(flows, received, INTERVAL '1' HOUR) \
                    GROUP BY src_port";
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let window = Window { start_ms: NEW_YEAR_MS, end_ms: NEW_YEAR_MS + 3_600_000 };
    for text in [distinct, SUMS[1], SUMS[2], SUMS[4]] {
        let setup = QuerySetup::default();
        let mut plain = engine.prepare(text, &setup).expect("a statement");
        let mut early = engine.prepare_early(&plain, text, &setup).expect("a statement").expect(text);
        let relations = plain.windows().len();
        let rows = |panes: Vec<WindowPane>| vec![WindowRows { window, panes }; relations];
        let (kept, mut flows) = (Arc::new(AtomicU64::new(0)), Vec::new());
        let (memory, mut kept_max) = (WindowMemory::new(u64::MAX), 0);
        let pane = Arc::new(PaneRows::new(&kept).within(Some(&memory.question())));
        for seed in 0..40 {
            let mut part = traffic(seed, 200, NEW_YEAR_MS, 3_600_000);
            for (number, flow) in (0..).zip(&mut part) {
                // of 35 pairs of ports
                flow.ports = (number % 7, number % 5);
            }
            pane.push(batch(&part).record_batch().clone());
            flows.extend(part);
            early.aggregate(&rows(vec![WindowPane::of(&pane)]), Duration::from_mins(1)).expect("aggregated");
            kept_max = kept_max.max(kept.load(Ordering::Relaxed));
            assert_eq!(pane.size().aggregated_rows, kept.load(Ordering::Relaxed));
        }
        assert!(kept_max <= 2 * 35, "{kept_max}: {text}");
        let found = early.answer(&rows(vec![WindowPane::of(&pane)]), None, Duration::from_mins(1)).expect("an answer");
        let all = rows(vec![WindowPane::single(vec![batch(&flows).record_batch().clone()])]);
        let expected = plain.answer(&all, None, Duration::from_mins(1)).expect("an answer");
        assert_eq!(lines(&found), lines(&expected), "{text}");
        assert!(!lines(&found).is_empty());
        // what was made goes, too, and is known by the rows that it was made of
        pane.push(batch(&flows[..3]).record_batch().clone());
        assert_eq!(pane.drop_last(), 3);
        let gone: u64 = std::iter::from_fn(|| Some(pane.drop_last()).filter(|rows| *rows > 0)).sum();
        assert_eq!((gone, kept.load(Ordering::Relaxed), memory.octets()), (flows.len() as u64, 0, 0), "{text}");
        // so does a large part that another one came after, which was too small to be merged with it
        let pane = Arc::new(PaneRows::new(&kept).within(Some(&memory.question())));
        for part in [&flows[..2000], &flows[..1]] {
            pane.push(batch(part).record_batch().clone());
            early.aggregate(&rows(vec![WindowPane::of(&pane)]), Duration::from_mins(1)).expect("aggregated");
        }
        let gone: u64 = std::iter::from_fn(|| Some(pane.drop_last()).filter(|rows| *rows > 0)).sum();
        assert_eq!((gone, memory.octets()), (2001, 0), "{text}");
    }
}

/// Two aggregates may make twice as many groups as there are rows: rows stay until they have come often enough.
#[test]
fn rows_stay_where_all_their_groups_are_no_fewer() {
    let (engine, text, setup) =
        (StandingEngine::new(&StandingOptions::default()).expect("an engine"), SUMS[5], QuerySetup::default());
    let window = Window { start_ms: NEW_YEAR_MS, end_ms: NEW_YEAR_MS + 3_600_000 };
    let mut plain = engine.prepare(text, &setup).expect("a statement");
    let mut early = engine.prepare_early(&plain, text, &setup).expect("a statement").expect(text);
    let rows = |panes: Vec<WindowPane>| vec![WindowRows { window, panes }; plain.windows().len()];
    let flow = |port: u16| Flow { ports: (port, 443), ..Flow::new(NEW_YEAR_MS, "10.0.0.1", "192.0.2.1") };
    let part: Vec<Flow> = (0..1_000).map(flow).collect();
    let kept = Arc::new(AtomicU64::new(0));
    let pane = Arc::new(PaneRows::new(&kept));
    let mut sizes = Vec::new();
    for _ in 0..4 {
        pane.push(batch(&part).record_batch().clone());
        early.aggregate(&rows(vec![WindowPane::of(&pane)]), Duration::from_mins(1)).expect("aggregated");
        sizes.push((pane.rows(), pane.size().aggregated_rows));
        assert_eq!(pane.rows() + pane.size().aggregated_rows, kept.load(Ordering::Relaxed));
    }
    // what 1,000 rows would add to 2,000 groups is not known to be nothing
    assert_eq!(sizes, [(1_000, 0), (2_000, 0), (0, 2_000), (1_000, 2_000)]);
    let (open, all) =
        (vec![WindowPane::of(&pane)], vec![WindowPane::single(vec![batch(&part).record_batch().clone(); 4])]);
    let found = early.answer(&rows(open), None, Duration::from_mins(1)).expect("an answer");
    let all = rows(all);
    let expected = plain.answer(&all, None, Duration::from_mins(1)).expect("an answer");
    assert_eq!(lines(&found), lines(&expected));
    assert_eq!(lines(&found).len(), 996);
}

/// Of a window with more rows than are kept none is left out, as long as what they sum up to is small.
#[test]
fn a_long_window_keeps_sums_and_not_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = traffic(5, 300_000, NEW_YEAR_MS, 3_600_000);
    archive(folder.path(), &flows);
    let text = "SELECT count(*) AS flows, sum(bytes) AS bytes FROM TUMBLE(flows, received, INTERVAL '1' HOUR)";
    for (text, is_summed) in [(text.to_owned(), true), (text.replace("sum(", "median("), false)] {
        let file = watch("sums", &text, "rows_max = 100_000");
        let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).expect("a backtest");
        let mut answers = Vec::new();
        let outcome = backtest.run(None, None, |_, answer| answers.extend(lines(answer))).expect("answers");
        assert_eq!(outcome.rows_shed > 0, !is_summed, "{text}");
        let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
        assert_eq!(answers == [format!("{},{bytes}", flows.len())], is_summed, "{answers:?}");
    }
}

#[test]
fn a_row_of_the_future_moves_no_time() {
    let mut panes = Panes::new(options(1_000, 1_000, 0, Column::Start)).expect("windows");
    let mut flows = disorder(1);
    flows[5].start_ms += 400 * 86_400_000;
    let mut closed = Vec::new();
    panes.take(batch(&flows).record_batch(), &mut closed);
    panes.advance(flows.last().expect("flows").received_ms + 1_000, &mut closed);
    assert_eq!(panes.counts().rows_future, 1);
    let kept: usize = rows_of(&closed).values().map(Vec::len).sum();
    assert_eq!(kept as u64 + panes.counts().rows_late_dropped + 1, flows.len() as u64);
}

#[test]
fn a_clock_that_was_ahead_for_a_while_blinds_nobody() {
    let mut panes = Panes::new(options(1_000, 1_000, 0, Column::Received)).expect("windows");
    let flow = |ms: i64| Flow::new(NEW_YEAR_MS + ms, "10.0.0.1", "192.0.2.1");
    let mut closed = Vec::new();
    panes.take(batch(&[flow(100)]).record_batch(), &mut closed);
    let year_ms = 400 * 86_400_000;
    panes.take(batch(&[flow(year_ms), flow(year_ms + 10)]).record_batch(), &mut closed);
    assert!(panes.rewind(NEW_YEAR_MS + 5_000), "times are ahead of the clock");
    assert_eq!(panes.counts().rows_future, 2);
    closed.clear();
    panes.take(batch(&[flow(5_100), flow(6_100)]).record_batch(), &mut closed);
    assert_eq!(rows_of(&closed).keys().copied().collect::<Vec<_>>(), [NEW_YEAR_MS + 6_000]);
    assert!(!panes.rewind(NEW_YEAR_MS + 7_000));
}

#[test]
fn what_does_not_fit_is_counted() {
    let options = PaneOptions { rows_max: 100, ..options(1_000_000_000, 1_000_000_000, 0, Column::Received) };
    let mut panes = Panes::new(options).expect("windows");
    let flows = disorder(3);
    panes.take(batch(&flows).record_batch(), &mut Vec::new());
    assert_eq!((panes.rows_kept(), panes.counts().rows_shed), (100, flows.len() as u64 - 100));
}

#[test]
fn empty_windows_close_when_asked_for() {
    let options = PaneOptions { empty_windows: true, ..options(1_000, 1_000, 0, Column::Received) };
    let mut panes = Panes::new(options).expect("windows");
    let mut closed = Vec::new();
    panes.take(batch(&[Flow::new(NEW_YEAR_MS, "10.0.0.1", "192.0.2.1")]).record_batch(), &mut closed);
    panes.advance(NEW_YEAR_MS + 5_500, &mut closed);
    assert_eq!(rows_of(&closed).values().map(Vec::len).collect::<Vec<_>>(), [1, 0, 0, 0, 0]);
}
