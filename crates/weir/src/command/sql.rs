//! `weir sql`: questions in SQL.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use weir_sql::output::{OutputOptions, write_answer};
use weir_sql::{Engine, UserTable};

use super::{ArchiveArgs, FormatArg};
use crate::asking::{Asking, AskingArgs};

/// Ask the archive in SQL: tables flows, exporter_books, exporter_options, interface_counters and host_counters
///
/// Example: weir sql "SELECT src_addr, sum(bytes) AS bytes FROM flows WHERE cidr(dst_addr, '192.0.2.0/24') GROUP BY src_addr ORDER BY bytes DESC LIMIT 10"
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// The statement; - reads it from standard input
    #[arg(value_name = "STATEMENT")]
    statement: String,
    /// A file as a table, NAME=FILE: .csv or .tsv with a header line, .ndjson, or .parquet; columns that hold nothing
    /// but addresses join with those of flows
    #[arg(long = "table", value_name = "NAME=FILE", value_parser = user_table)]
    tables: Vec<UserTable>,
    #[command(flatten)]
    asking: AskingArgs,
    /// How the answer is written
    #[arg(long, short = 'o', value_enum, default_value_t = FormatArg::Table)]
    output: FormatArg,
    /// Do not tell on standard error how many rows there were and how long it took
    #[arg(long, short = 'q')]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let statement = match args.statement.as_str() {
        "-" => io::read_to_string(io::stdin()).context("cannot read the statement from standard input")?,
        text => text.to_owned(),
    };
    let asking = Asking::new(&args.asking)?;
    let engine = args.archive.open_beside(args.tables.clone())?;
    let result = answered(args, &statement, &engine, &asking);
    if let Ok(rows) = result
        && !args.quiet
        && io::stderr().is_terminal()
    {
        asking.told();
        eprintln!("{rows} rows in {:.3} s", began.elapsed().as_secs_f64());
    }
    asking.close(Some(engine), result.map(drop))
}

/// Asks and writes the answer; gives the number of its rows.
fn answered(args: &Args, statement: &str, engine: &Engine, asking: &Asking) -> anyhow::Result<u64> {
    let answer = engine.sql_on(statement, asking.terms())?;
    let options = OutputOptions { scaled: false, ..OutputOptions::default() };
    Ok(write_answer(answer, args.output.into(), &options, &mut asking.output())?)
}

/// Reads `NAME=FILE`.
fn user_table(text: &str) -> Result<UserTable, String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok(UserTable { name: name.to_owned(), path: path.into() })
        }
        _ => Err(format!("'{text}' is not NAME=FILE, such as hosts=hosts.csv")),
    }
}
