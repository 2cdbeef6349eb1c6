//! `weir nfdump`: the options, formats and exit codes of nfdump 1.7, over its files and over archives.

mod about;
mod answer;
mod config;
mod input;
mod keys;
mod source;
mod view;

use std::process::ExitCode;

use weir_filter::Predicate;
use weir_sql::TimeWindow;

use crate::{asking, time_range};

/// What nfdump returns when something is wrong.
const FAILED: u8 = 255;

/// Ask nfcapd files, or an archive, with the options of nfdump 1.7
///
/// Examples:
///   weir nfdump -r nfcapd.202611211200 -o long 'proto tcp and dst port 22'
///   weir nfdump -R /var/flows/2026/11/21 -s srcip/bytes -n 20
///   weir nfdump -r /var/lib/weir/archive -A srcip,dstport -O bytes -N
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Filter, in nfdump's language; several words are joined
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Read this file, all files below this folder, or this archive
    #[arg(short = 'r', value_name = "PATH")]
    read: Option<String>,
    /// Read a range of files: DIR, DIR/FILE and later ones, DIR/FILE1:FILE2, DIR/SUB1/FILE1:SUB2/FILE2; or an archive
    #[arg(short = 'R', value_name = "RANGE")]
    range: Option<String>,
    /// Read the files that -r or -R names in several folders: DIR/A:B:C, or DIR/@ for all
    #[arg(short = 'M', value_name = "DIRS")]
    directories: Option<String>,
    /// Read the filter from this file, unless there is one on the command line
    #[arg(short = 'f', value_name = "FILE")]
    filter_file: Option<String>,
    /// Rank the values of a field, STAT[:p][/ORDER[:a|d]]…, or whole flows with record[/ORDER]…
    #[arg(short = 's', value_name = "STAT")]
    statistic: Vec<String>,
    /// Make one flow of those that agree in protocol, addresses and ports
    #[arg(short = 'a')]
    aggregate: bool,
    /// Make one row of flows that agree in these fields: a list of proto, srcip, dstip, srcip4/24, srcport …
    #[arg(short = 'A', value_name = "KEYS", conflicts_with_all = ["both_ways", "guess"])]
    keys: Option<String>,
    /// Make one flow of both directions
    #[arg(short = 'b')]
    both_ways: bool,
    /// As -b, and guess which side is the client
    #[arg(short = 'B')]
    guess: bool,
    /// Sort by flows, packets, bytes, pps, bps, bpp, tstart, tend or duration, with :a or :d for the direction
    #[arg(short = 'O', value_name = "ORDER")]
    order: Option<String>,
    /// Sort by start; -O tstart is the same
    #[arg(short = 'm')]
    by_start: bool,
    /// Most rows of a ranking (10 unless told) or of what is sorted or grouped (all unless told); 0 for all
    #[arg(short = 'n', value_name = "N")]
    top: Option<usize>,
    /// Stop after so many flows that pass the filter
    #[arg(short = 'c', value_name = "N")]
    count: Option<u64>,
    /// Flows that lie strictly within YYYY/MM/DD.hh:mm:ss-YYYY/MM/DD.hh:mm:ss, in the local zone
    #[arg(short = 't', value_name = "WINDOW", value_parser = time_range::nfdump_window)]
    window: Option<TimeWindow>,
    /// Rows of an answer that this filter takes, such as 'bytes > 1m'
    #[arg(short = 'P', value_name = "FILTER")]
    post_filter: Option<String>,
    /// Format: raw, line, long, extended, biline, bilong, gline, glong, nsel, nat, json, ndjson, csv, csv-fast, null,
    /// fmt:TAGS, csv:TAGS or a name of the file of -C; a 6 at the end for addresses of IPv6 in full
    #[arg(short = 'o', value_name = "FORMAT")]
    output: Option<String>,
    /// Addresses of IPv6 in full
    #[arg(short = '6')]
    long_ipv6: bool,
    /// Neither headings nor what stands below
    #[arg(short = 'q')]
    quiet: bool,
    /// Plain numbers rather than 1.2 M
    #[arg(short = 'N')]
    plain_numbers: bool,
    /// A Control-A before each address, for hooks of NfSen
    #[arg(short = 'T')]
    tag_addresses: bool,
    /// Write flows to an nfcapd file rather than as text
    #[arg(short = 'w', value_name = "FILE")]
    write: Option<String>,
    /// Compress what -w writes
    #[arg(short = 'z', value_name = "CODEC", num_args = 0..=1, require_equals = true, default_missing_value = "lzo")]
    compress: Option<String>,
    /// Compress what -w writes with LZ4
    #[arg(short = 'y', conflicts_with = "compress")]
    lz4: bool,
    /// Compress what -w writes with bzip2
    #[arg(short = 'j', conflicts_with_all = ["compress", "lz4"])]
    bzip2: bool,
    /// Ident of the file that -w writes
    #[arg(short = 'i', value_name = "IDENT", requires = "write")]
    ident: Option<String>,
    /// What the files say of themselves: counters by protocol, first and last time
    #[arg(short = 'I')]
    statistics: bool,
    /// One line of counters for each file, for gnuplot
    #[arg(short = 'g')]
    gnuplot: bool,
    /// Check a file: read all of it and tell what is in it
    #[arg(short = 'v', value_name = "FILE")]
    verify: Option<String>,
    /// The exporters of a file
    #[arg(short = 'E', value_name = "FILE")]
    exporters: Option<String>,
    /// Print the filter as it was understood
    #[arg(short = 'X')]
    explain: bool,
    /// Check the filter and do nothing else
    #[arg(short = 'Z')]
    check: bool,
    /// File of formats, with lines such as fmt.name = "fmt:%ts %sa"; none for no file [default: $NFCONF]
    #[arg(short = 'C', value_name = "FILE")]
    config: Option<String>,
    /// Threads that work on the question [default: one per core]
    #[arg(short = 'W', value_name = "N")]
    threads: Option<usize>,
    /// What this is
    #[arg(short = 'V')]
    version: bool,
    /// Database of places; only none
    #[arg(short = 'G', value_name = "none", value_parser = ["none"])]
    geo: Option<String>,
    /// Database of Tor nodes; only none
    #[arg(short = 'H', value_name = "none", value_parser = ["none"])]
    tor: Option<String>,
    /// Not offered: write the flows with -w and -z instead
    #[arg(short = 'J', value_name = "CODEC", hide = true)]
    recompress: Option<String>,
    /// Not offered: use the filter, packets > N
    #[arg(short = 'l', value_name = "N", hide = true)]
    packets_min: Option<String>,
    /// Not offered: use the filter, bytes > N
    #[arg(short = 'L', value_name = "N", hide = true)]
    bytes_min: Option<String>,
    /// Not offered: host names of filters are asked of the system's resolver
    #[arg(short = 'D', value_name = "SERVER", hide = true)]
    name_server: Option<String>,
    /// Not offered: files of nfdump 1.6 are read without their extension maps
    #[arg(short = 'x', value_name = "FILE", hide = true)]
    extensions: Option<String>,
}

