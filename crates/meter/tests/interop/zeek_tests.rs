//! Zeek's tests: which run of Zeek wrote which baseline, and the tables of the baselines.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// What becomes of a baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// It tells all that is compared.
    Whole,
    /// Some columns were cut from it, and the others are compared.
    Columns,
    /// Its columns are of what weir does not tell.
    TellsNothing,
    NoCapture,
    NoBaseline,
    /// Its test has no command, since it is of another folder.
    NoCommand,
    /// The script of the test tells Zeek which packets to take while it runs.
    Scripted,
}

impl Fate {
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Whole => "compared record by record",
            Self::Columns => "compared by the columns that its test left in it",
            Self::TellsNothing => "not compared: its test left no column that weir tells too",
            Self::NoCapture => "not compared: the capture is not in the corpus",
            Self::NoBaseline => "not compared: the baseline is not in the corpus",
            Self::NoCommand => "not compared: the test has no command",
            Self::Scripted => {
                "not compared: the test's script changes the filter of packets in the middle of the capture"
            }
        }
    }
}

/// A run of Zeek over a capture.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) capture: PathBuf,
    pub(crate) ignores_checksums: bool,
    /// Whether a filter was set.
    pub(crate) leaves_packets_out: bool,
}

/// A table of connections, and the run that wrote it.
pub(crate) struct Baseline {
    /// Name of the test, and of the table when the test has several.
    pub(crate) name: String,
    pub(crate) run: Result<Run, Fate>,
    pub(crate) table: Result<Table, Fate>,
}

/// Tests whose scripts set another filter during the run.
const SCRIPTED: [&str; 1] = ["core.pcap.dynamic-filter"];

/// Names that tests give to columns, and those that they have.
const RENAMED: [(&str, &str); 8] = [
    ("src", "id.orig_h"),
    ("src_port", "id.orig_p"),
    ("dst", "id.resp_h"),
    ("dst_port", "id.resp_p"),
    ("id_orig_h", "id.orig_h"),
    ("id_orig_p", "id.orig_p"),
    ("id_resp_h", "id.resp_h"),
    ("id_resp_p", "id.resp_p"),
];

