//! `weir sql`: queries in SQL.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use weir_sql::output::{OutputOptions, write_answer};
use weir_sql::{Engine, UserTable};

use super::{ArchiveArgs, FormatArg, texts};
use crate::foreground_query::{CLOSING_MAX, ForegroundArgs, ForegroundQuery};

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  weir sql -R flows 'SELECT count(*) FROM flows'
  weir sql -R flows \"SELECT src_addr, sum(bytes) AS bytes FROM flows WHERE cidr(dst_addr, '192.0.2.0/24') GROUP BY src_addr ORDER BY bytes DESC LIMIT 10\"
  weir sql -R flows --table hosts=hosts.csv 'SELECT name, sum(bytes) FROM flows JOIN hosts ON src_addr = address GROUP BY name'
  weir sql -R flows --format csv - < statement.sql";

/// Query the archive in SQL
///
/// The tables are flows, exporter_books, exporter_options, interface_counters and host_counters.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// The statement; - reads it from standard input
    #[arg(value_name = "STATEMENT")]
    statement: String,
    /// Add a file as a table: .csv or .tsv with a header line, .ndjson, or .parquet
    ///
    /// Columns that hold nothing but addresses join with those of flows. The option may be repeated.
    #[arg(long = "table", value_name = "NAME=FILE", value_parser = user_table)]
    tables: Vec<UserTable>,
    #[command(flatten)]
    foreground: ForegroundArgs,
    /// Write the answer in this format
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT", default_value_t = FormatArg::Table, help_heading = "Output")]
    format: FormatArg,
    /// Write texts in CSV as they came, control characters and what a spreadsheet computes included
    #[arg(long, help_heading = "Output")]
    raw: bool,
    /// Do not report the number of rows and the time taken
    #[arg(long, short = 'q', help_heading = "Output")]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let statement = match args.statement.as_str() {
        "-" => io::read_to_string(io::stdin()).context("cannot read the statement from standard input")?,
        text => text.to_owned(),
    };
    let foreground = ForegroundQuery::new(&args.foreground)?;
    let engine = args.archive.engine(args.tables.clone())?;
    let result = write(args, &statement, &engine, &foreground);
    if let Ok(rows) = result
        && !args.quiet
        && io::stderr().is_terminal()
    {
        foreground.clear_progress();
        eprintln!("{rows} rows in {:.3} s", began.elapsed().as_secs_f64());
    }
    if result.is_err() {
        engine.close(CLOSING_MAX);
    }
    foreground.exit_code(result.map(drop))
}

/// Writes the answer; gives the number of its rows.
fn write(args: &Args, statement: &str, engine: &Engine, foreground: &ForegroundQuery) -> anyhow::Result<u64> {
    let answer = engine.sql_on(statement, foreground.control())?;
    let options = OutputOptions { scaled: false, texts: texts(args.raw), ..OutputOptions::default() };
    Ok(write_answer(answer, args.format.into(), &options, &mut foreground.output())?)
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
