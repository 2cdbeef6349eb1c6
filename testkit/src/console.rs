//! Commands of a page, run, and their output compared with the one that the page shows.
//!
//! A page shows commands in blocks that are fenced as `console`:
//!
//! ````text
//! ```console
//! $ weir query --archive flows -s srcip/bytes -n 3
//! src addr    flows  packets    bytes
//! ...
//! ```
//! ````
//!
//! Lines that begin with `$ ` are commands; one that ends in a backslash goes on in the next line. What follows is the
//! output, standard error included. A line `...` matches any lines. `<!-- output varies -->` in a line before the block
//! makes any two numbers equal, and white space of any width. All commands of a page run in one shell, in a folder of their
//! own, in the order of the page. After the output of one that fails comes `(exit status N)`. A command that ends in `&` runs on; the next one begins when it has
//! printed something. Port 2055 is a free one when commands run, so that pages can run at the same time.
//!
//! Where pages are to be written (`cargo xtask docs`), output that differs is written into the page, with as many lines
//! before and after a `...` as were there.

use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use crate::{pages, ports};

/// The port that pages name.
const PORT: &str = ":2055";
/// How long the commands of a page may take together.
const TIME_LIMIT_SECS: u64 = 600;
/// Matches any lines.
const ANY: &str = "...";
/// Comes before a block whose numbers are not always the same.
const VARIES: &str = "<!-- output varies -->";

/// A command of a page.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    /// Lines of the page that are its output, counted from 0.
    output: Range<usize>,
    varies: bool,
}

/// Runs the commands of a page, such as `docs/guides/ask-questions.md`, with the programs of a folder first on the path.
/// `prepare` makes what the page takes as given in the folder that commands run in. Returns how many commands there were.
///
/// # Panics
/// When a command prints something else than the page shows, and when all of them take too long.
pub fn check(page: &str, programs: &Path, prepare: impl FnOnce(&Path)) -> usize {
    let text = pages::committed(page);
    let lines: Vec<&str> = text.lines().collect();
    let steps = steps(&lines);
    if steps.is_empty() {
        return 0;
    }
    let folder = std::env::temp_dir().join(format!("weir-page-{}-{}", std::process::id(), page.replace('/', "-")));
    std::fs::create_dir_all(&folder).expect("a folder");
    prepare(&folder);
    let outputs = run(&steps, programs, &folder);
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
    if pages::are_written() {
        std::fs::write(pages::path(page), rewritten(&lines, &steps, &outputs)).expect("the page is written");
        return steps.len();
    }
    let differences = differences(&lines, &steps, &outputs);
    assert!(differences.is_empty(), "{page}:{differences}\nhint: `cargo xtask docs` writes what commands print now");
    steps.len()
}

/// What pages take as given: `trace.pcap`, a minute of web, name service and mail between a few hosts.
///
/// # Panics
/// When it cannot be written.
pub fn prepare(folder: &Path) {
    let start_us = 1_767_225_600_000_000; // 2026-01-01
    let packets = (0..600_u32).map(|number| {
        let host = (number % 7) as u8;
        let (protocol, port, length) = match number % 3 {
            0 => (6, 443, 400 + 10 * (number % 90) as usize),
            1 => (17, 53, 40 + (number % 50) as usize),
            _ => (6, 25, 200),
        };
        let source_port = 40_000 + u16::from(host);
        let mut frame =
            packet([192, 0, 2, 10 + host], [198, 51, 100, 1 + host % 3], protocol, [source_port, port], length);
        if port == 53 {
            let question = question(NAMES[usize::from(host) % NAMES.len()]);
            let payload = frame.len() - length;
            frame[payload..payload + question.len()].copy_from_slice(&question);
        }
        (start_us + i64::from(number) * 100_000, frame)
    });
    crate::write_capture(&folder.join("trace.pcap"), packets);
}

/// Names that hosts ask for, each the same one all the time.
const NAMES: [&str; 3] = ["www.example.com", "mail.example.com", "cdn.example.net"];

