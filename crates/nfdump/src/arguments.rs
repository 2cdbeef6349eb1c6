//! The options of nfdump 1.7.

// The comments on arguments are the text of `--help`, where backticks are noise.
#![allow(clippy::doc_markdown)]
// A switch on the command line is a bool.
#![allow(clippy::struct_excessive_bools)]

use std::path::Path;

use weir_query::TimeWindow;

use crate::text::Release;
use crate::times;

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  weir nfdump -r nfcapd.202611211200 -o long 'proto tcp and dst port 22'
  weir nfdump -R /var/flows/2026/11/21 -s srcip/bytes -n 20
  weir nfdump -r /var/lib/weir/archive -A srcip,dstport -O bytes -N
  weir nfdump -R /var/flows/2026/11/21 -G GeoLite2-Country.mmdb -s srcgeo/bytes 'not src geo CH'";

/// Query nfcapd files or an archive with the options of nfdump 1.7
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pub(crate) flows: FlowArguments,
    #[command(flatten)]
    pub(crate) input: InputArguments,
    #[command(flatten)]
    pub(crate) grouping: GroupingArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
    #[command(flatten)]
    pub(crate) file: FileArguments,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
    /// Use this many threads [default: one per core]
    #[arg(short = 'W', value_name = "N")]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) refused: RefusedArguments,
}

/// Takes `none`, which is what nfdump does without a database.
fn no_database(text: &str) -> Result<String, String> {
    match text {
        NO_DATABASE => Ok(text.to_owned()),
        _ => Err("databases of nfdump are not read; with none, Tor nodes are printed as unknown".to_owned()),
    }
}

/// What stands for no database.
const NO_DATABASE: &str = "none";

/// Which flows are taken.
#[derive(Debug, clap::Args)]
pub(crate) struct FlowArguments {
    /// Take only the flows that pass this filter; several words are joined
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Read the filter from this file, unless there is one on the command line
    #[arg(short = 'f', value_name = "FILE")]
    pub(crate) filter_file: Option<String>,
    /// Take only flows strictly within YYYY/MM/DD.hh:mm:ss-YYYY/MM/DD.hh:mm:ss, in the local zone
    #[arg(short = 't', value_name = "WINDOW", value_parser = times::window, allow_hyphen_values = true)]
    pub(crate) window: Option<TimeWindow>,
    /// Stop after this many flows that pass the filter
    #[arg(short = 'c', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

/// What is read.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArguments {
    /// Read this file, all files below this folder, or this archive
    #[arg(short = 'r', value_name = "PATH")]
    pub(crate) read: Option<String>,
    /// Read a range of files: DIR, DIR/FILE and later ones, DIR/FILE1:FILE2, DIR/SUB1/FILE1:SUB2/FILE2; or an archive
    #[arg(short = 'R', value_name = "RANGE")]
    pub(crate) range: Option<String>,
    /// Read the files that -r or -R names in several folders: DIR/A:B:C, or DIR/@ for all
    #[arg(short = 'M', value_name = "DIRS")]
    pub(crate) directories: Option<String>,
    /// Look up the countries of addresses in this MaxMind DB file, such as GeoLite2-Country.mmdb; none for no file. An archive has
    /// the countries that weir collect --geo-mmdb kept in it
    #[arg(short = 'G', value_name = "FILE")]
    geo: Option<String>,
}

impl InputArguments {
    /// The database of countries.
    pub(crate) fn countries(&self) -> Option<&Path> {
        self.geo.as_deref().filter(|path| *path != NO_DATABASE).map(Path::new)
    }
}

/// What is made of the flows that pass.
#[derive(Debug, clap::Args)]
pub(crate) struct GroupingArguments {
    /// Rank the values of a field, STAT[:p][/ORDER[:a|d]]…, or whole flows with record[/ORDER]…
    #[arg(short = 's', value_name = "STAT")]
    pub(crate) statistic: Vec<String>,
    /// Merge flows that agree in protocol, addresses and ports
    #[arg(short = 'a')]
    pub(crate) aggregate: bool,
    /// Group flows that agree in these fields: a list of proto, srcip, dstip, srcip4/24, srcport …
    #[arg(short = 'A', value_name = "KEYS", conflicts_with_all = ["both_ways", "guess"])]
    pub(crate) keys: Option<String>,
    /// Merge flows of both directions
    #[arg(short = 'b')]
    pub(crate) both_ways: bool,
    /// Merge flows of both directions, and guess which side is the client
    #[arg(short = 'B')]
    pub(crate) guess: bool,
    /// Sort by flows, packets, bytes, pps, bps, bpp, tstart, tend or duration, with :a or :d for the direction
    #[arg(short = 'O', value_name = "ORDER")]
    pub(crate) order: Option<String>,
    /// Sort by start; -O tstart is the same
    #[arg(short = 'm')]
    pub(crate) by_start: bool,
    /// Print at most this many rows; 0 for all [default: 10 of a ranking, all of what is sorted or grouped]
    #[arg(short = 'n', value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Print only the rows of the answer that pass this filter, such as 'bytes > 1m'
    #[arg(short = 'P', value_name = "FILTER")]
    pub(crate) post_filter: Option<String>,
}

