//! The sink against rows that are added up one by one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use weir_chain::{AnyKind, compliance};
use weir_flow::{Column, FlowBatchBuilder};
use weir_series::SeriesStore;

use super::*;

/// The compliance test takes a reference that lives as long as the program.
const STATISTICS: &'static dyn AnyKind = &KIND;
const FIRST_MS: i64 = 1_600_000_000_000;

/// A row: time after the first one in ms, hosts, protocol, bytes, sampling interval.
type Row = (i64, [u8; 2], u8, u64, Option<u32>);

fn batch(rows: &[Row]) -> RecordBatch {
    let mut builder = FlowBatchBuilder::new(rows.len());
    builder.begin_rows(rows.len());
    builder.time(Column::Received).extend(rows.iter().map(|row| FIRST_MS + row.0));
    for (column, place) in [(Column::SrcAddr, 0), (Column::DstAddr, 1)] {
        let addresses = builder.address(column);
        for row in rows {
            addresses.push(Some(&[198, 51, 100, row.1[place]]));
        }
    }
    builder.u8(Column::Protocol).extend(rows.iter().map(|row| row.2));
    builder.u64(Column::Packets).extend(rows.iter().map(|row| row.3 / 100 + 1));
    builder.u64(Column::Bytes).extend(rows.iter().map(|row| row.3));
    let sampling = builder.u32(Column::SamplingInterval);
    for row in rows {
        sampling.push(row.4);
    }
    builder.finish().record_batch().clone()
}

/// For each step and key: flows, packets, bytes, peers.
type Sums = BTreeMap<i64, BTreeMap<String, ([u64; 3], BTreeSet<u8>)>>;

fn sums(rows: &[Row], key: impl Fn(&Row) -> String) -> Sums {
    let mut sums = Sums::new();
    for row in rows {
        let step = (FIRST_MS + row.0).div_euclid(1_000);
        let (sum, peers) = sums.entry(step).or_default().entry(key(row)).or_default();
        let factor = u64::from(row.4.unwrap_or(1).max(1));
        for (sum, more) in sum.iter_mut().zip([1, (row.3 / 100 + 1) * factor, row.3 * factor]) {
            *sum += more;
        }
        peers.insert(row.1[1]);
    }
    sums
}

/// What the store has of a family in steps of a second: for each step and key the metrics.
fn stored(folder: &std::path::Path, family: &str) -> BTreeMap<i64, BTreeMap<String, Vec<u64>>> {
    let store = SeriesStore::open(folder).expect("a store");
    let (id, spec) = store.family(family).expect("the family");
    let catalogue = store.catalogue().expect("a catalogue");
    let resolution = store.resolutions()[0];
    let Some((first, last)) = store.extent(resolution).expect("read") else { return BTreeMap::new() };
    let fetched = store.fetch(id, None, resolution, first, last + 1).expect("fetched");
    let mut found = BTreeMap::new();
    for series in &fetched.series {
        let key = catalogue.key(id, series.id).expect("a key");
        for metric in 0..spec.metrics.len() {
            for (step, point) in fetched.points(spec, series, metric).enumerate() {
                let Some(point) = point.filter(|point| point.sum > 0 || series.steps.contains(&(step as u32))) else {
                    continue;
                };
                let step: &mut BTreeMap<String, Vec<u64>> = found.entry(fetched.time_secs(step)).or_default();
                step.entry(key.to_owned()).or_default().push(point.sum);
            }
        }
    }
    found
}

fn parameters(folder: &std::path::Path, more: &str) -> String {
    format!("statistics = '{}'\nsteps = ['1s:1h', '1m:1d']\n{more}", folder.display())
}

