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
const SAID_OCTETS: u64 = 2_048;

/// A running rrdtool. It ends when this is dropped.
#[derive(Debug)]
pub struct Rrdtool {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    said: Receiver<String>,
    has_answered: bool,
}

/// What a command prints, or the error that it ends with.
pub type Answer = Result<Option<String>, String>;

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
        let ((lines_to, lines), (said_to, said)) = (channel(), channel());
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        thread("weir-rrdtool").spawn(move || read_lines(output, &lines_to))?;
        thread("weir-rrd-errors").spawn(move || read_errors(errors, &said_to))?;
        Ok(Self { child, input: Some(input), lines, said, has_answered: false })
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
        let mut printed = None;
        let answer = loop {
            match self.lines.recv_timeout(ANSWER_TIMEOUT) {
                Ok(line) if line.starts_with("OK ") => break Ok(printed),
                Ok(line) => match line.strip_prefix("ERROR: ") {
                    Some(error) => break Err(error.to_owned()),
                    None => printed = Some(line),
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

    /// Ends it, and says how it ended.
    fn ended(&mut self, why: Option<String>) -> RrdtoolEnd {
        let status = self.end();
        let is_crash = self.has_answered && why.is_none() && status.as_ref().is_ok_and(|status| is_crash(*status));
        let how = || match status {
            Ok(status) => format!("rrdtool has ended ({status})"),
            Err(error) => format!("rrdtool has ended: {error}"),
        };
        let mut why = why.unwrap_or_else(how);
        let said = self.said.recv_timeout(END_TIMEOUT).unwrap_or_default();
        if !said.is_empty() {
            why = format!("{why}: {said}");
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
/// When rrdtool cannot read it: what it says.
pub fn last_update(answer: Answer) -> Result<i64, String> {
    let printed = answer?.unwrap_or_default();
    printed.trim().parse().map_err(|_| format!("'{}' is no time", printed.escape_debug()))
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
fn read_errors(errors: ChildStderr, said: &Sender<String>) {
    let mut octets = Vec::new();
    let mut beginning = errors.take(SAID_OCTETS);
    // what cannot be read was not printed
    let _ = beginning.read_to_end(&mut octets);
    let _ = io::copy(&mut beginning.into_inner(), &mut io::sink());
    let text = String::from_utf8_lossy(&octets).into_owned();
    let clean = text.trim().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    // whoever asks may have gone
    let _ = said.send(clean);
}