/// A question for the address of a name (RFC 1035 section 4.1).
fn question(name: &str) -> Vec<u8> {
    let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// A packet of TCP or UDP over IPv4 in an Ethernet frame, with a payload of zeros.
fn packet(source: [u8; 4], destination: [u8; 4], protocol: u8, ports: [u16; 2], payload: usize) -> Vec<u8> {
    let transport = if protocol == 6 { 20 } else { 8 };
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(((20 + transport + payload) as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    frame.extend(source.into_iter().chain(destination));
    frame.extend(ports.into_iter().flat_map(u16::to_be_bytes));
    match protocol {
        6 => frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]),
        _ => frame.extend(((8 + payload) as u16).to_be_bytes().into_iter().chain([0, 0])),
    }
    frame.resize(frame.len() + payload, 0);
    frame
}

/// The commands of a page in their order.
fn steps(lines: &[&str]) -> Vec<Step> {
    let (mut steps, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        if lines[at] != "```console" {
            at += 1;
            continue;
        }
        let varies = lines[..at].iter().rev().find(|line| !line.is_empty()).is_some_and(|line| *line == VARIES);
        let end = (at + 1..lines.len()).find(|&end| lines[end] == "```").unwrap_or(lines.len());
        at += 1;
        while at < end {
            let (command, output) = command(lines, at, end);
            at = (output..end).find(|&next| lines[next].starts_with("$ ")).unwrap_or(end);
            steps.push(Step { command, output: output..at, varies });
        }
    }
    steps
}

/// The command in line `at`, and the line after it.
fn command(lines: &[&str], at: usize, end: usize) -> (String, usize) {
    let last = (at..end).find(|&line| !lines[line].ends_with('\\')).unwrap_or(end - 1);
    let first = lines[at].strip_prefix("$ ");
    let first = first.unwrap_or_else(|| panic!("a block of commands begins with '$ ', not with '{}'", lines[at]));
    let rest = lines[at + 1..=last].iter().flat_map(|line| ["\n", line]);
    (std::iter::once(first).chain(rest).collect(), last + 1)
}

/// Runs all commands in one shell; returns the output of each.
fn run(steps: &[Step], programs: &Path, folder: &Path) -> Vec<Vec<String>> {
    let port = format!(":{}", ports::free_port());
    let outputs = folder.join(".outputs");
    std::fs::create_dir(&outputs).expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(programs.into()).chain(std::env::split_paths(&path))).expect("a path");
    let status = Command::new("timeout")
        .args([&TIME_LIMIT_SECS.to_string(), "bash", "--norc", "-c", &script(steps).replace(PORT, &port)])
        .current_dir(folder)
        .env("PATH", path)
        .envs([("TZ", "UTC"), ("LC_ALL", "C.UTF-8"), ("COLUMNS", "120")])
        .env_remove("WEIR_ARCHIVE")
        .output()
        .expect("bash runs");
    let read = |step: usize| {
        let output = std::fs::read_to_string(outputs.join(step.to_string())).unwrap_or_default();
        output.replace(&port, PORT).lines().map(|line| line.trim_end().to_owned()).collect()
    };
    let all: Vec<Vec<String>> = (0..steps.len()).map(read).collect();
    let errors = String::from_utf8_lossy(&status.stderr).into_owned();
    assert!(status.status.code() != Some(124), "the commands took longer than {TIME_LIMIT_SECS} s: {all:?}{errors}");
    all
}

/// The shell script of the commands: the output of each goes to a file of its own.
fn script(steps: &[Step]) -> String {
    // on a busy machine what a page waits for takes longer
    let mut script =
        "trap 'kill $(jobs -p) 2>/dev/null' EXIT\nsleep() { command sleep \"$1\"; command sleep 4; }\n".to_owned();
    for (number, Step { command, .. }) in steps.iter().enumerate() {
        let output = format!(".outputs/{number}");
        let _ = writeln!(script, "{{ {command}\n}} >{output} 2>&1 </dev/null");
        if command.ends_with('&') {
            let _ = writeln!(script, "for _ in $(seq 600); do [ -s {output} ] && break; command sleep 0.1; done");
        } else {
            let _ = writeln!(script, "status=$?; [ $status = 0 ] || echo \"(exit status $status)\" >>{output}");
        }
    }
    script
}

fn differences(lines: &[&str], steps: &[Step], outputs: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (step, output) in steps.iter().zip(outputs) {
        let expected = &lines[step.output.clone()];
        if !matches(expected, output, step.varies) {
            let (shown, found) = (expected.join("\n"), output.join("\n"));
            let _ = write!(text, "\n$ {}\nthe page shows:\n{shown}\nit prints:\n{found}", step.command);
        }
    }
    text
}

/// Whether lines are what a page shows.
fn matches(expected: &[&str], output: &[String], varies: bool) -> bool {
    match expected.split_first() {
        None => output.is_empty(),
        Some((&ANY, rest)) => (0..=output.len()).any(|skipped| matches(rest, &output[skipped..], varies)),
        Some((line, rest)) => match output.split_first() {
            Some((first, others)) if is_same(line, first, varies) => matches(rest, others, varies),
            _ => false,
        },
    }
}

fn is_same(expected: &str, found: &str, varies: bool) -> bool {
    if varies { without_numbers(expected) == without_numbers(found) } else { expected.trim_end() == found }
}

