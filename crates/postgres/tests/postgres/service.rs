//! A service for the tests of a protocol: an archive of made-up flows, users, and a thread for each question.

// the tests of each protocol use a part of it
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, UInt64Type};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use weir_archive::{ArchiveHandle, ArchiveOptions, HandleOptions, Writer};
use weir_flow::{Column, Delivery, FlowBatchBuilder};
use weir_sql::output::{Format, OutputOptions, write_answer};
use weir_sql::{
    Asker, Engine, EngineOptions, Login, Progress, QueryControl, Question, QuestionService, Reason, Refusal, Work,
};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
/// Flows of the archive.
pub(crate) const FLOWS: usize = 20_000;
/// 2026-01-01T00:00:00Z.
const NEW_YEAR_MS: i64 = 1_767_225_600_000;
/// How long a question may run.
const TIME_MAX: Duration = Duration::from_mins(1);
/// What Postgres 15 keeps for the password 'pencil' with the salt of RFC 7677.
const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

/// Who may ask: anybody, or ann with the password 'pencil' and eve, who may log in and ask nothing.
#[derive(Clone)]
pub(crate) struct TestService {
    pub(crate) has_users: bool,
    /// Questions that run.
    pub(crate) running: Arc<AtomicUsize>,
}

struct TestAsker {
    name: String,
    service: TestService,
}

impl TestService {
    pub(crate) fn new(has_users: bool) -> Self {
        Self { has_users, running: Arc::default() }
    }

    fn named(&self, name: &str) -> Arc<dyn Asker> {
        Arc::new(TestAsker { name: name.to_owned(), service: self.clone() })
    }

    /// Waits until so many questions run.
    pub(crate) fn wait_for_running(&self, count: usize) {
        wait_until("questions run", || self.running.load(Ordering::Relaxed) == count);
    }
}

/// Waits until something is true.
pub(crate) fn wait_until(what: &str, is_it: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_it() {
        assert!(Instant::now() < until, "it does not happen: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn wrong() -> Refusal {
    Refusal::new(Reason::Credentials, "the name or the password is not right")
}

impl QuestionService for TestService {
    fn has_users(&self) -> bool {
        self.has_users
    }

    fn local(&self, _from: IpAddr) -> Arc<dyn Asker> {
        self.named("local")
    }

    fn scram_verifier(&self, name: &str, _from: IpAddr) -> Result<Option<String>, Refusal> {
        Ok(["ann", "eve"].contains(&name).then(|| PENCIL.to_owned()))
    }

    fn by_name(&self, name: &str, _from: IpAddr, is_proved: bool) -> Login {
        if is_proved { Ok(self.named(name)) } else { Err(wrong()) }
    }

    fn by_password(&self, name: &str, password: &str, _from: IpAddr) -> BoxFuture<'static, Login> {
        let login = if name == "ann" && password == "pencil" { Ok(self.named(name)) } else { Err(wrong()) };
        async move { login }.boxed()
    }

    fn by_token(&self, token: &str, _from: IpAddr) -> BoxFuture<'static, Login> {
        let login = if token == "ann:token" { Ok(self.named("ann")) } else { Err(wrong()) };
        async move { login }.boxed()
    }
}

/// Stops a question whose client has left, and counts it no more once its thread has ended.
struct StopWhenDropped(Arc<Progress>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Asker for TestAsker {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&self, question: Question, work: Work) -> BoxFuture<'static, Result<(), Refusal>> {
        if self.name == "eve" {
            return async { Err(Refusal::new(Reason::Forbidden, "'eve' is viewer, and this takes analyst")) }.boxed();
        }
        let running = Arc::clone(&self.service.running);
        let time_max = question.time_max.map_or(TIME_MAX, |time_max| time_max.min(TIME_MAX));
        let control = QueryControl { progress: Arc::default(), time_max: Some(time_max) };
        let (sender, ended) = oneshot::channel();
        let asked = control.clone();
        async move {
            let _stop = StopWhenDropped(Arc::clone(&control.progress));
            running.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || {
                let engine =
                    engine(&asked, &EngineOptions { zone: question.zone, threads: 2, ..EngineOptions::default() });
                let worked = work(&engine, &asked);
                engine.close(Duration::from_millis(300));
                running.fetch_sub(1, Ordering::Relaxed);
                // whoever asked may have gone
                let _ = sender.send(worked);
            });
            let late = || Refusal::new(Reason::Time, "the question ran longer than it may");
            match tokio::time::timeout(time_max, ended).await {
                Ok(ended) => ended.unwrap_or_else(|_| Err(Refusal::new(Reason::Internal, "the question panicked"))),
                Err(_) => Err(late()),
            }
        }
        .boxed()
    }
}

fn engine(control: &QueryControl, options: &EngineOptions) -> Engine {
    let handle = ArchiveHandle::open(archive(), &HandleOptions::default()).expect("the archive");
    let snapshot = Arc::new(handle.snapshot().expect("a snapshot"));
    Engine::over_on(&snapshot, options, control).expect("an engine")
}

/// An archive of made-up flows, which no test changes: half in a segment, half in the tail.
pub(crate) fn archive() -> &'static Path {
    static ARCHIVE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, archive) = ARCHIVE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("archive");
        let open = || Writer::open(&path, ArchiveOptions::default()).expect("an archive").0;
        let mut writer = open();
        writer.append(flows(0..FLOWS / 2)).expect("appended");
        writer.close().expect("sealed");
        let mut writer = open();
        writer.append(flows(FLOWS / 2..FLOWS)).expect("appended");
        drop(writer);
        (folder, path)
    });
    archive
}

