//! `weir sql`: questions in SQL.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use weir_query::output::{OutputOptions, write_answer};

use super::{ArchiveArgs, FormatArg};

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
    let engine = args.archive.open()?;
    let answer = engine.sql(&statement)?;
    let options = OutputOptions { scaled: false, ..OutputOptions::default() };
    let rows = write_answer(answer, args.output.into(), &options, &mut io::stdout().lock())?;
    if !args.quiet && io::stderr().is_terminal() {
        eprintln!("{rows} rows in {:.3} s", began.elapsed().as_secs_f64());
    }
    Ok(ExitCode::SUCCESS)
}
