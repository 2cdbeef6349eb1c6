//! A receiver of remote write that a test starts, kills and asks.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Which program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Prometheus,
    VictoriaMetrics,
}

/// Samples of a series: times in milliseconds, and values.
pub(crate) type Samples = Vec<(i64, u64)>;

/// A server on a port of this machine, until it is dropped.
pub(crate) struct Server {
    kind: Kind,
    program: PathBuf,
    folder: PathBuf,
    port: u16,
    more: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// A server that does not run yet; `None` where the program is not installed.
    pub(crate) fn new(kind: Kind, folder: &Path) -> Option<Self> {
        let name = if kind == Kind::Prometheus { "prometheus" } else { "victoria-metrics" };
        let program = weir_testkit::program(name)?;
        let port = weir_testkit::ports::free_port();
        fs::write(folder.join("prometheus.yml"), "global: {}\n").expect("written");
        Some(Self { kind, program, folder: folder.to_owned(), port, more: Vec::new(), child: None })
    }

    /// The same with more arguments.
    pub(crate) fn with(mut self, argument: String) -> Self {
        self.more.push(argument);
        self
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts it on the data that it has, and waits until it answers.
    pub(crate) fn start(&mut self) {
        let folder = self.folder.display();
        let address = self.address();
        let arguments = match self.kind {
            Kind::Prometheus => vec![
                format!("--config.file={folder}/prometheus.yml"),
                format!("--storage.tsdb.path={folder}/data"),
                format!("--web.listen-address={address}"),
                "--web.enable-remote-write-receiver".to_owned(),
            ],
            Kind::VictoriaMetrics => {
                vec![format!("-storageDataPath={folder}/data"), format!("-httpListenAddr={address}")]
            }
        };
        let log = fs::File::create(self.folder.join("log")).expect("a file");
        let child = Command::new(&self.program)
            .args(arguments)
            .args(&self.more)
            .stdout(log.try_clone().expect("the file twice"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn();
        self.child = Some(child.expect("it starts"));
        let began = Instant::now();
        while !self.is_ready() {
            let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_mins(1), "{:?} does not start: {}", self.kind, log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_ready(&self) -> bool {
        let has_tls = self.more.iter().any(|argument| argument.contains("web.config.file"));
        if has_tls {
            return TcpStream::connect(self.address()).is_ok();
        }
        let path = if self.kind == Kind::Prometheus { "/-/ready" } else { "/health" };
        ureq::get(format!("http://{}{path}", self.address())).call().is_ok()
    }

    /// Ends it in order, as an update does.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let pid = child.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
            child.wait().expect("it ends");
        }
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().and_then(|()| child.wait()).expect("it ends");
        }
    }

    /// Every sample of a metric, by its labels as text.
    pub(crate) fn samples(&self, metric: &str) -> BTreeMap<String, Samples> {
        match self.kind {
            Kind::Prometheus => self.selected(metric),
            Kind::VictoriaMetrics => self.exported(metric),
        }
    }

    fn get(&self, path: &str) -> String {
        let mut answer = ureq::get(format!("http://{}{path}", self.address())).call().expect("an answer");
        answer.body_mut().read_to_string().expect("text")
    }

    /// A range vector has the samples as they are stored.
    fn selected(&self, metric: &str) -> BTreeMap<String, Samples> {
        let answer: Value =
            serde_json::from_str(&self.get(&format!("/api/v1/query?query={metric}%5B1d%5D"))).expect("JSON");
        let result = answer["data"]["result"].as_array().expect("series");
        let sample = |pair: &Value| {
            let time = pair[0].as_f64().expect("a time") * 1e3;
            (time.round() as i64, pair[1].as_str().expect("a value").parse().expect("a number"))
        };
        let series = |one: &Value| {
            let values = one["values"].as_array().expect("values").iter().map(sample).collect();
            (labels(&one["metric"]), values)
        };
        result.iter().map(series).collect()
    }

    fn exported(&self, metric: &str) -> BTreeMap<String, Samples> {
        // what was written last is not searched at once
        self.get("/internal/force_flush");
        let text = self.get(&format!("/api/v1/export?match%5B%5D={metric}"));
        let mut found: BTreeMap<String, Samples> = BTreeMap::new();
        for line in text.lines() {
            let one: Value = serde_json::from_str(line).expect("JSON");
            let numbers = |name: &str| one[name].as_array().expect("numbers").clone();
            let samples = numbers("timestamps").into_iter().zip(numbers("values"));
            let samples =
                samples.map(|(time, value)| (time.as_i64().expect("a time"), value.as_u64().expect("a value")));
            found.entry(labels(&one["metric"])).or_default().extend(samples);
        }
        for samples in found.values_mut() {
            samples.sort_unstable();
        }
        found
    }
}

fn labels(metric: &Value) -> String {
    let metric = metric.as_object().expect("labels");
    let mut labels: Vec<_> =
        metric.iter().map(|(name, value)| format!("{name}={}", value.as_str().expect("text"))).collect();
    labels.sort_unstable();
    labels.join(",")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