fn flows(rows: std::ops::Range<usize>) -> Delivery {
    let mut builder = FlowBatchBuilder::new(rows.len());
    builder.begin_rows(rows.len());
    builder.address(Column::Exporter).repeat(&[198, 51, 100, 1], rows.len());
    for row in rows {
        let number = row as u64;
        let v4 = [10, (row >> 16) as u8, (row >> 8) as u8, row as u8];
        let mut v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        v6[14..].copy_from_slice(&v4[2..]);
        let ms = NEW_YEAR_MS + row as i64 * 1000;
        builder.time(Column::Received).push(Some(ms + 60_000));
        builder.time(Column::Start).push(Some(ms));
        builder.time(Column::End).push((row % 7 != 0).then_some(ms + 1_234));
        builder.address(Column::SrcAddr).push(Some(if row % 10 == 0 { &v6 } else { &v4 }));
        builder.address(Column::DstAddr).push(Some(&[192, 0, 2, (row % 200) as u8]));
        builder.u16(Column::SrcPort).push(Some(50_000));
        builder.u16(Column::DstPort).push(Some([443, 53, 22, 80][row % 4]));
        builder.u8(Column::Protocol).push(Some(if row % 4 == 1 { 17 } else { 6 }));
        builder.u16(Column::TcpFlags).push((row % 4 != 1).then_some(0x1b));
        builder.u64(Column::Packets).push(Some(1 + number % 9));
        builder.u64(Column::Bytes).push(Some(40 + number * 7 % 1500));
    }
    Delivery::from(builder.finish())
}

/// What the engine says of a statement without a protocol between, as comma-separated values without their heading.
pub(crate) fn by_engine(statement: &str) -> String {
    let engine = engine(&QueryControl::default(), &EngineOptions::default());
    let mut text = Vec::new();
    let answer = engine.sql(statement).expect("an answer");
    write_answer(answer, Format::Csv, &OutputOptions::default(), &mut text).expect("written");
    String::from_utf8(text).expect("text").lines().skip(1).collect::<Vec<_>>().join("\n")
}

/// The numbers of a row.
pub(crate) fn numbers(batch: &RecordBatch) -> Vec<i64> {
    let number = |column: &arrow::array::ArrayRef| {
        let signed = column.as_primitive_opt::<Int64Type>().map(|values| values.value(0));
        signed.or_else(|| column.as_primitive_opt::<UInt64Type>().map(|values| values.value(0) as i64))
    };
    batch.columns().iter().map(|column| number(column).expect("a number")).collect()
}

/// Octets of memory that this process holds.
pub(crate) fn memory_octets() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// A Python that has these modules; the test is skipped otherwise.
pub(crate) fn python_with(modules: &str, package: &str) -> Option<PathBuf> {
    let interpreters = std::env::var_os("WEIR_PYTHON").map(PathBuf::from).into_iter();
    for python in interpreters.chain([PathBuf::from("/usr/bin/python3")]) {
        let found = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
        if found.is_ok_and(|output| output.status.success()) {
            return Some(python);
        }
    }
    let reason = format!("Python has no {modules}: install {package}, or name another Python in WEIR_PYTHON");
    // the first names what may be required
    weir_testkit::skip(modules.split(',').next().unwrap_or(modules), &reason);
    None
}

/// Runs a client, and gives what it prints.
pub(crate) fn client(program: &Path, before: &[&str], file: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(before).arg(file).args(arguments).output().expect("the client runs");
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}: {out}{errors}", file.display());
    out
}

/// A client that prints a word for what it has done, and waits for a line before it goes on. It is killed when dropped.
pub(crate) struct Conversation {
    child: Child,
    words: mpsc::Receiver<String>,
    errors: Option<JoinHandle<String>>,
}

impl Conversation {
    pub(crate) fn begin(program: &Path, before: &[&str], file: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(before).arg(file).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the client runs");
        let out = BufReader::new(child.stdout.take().expect("standard output"));
        let mut errors = child.stderr.take().expect("standard error");
        let (put, words) = mpsc::channel();
        // a read has no limit of time
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| put.send(line)));
        let errors = thread::spawn(move || {
            let mut octets = Vec::new();
            // what was read up to an error is all there is
            let _ = errors.read_to_end(&mut octets);
            text(&octets)
        });
        Self { child, words, errors: Some(errors) }
    }

    /// Waits until the client prints a word.
    #[track_caller]
    fn hear(&mut self, word: &str) {
        let heard = self.words.recv_timeout(PATIENCE);
        assert!(heard.as_deref() == Ok(word), "'{word}' is awaited, and not {heard:?}: {}", self.errors());
    }

    fn go_on(&mut self) {
        let input = self.child.stdin.as_mut().expect("standard input");
        input.write_all(b"\n").expect("the client reads");
    }

    /// Ends it, for what it has printed besides.
    fn errors(&mut self) -> String {
        // it may have ended by itself
        let _ = self.child.kill();
        self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default()
    }

    /// Lets the client ask so many questions that take longer than they may, and cancel them: each of them works no more soon,
    /// while the client stays connected, and the connection answers after that. `statements` are those that came so far.
    pub(crate) fn cancels(mut self, questions: usize, service: &TestService, statements: impl Fn() -> u64) {
        for _ in 0..questions {
            self.hear("ready");
            let before = statements();
            self.go_on();
            let runs = || statements() > before && service.running.load(Ordering::Relaxed) == 1;
            wait_until("the question runs", runs);
            self.go_on();
            self.hear("cancelled");
            let cancelled = Instant::now();
            service.wait_for_running(0);
            // the limit of its time would end it as well
            assert!(cancelled.elapsed() < TIME_MAX / 2, "it went on for {:?}", cancelled.elapsed());
            self.go_on();
        }
        self.hear("answered");
        self.go_on();
        let ended = self.child.wait().expect("it ends");
        assert!(ended.success(), "{}", self.errors());
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}
