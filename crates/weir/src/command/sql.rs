//! `weir sql`: queries in SQL, one or as many as are typed.

mod completion;
mod shell;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use jiff::tz::TimeZone;
use weir_query::{Archive, QueryOptions};
use weir_sql::output::{OutputOptions, write_answer};
use weir_sql::{Engine, EngineError, EngineOptions, Enrichment, EnrichmentFiles, Progress, UserTable};

use super::answer_format::{FormatArg, texts};
use super::archive_args::ArchiveArgs;
use super::no_rows;
use super::report::counted;
use crate::foreground_query::{CLOSING_MAX, ForegroundArgs, ForegroundQuery};
use crate::time_args::zone;

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  weir sql -R flows 'SELECT count(*) FROM flows'
  weir sql -R flows 'SELECT dst_port, sum(bytes) FROM flows GROUP BY 1 ORDER BY 2 DESC LIMIT 10'
  weir sql -R flows \"SELECT count(*) FROM flows WHERE cidr(dst_addr, '192.0.2.0/24')\"
  weir sql -R flows --table hosts=hosts.csv \\
    'SELECT name, sum(bytes) FROM flows JOIN hosts ON src_addr = address GROUP BY name'
  weir sql -R flows --format csv - < statement.sql
  weir sql -R flows \"SELECT * FROM flows WHERE protocol = 'TCP' AND start > 'yesterday 14:00'\"
  weir sql -R flows                                  # a shell: \\? for help";

/// Query the archive in SQL
///
/// The tables are flows, exporter_books, exporter_options, interface_counters, host_counters and, where watches have run, reports. Without a statement a shell
/// takes one after the other; from a pipe, statements that end with ; are answered in order.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// The statement; - reads it from standard input [default: a shell]
    #[arg(value_name = "STATEMENT")]
    statement: Option<String>,
    /// Add a file as a table: .csv or .tsv with a header line, .ndjson, or .parquet
    ///
    /// Columns that hold nothing but addresses join with those of flows. The option may be repeated.
    #[arg(long = "table", value_name = "NAME=FILE", value_parser = user_table)]
    tables: Vec<UserTable>,
    #[command(flatten)]
    enrichment: EnrichmentArgs,
    #[command(flatten)]
    foreground: ForegroundArgs,
    /// Write the answer in this format
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT", default_value_t = FormatArg::Table, help_heading = "Output")]
    format: FormatArg,
    /// Write texts in CSV as they came, control characters and what a spreadsheet computes included
    #[arg(long, help_heading = "Output")]
    raw: bool,
    /// Read and print times in UTC rather than in the local zone
    #[arg(long, help_heading = "Output")]
    utc: bool,
    /// Do not report the number of rows and the time taken
    #[arg(long, short = 'q', help_heading = "Output")]
    quiet: bool,
}

/// Files for country(), asn(), label() and if_name().
#[derive(Debug, Clone, clap::Args)]
struct EnrichmentArgs {
    /// Look up countries in this MaxMind DB file, for country()
    #[arg(long, value_name = "FILE", env = "WEIR_GEO_MMDB", help_heading = "Enrichment")]
    geo_mmdb: Option<PathBuf>,
    /// Look up autonomous systems in this MaxMind DB file, for asn()
    #[arg(long, value_name = "FILE", env = "WEIR_ASN_MMDB", help_heading = "Enrichment")]
    asn_mmdb: Option<PathBuf>,
    /// Look up autonomous systems that the database does not have in this MRT dump of a routing table, or in lines of
    /// prefixes with a number, for asn(); the option may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Enrichment")]
    routes: Vec<PathBuf>,
    /// Look up labels in this file of lines prefix,label, for label()
    #[arg(long, value_name = "FILE", env = "WEIR_LABELS", help_heading = "Enrichment")]
    labels: Option<PathBuf>,
    /// Look up names in this file of lines exporter,if_index,name, for if_name(); then in what exporters reported
    #[arg(long, value_name = "FILE", env = "WEIR_INTERFACES", help_heading = "Enrichment")]
    interfaces: Option<PathBuf>,
}

impl Args {
    /// Reads the files about addresses and interfaces, and those versions of them that are kept with the archive.
    fn load_enrichment(&self) -> Result<Arc<Enrichment>, EngineError> {
        let EnrichmentArgs { geo_mmdb, asn_mmdb, routes, labels, interfaces } = self.enrichment.clone();
        let versions = self.archive.versions();
        Enrichment::load(&EnrichmentFiles { asn_mmdb, routes, geo_mmdb, labels, interfaces, versions, limits: None })
            .map(Arc::new)
    }

    /// Opens the archive as it is now, for a statement.
    fn engine(&self, enrichment: &Arc<Enrichment>, statement: &str) -> anyhow::Result<Engine> {
        let options = EngineOptions {
            tables: self.tables.clone(),
            zone: self.zone(),
            enrichment: Arc::clone(enrichment),
            ..self.archive.engine_options()
        };
        self.archive.engine(options, statement)
    }

    /// Zone of times that are written without one, and of those that are printed.
    fn zone(&self) -> TimeZone {
        zone(self.utc)
    }

    /// Says on standard error which flows there are, after an answer that has no rows.
    fn explain_no_rows(&self) {
        // a cluster has no extent that is cheap to know
        if let Ok(archive) = Archive::open(&self.archive.archive, QueryOptions::default()) {
            eprintln!("{}", no_rows::of_statement(&archive, &self.zone()));
        }
    }

    fn output_options(&self) -> OutputOptions {
        OutputOptions { zone: self.zone(), scaled: false, texts: texts(self.raw), ..OutputOptions::default() }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let Some(statement) = &args.statement else { return shell::run(args) };
    let statement = match statement.as_str() {
        "-" => io::read_to_string(io::stdin()).context("cannot read the statement from standard input")?,
        text => text.to_owned(),
    };
    let foreground = ForegroundQuery::new(&args.foreground)?;
    let engine = args.engine(&args.load_enrichment()?, &statement)?;
    let result = write(args, &statement, &engine, &foreground);
    if !foreground.control().progress.warnings().is_empty() {
        foreground.clear_progress();
        report_warnings(&foreground.control().progress);
    }
    if result.as_ref().is_ok_and(|rows| *rows == 0) && !args.quiet && no_rows::is_looked_at(args.format) {
        foreground.clear_progress();
        args.explain_no_rows();
    }
    if let Ok(rows) = result
        && !args.quiet
        && io::stderr().is_terminal()
    {
        foreground.clear_progress();
        eprintln!("{} in {:.3} s", counted(rows, "row"), began.elapsed().as_secs_f64());
    }
    if result.is_err() {
        engine.close(CLOSING_MAX);
    }
    foreground.exit_code(result.map(drop))
}

/// Writes the answer; gives the number of its rows.
fn write(args: &Args, statement: &str, engine: &Engine, foreground: &ForegroundQuery) -> anyhow::Result<u64> {
    let answer = engine.sql_on(statement, foreground.control())?;
    Ok(write_answer(answer, args.format.into(), &args.output_options(), &mut foreground.output())?)
}

/// Prints on standard error why an answer has less than what was asked for, and that a sum in it does not fit.
fn report_warnings(progress: &Progress) {
    for warning in progress.warnings() {
        eprintln!("warning: {warning}");
    }
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
