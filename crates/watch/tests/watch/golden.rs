//! Windows as others define them: their inputs and results, entered again.
//!
//! - Flink: the page "Windowing TVF" of its documentation (table `Bid`; TUMBLE, HOP, CUMULATE, and SESSION with and
//!   without a partition).
//! - Arroyo: `session_window`, `global_session_window` and `sliding_window_end` of its SQL tests, over a hundred impulses.
//! - `NEXMark`: queries 5, 7, 8, 11 and 12. It prints no results, so these are worked out here, bid by bid.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use weir_watch::{Backtest, RunnerOptions, WatchFile};

use crate::scene::{Flow, Random, archive, lines, watch};

/// All answers of a watch over an archive, as sorted lines.
fn answers(folder: &Path, file: WatchFile) -> Vec<String> {
    let text = file.options.query.clone();
    let mut backtest =
        Backtest::new(file, &RunnerOptions::new(folder)).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    let mut found = Vec::new();
    let outcome = backtest.run(None, None, |_, answer| found.extend(lines(answer)));
    outcome.unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    found.sort();
    found
}

fn at(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().expect("a time").as_millisecond()
}

fn timed(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).expect("a time");
    format!("{time:.3}")
}

/// A case of Flink's page: its statement, and the rows that it prints.
struct Printed {
    statement: &'static str,
    rows: &'static [&'static str],
}

/// Bids as flows: the time of the bid is `received`, its price `bytes`, the item the port.
fn bids(rows: &[(&str, u64, char)]) -> Vec<Flow> {
    let flow = |(time, price, item): &(&str, u64, char)| Flow {
        bytes: *price,
        ports: (0, *item as u16),
        ..Flow::new(at(&format!("2020-04-15T{time}:00Z")), "10.0.0.1", "192.0.2.1")
    };
    rows.iter().map(flow).collect()
}

fn printed(rows: &[(&str, u64, char)], cases: &[Printed]) {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &bids(rows));
    let view =
        "[views]\nBid = 'SELECT received AS bidtime, bytes AS price, chr(CAST(dst_port AS BIGINT)) AS item FROM flows'";
    for case in cases {
        let rows: BTreeSet<String> = case
            .rows
            .iter()
            .map(|row| {
                let cells = row.split(' ').map(|cell| {
                    if cell.contains(':') { timed(at(&format!("2020-04-15T{cell}:00Z"))) } else { cell.to_owned() }
                });
                cells.collect::<Vec<_>>().join(",")
            })
            .collect();
        let found = answers(folder.path(), watch("flink", case.statement, view));
        assert_eq!(found, rows.into_iter().collect::<Vec<_>>(), "{}", case.statement);
    }
}

#[test]
fn windows_are_those_that_flink_prints() {
    let bids = [
        ("08:05", 4, 'C'),
        ("08:07", 2, 'A'),
        ("08:09", 5, 'D'),
        ("08:11", 3, 'B'),
        ("08:13", 1, 'E'),
        ("08:17", 6, 'F'),
    ];
    let tumble = Printed {
        statement: "SELECT * FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES))",
        rows: &[
            "08:05 4 C 08:00 08:10",
            "08:07 2 A 08:00 08:10",
            "08:09 5 D 08:00 08:10",
            "08:11 3 B 08:10 08:20",
            "08:13 1 E 08:10 08:20",
            "08:17 6 F 08:10 08:20",
        ],
    };
    let named = Printed {
        statement: "SELECT * FROM TABLE(TUMBLE(DATA => TABLE Bid, TIMECOL => DESCRIPTOR(bidtime), SIZE => INTERVAL '10' MINUTES))",
        rows: tumble.rows,
    };
    let summed = Printed {
        statement: "SELECT window_start, window_end, SUM(price) FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) \
                    GROUP BY window_start, window_end",
        rows: &["08:00 08:10 11", "08:10 08:20 10"],
    };
    let hop = Printed {
        statement: "SELECT * FROM TABLE(HOP(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))",
        rows: &[
            "08:05 4 C 08:00 08:10",
            "08:05 4 C 08:05 08:15",
            "08:07 2 A 08:00 08:10",
            "08:07 2 A 08:05 08:15",
            "08:09 5 D 08:00 08:10",
            "08:09 5 D 08:05 08:15",
            "08:11 3 B 08:05 08:15",
            "08:11 3 B 08:10 08:20",
            "08:13 1 E 08:05 08:15",
            "08:13 1 E 08:10 08:20",
            "08:17 6 F 08:10 08:20",
            "08:17 6 F 08:15 08:25",
        ],
    };
    let hopped = Printed {
        statement: "SELECT window_start, window_end, SUM(price) FROM TABLE(HOP(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES, \
                    INTERVAL '10' MINUTES)) GROUP BY window_start, window_end",
        rows: &["08:00 08:10 11", "08:05 08:15 15", "08:10 08:20 10", "08:15 08:25 6"],
    };
    printed(&bids, &[tumble, named, summed, hop, hopped]);
    printed(&bids, &growing());
}