/// Every baseline of every test.
pub(crate) fn baselines(corpus: &Path) -> Vec<Baseline> {
    let folder = corpus.join("zeek+zeek");
    let map = std::fs::read(folder.join("TEST_MAP.json")).expect("Zeek's tests");
    let map: Value = serde_json::from_slice(&map).expect("a list of tests");
    map.as_array().expect("tests").iter().flat_map(|test| of_test(&folder, test)).collect()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn of_test(folder: &Path, test: &Value) -> Vec<Baseline> {
    let (name, commands, paths) =
        (test["test"].as_str().expect("a name"), texts(&test["cmd"]), texts(&test["baseline"]));
    let baseline = |path: &&str| {
        let file = path.rsplit('/').next().unwrap_or_default();
        let name = if paths.len() == 1 { name.to_owned() } else { format!("{name}/{file}") };
        Baseline { run: run(folder, &name, &commands, file), table: table(folder, path, &commands, file), name }
    };
    paths.iter().map(baseline).collect()
}

fn mentions(command: &str, file: &str) -> bool {
    command.split_whitespace().any(|word| word.trim_start_matches(['<', '>']) == file)
}

/// The run that stands last before the table is first spoken of.
fn run(folder: &Path, name: &str, commands: &[&str], file: &str) -> Result<Run, Fate> {
    if SCRIPTED.contains(&name) {
        return Err(Fate::Scripted);
    }
    let first = commands.iter().position(|command| mentions(command, file)).unwrap_or(commands.len());
    let before = &commands[..commands.len().min(first + 1)];
    let is_run = |command: &&&str| command.contains("zeek ") && command.contains("TRACES");
    let command = before.iter().rev().find(is_run).ok_or(Fate::NoCommand)?;
    let trace = command.split("TRACES").nth(1).and_then(|after| after.split_whitespace().next());
    let trace = trace.ok_or(Fate::NoCommand)?.trim_start_matches(['}', '/']);
    let capture = folder.join("testing/btest/Traces").join(trace);
    if !capture.is_file() {
        return Err(Fate::NoCapture);
    }
    let flags = || command.split_whitespace().filter(|word| word.starts_with('-') && !word.starts_with("--"));
    Ok(Run {
        capture,
        ignores_checksums: flags().any(|word| word.contains('C')),
        leaves_packets_out: command.contains(" -f ") || command.contains("restricted_filter"),
    })
}

fn table(folder: &Path, path: &str, commands: &[&str], file: &str) -> Result<Table, Fate> {
    let octets = std::fs::read(folder.join(path)).map_err(|_| Fate::NoBaseline)?;
    let cut = commands.iter().rev().find(|command| command.contains("zeek-cut") && mentions(command, file));
    Ok(Table::read(&String::from_utf8_lossy(&octets), cut.copied().unwrap_or_default()))
}

/// A log of Zeek.
pub(crate) struct Table {
    names: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads a log with its head, or what was cut from one: then names of columns are its first line, or, when this was
    /// not asked for (`-m`), in the command that cut it.
    fn read(text: &str, cut: &str) -> Self {
        let cells = |line: &str| line.split('\t').map(ToOwned::to_owned).collect::<Vec<_>>();
        let fields = text.lines().find_map(|line| line.strip_prefix("#fields\t"));
        let mut rows: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).map(cells).collect();
        let mut names = match fields {
            Some(fields) => cells(fields),
            None if !cut.is_empty() && !cut.contains(" -m ") => {
                let words = cut.split_whitespace().skip_while(|word| *word != "zeek-cut").skip(1);
                words.take_while(|word| *word != "<").map(ToOwned::to_owned).collect()
            }
            None if rows.is_empty() => Vec::new(),
            None => rows.remove(0),
        };
        for name in &mut names {
            if let Some((_, known)) = RENAMED.iter().find(|(renamed, _)| renamed == name) {
                *name = (*known).to_owned();
            }
        }
        Self { names, rows }
    }

    pub(crate) fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.names.iter().any(|known| known == name))
    }

    /// What a row says in a column, `None` for nothing.
    pub(crate) fn cell(&self, row: usize, name: &str) -> Option<&str> {
        let at = self.names.iter().position(|known| known == name)?;
        self.rows.get(row)?.get(at).map(String::as_str).filter(|cell| *cell != "-")
    }

    pub(crate) fn number(&self, row: usize, name: &str) -> Option<u64> {
        self.cell(row, name)?.parse().ok()
    }

    pub(crate) fn address(&self, row: usize, name: &str) -> Option<IpAddr> {
        self.cell(row, name)?.parse().ok()
    }

    /// Who began, and who answers.
    pub(crate) fn ends(&self, row: usize) -> Option<(SocketAddr, SocketAddr)> {
        let end = |host: &str, port: &str| {
            Some(SocketAddr::new(self.address(row, host)?, self.number(row, port)?.try_into().ok()?))
        };
        end("id.orig_h", "id.orig_p").zip(end("id.resp_h", "id.resp_p"))
    }

    pub(crate) fn protocol(&self, row: usize) -> Option<u8> {
        match self.cell(row, "proto")? {
            "tcp" => Some(6),
            "udp" => Some(17),
            "icmp" if self.cell(row, "id.orig_h")?.contains(':') => Some(58),
            "icmp" => Some(1),
            _ => self.number(row, "ip_proto")?.try_into().ok(),
        }
    }

    pub(crate) fn duration_us(&self, row: usize) -> Option<i64> {
        let secs: f64 = self.cell(row, "duration")?.parse().ok()?;
        Some((secs * 1e6).round() as i64)
    }
}
