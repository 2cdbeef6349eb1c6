//! What the options ask for, and which part of the crate does it.

use std::io::{self, BufWriter, Write};

use anyhow::Context;
use weir_filter::{Predicate, Reader};

use crate::input::Input;
use crate::{Arguments, answer, files};

/// Exit status when something is wrong.
pub const FAILED: u8 = 255;

/// Exit status of nfdump when a filter is wrong.
const FILTER_FAILED: u8 = 254;

/// A filter that means nothing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct FilterError(String);

/// The exit status that goes with an error.
pub fn exit_status(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<FilterError>().is_some() { FILTER_FAILED } else { FAILED }
}

/// Octets of the answer that are written at once.
const OUTPUT_OCTETS: usize = 1 << 16;

/// Answers what the arguments ask for, and writes the answer. A reader of `output` that goes away ends it without an
/// error. Damage in files is logged.
pub fn run(arguments: &Arguments, output: &mut dyn Write) -> anyhow::Result<()> {
    let mut output = BufWriter::with_capacity(OUTPUT_OCTETS, output);
    match run_into(arguments, &mut output).and_then(|()| Ok(output.flush()?)) {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        other => other,
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}

fn run_into(arguments: &Arguments, output: &mut dyn Write) -> anyhow::Result<()> {
    if arguments.report.version {
        // nfdump begins with the name that it was called by; scripts read the release behind it
        let version = arguments.output.release.version();
        return Ok(writeln!(output, "weir {} nfdump: {version}", env!("CARGO_PKG_VERSION"))?);
    }
    refuse_not_offered(arguments)?;
    if let Some(path) = &arguments.report.verify {
        return files::verify(path, output);
    }
    if let Some(path) = &arguments.report.exporters {
        return files::exporters(path, output);
    }
    let filter = filter(arguments)?;
    if arguments.report.check {
        return Ok(());
    }
    if arguments.report.explain {
        return Ok(writeln!(output, "{filter}")?);
    }
    let input = Input::of(arguments)?;
    if arguments.report.statistics || arguments.report.gnuplot {
        let Input::Files(paths) = &input else {
            anyhow::bail!("-I and -g are about files\nhint: -s proto -n 0 counts the flows of an archive");
        };
        return if arguments.report.statistics {
            files::statistics(paths, output)
        } else {
            files::gnuplot(paths, output)
        };
    }
    answer::answer(arguments, input, filter, output)
}

/// What can be done about an error, when one of its causes knows; the message does not repeat it.
pub fn hint(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(|cause| {
        let archive = cause.downcast_ref::<weir_archive::ArchiveError>().and_then(weir_archive::ArchiveError::hint);
        archive.or_else(|| cause.downcast_ref::<weir_query::QueryError>()?.hint())
    })
}

/// Refuses options of nfdump that have no meaning here.
fn refuse_not_offered(args: &Arguments) -> anyhow::Result<()> {
    let options = [
        ("-J", &args.refused.recompress, "read the file with -r and write it with -w and -z=CODEC"),
        ("-l", &args.refused.packets_min, "use the filter 'packets > N'"),
        ("-L", &args.refused.bytes_min, "use the filter 'bytes > N'"),
        ("-x", &args.refused.extensions, "-v FILE reports what is in a file"),
    ];
    match options.into_iter().find(|(_, value, _)| value.is_some()) {
        Some((option, _, instead)) => anyhow::bail!("{option} is not offered\nhint: {instead}"),
        None => Ok(()),
    }
}

/// The filter of the command line, or else of the file of `-f`.
fn filter(args: &Arguments) -> anyhow::Result<Predicate> {
    let mut text = args.flows.filter.join(" ");
    if text.trim().is_empty()
        && let Some(path) = &args.flows.filter_file
    {
        text = std::fs::read_to_string(path).with_context(|| format!("cannot read the filter of {path}"))?;
    }
    parse_filter(&text)
}

pub(crate) fn parse_filter(text: &str) -> anyhow::Result<Predicate> {
    let reader = Reader::for_command_line().with_file_records();
    reader.parse(text).map_err(|error| FilterError(format!("wrong filter\n{}", error.render(text))).into())
}
