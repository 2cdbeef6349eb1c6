//! The examples of every command's long help, run: what people copy works.
//!
//! They run in one folder that has the files they name, in the order of the commands' help. Those that need a network, an
//! interface, a cluster or somebody who ends them are listed with the reason; that their options exist is a test of the
//! program itself.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use weir_testkit::{console, pages};

use crate::process::{run, weir};

/// Examples that are not run, by what is in them, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("eth0", "captures packets"),
    ("cassandra://", "needs a cluster"),
    ("generate --to", "sends to a collector"),
    ("doctor --listen", "listens on every address"),
    ("weir collect --listen", "listens on every address, without an end"),
    ("weir collect --archive flows --geo-mmdb", "collects without an end"),
    ("weir collect --archive flows --statistics", "collects without an end"),
    ("weir collect --archive flows --watch", "collects without an end"),
    ("weir series forward", "needs a receiver"),
    ("weir serve --demo", "serves without an end"),
    ("weir serve --archive", "serves without an end"),
    ("weir serve weir.toml\n", "serves without an end"),
    ("weir watch run", "watches without an end"),
    ("weir watch ack", "is about a watch that has run"),
    ("weir watch pause", "is about a watch that has run"),
    ("weir watch resume", "is about a watch that has run"),
    ("--follow", "imports without an end"),
    ("# a shell", "asks a person"),
    ("/etc/", "writes into folders of the system"),
    ("~/", "writes into somebody's home"),
    ("/usr/local", "writes into folders of the system"),
    ("| rrdtool", "needs another program"),
];

/// Where the paths of examples are in the folder of the test.
const PLACES: &[(&str, &str)] = &[
    ("config init weir.toml", "config init made.toml"),
    // a host of the generator
    ("--key 192.0.2.7", "--key 10.0.0.0"),
    ("/var/lib/weir/archive", "flows"),
    ("/var/lib/weir", "flows"),
    ("/var/flows", "nfcapd"),
    ("100000", "200"),
];

/// The full names of all commands, by their help.
fn commands(name: &[String], all: &mut Vec<Vec<String>>) {
    let arguments: Vec<&str> = name.iter().map(String::as_str).chain(["--help"]).collect();
    let help = String::from_utf8(run(&arguments).stdout).expect("UTF-8");
    let listed = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest).lines();
    let names = listed.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    let below: Vec<&str> =
        names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    for command in below {
        commands(&[name, &[command.to_owned()]].concat(), all);
    }
    // a group comes after its commands, whose examples it has some of
    all.push(name.to_vec());
}

/// The examples at the end of a command's help.
fn examples(command: &[String]) -> Vec<String> {
    let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let help = String::from_utf8(run(&arguments).stdout).expect("UTF-8");
    let examples = help.split_once("\nExamples:\n").map_or("", |(_, examples)| examples);
    // a line that is too long for a help goes on after a backslash
    let examples = examples.replace("\\\n", " ");
    examples.lines().map(str::trim).filter(|line| line.starts_with("weir ")).map(str::to_owned).collect()
}

/// Makes what examples name.
fn prepare(folder: &Path) {
    console::prepare(folder);
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    let repository = pages::path("");
    let copy = |from: &str, to: &str| std::fs::copy(repository.join(from), folder.join(to)).map(drop).expect("copied");
    std::fs::create_dir_all(folder.join("nfcapd/2026/11/21")).expect("folders");
    for watches in ["watches", "changed"] {
        std::fs::create_dir(folder.join(watches)).expect("a folder");
        copy("watches/portscan.toml", &format!("{watches}/portscan.toml"));
    }
    copy("crates/routes/golden/country.mmdb", "GeoLite2-Country.mmdb");
    write("hosts.csv", "address,name\n192.0.2.10,mail\n192.0.2.11,web\n");
    write("statement.sql", "SELECT count(*) FROM flows");
    write("interfaces.csv", "127.0.0.1,1,uplink\n");
    write("flows.csv", "from,to,packets,start\n192.0.2.1,192.0.2.2,7,2026-11-24T00:00:00Z\n");
    write("weir.toml", "[archive]\nfolder = \"flows\"\n");
    // the one that is shown, of which examples name components; they run one after the other
    let talkers = std::fs::read_to_string(repository.join("chains/talkers.toml")).expect("a chain");
    assert!(talkers.ends_with("format = \"csv\"\n"), "the last table is that of the file that is written");
    write("talkers.toml", &format!("{}overwrite = true\n", talkers.replace("\"../", "\"")));
    // up to now, for what is asked of the last day
    let began = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(5);
    write(
        "statistics.toml",
        &format!(
            "[components.flows]\ntype = \"generator\"\nrecords = 1000\nflows_per_second = 10\nstart = \"{began}\"\n\
             [components.kept]\ntype = \"statistics\"\ninputs = [\"flows\"]\nstatistics = \"flows/statistics\"\n"
        ),
    );
    for line in [
        "weir meter trace.pcap --archive flows",
        "weir chain run statistics.toml",
        "weir generate --write capture.pcap --records 1000",
        "weir generate --write router.pcap --records 1000 --protocol netflow-v9",
        "weir nfdump -r flows -w nfcapd/2026/11/21/nfcapd.202611211200",
        "cp nfcapd/2026/11/21/nfcapd.202611211200 .",
    ] {
        let (is_good, said) = shell(folder, line);
        assert!(is_good, "{line}\n{said}");
    }
}

/// Runs a line as a shell does; whether it succeeded, and what it printed.
fn shell(folder: &Path, line: &str) -> (bool, String) {
    let programs = Path::new(weir().get_program()).parent().expect("a folder").to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&path))).expect("a path");
    let mut command = Command::new("timeout");
    let command = command.args(["300", "bash", "--norc", "-c", line]).current_dir(folder).env("PATH", path);
    let output = command.env("TZ", "UTC").env_remove("WEIR_ARCHIVE").output().expect("bash runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn examples_work() {
    let folder = tempfile::tempdir().expect("a folder");
    prepare(folder.path());
    let mut all = Vec::new();
    commands(&[], &mut all);
    let (mut done, mut failed) = (0, Vec::new());
    let mut seen = HashSet::new();
    // commands of a group have the same examples
    for example in all.iter().flat_map(|command| examples(command)).filter(|example| seen.insert(example.clone())) {
        if NOT_RUN.iter().any(|(part, _)| format!("{example}\n").contains(part)) {
            continue;
        }
        let line = PLACES.iter().fold(example.clone(), |line, (from, to)| line.replace(from, to));
        let (is_good, said) = shell(folder.path(), &line);
        done += 1;
        if !is_good {
            failed.push(format!("$ {line}\n{said}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(done > 50, "only {done} examples were run");
}
