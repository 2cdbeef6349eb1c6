//! How long questions take: `ask_speed ARCHIVE ROUNDS QUESTION [FILTER]`, where a question is `list`, `src`, `tuple`,
//! `top-src`, `top-port`, `group-port` or `top-tuple`. Prints rows and the best wall time; answers go nowhere.

use std::path::Path;
use std::time::{Duration, Instant};

use weir_flow::Column;
use weir_query::{AggregateKey, Archive, FlowQuery, Order, QueryOptions, Select, Sorting, StatisticKey, TimeWindow};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, rounds, what, filter @ ..] = &arguments[..] else {
        return Err("usage: ask_speed ARCHIVE ROUNDS QUESTION [FILTER]".into());
    };
    let bytes = Sorting::usual(Order::Bytes);
    let list = [
        Column::Start,
        Column::End,
        Column::SrcAddr,
        Column::DstAddr,
        Column::SrcPort,
        Column::DstPort,
        Column::Protocol,
        Column::TcpFlags,
        Column::Packets,
        Column::Bytes,
    ];
    let select = match what.as_str() {
        "list" => Select::List { columns: list.to_vec(), sorting: None, limit: None },
        "src" => {
            let keys = vec![AggregateKey::Column(Column::SrcAddr)];
            Select::Aggregate { keys, more: Vec::new(), sorting: None, limit: None }
        }
        "tuple" => Select::Aggregate { keys: Vec::new(), more: Vec::new(), sorting: None, limit: None },
        "top-src" => Select::Statistic {
            key: StatisticKey::parse("srcip")?,
            per_protocol: false,
            sorting: bytes,
            limit: Some(10),
        },
        "top-port" => Select::Statistic {
            key: StatisticKey::parse("dstport")?,
            per_protocol: false,
            sorting: bytes,
            limit: Some(10),
        },
        "group-port" => {
            let keys = vec![AggregateKey::Column(Column::DstPort)];
            Select::Aggregate { keys, more: Vec::new(), sorting: Some(bytes), limit: Some(10) }
        }
        "top-tuple" => Select::Aggregate { keys: Vec::new(), more: Vec::new(), sorting: Some(bytes), limit: Some(10) },
        other => return Err(format!("no question '{other}'").into()),
    };
    let filter = weir_filter::parse(&filter.join(" "))?;
    let question = FlowQuery { filter, window: TimeWindow::default(), select, scaled: false };
    let mut best = Duration::MAX;
    let mut rows = 0;
    for _ in 0..rounds.parse()? {
        let began = Instant::now();
        let archive = Archive::open(Path::new(folder), QueryOptions::default())?;
        rows = 0;
        for batch in archive.ask(&question)? {
            rows += batch?.num_rows();
        }
        best = best.min(began.elapsed());
    }
    println!("{what}: {rows} rows in {:.1} ms", best.as_secs_f64() * 1000.0);
    Ok(())
}
