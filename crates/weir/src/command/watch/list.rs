//! `weir watch list`, `weir watch pause` and `weir watch resume`.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use weir_chain::{ByteSize, closest};
use weir_print::{OutputOptions, PrintError, write_batches};
use weir_watch::journal::{has_run, state};
use weir_watch::reports::last_reported;
use weir_watch::watches::{self, ListedWatch};

use super::JournalArgs;
use crate::command::answer_format::FormatArg;

/// List the watches of an archive, what they do and when they reported last
///
/// A watch runs, is paused, has an error in its file (what ran before goes on), or is stopped, where no process runs the watches of
/// the archive at the moment.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  weir watch list -R flows\n  weir watch list -R flows -o json")]
pub(super) struct ListArgs {
    #[command(flatten)]
    journal: JournalArgs,
    /// Write the list in this format; all but table have the errors of files
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT", default_value_t = FormatArg::Table)]
    format: FormatArg,
}

/// Pause a watch: windows that end meanwhile are skipped for good
///
/// The process that runs the watch notices within 2 s, and the pause lasts over restarts until `weir watch resume`. The
/// watch file is not changed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  weir watch pause -R flows portscan")]
pub(super) struct PauseArgs {
    #[command(flatten)]
    journal: JournalArgs,
    /// Name of the watch
    #[arg(value_name = "WATCH")]
    watch: String,
}

/// End the pause of a watch: it goes on with the next whole window
///
/// The process that runs the watch notices within 2 s. A watch whose file says 'paused = true' stays paused.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  weir watch resume -R flows portscan")]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    journal: JournalArgs,
    /// Name of the watch
    #[arg(value_name = "WATCH")]
    watch: String,
}

/// What a watch does.
fn state_of(watch: &ListedWatch, folder: &Path, is_run: bool) -> &'static str {
    if watch.error.is_some() {
        "error"
    } else if watch.is_paused_by_file || watches::is_paused(folder, &watch.name) {
        "paused"
    } else if is_run {
        "running"
    } else {
        "stopped"
    }
}

pub(super) fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let folder = args.journal.options(ByteSize::default()).journal_folder();
    let listed = watches::read(&folder)?;
    if listed.is_empty() {
        eprintln!("no watches have run on this archive; `weir watch run` runs them");
    }
    let with_errors = args.format != FormatArg::Table;
    let batch = table(&listed, &folder, with_errors)?;
    let schema = batch.schema();
    let options = OutputOptions { zone: jiff::tz::TimeZone::system(), ..OutputOptions::default() };
    let batches = std::iter::once(Ok::<_, Infallible>(batch));
    match write_batches(batches, &schema, args.format.into(), &options, &mut io::stdout().lock()) {
        Err(PrintError::Write(error)) => return Err(error.into()),
        Err(PrintError::Batches(error)) => match error {},
        Ok(_) => {}
    }
    if !with_errors {
        for (watch, error) in listed.iter().filter_map(|watch| Some((watch, watch.error.as_ref()?))) {
            eprintln!("watch '{}': {error}", watch.name);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A row for each watch.
fn table(listed: &[ListedWatch], folder: &Path, with_errors: bool) -> anyhow::Result<RecordBatch> {
    let is_run = watches::is_run(folder);
    let last = last_reported(folder)?;
    let mut ends = Vec::with_capacity(listed.len());
    for watch in listed {
        ends.push(state(folder, &watch.name)?.map(|state| state.window_end_ms));
    }
    let text =
        |of: fn(&ListedWatch) -> Option<&str>| -> ArrayRef { Arc::new(listed.iter().map(of).collect::<StringArray>()) };
    let times =
        |times: Vec<Option<i64>>| -> ArrayRef { Arc::new(TimestampMillisecondArray::from(times).with_timezone("UTC")) };
    let states = listed.iter().map(|watch| Some(state_of(watch, folder, is_run))).collect::<StringArray>();
    let reported = listed.iter().map(|watch| last.get(&watch.name).copied()).collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("name", text(|watch| Some(watch.name.as_str()))),
        ("severity", text(|watch| watch.severity.map(weir_watch::Severity::word))),
        ("window", text(|watch| Some(watch.window.as_str()))),
        ("state", Arc::new(states)),
        ("last_window_end", times(ends)),
        ("last_report", times(reported)),
    ];
    if with_errors {
        columns.push(("error", text(|watch| watch.error.as_deref())));
    }
    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let kind = |name: &str| if name.starts_with("last_") { time.clone() } else { DataType::Utf8 };
    let fields: Vec<Field> = columns.iter().map(|(name, _)| Field::new(*name, kind(name), true)).collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

pub(super) fn pause(args: &PauseArgs) -> anyhow::Result<ExitCode> {
    let folder = args.journal.options(ByteSize::default()).journal_folder();
    let name = &args.watch;
    let listed = found(&folder, name)?;
    let is_new = watches::pause(&folder, name, jiff::Timestamp::now().as_millisecond())?;
    let what = match listed {
        _ if !is_new => "was paused, and stays so",
        Some(watch) if watch.is_paused_by_file => "was paused, and stays so",
        Some(_) => "is paused",
        None => "is paused when the process that runs it starts again",
    };
    eprintln!("watch '{name}' {what}");
    Ok(ExitCode::SUCCESS)
}

pub(super) fn resume(args: &ResumeArgs) -> anyhow::Result<ExitCode> {
    let folder = args.journal.options(ByteSize::default()).journal_folder();
    let name = &args.watch;
    let listed = found(&folder, name)?;
    let was_paused = watches::resume(&folder, name)?;
    if listed.as_ref().is_some_and(|watch| watch.is_paused_by_file) {
        bail!("watch '{name}' stays paused: its file says so\nhint: remove the line 'paused = true' from the file");
    }
    let what = match listed {
        _ if !was_paused => "was not paused",
        Some(_) => "goes on",
        None => "goes on when the process that runs it starts again",
    };
    eprintln!("watch '{name}' {what}");
    Ok(ExitCode::SUCCESS)
}

/// How a watch is listed; `None` where no list has it, but it has run or is paused: no process looks for its pause at the
/// moment. Any other name is an error.
fn found(folder: &Path, name: &str) -> anyhow::Result<Option<ListedWatch>> {
    let listed = watches::read(folder)?;
    if let Some(watch) = listed.iter().find(|watch| watch.name == name) {
        return Ok(Some(watch.clone()));
    }
    if has_run(folder, name) || watches::is_paused(folder, name) {
        return Ok(None);
    }
    if listed.is_empty() {
        bail!("no watch '{name}' has run on this archive");
    }
    let hint = closest(name, listed.iter().map(|watch| watch.name.as_str()));
    bail!("there is no watch '{name}' on this archive\nhint: {hint}")
}
