//! Asks an archive and tells how long each step took, on standard error.
//!
//! `cargo run --release -p weir-sql --example ask -- FOLDER sql 'SELECT …' [FORMAT]`
//! `cargo run --release -p weir-sql --example ask -- FOLDER list|srcip|…|tuple FILTER [FORMAT]`

#![expect(clippy::print_stderr, reason = "whoever runs it looks on")]

use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use weir_flow::Column;
use weir_sql::output::{Format, OutputOptions, write_answer};
use weir_sql::{
    AggregateKey, Answer, Engine, EngineOptions, FlowQuery, Order, Select, Sorting, StatisticKey, TimeWindow,
};

/// The columns of a `NetFlow` v5 record.
const V5_COLUMNS: [Column; 15] = [
    Column::Start,
    Column::End,
    Column::SrcAddr,
    Column::DstAddr,
    Column::SrcPort,
    Column::DstPort,
    Column::Protocol,
    Column::TcpFlags,
    Column::Tos,
    Column::Packets,
    Column::Bytes,
    Column::InIf,
    Column::OutIf,
    Column::SrcAs,
    Column::DstAs,
];

fn ask(engine: &Engine, what: &str, text: &str) -> Result<Answer, Box<dyn Error>> {
    if what == "sql" {
        return Ok(engine.sql(text)?);
    }
    let top = |key| {
        let sorting = Sorting::usual(Order::Bytes);
        Select::Statistic { key, per_protocol: false, sorting, limit: Some(10) }
    };
    let select = match what {
        "list" => Select::List { columns: V5_COLUMNS.to_vec(), sorting: None, limit: None },
        "tuple" => Select::Aggregate { keys: Vec::new(), more: Vec::new(), sorting: None, limit: None },
        "src" => Select::Aggregate {
            keys: vec![AggregateKey::parse("srcip")?],
            more: Vec::new(),
            sorting: None,
            limit: None,
        },
        key => top(StatisticKey::parse(key)?),
    };
    let query = FlowQuery { filter: weir_filter::parse(text)?, window: TimeWindow::default(), select, scaled: false };
    Ok(engine.ask(&query)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, what, text, rest @ ..] = arguments.as_slice() else {
        return Err("usage: ask FOLDER sql|list|tuple|src|KEY TEXT [FORMAT]".into());
    };
    let format = rest.first().map_or(Some(Format::Null), |name| Format::by_name(name)).ok_or("no such format")?;
    let began = Instant::now();
    let engine = Engine::open(Path::new(folder), &EngineOptions::default())?;
    let opened = Instant::now();
    let answer = match ask(&engine, what, text) {
        Ok(answer) => answer,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let planned = Instant::now();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let rows = write_answer(answer, format, &OutputOptions::default(), &mut out)?;
    out.flush()?;
    eprintln!(
        "{rows} rows; open {:?}, plan {:?}, run {:?}",
        opened.duration_since(began),
        planned.duration_since(opened),
        planned.elapsed()
    );
    Ok(())
}
