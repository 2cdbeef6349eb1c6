//! Servers of the tests: connections on the loopback, with TLS or without.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_secure::{ClientAuth, TlsServer, TlsServerOptions};
use weir_testkit::certificates::{Certificate, Says};

/// A connection, whatever carries it.
pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Writes an authority as `ca.pem`, and a certificate for localhost signed by it; gives a server with that.
pub(crate) fn tls_server(folder: &Path) -> TlsServer {
    let authority = Certificate::authority("ca");
    authority.write(folder, "ca");
    let says = Says { dns: &["localhost"], ..Says::name("server") };
    authority.sign(&says).write(folder, "server");
    let options = TlsServerOptions {
        certificate: folder.join("server.pem"),
        key: folder.join("server.key"),
        authorities: None,
        revocations: None,
        client_auth: ClientAuth::None,
        peers: Vec::new(),
    };
    TlsServer::new(&options).expect("a server")
}

/// Accepts connections, one after the other, until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// On a port of 127.0.0.1: a free one for 0.
    pub(crate) fn start(
        port: u16,
        tls: Option<TlsServer>,
        mut serve: impl FnMut(Box<dyn Stream>) + Send + 'static,
    ) -> Self {
        let listener = bound(port);
        let address = listener.local_addr().expect("an address");
        let is_ending = Arc::<AtomicBool>::default();
        let ending = Arc::clone(&is_ending);
        let thread = std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if ending.load(Ordering::Relaxed) {
                    return;
                }
                stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
                match &tls {
                    None => serve(Box::new(stream)),
                    Some(tls) => {
                        // a client that does not trust us goes away
                        if let Ok(stream) = tls.accept(stream) {
                            serve(Box::new(stream));
                        }
                    }
                }
            }
        });
        Self { address, is_ending, thread: Some(thread) }
    }
}

/// A port that was in use a moment ago may be so for another.
fn bound(port: u16) -> TcpListener {
    let until = Instant::now() + Duration::from_mins(2);
    loop {
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        // wakes it up
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends");
        }
    }
}

/// A request of HTTP.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// Keys of its reports.
    pub(crate) fn keys(&self) -> Vec<String> {
        let body = self.json();
        let reports = body["data"]["reports"].as_array().expect("reports").clone();
        reports.iter().map(|report| report["key"].as_str().expect("a key").to_owned()).collect()
    }
}

/// A server of HTTP that keeps what it was sent.
pub(crate) struct HttpServer {
    pub(crate) server: Server,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl HttpServer {
    /// Answers with these statuses and headers first, and then with 204.
    pub(crate) fn start(port: u16, tls: Option<TlsServer>, answers: &[&'static str]) -> Self {
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let (kept, mut answers) = (Arc::clone(&requests), answers.iter().copied().collect::<VecDeque<_>>());
        let server = Server::start(port, tls, move |stream| {
            let mut stream = BufReader::new(stream);
            if let Some(request) = read_request(&mut stream) {
                kept.lock().expect("requests").push(request);
                let answer = answers.pop_front().unwrap_or("204 No Content");
                let text = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                stream.get_mut().write_all(text.as_bytes()).expect("an answer");
            }
        });
        Self { server, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.server.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("requests").clone()
    }

    /// The keys of all reports, in the order in which they came.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.requests().iter().flat_map(Request::keys).collect()
    }
}

fn read_request(stream: &mut BufReader<Box<dyn Stream>>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|octets| *octets > 0)?;
    let request = line.trim_end().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Request { line: request, headers, body })
}

/// The keys `n=FROM` to `n=UNTIL`, without the last.
pub(crate) fn keys(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| format!("n={number}")).collect()
}