fn row() -> impl Strategy<Value = Row> {
    let sampling = prop_oneof![3 => Just(None), 1 => Just(Some(0)), 1 => (1_u32..1000).prop_map(Some)];
    (0_i64..20_000, any::<[u8; 2]>().prop_map(|hosts| hosts.map(|host| host % 9)), 0_u8..20, 0_u64..5_000, sampling)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn steps_are_the_sums_of_their_rows(mut rows in prop::collection::vec(row(), 1..120), burst_rows in 1_usize..50) {
        // in order but for the two seconds that are waited for
        rows.sort_by_key(|row| row.0 / 2_000);
        let dir = tempfile::tempdir().expect("a folder");
        let parameters = parameters(dir.path(), "by = ['total', 'protocol', 'src_addr', 'src_net']\ntop = 3\nnetwork_bits = 30");
        let counters = compliance::sink(STATISTICS, &parameters, &[batch(&rows)], burst_rows);
        let count = |name| counters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        prop_assert_eq!((count("rows_counted"), count("rows_late")), (Some(rows.len() as u64), Some(0)));
        let total = sums(&rows, |_| "total".to_owned());
        let totals: BTreeMap<_, _> = total.iter().map(|(step, keys)| (*step, keys["total"].0.to_vec())).collect();
        for family in ["total", "protocol", "src_addr", "src_net"] {
            let steps = stored(dir.path(), family).into_iter().map(|(step, keys)| {
                let sum = |place: usize| keys.values().map(|values| values[place]).sum::<u64>();
                (step, vec![sum(0), sum(1), sum(2)])
            });
            prop_assert_eq!(steps.collect::<BTreeMap<_, _>>(), totals.clone(), "{}", family);
        }
        let protocols = sums(&rows, |row| weir_flow::protocol_name(row.2).map_or(row.2.to_string(), str::to_owned));
        let protocols: BTreeMap<_, _> = protocols.into_iter().map(|(step, keys)| {
            (step, keys.into_iter().map(|(key, (sum, _))| (key, sum.to_vec())).collect::<BTreeMap<_, _>>())
        }).collect();
        prop_assert_eq!(stored(dir.path(), "protocol"), protocols);
        let hosts = sums(&rows, |row| format!("198.51.100.{}", row.1[0]));
        for (step, keys) in stored(dir.path(), "src_addr") {
            let wanted = &hosts[&step];
            let mut by_bytes: Vec<_> = wanted.values().map(|(sum, _)| sum[2]).collect();
            by_bytes.sort_unstable();
            let least = by_bytes[by_bytes.len().saturating_sub(3)];
            prop_assert_eq!(keys.len(), wanted.len().min(4));
            for (key, values) in keys.iter().filter(|(key, _)| *key != "other") {
                let (sum, peers) = &wanted[key];
                prop_assert_eq!(values, &[&sum[..], &[peers.len() as u64]].concat());
                prop_assert!(sum[2] >= least, "{} is not one of the three largest", key);
            }
        }
        let nets = stored(dir.path(), "src_net");
        prop_assert!(nets.values().flat_map(|keys| keys.keys()).all(|key| key.ends_with("/30")));
    }
}

#[test]
fn rows_that_are_too_late_are_counted_in_the_next_step_that_can_be_written() {
    let dir = tempfile::tempdir().expect("a folder");
    let rows = [(0, 7), (5_000, 1), (100, 40), (9_000, 2)].map(|(time, bytes)| (time, [1, 2], 6, bytes, None));
    let counters = compliance::sink(STATISTICS, &parameters(dir.path(), "by = ['total']"), &[batch(&rows)], 1);
    assert!(counters.contains(&("rows_late", 1)), "{counters:?}");
    let bytes: Vec<_> = stored(dir.path(), "total")
        .into_iter()
        .map(|(step, keys)| (step - FIRST_MS / 1_000, keys["total"][2]))
        .collect();
    // of 5 s and 2 s of lateness: the step of second 1 is the first that is not written
    assert_eq!(bytes, [(0, 7), (3, 40), (5, 1), (9, 2)]);
}

#[test]
fn another_process_goes_on_in_the_step_that_the_first_one_has_ended_in() {
    let dir = tempfile::tempdir().expect("a folder");
    for bytes in [7, 30] {
        let rows = [(300, [1, 2], 6, bytes, None)];
        compliance::sink(STATISTICS, &parameters(dir.path(), "by = ['total']"), &[batch(&rows)], 1);
    }
    let steps = stored(dir.path(), "total");
    assert_eq!(steps[&(FIRST_MS / 1_000)]["total"], [2, 2, 37]);
}

#[test]
fn a_clock_that_was_ahead_costs_what_was_counted_meanwhile_and_no_more() {
    let dir = tempfile::tempdir().expect("a folder");
    let now = now_ms() - FIRST_MS;
    let year = 366 * 86_400_000;
    // one step of each time, the last one when the clock is right again
    let times = [now - 5_000, now, now + year, now + year + 9_000, now + 1_000, now + 2_000];
    let rows = times.map(|time| (time, [1, 2], 6, 1, None));
    compliance::sink(STATISTICS, &parameters(dir.path(), "by = ['total']"), &[batch(&rows)], 1);
    let bytes: u64 = stored(dir.path(), "total").values().map(|keys| keys["total"][2]).sum();
    assert_eq!(bytes, 4);
    let is_aside = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "ahead"))
    };
    assert!(std::fs::read_dir(dir.path().join("1s")).expect("a folder").any(is_aside));
}