/// The words of a line, with a `#` for what is only digits, signs and points.
fn without_numbers(line: &str) -> Vec<String> {
    let word = |word: &str| {
        let mut plain = String::new();
        for char in word.chars() {
            let is_number = char.is_ascii_digit();
            let is_within = plain.ends_with('#') && ".,:".contains(char);
            if !(is_number && plain.ends_with('#') || is_within) {
                plain.push(if is_number { '#' } else { char });
            }
        }
        plain
    };
    line.split_whitespace().map(word).collect()
}

/// The page with the outputs of now, where they differ from those that it shows.
fn rewritten(lines: &[&str], steps: &[Step], outputs: &[Vec<String>]) -> String {
    let (mut all, mut from) = (Vec::new(), 0);
    for (step, output) in steps.iter().zip(outputs) {
        let expected = &lines[step.output.clone()];
        all.extend_from_slice(&lines[from..step.output.start]);
        if matches(expected, output, step.varies) {
            all.extend_from_slice(expected);
        } else {
            all.extend(abridged(expected, output));
        }
        from = step.output.end;
    }
    all.extend_from_slice(&lines[from..]);
    all.join("\n") + "\n"
}

/// An output with `...` where the page had it: after as many lines, and before as many.
fn abridged<'a>(expected: &[&str], output: &'a [String]) -> Vec<&'a str> {
    let all: Vec<&str> = output.iter().map(String::as_str).collect();
    let Some(before) = expected.iter().position(|line| *line == ANY) else { return all };
    let after = expected.len() - 1 - expected.iter().rposition(|line| *line == ANY).unwrap_or(before);
    if before + after >= all.len() {
        return all;
    }
    all[..before].iter().copied().chain([ANY]).chain(all[all.len() - after..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "text\n```sh\nnot run\n```\n<!-- output varies -->\n\n```console\n$ echo 1 \\\n    2\n1 2\n$ true\n```\n";

    #[test]
    fn commands_and_outputs_are_found() {
        let lines: Vec<&str> = PAGE.lines().collect();
        let found = steps(&lines);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].command.as_str(), found[0].output.clone(), found[0].varies),
            ("echo 1 \\\n    2", 9..10, true)
        );
        assert_eq!((found[1].command.as_str(), found[1].output.clone()), ("true", 11..11));
    }

    fn check_match(expected: &str, output: &str, varies: bool, is_match: bool) {
        let expected: Vec<&str> = expected.lines().collect();
        let output: Vec<String> = output.lines().map(str::to_owned).collect();
        assert_eq!(matches(&expected, &output, varies), is_match, "{expected:?} and {output:?}");
    }

    #[test]
    fn outputs_are_compared() {
        check_match("a\nb", "a\nb", false, true);
        check_match("a", "a\nb", false, false);
        check_match("a\n...", "a\nb\nc", false, true);
        check_match("...\nc", "a\nb\nc", false, true);
        check_match("a\n...\nc", "a\nc", false, true);
        check_match("a\n...\nd", "a\nb\nc", false, false);
        check_match("a 1.5 s", "a 2.75 s", false, false);
        check_match("a 1.5 s", "a   12 s", true, true);
        check_match("a 1.5 s", "b 1.5 s", true, false);
    }

    #[test]
    fn commands_run_in_one_shell_and_their_outputs_are_kept_apart() {
        let page = "```console\n$ a=1; echo $a\n$ echo at :2055 >&2; echo $a\n$ (echo up; sleep 5) &\n$ kill %1\n```\n";
        let lines: Vec<&str> = page.lines().collect();
        let folder = std::env::temp_dir().join(format!("weir-console-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let outputs = run(&steps(&lines), Path::new("/nowhere"), &folder);
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(outputs, [vec!["1"], vec!["at :2055", "1"], vec!["up"], vec![]]);
    }

    #[test]
    fn the_status_of_a_command_that_fails_is_shown() {
        let lines = ["```console", "$ exit_with() { echo no; return 3; }; exit_with", "$ true", "```"];
        let folder = std::env::temp_dir().join(format!("weir-console-failing-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let outputs = run(&steps(&lines), Path::new("/nowhere"), &folder);
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(outputs, [vec!["no", "(exit status 3)"], vec![]]);
    }

    #[test]
    fn pages_are_written_with_what_is_printed_now() {
        let page = "a\n```console\n$ one\nold\n$ two\nx\n...\ny\n```\nb";
        let lines: Vec<&str> = page.lines().collect();
        let outputs = [vec!["new".to_owned()], ["1", "2", "3", "4"].map(str::to_owned).to_vec()];
        let text = rewritten(&lines, &steps(&lines), &outputs);
        assert_eq!(text, "a\n```console\n$ one\nnew\n$ two\n1\n...\n4\n```\nb\n");
    }
}
