//! What the options ask for, and which part of the crate does it.

use std::io::{self, BufWriter, Write};

use anyhow::Context;
use weir_filter::{Predicate, Reader};

use crate::input::Input;
use crate::{Arguments, answer, files};

/// Exit status of nfdump when something is wrong.
pub const FAILED: u8 = 255;

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
    if arguments.version {
        let version = concat!("weir nfdump: Version: ", env!("CARGO_PKG_VERSION"), ", as nfdump 1.7\n");
        return Ok(output.write_all(version.as_bytes())?);
    }
    refuse_not_offered(arguments)?;
    if let Some(path) = &arguments.verify {
        return files::verify(path, output);
    }
    if let Some(path) = &arguments.exporters {
        return files::exporters(path, output);
    }
    let filter = filter(arguments)?;
    if arguments.check {
        return Ok(());
    }
    if arguments.explain {
        return Ok(writeln!(output, "{filter}")?);
    }
    let input = Input::of(arguments)?;
    if arguments.statistics || arguments.gnuplot {
        let Input::Files(paths) = &input else {
            anyhow::bail!("-I and -g are about files\nhint: -s proto -n 0 counts the flows of an archive");
        };
        return if arguments.statistics { files::statistics(paths, output) } else { files::gnuplot(paths, output) };
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
        ("-J", &args.recompress, "read the file with -r and write it with -w and -z=CODEC"),
        ("-l", &args.packets_min, "use the filter 'packets > N'"),
        ("-L", &args.bytes_min, "use the filter 'bytes > N'"),
        ("-D", &args.name_server, "host names of filters are resolved by the system"),
        ("-x", &args.extensions, "-v FILE reports what is in a file"),
    ];
    match options.into_iter().find(|(_, value, _)| value.is_some()) {
        Some((option, _, instead)) => anyhow::bail!("{option} is not offered\nhint: {instead}"),
        None => Ok(()),
    }
}

/// The filter of the command line, or else of the file of `-f`.
fn filter(args: &Arguments) -> anyhow::Result<Predicate> {
    let mut text = args.filter.join(" ");
    if text.trim().is_empty()
        && let Some(path) = &args.filter_file
    {
        text = std::fs::read_to_string(path).with_context(|| format!("cannot read the filter of {path}"))?;
    }
    parse_filter(&text)
}

pub(crate) fn parse_filter(text: &str) -> anyhow::Result<Predicate> {
    let reader = Reader::for_command_line().with_file_records();
    reader.parse(text).map_err(|error| anyhow::anyhow!("{}", error.render(text)))
}
