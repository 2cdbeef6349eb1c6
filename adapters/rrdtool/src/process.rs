//! rrdtool at the other end of a pipe: commands go in, and an answer to each comes out, in their order.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Octets of commands that are on their way at once: what the smallest usual pipe takes without anybody who reads it.
const WAITING_OCTETS_MAX: usize = 32_768;
/// How long an answer may take; a slow disk makes a file of years in less.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// How long it may take to end when there are no more commands.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Octets that are kept of its standard error.
const STDERR_OCTETS: u64 = 2_048;

/// A running rrdtool. It ends when this is dropped.
#[derive(Debug)]
pub struct Rrdtool {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// The beginning of its standard error, once it has ended.
    stderr_text: Receiver<String>,
    has_answered: bool,
}

/// The lines that a command prints, or the error that it ends with.
pub type Answer = Result<Vec<String>, String>;

/// rrdtool answers no more. Commands without an answer may have been done or not.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct RrdtoolEnd {
    /// How it ended, and what it printed on its standard error.
    pub why: String,
    /// Whether it crashed after it had worked, so that the command is likely to be the reason.
    pub is_crash: bool,
}

impl Rrdtool {
    /// Runs a program that is rrdtool, for files in a folder, which must be there.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start(program: &Path, folder: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg("-").current_dir(folder);
        // its errors are read, and a daemon would answer before it has written
        command.env("LC_ALL", "C").env_remove("RRDCACHED_ADDRESS");
        // a signal from the terminal is for us: what is on its way is done before it ends
        command.process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let Some(((input, output), errors)) = pipes else { return Err(io::Error::other("it has no pipes")) };
        let ((lines_to, lines), (stderr_to, stderr_text)) = (channel(), channel());
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        thread("weir-rrdtool").spawn(move || read_lines(output, &lines_to))?;
        thread("weir-rrd-errors").spawn(move || read_errors(errors, &stderr_to))?;
        Ok(Self { child, input: Some(input), lines, stderr_text, has_answered: false })
    }

    /// Has commands done, each on a line, and hands on their answers in the same order.
    ///
    /// # Errors
    /// When it ends, or has not answered for a minute; the answers until then were handed on.
    pub fn ask<'a>(
        &mut self,
        commands: impl IntoIterator<Item = &'a str>,
        mut take: impl FnMut(Answer),
    ) -> Result<(), RrdtoolEnd> {
        let mut waiting: VecDeque<usize> = VecDeque::new();
        let mut octets = 0;
        for command in commands {
            while octets + command.len() > WAITING_OCTETS_MAX
                && let Some(length) = waiting.pop_front()
            {
                take(self.answer()?);
                octets -= length;
            }
            if !self.write(command) {
                // what was done before it ended has answers
                for _ in 0..waiting.len() {
                    take(self.answer()?);
                }
                return Err(self.ended(None));
            }
            octets += command.len();
            waiting.push_back(command.len());
        }
        for _ in 0..waiting.len() {
            take(self.answer()?);
        }
        Ok(())
    }

    fn write(&mut self, command: &str) -> bool {
        let line = format!("{command}\n");
        self.input.as_mut().is_some_and(|input| input.write_all(line.as_bytes()).is_ok())
    }

    fn answer(&mut self) -> Result<Answer, RrdtoolEnd> {
        let mut printed = Vec::new();
        let answer = loop {
            match self.lines.recv_timeout(ANSWER_TIMEOUT) {
                Ok(line) if line.starts_with("OK ") => break Ok(printed),
                Ok(line) => match line.strip_prefix("ERROR: ") {
                    Some(error) => break Err(error.to_owned()),
                    None => printed.push(line),
                },
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended(None)),
                Err(RecvTimeoutError::Timeout) => {
                    let why = format!("rrdtool has not answered for {} s", ANSWER_TIMEOUT.as_secs());
                    return Err(self.ended(Some(why)));
                }
            }
        };
        self.has_answered = true;
        Ok(answer)
    }

    /// Ends it, and gives how it ended.
    fn ended(&mut self, why: Option<String>) -> RrdtoolEnd {
        let status = self.end();
        let is_crash = self.has_answered && why.is_none() && status.as_ref().is_ok_and(|status| is_crash(*status));
        let how = || match status {
            Ok(status) => format!("rrdtool has ended ({status})"),
            Err(error) => format!("rrdtool has ended: {error}"),
        };
        let mut why = why.unwrap_or_else(how);
        let stderr_text = self.stderr_text.recv_timeout(END_TIMEOUT).unwrap_or_default();
        if !stderr_text.is_empty() {
            why = format!("{why}: {stderr_text}");
        }
        RrdtoolEnd { why, is_crash }
    }

    /// Waits until it has ended, which it does when there are no more commands, and kills it when that takes too long.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.input = None;
        let until = Instant::now() + END_TIMEOUT;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Rrdtool {
    fn drop(&mut self) {
        // nothing is left to do where it cannot be ended
        let _ = self.end();
    }
}

/// Whether a program ended over what it did. Somebody else may have killed it, and the signal about a page that cannot be had
/// is that of a full disk.
fn is_crash(status: ExitStatus) -> bool {
    matches!(status.signal(), Some(libc::SIGSEGV | libc::SIGABRT | libc::SIGFPE))
}

/// When a file was updated last, in seconds since the epoch: of the answer to `last` and its name.
///
/// # Errors
/// When rrdtool cannot read it: what it answers.
pub fn last_update(answer: Answer) -> Result<i64, String> {
    let printed = answer?.pop().unwrap_or_default();
    printed.trim().parse().map_err(|_| format!("'{}' is no time", printed.escape_debug()))
}

/// What rrdtool knows of a file, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// Length of its steps in seconds.
    pub step_secs: u32,
    /// When it was updated last, in seconds since the epoch.
    pub last_update_secs: i64,
}

/// What is known of a file: of the answer to `info` and its name.
///
/// # Errors
/// When rrdtool cannot read it: what it answers.
pub fn file_info(answer: Answer) -> Result<FileInfo, String> {
    let lines = answer?;
    let value = |name: &str| {
        let found = lines.iter().find_map(|line| line.split_once(" = ").filter(|(known, _)| *known == name));
        found.map(|(_, value)| value).ok_or_else(|| format!("rrdtool does not know its {name}"))
    };
    let wrong = |text: &str| format!("'{}' is no number", text.escape_debug());
    let [step, last_update] = [value("step")?, value("last_update")?];
    Ok(FileInfo {
        step_secs: step.parse().map_err(|_| wrong(step))?,
        last_update_secs: last_update.parse().map_err(|_| wrong(last_update))?,
    })
}

fn read_lines(output: ChildStdout, lines: &Sender<String>) {
    let mut output = BufReader::new(output);
    let mut octets = Vec::new();
    while output.read_until(b'\n', &mut octets).is_ok_and(|length| length > 0) {
        let line = String::from_utf8_lossy(&octets).trim_end().to_owned();
        if lines.send(line).is_err() {
            return;
        }
        octets.clear();
    }
}

/// Reads standard error to its end, so that it never waits for a reader, and hands on the beginning.
fn read_errors(errors: ChildStderr, stderr_text: &Sender<String>) {
    let mut octets = Vec::new();
    let mut beginning = errors.take(STDERR_OCTETS);
    // what cannot be read was not printed
    let _ = beginning.read_to_end(&mut octets);
    let _ = io::copy(&mut beginning.into_inner(), &mut io::sink());
    let text = String::from_utf8_lossy(&octets).into_owned();
    let clean = text.trim().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    // the receiver may have gone
    let _ = stderr_text.send(clean);
}
