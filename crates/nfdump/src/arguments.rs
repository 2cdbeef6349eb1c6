//! The options of nfdump 1.7.

// The comments on arguments are the text of `--help`, where backticks are noise.
#![allow(clippy::doc_markdown)]
// A switch on the command line is a bool.
#![allow(clippy::struct_excessive_bools)]

use weir_query::TimeWindow;

use crate::times;

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  weir nfdump -r nfcapd.202611211200 -o long 'proto tcp and dst port 22'
  weir nfdump -R /var/flows/2026/11/21 -s srcip/bytes -n 20
  weir nfdump -r /var/lib/weir/archive -A srcip,dstport -O bytes -N";

/// Query nfcapd files or an archive with the options of nfdump 1.7
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// Take only the flows that pass this filter; several words are joined
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Read this file, all files below this folder, or this archive
    #[arg(short = 'r', value_name = "PATH")]
    pub(crate) read: Option<String>,
    /// Read a range of files: DIR, DIR/FILE and later ones, DIR/FILE1:FILE2, DIR/SUB1/FILE1:SUB2/FILE2; or an archive
    #[arg(short = 'R', value_name = "RANGE")]
    pub(crate) range: Option<String>,
    /// Read the files that -r or -R names in several folders: DIR/A:B:C, or DIR/@ for all
    #[arg(short = 'M', value_name = "DIRS")]
    pub(crate) directories: Option<String>,
    /// Read the filter from this file, unless there is one on the command line
    #[arg(short = 'f', value_name = "FILE")]
    pub(crate) filter_file: Option<String>,
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
    /// Stop after this many flows that pass the filter
    #[arg(short = 'c', value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Take only flows strictly within YYYY/MM/DD.hh:mm:ss-YYYY/MM/DD.hh:mm:ss, in the local zone
    #[arg(short = 't', value_name = "WINDOW", value_parser = times::window)]
    pub(crate) window: Option<TimeWindow>,
    /// Print only the rows of the answer that pass this filter, such as 'bytes > 1m'
    #[arg(short = 'P', value_name = "FILTER")]
    pub(crate) post_filter: Option<String>,
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
    /// Print a Control-A before each address, for hooks of NfSen
    #[arg(short = 'T')]
    pub(crate) tag_addresses: bool,
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
    /// Read formats from this file, with lines such as fmt.name = "fmt:%ts %sa"; none for no file [default: $NFCONF]
    #[arg(short = 'C', value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// Use this many threads [default: one per core]
    #[arg(short = 'W', value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Print the version
    #[arg(short = 'V')]
    pub(crate) version: bool,
    /// Geolocation database; only none is offered
    #[arg(short = 'G', value_name = "none", value_parser = ["none"])]
    pub(crate) geo: Option<String>,
    /// Database of Tor nodes; only none is offered
    #[arg(short = 'H', value_name = "none", value_parser = ["none"])]
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
    /// Not offered: host names of filters are resolved by the system
    #[arg(short = 'D', value_name = "SERVER", hide = true)]
    pub(crate) name_server: Option<String>,
    /// Not offered: files of nfdump 1.6 are read without their extension maps
    #[arg(short = 'x', value_name = "FILE", hide = true)]
    pub(crate) extensions: Option<String>,
}