/// Windows that grow from two minutes to ten.
fn growing() -> [Printed; 3] {
    let grown = Printed {
        statement: "SELECT * FROM TABLE(CUMULATE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES))",
        rows: &[
            "08:05 4 C 08:00 08:06",
            "08:05 4 C 08:00 08:08",
            "08:05 4 C 08:00 08:10",
            "08:07 2 A 08:00 08:08",
            "08:07 2 A 08:00 08:10",
            "08:09 5 D 08:00 08:10",
            "08:11 3 B 08:10 08:12",
            "08:11 3 B 08:10 08:14",
            "08:11 3 B 08:10 08:16",
            "08:11 3 B 08:10 08:18",
            "08:11 3 B 08:10 08:20",
            "08:13 1 E 08:10 08:14",
            "08:13 1 E 08:10 08:16",
            "08:13 1 E 08:10 08:18",
            "08:13 1 E 08:10 08:20",
            "08:17 6 F 08:10 08:18",
            "08:17 6 F 08:10 08:20",
        ],
    };
    let named = Printed {
        statement: "SELECT * FROM TABLE(CUMULATE(DATA => TABLE Bid, TIMECOL => DESCRIPTOR(bidtime), STEP => INTERVAL '2' MINUTES, \
                    SIZE => INTERVAL '10' MINUTES))",
        rows: grown.rows,
    };
    let summed = Printed {
        statement: "SELECT window_start, window_end, SUM(price) FROM TABLE(CUMULATE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES, \
                    INTERVAL '10' MINUTES)) GROUP BY window_start, window_end",
        rows: &[
            "08:00 08:06 4",
            "08:00 08:08 6",
            "08:00 08:10 11",
            "08:10 08:12 3",
            "08:10 08:14 4",
            "08:10 08:16 4",
            "08:10 08:18 10",
            "08:10 08:20 10",
        ],
    };
    [grown, named, summed]
}

/// Rows of sessions of five minutes by item.
const OF_ITEMS: &[&str] = &[
    "08:07 4 A 08:06 08:13",
    "08:06 2 A 08:06 08:13",
    "08:08 3 A 08:06 08:13",
    "08:09 5 B 08:09 08:14",
    "08:17 1 B 08:17 08:22",
];

#[test]
fn sessions_are_those_that_flink_prints() {
    let bids = [("08:07", 4, 'A'), ("08:06", 2, 'A'), ("08:09", 5, 'B'), ("08:08", 3, 'A'), ("08:17", 1, 'B')];
    let cases = [
        Printed {
            statement: "SELECT * FROM TABLE(SESSION(TABLE Bid PARTITION BY item, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES))",
            rows: OF_ITEMS,
        },
        Printed {
            statement: "SELECT * FROM TABLE(SESSION(DATA => TABLE Bid PARTITION BY item, TIMECOL => DESCRIPTOR(bidtime), \
                        GAP => INTERVAL '5' MINUTES))",
            rows: OF_ITEMS,
        },
        Printed {
            statement: "SELECT window_start, window_end, item, SUM(price) AS total_price FROM TABLE(SESSION(TABLE Bid PARTITION BY item, \
                        DESCRIPTOR(bidtime), INTERVAL '5' MINUTES)) GROUP BY item, window_start, window_end",
            rows: &["08:06 08:13 A 9", "08:09 08:14 B 5", "08:17 08:22 B 1"],
        },
        Printed {
            statement: "SELECT window_start, window_end, SUM(price) AS total_price FROM TABLE(SESSION(TABLE Bid, DESCRIPTOR(bidtime), \
                        INTERVAL '5' MINUTES)) GROUP BY window_start, window_end",
            rows: &["08:06 08:14 14", "08:17 08:22 1"],
        },
    ];
    printed(&bids, &cases);
}

/// A hundred impulses, one every 200 ms; the counter is a port.
fn impulses() -> Vec<Flow> {
    let begin = at("2023-10-09T17:13:20Z");
    let flow = |counter: u16| Flow {
        ports: (counter, 0),
        ..Flow::new(begin + i64::from(counter) * 200, "10.0.0.1", "192.0.2.1")
    };
    (0..100).map(flow).collect()
}