#[test]
fn wrong_options_are_errors_that_say_what_is_meant() {
    let text = |change: fn(&mut SeriesOptions)| {
        let mut options = StatisticsSinkOptions::default();
        change(&mut options.series);
        let error = configure(options).err().expect("an error");
        format!("{}: {}", error.key, error.message)
    };
    assert_eq!(text(|options| options.steps = vec!["5x:1h".to_owned()]), "steps: '5x:1h' is no step");
    assert_eq!(text(|options| options.by = vec!["src_adr".to_owned()]), "by: 'src_adr' is no column to count by");
    let wrong = text(|options| options.steps = ["7s:1h", "1m:1d"].map(str::to_owned).to_vec());
    assert_eq!(wrong, "steps: wrong resolutions: 60 s is no multiple of 7 s");
}

#[test]
fn a_limit_by_size_takes_the_oldest_seconds() {
    // more than five blocks of 288 seconds, of which two stay
    let rows = [0, 1_500_000].map(|time| (time, [1, 2], 6, 7, None));
    for (more, is_limited) in [("", false), ("\nmax_size = '1B'", true)] {
        let dir = tempfile::tempdir().expect("a folder");
        let parameters = parameters(dir.path(), &format!("by = ['total']{more}"));
        let counters = compliance::sink(STATISTICS, &parameters, &[batch(&rows)], 1);
        let dropped = counters.iter().find(|(name, _)| *name == "blocks_dropped").map_or(0, |(_, count)| *count);
        assert_eq!(dropped >= 3, is_limited, "{counters:?}");
        let steps = stored(dir.path(), "total");
        assert_eq!(steps.contains_key(&(FIRST_MS / 1_000)), !is_limited);
        assert_eq!(steps[&(FIRST_MS / 1_000 + 1_500)]["total"][2], 7);
    }
}

#[test]
fn keys_that_come_once_leave_room_for_those_that_are_heavy() {
    let dir = tempfile::tempdir().expect("a folder");
    // in each second forty hosts that come once, and one that begins when there is hardly any room left
    let mut rows: Vec<Row> = Vec::new();
    for second in 0..6_i64 {
        rows.extend((0..40).map(|host| (second * 1_000, [(second * 40 + host) as u8, 1], 6, 10, None)));
        if second >= 4 {
            rows.push((second * 1_000 + 1, [255, 1], 6, 9_999, None));
        }
    }
    let more = "by = ['src_addr']\nseries_max = 100";
    let counters = compliance::sink(STATISTICS, &parameters(dir.path(), more), &[batch(&rows)], 7);
    assert!(counters.iter().any(|(name, count)| *name == "keys_refused" && *count > 100), "{counters:?}");
    let steps = stored(dir.path(), "src_addr");
    let first = FIRST_MS / 1_000;
    for second in 0..6 {
        let keys = &steps[&(first + second)];
        let heavy = keys.get("198.51.100.255").map(|values| values[2]);
        assert_eq!(heavy, (second >= 4).then_some(9_999), "{second}");
        let total: u64 = keys.values().map(|values| values[2]).sum();
        assert_eq!(total, 400 + heavy.unwrap_or(0));
    }
    // all of the first ones, and fewer and fewer
    assert_eq!(steps[&first].len(), 40);
    assert!(steps[&(first + 3)].len() < 10, "{:?}", steps[&(first + 3)]);
}

#[test]
fn a_key_named_other_is_not_the_sum_of_the_others() {
    let mut builder = FlowBatchBuilder::new(3);
    builder.begin_rows(3);
    builder.time(Column::Received).extend((0..3).map(|time| FIRST_MS + time).collect::<Vec<_>>().into_iter());
    let hosts = builder.text(Column::HttpHost);
    for host in ["other", "a", "b"] {
        hosts.push(Some(host.as_bytes()));
    }
    builder.u64(Column::Bytes).extend([5, 70, 3].into_iter());
    let dir = tempfile::tempdir().expect("a folder");
    let rows = builder.finish().record_batch().clone();
    compliance::sink(STATISTICS, &parameters(dir.path(), "by = ['http_host']\ntop = 2"), &[rows], 9);
    let steps = stored(dir.path(), "http_host");
    let bytes: Vec<_> = steps[&(FIRST_MS / 1_000)].iter().map(|(key, values)| (key.as_str(), values[2])).collect();
    assert_eq!(bytes, [("a", 70), ("other", 3), ("other (a key)", 5)]);
}