/// How the answer is printed.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArguments {
    /// Print in this format: raw, line, long, extended, biline, bilong, gline, glong, nsel, nat, json, ndjson, csv, csv-fast, null,
    /// fmt:TAGS, csv:TAGS or a name of the file of -C; a 6 at the end for addresses of IPv6 in full
    #[arg(short = 'o', value_name = "FORMAT")]
    pub(crate) output: Option<String>,
    /// Print IPv6 addresses in full
    #[arg(short = '6')]
    pub(crate) long_ipv6: bool,
    /// Print neither headings nor footer
    #[arg(short = 'q')]
    pub(crate) quiet: bool,
    /// Print plain numbers rather than 1.2 M
    #[arg(short = 'N')]
    pub(crate) plain_numbers: bool,
    /// Print everything as this release of nfdump does
    #[arg(long = "as", value_name = "RELEASE", value_enum, env = "WEIR_NFDUMP_AS", default_value_t)]
    pub(crate) release: Release,
    /// Print a Control-A before each address, for hooks of NfSen
    #[arg(short = 'T')]
    pub(crate) tag_addresses: bool,
    /// Read formats from this file, with lines such as fmt.name = "fmt:%ts %sa"; none for no file [default: $NFCONF]
    #[arg(short = 'C', value_name = "FILE")]
    pub(crate) config: Option<String>,
}

/// The file that flows are written to.
#[derive(Debug, clap::Args)]
pub(crate) struct FileArguments {
    /// Write flows to an nfcapd file rather than as text
    #[arg(short = 'w', value_name = "FILE")]
    pub(crate) write: Option<String>,
    /// Compress what -w writes
    #[arg(short = 'z', value_name = "CODEC", num_args = 0..=1, require_equals = true, default_missing_value = "lzo")]
    pub(crate) compress: Option<String>,
    /// Compress what -w writes with LZ4
    #[arg(short = 'y', conflicts_with = "compress")]
    pub(crate) lz4: bool,
    /// Compress what -w writes with bzip2
    #[arg(short = 'j', conflicts_with_all = ["compress", "lz4"])]
    pub(crate) bzip2: bool,
    /// Write this ident into the file of -w
    #[arg(short = 'i', value_name = "IDENT", requires = "write")]
    pub(crate) ident: Option<String>,
}

/// What is reported instead of an answer.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArguments {
    /// Print the statistics of files: counters by protocol, first and last time
    #[arg(short = 'I')]
    pub(crate) statistics: bool,
    /// Print one line of counters for each file, for gnuplot
    #[arg(short = 'g')]
    pub(crate) gnuplot: bool,
    /// Check a file: read all of it and report what is in it
    #[arg(short = 'v', value_name = "FILE")]
    pub(crate) verify: Option<String>,
    /// Print the exporters of a file
    #[arg(short = 'E', value_name = "FILE")]
    pub(crate) exporters: Option<String>,
    /// Print the filter as it was understood
    #[arg(short = 'X')]
    pub(crate) explain: bool,
    /// Check the filter and do nothing else
    #[arg(short = 'Z')]
    pub(crate) check: bool,
    /// Print the release of nfdump that is followed, as nfdump does
    #[arg(short = 'V', long = "version")]
    pub(crate) version: bool,
}

/// Options of nfdump that are not offered, or with one value only.
#[derive(Debug, clap::Args)]
pub(crate) struct RefusedArguments {
    /// Database of Tor nodes; only none is offered
    #[arg(short = 'H', value_name = "none", value_parser = no_database)]
    pub(crate) tor: Option<String>,
    /// Not offered: write the flows with -w and -z instead
    #[arg(short = 'J', value_name = "CODEC", hide = true)]
    pub(crate) recompress: Option<String>,
    /// Not offered: use the filter, packets > N
    #[arg(short = 'l', value_name = "N", hide = true)]
    pub(crate) packets_min: Option<String>,
    /// Not offered: use the filter, bytes > N
    #[arg(short = 'L', value_name = "N", hide = true)]
    pub(crate) bytes_min: Option<String>,
    /// Ignored: host names of filters are resolved by the system
    #[arg(short = 'D', value_name = "SERVER")]
    pub(crate) name_server: Option<String>,
    /// Not offered: files of nfdump 1.6 are read without their extension maps
    #[arg(short = 'x', value_name = "FILE", hide = true)]
    pub(crate) extensions: Option<String>,
}