#[test]
fn windows_are_those_of_arroyo() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &impulses());
    let second = |tenths: i64| timed(at("2023-10-09T17:13:00Z") + tenths * 100);
    let session = "SELECT window_start, window_end, user_id, count(*) FROM SESSION((SELECT received, CASE WHEN src_port % 10 = 0 THEN 0 \
                   ELSE src_port END AS user_id FROM flows), received, INTERVAL '20' SECOND, key => user_id) GROUP BY ALL";
    let mut expected: Vec<String> = (1..100)
        .filter(|counter| counter % 10 != 0)
        .map(|counter| format!("{},{},{counter},1", second(200 + 2 * counter), second(400 + 2 * counter)))
        .collect();
    expected.push(format!("{},{},0,10", second(200), second(580)));
    expected.sort();
    assert_eq!(answers(folder.path(), watch("w", session, "")), expected);
    let global =
        "SELECT window_start, window_end, count(*) FROM SESSION(flows, received, INTERVAL '20' SECOND) GROUP BY ALL";
    assert_eq!(answers(folder.path(), watch("w", global, "")), [format!("{},{},100", second(200), second(598))]);
    let sliding = "SELECT count(*), min(src_port), max(src_port), window_start, window_end \
                   FROM HOP(flows, received, INTERVAL '2' SECOND, INTERVAL '10' SECOND) GROUP BY window_start, window_end";
    // count, min, max, and the seconds of start and end
    let golden = [
        (10, 0, 9, 12, 22),
        (20, 0, 19, 14, 24),
        (30, 0, 29, 16, 26),
        (40, 0, 39, 18, 28),
        (50, 0, 49, 20, 30),
        (50, 10, 59, 22, 32),
        (50, 20, 69, 24, 34),
        (50, 30, 79, 26, 36),
        (50, 40, 89, 28, 38),
        (50, 50, 99, 30, 40),
        (40, 60, 99, 32, 42),
        (30, 70, 99, 34, 44),
        (20, 80, 99, 36, 46),
        (10, 90, 99, 38, 48),
    ];
    let mut expected: Vec<String> = golden
        .iter()
        .map(|(count, min, max, start, end)| format!("{count},{min},{max},{},{}", second(start * 10), second(end * 10)))
        .collect();
    expected.sort();
    assert_eq!(answers(folder.path(), watch("w", sliding, "")), expected);
}

/// The three streams of `NEXMark` are one here, distinguished by the protocol.
const NEXMARK: &str = "[views]
bid = 'SELECT dst_port AS auction, src_port AS bidder, bytes AS price, received AS datetime FROM flows WHERE protocol = 6'
person = 'SELECT src_port AS id, bytes AS name, received AS datetime FROM flows WHERE protocol = 17'
auction = 'SELECT dst_port AS id, src_port AS seller, received AS datetime FROM flows WHERE protocol = 1'";

fn nexmark() -> Vec<Flow> {
    let mut random = Random::new(2_026);
    let mut now_ms = at("2026-02-01T00:00:00Z");
    (0..2_500)
        .map(|_| {
            now_ms += if random.below(150) == 0 { 12_000 } else { random.below(150) as i64 };
            let protocol = [6, 6, 6, 6, 17, 1][random.below(6) as usize];
            let ports = (1 + random.below(25) as u16, 1 + random.below(8) as u16);
            let bytes = if protocol == 17 { u64::from(ports.0) } else { 1 + random.below(500) };
            Flow { ports, protocol, bytes, ..Flow::new(now_ms, "10.0.0.1", "192.0.2.1") }
        })
        .collect()
}

/// The flows of each window by when it ends.
fn windows(flows: &[Flow], protocol: u8, slide_ms: i64, size_ms: i64) -> BTreeMap<i64, Vec<&Flow>> {
    let mut windows = BTreeMap::<i64, Vec<&Flow>>::new();
    for flow in flows.iter().filter(|flow| flow.protocol == protocol) {
        let first = flow.received_ms.div_euclid(slide_ms) * slide_ms + slide_ms;
        (0..size_ms / slide_ms).for_each(|slides| windows.entry(first + slides * slide_ms).or_default().push(flow));
    }
    windows
}

fn counted(flows: &[&Flow], key: impl Fn(&Flow) -> u16) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    for flow in flows {
        *counts.entry(key(flow)).or_default() += 1;
    }
    counts
}

fn agrees(folder: &Path, statement: &str, mut expected: Vec<String>) {
    expected.sort();
    assert!(expected.len() > 20, "{expected:?}");
    assert_eq!(answers(folder, watch("nexmark", statement, NEXMARK)), expected, "{statement}");
}