/// Ends the program because of its arguments. What is called as nfdump is expected to return what nfdump returns.
pub(crate) fn exit(error: &clap::Error) -> ! {
    let is_nfdump = std::env::args_os().nth(1).is_some_and(|command| command == "nfdump");
    // when nothing can be printed, nothing can be said about it
    let _ = error.print();
    std::process::exit(if error.use_stderr() && is_nfdump { FAILED.into() } else { error.exit_code() })
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match run_inner(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            if let Some(hint) = crate::hint(&error) {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(FAILED)
        }
    }
}

fn run_inner(args: &Args) -> anyhow::Result<()> {
    if args.version {
        return about::print(
            concat!("weir nfdump: Version: ", env!("CARGO_PKG_VERSION"), ", as nfdump 1.7\n").as_bytes(),
        );
    }
    not_offered(args)?;
    if let Some(path) = &args.verify {
        return about::verify(path);
    }
    if let Some(path) = &args.exporters {
        return about::exporters(path);
    }
    let filter = filter(args)?;
    if args.check {
        return Ok(());
    }
    if args.explain {
        return about::print(format!("{filter}\n").as_bytes());
    }
    let input = input::Input::of(args)?;
    if args.statistics || args.gnuplot {
        let input::Input::Files(files) = &input else {
            anyhow::bail!("-I and -g are about files\nhint: -s proto -n 0 counts the flows of an archive");
        };
        return if args.statistics { about::statistics(files) } else { about::gnuplot(files) };
    }
    answer::answer(args, input, filter)
}

/// Options of nfdump that have no meaning here.
fn not_offered(args: &Args) -> anyhow::Result<()> {
    let options = [
        ("-J", &args.recompress, "read the file with -r and write it with -w and -z=CODEC"),
        ("-l", &args.packets_min, "use the filter 'packets > N'"),
        ("-L", &args.bytes_min, "use the filter 'bytes > N'"),
        ("-D", &args.name_server, "host names of filters are asked of the system's resolver"),
        ("-x", &args.extensions, "-v FILE tells what is in a file"),
    ];
    match options.into_iter().find(|(_, value, _)| value.is_some()) {
        Some((option, _, instead)) => anyhow::bail!("{option} is not offered\nhint: {instead}"),
        None => Ok(()),
    }
}

/// The filter of the command line, or else of the file of `-f`.
fn filter(args: &Args) -> anyhow::Result<Predicate> {
    use anyhow::Context;
    let mut text = args.filter.join(" ");
    if text.trim().is_empty()
        && let Some(path) = &args.filter_file
    {
        text = std::fs::read_to_string(path).with_context(|| format!("cannot read the filter of {path}"))?;
    }
    parse_filter(&text)
}

fn parse_filter(text: &str) -> anyhow::Result<Predicate> {
    asking::parse_filter(&asking::filter_reader().with_file_records(), text)
}
