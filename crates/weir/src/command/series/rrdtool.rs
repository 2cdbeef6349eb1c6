//! What files of rrdtool have already.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow};

/// When each of these files of the current folder was updated last, in seconds since the epoch; of those that are there.
///
/// # Errors
/// When rrdtool cannot be run, or cannot read one of them: making it anew would lose what it has.
pub(super) fn last_updates(files: impl Iterator<Item = String>) -> anyhow::Result<HashMap<String, i64>> {
    let files: Vec<String> = files.filter(|file| Path::new(file).exists()).collect();
    if files.is_empty() {
        return Ok(HashMap::new());
    }
    let mut command = Command::new("rrdtool");
    let child = command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.context("cannot run rrdtool, which says what the files in this folder have already")?;
    let commands = format!("last {}\n", files.join("\nlast "));
    let input = child.stdin.take();
    let writing = std::thread::spawn(move || input.map(|mut input| input.write_all(commands.as_bytes())));
    let output = child.wait_with_output().context("cannot read from rrdtool")?;
    // what it was not asked it has not answered
    let _ = writing.join();
    let text = String::from_utf8_lossy(&output.stdout);
    // a time, and then whether all is well
    let mut lines = text.lines();
    let answer = |file: String| {
        let time = lines.next().and_then(|line| line.trim().parse().ok());
        match (time, lines.next()) {
            (Some(time), Some(status)) if status.starts_with("OK") => Ok((file, time)),
            (_, status) => {
                let status = status.unwrap_or("it has ended");
                Err(anyhow!("rrdtool cannot read {file}: {status}\nhint: without --update it is made anew"))
            }
        }
    };
    files.into_iter().map(answer).collect()
}
