//! Processes that are killed: this program again, told by the environment what to be.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::{checks, follower, readers, writer};

const DIR: &str = "WEIR_TOGETHER_DIR";
const ROLE: &str = "WEIR_TOGETHER_ROLE";
const SEED: &str = "WEIR_TOGETHER_SEED";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Writer,
    Reader,
    Follower,
    Checker,
}

/// Not a test by itself: the process that is killed.
#[test]
fn child_does_its_part() {
    let (Some(dir), Ok(role)) = (std::env::var_os(DIR), std::env::var(ROLE)) else { return };
    let (dir, seed) = (PathBuf::from(dir), std::env::var(SEED).expect("a seed").parse().expect("a number"));
    // other threads would go on
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        process::exit(101);
    }));
    match role.as_str() {
        "Writer" => writer::run(&dir, seed),
        "Reader" => readers::run(&dir, seed),
        "Follower" => follower::run(&dir, seed),
        "Checker" => checks::run(&dir),
        other => panic!("no part is called {other}"),
    }
}

/// Says to the parent that so much more of something was done.
pub(crate) fn say(what: &str, count: u64) {
    // a line of a process that is killed may be half a line; it is then not counted
    let line = format!("together {what} {count}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
}

/// What all children did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Said {
    pub(crate) answers: u64,
    pub(crate) followed: u64,
    pub(crate) checks: u64,
    gaps: u64,
    merged: u64,
    expired: u64,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answers, followed, gaps, checks, merged, expired } = self;
        write!(f, "{answers} answers, {followed} deliveries followed, {gaps} gaps, {checks} checks of all files, ")?;
        write!(f, "{merged} segments merged, {expired} expired")
    }
}

static SAID: Mutex<Said> = Mutex::new(Said { answers: 0, followed: 0, checks: 0, gaps: 0, merged: 0, expired: 0 });

pub(crate) fn said() -> Said {
    *SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hear(line: &str) {
    let mut words = line.split(' ');
    let (Some("together"), Some(what), Some(Ok(count))) =
        (words.next(), words.next(), words.next().map(str::parse::<u64>))
    else {
        return;
    };
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let counted = match what {
        "answers" => &mut said.answers,
        "followed" => &mut said.followed,
        "checks" => &mut said.checks,
        "gaps" => &mut said.gaps,
        "merged" => &mut said.merged,
        "expired" => &mut said.expired,
        other => panic!("'{other}' is not counted"),
    };
    *counted += count;
}

/// A process, and one that hears what it says.
pub(crate) struct Child {
    role: Role,
    dir: PathBuf,
    process: process::Child,
}

impl Child {
    pub(crate) fn spawn(role: Role, dir: &Path, seed: u64) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "children::child_does_its_part", "--nocapture"])
            .envs([(ROLE, format!("{role:?}")), (SEED, seed.to_string())])
            .env(DIR, dir)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let out = process.stdout.take().expect("its output");
        std::thread::spawn(move || BufReader::new(out).lines().map_while(Result::ok).for_each(|line| hear(&line)));
        Self { role, dir: dir.to_owned(), process }
    }

    /// Kills it; fails when it had failed before.
    pub(crate) fn kill(&mut self) {
        if !self.has_ended() {
            self.process.kill().expect("SIGKILL");
            self.process.wait().expect("its end");
        }
    }

    /// Whether it has ended by itself, which a writer does when it closes the archive.
    pub(crate) fn has_ended(&mut self) -> bool {
        let Some(status) = self.process.try_wait().expect("its state") else { return false };
        assert!(status.success() && self.role == Role::Writer, "{:?} ended with {status}", self.role);
        true
    }

    pub(crate) fn restart(&mut self, seed: u64) {
        *self = Self::spawn(self.role, &self.dir, seed);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // also when another one has failed
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
