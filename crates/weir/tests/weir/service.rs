//! A service that tests ask.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::process::{run, weir};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A service on a free port, killed when dropped.
pub(crate) struct Service {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) collector: Option<SocketAddr>,
    /// What it prints once it answers.
    printed: Mutex<mpsc::Receiver<String>>,
}

impl Service {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = weir();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
        let collects = arguments.contains(&"--collect") || arguments.contains(&"--demo");
        Self::of(&mut command, collects)
    }

    /// The service that a command starts.
    pub(crate) fn of(command: &mut Command, collects: bool) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weir starts");
        let out = BufReader::new(child.stdout.take().expect("standard output"));
        let mut errors = BufReader::new(child.stderr.take().expect("standard error")).lines();
        let place = |line: String| line.split_once("listening on ")?.1.split(' ').next()?.parse().ok();
        let collector = collects.then(|| errors.by_ref().map_while(Result::ok).find_map(place).expect("it collects"));
        let mut lines = out.lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("://")?.1.trim_end_matches('/').parse().ok());
        // what it says later must go somewhere, or it would wait for a full pipe
        let (told, printed) = mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(told.send(line))));
        let said: std::thread::JoinHandle<Vec<String>> =
            std::thread::spawn(move || errors.map_while(Result::ok).collect());
        let Some(address) = address else { panic!("it does not answer: {:?}", said.join().unwrap_or_default()) };
        Self { child, address, collector, printed: Mutex::new(printed) }
    }

    /// Where it speaks another protocol, of this scheme; those are printed in one order, postgresql first.
    pub(crate) fn wire(&self, scheme: &str) -> SocketAddr {
        let wanted = format!("{scheme}://");
        let printed = self.printed.lock().expect("no thread panicked");
        loop {
            let line = printed.recv_timeout(PATIENCE).expect("it says where");
            if let Some((_, place)) = line.split_once(&wanted) {
                return place.trim_end_matches('/').parse().expect("an address");
            }
        }
    }

    /// Ends it in order, with SIGTERM.
    pub(crate) fn stop(mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it still runs");
        assert!(self.child.wait().expect("it ends").success());
    }

    /// Waits for its end, which somebody has asked for.
    pub(crate) fn stop_and_wait(mut self) {
        assert!(self.child.wait().expect("it ends").success());
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        self.ask_octets(method, path, headers, body.as_bytes())
    }

    pub(crate) fn ask_octets(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
        let host = format!("Host: {}", self.address);
        let has_host = headers.iter().any(|header| header.starts_with("Host:"));
        let mut head = vec![format!("{method} {path} HTTP/1.1"), "Connection: close".to_owned()];
        head.extend((!has_host).then_some(host));
        head.extend((!body.is_empty()).then(|| format!("Content-Length: {}", body.len())));
        head.extend(headers.iter().map(|header| (*header).to_owned()));
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // a service that refuses a large body does not read it
        let head = format!("{}\r\n\r\n", head.join("\r\n"));
        let _ = stream.write_all(&[head.as_bytes(), body].concat());
        let mut octets = Vec::new();
        let _ = stream.read_to_end(&mut octets);
        Answer::of(&octets)
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", &format!("/api/v1{path}"), &[], "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    pub(crate) fn sql(&self, statement: &str) -> Answer {
        let body = json!({ "statement": statement }).to_string();
        self.ask("POST", "/api/v1/sql", &["Content-Type: application/json"], &body)
    }

    /// Waits until a value of the API is as wished.
    pub(crate) fn wait_for(&self, path: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let value = self.get(path);
            if is_it(&value) {
                return value;
            }
            assert!(Instant::now() < until, "{path}: {value}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn of(octets: &[u8]) -> Self {
        let text = String::from_utf8_lossy(octets);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Status and detail of a problem.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert!(self.head.contains("application/problem+json"), "{self:?}");
        (self.status, self.json()["detail"].as_str().unwrap_or_default().to_owned())
    }
}

/// An archive of so many made-up flows, all of whose bytes are exact in JSON.
pub(crate) fn archive(folder: &Path, records: &str) -> String {
    let capture = folder.join("flows.pcap").display().to_string();
    let archive = folder.join("archive").display().to_string();
    let made = run(&["generate", "--write", &capture, "--records", records]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = run(&["import", "--archive", &archive, &capture]);
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    archive
}

pub(crate) fn hash(password: &str) -> String {
    let mut command = weir();
    let mut child = command
        .args(["serve", "--hash-password"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut input = child.stdin.take().expect("standard input");
    writeln!(input, "{password}").expect("written");
    drop(input);
    let output = child.wait_with_output().expect("a hash");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}