#[test]
fn nexmark_asks_for_hot_items_and_highest_bids() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = nexmark();
    archive(folder.path(), &flows);
    let hop = "TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))";
    let q5 = format!(
        "SELECT AuctionBids.auction, AuctionBids.num, AuctionBids.endtime FROM (SELECT auction, count(*) AS num, window_start AS starttime, \
         window_end AS endtime FROM {hop} GROUP BY auction, window_start, window_end) AS AuctionBids \
         JOIN (SELECT max(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime FROM (SELECT count(*) AS num, \
         window_start AS starttime, window_end AS endtime FROM {hop} GROUP BY auction, window_start, window_end) AS CountBids \
         GROUP BY CountBids.starttime, CountBids.endtime) AS MaxBids ON AuctionBids.starttime = MaxBids.starttime \
         AND AuctionBids.endtime = MaxBids.endtime AND AuctionBids.num >= MaxBids.maxn"
    );
    let mut hot = Vec::new();
    for (end_ms, bids) in windows(&flows, 6, 2_000, 10_000) {
        let counts = counted(&bids, |flow| flow.ports.1);
        let most = counts.values().max().copied().unwrap_or(0);
        hot.extend(
            counts
                .into_iter()
                .filter(|found| found.1 == most)
                .map(|(item, num)| format!("{item},{num},{}", timed(end_ms))),
        );
    }
    agrees(folder.path(), &q5, hot);
    let tumble = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))";
    // the bids themselves are those of the window: a stream without one has no end
    let q7 = format!(
        "SELECT B.auction, B.bidder, B.price, B.dateTime FROM {tumble} B JOIN (SELECT MAX(price) AS maxprice, window_end AS dateTime \
         FROM {tumble} GROUP BY window_start, window_end) B1 ON B.price = B1.maxprice \
         WHERE B.dateTime BETWEEN B1.dateTime - INTERVAL '10' SECOND AND B1.dateTime"
    );
    let mut highest = Vec::new();
    for bids in windows(&flows, 6, 10_000, 10_000).into_values() {
        let most = bids.iter().map(|flow| flow.bytes).max();
        let of_bid =
            |flow: &&Flow| format!("{},{},{},{}", flow.ports.1, flow.ports.0, flow.bytes, timed(flow.received_ms));
        highest.extend(bids.iter().filter(|flow| Some(flow.bytes) == most).map(of_bid));
    }
    agrees(folder.path(), &q7, highest);
}

#[test]
fn nexmark_asks_for_new_users_sessions_and_bids_of_users() {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = nexmark();
    archive(folder.path(), &flows);
    let tumble = |table: &str| format!("TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))");
    let q8 = format!(
        "SELECT P.id, P.name, P.starttime FROM (SELECT id, name, window_start AS starttime, window_end AS endtime FROM {} \
         GROUP BY id, name, window_start, window_end) P JOIN (SELECT seller, window_start AS starttime, window_end AS endtime FROM {} \
         GROUP BY seller, window_start, window_end) A ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime",
        tumble("person"),
        tumble("auction")
    );
    let (persons, auctions) = (windows(&flows, 17, 10_000, 10_000), windows(&flows, 1, 10_000, 10_000));
    let mut new = Vec::new();
    for (end_ms, persons) in persons {
        let sellers = counted(auctions.get(&end_ms).map(Vec::as_slice).unwrap_or_default(), |flow| flow.ports.0);
        let persons = counted(&persons, |flow| flow.ports.0);
        let both = persons.into_keys().filter(|id| sellers.contains_key(id));
        new.extend(both.map(|id| format!("{id},{id},{}", timed(end_ms - 10_000))));
    }
    agrees(folder.path(), &q8, new);
    // written by functions in GROUP BY there, which Flink calls deprecated
    let q11 = "SELECT B.bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime FROM TABLE(SESSION(TABLE bid \
               PARTITION BY bidder, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)) B GROUP BY B.bidder, window_start, window_end";
    let mut sessions = Vec::new();
    for bidder in 1..=25 {
        let bids: Vec<_> = flows.iter().filter(|flow| flow.protocol == 6 && flow.ports.0 == bidder).collect();
        for session in bids.chunk_by(|a, b| b.received_ms - a.received_ms < 10_000) {
            let (first, last) = (session[0].received_ms, session[session.len() - 1].received_ms);
            assert!(last - first < 60_000, "shorter than what is cut");
            sessions.push(format!("{bidder},{},{},{}", session.len(), timed(first), timed(last + 10_000)));
        }
    }
    agrees(folder.path(), q11, sessions);
    // when a bid is processed is when it was received
    let q12 = format!(
        "SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime FROM {} GROUP BY bidder, window_start, window_end",
        tumble("bid")
    );
    let mut of_users = Vec::new();
    for (end_ms, bids) in windows(&flows, 6, 10_000, 10_000) {
        let counts = counted(&bids, |flow| flow.ports.0).into_iter();
        of_users.extend(
            counts.map(|(bidder, count)| format!("{bidder},{count},{},{}", timed(end_ms - 10_000), timed(end_ms))),
        );
    }
    agrees(folder.path(), &q12, of_users);
}
