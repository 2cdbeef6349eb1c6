//! A whole collector that listens on the loopback interface: whatever one peer sends, the others are heard.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use openssl::ssl::{SslConnector, SslMethod};
use socket2::{Domain, Socket, Type};
use weir_collect::{Collector, CollectorOptions, Listener, Next, SessionLimits, Transport};
use weir_flow::Counter;
use weir_secure::ClientAuth;

use super::{Certificates, NAME, Script, canary};

/// Longest time that the collector may take to give up a peer: what it waits for the rest of a message or a handshake, and
/// then some for a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(20);
/// How long the collector waits.
const PATIENCE: Duration = Duration::from_secs(10);
/// Inputs after which a real exporter must be heard.
const INPUTS: u64 = 64;

static SERVING: LazyLock<Mutex<Serving>> = LazyLock::new(|| Mutex::new(Serving::new()));

struct Serving {
    collector: Collector,
    /// Where TCP, TLS and DTLS come in.
    listeners: [SocketAddr; 3],
    client: SslConnector,
    inputs: u64,
    messages: u64,
}

/// Sends an input to one of the listeners and waits until the collector has done with it.
pub(crate) fn session(input: &[u8]) {
    let Some(script) = Script::parse(input) else { return };
    let mut serving = SERVING.lock().unwrap_or_else(PoisonError::into_inner);
    serving.inputs += 1;
    let source = Ipv4Addr::from(0x7f01_0000 + (serving.inputs % 60_000) as u32);
    let piece = usize::from(script.how >> 3) * 41 + 1;
    match script.how % 4 {
        0 => serving.stream(0, source, script.plain, piece),
        1 => serving.stream(1, source, script.plain, piece),
        2 => serving.secured(source, script.plain, piece),
        _ => serving.datagrams(source, script.plain, piece),
    }
    serving.take();
    canary(serving.messages as usize);
    if serving.inputs % INPUTS == 0 && !cfg!(feature = "canary") {
        serving.hear();
    }
}

impl Serving {
    fn new() -> Self {
        let certificates = Certificates::new();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listen = |transport| Listener { transport, address: any };
        let options = CollectorOptions {
            listeners: [Transport::Tcp, Transport::Tls, Transport::Dtls].map(listen).to_vec(),
            tls: Some(certificates.server(ClientAuth::None)),
            delivery_interval: Duration::from_millis(5),
            sessions: SessionLimits {
                handshake_timeout: PATIENCE,
                message_timeout: PATIENCE,
                idle_timeout: PATIENCE,
                ..SessionLimits::default()
            },
            ..CollectorOptions::new(any)
        };
        let collector = Collector::start(&options).expect("a collector");
        // the timer of libFuzzer would interrupt what this thread waits for; those of the collector, which are there, bear it
        let mut timer = SigSet::empty();
        timer.add(Signal::SIGALRM);
        timer.thread_block().expect("blocked");
        let listeners: Vec<_> = collector.listeners().iter().map(|listener| listener.local).collect();
        let listeners = listeners.try_into().expect("three listeners");
        Self { collector, listeners, client: certificates.client(SslMethod::tls_client()), inputs: 0, messages: 0 }
    }

    /// A connection from an address of its own, so that ports do not run out.
    fn connect(&self, listener: usize, source: Ipv4Addr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((source, 0)).into()).expect("bound");
        socket.connect(&self.listeners[listener].into()).expect("connected");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(GIVEN_UP)).expect("set");
        stream.set_write_timeout(Some(GIVEN_UP)).expect("set");
        stream
    }

    /// Octets as they are.
    fn stream(&self, listener: usize, source: Ipv4Addr, octets: &[u8], piece: usize) {
        let mut stream = self.connect(listener, source);
        for piece in octets.chunks(piece) {
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        ended(&mut stream);
    }

    /// Octets in a session of TLS.
    fn secured(&self, source: Ipv4Addr, octets: &[u8], piece: usize) {
        let stream = self.connect(1, source);
        let mut stream = self.client.connect(NAME, stream).expect("a session");
        for piece in octets.chunks(piece) {
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        let _ = stream.shutdown();
        ended(stream.get_mut());
    }

    fn datagrams(&self, source: Ipv4Addr, octets: &[u8], piece: usize) {
        let socket = UdpSocket::bind((source, 0)).expect("a socket");
        for datagram in octets.chunks(piece) {
            let _ = socket.send_to(datagram, self.listeners[2]);
        }
    }

    /// Takes what the collector has made of it.
    fn take(&mut self) {
        loop {
            match self.collector.next(Duration::ZERO) {
                Ok(Next::Delivery(delivery)) => {
                    let books = delivery.books();
                    let mut sums = weir_flow::books::BooksSums::default();
                    books.iter().for_each(|books| sums.add(books, i64::MIN, i64::MAX));
                    self.messages += sums.totals()[Counter::StreamMessages as usize];
                }
                Ok(Next::Nothing) => return,
                Ok(Next::Ended) => panic!("the collector has ended"),
                Err(error) => panic!("the collector has failed: {error}"),
            }
        }
    }

    /// A real exporter sends a message, which must arrive.
    fn hear(&mut self) {
        let before = self.messages;
        let mut stream = self.connect(0, Ipv4Addr::LOCALHOST);
        stream.write_all(&[0, 10, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]).expect("sent");
        stream.shutdown(Shutdown::Write).expect("closed");
        ended(&mut stream);
        let until = Instant::now() + GIVEN_UP;
        while self.messages == before {
            assert!(Instant::now() < until, "a real exporter is not heard");
            std::thread::sleep(Duration::from_millis(1));
            self.take();
        }
    }
}

/// Waits until the collector has closed a connection.
fn ended(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                panic!("the collector does not give up a peer")
            }
            Err(_) => return,
        }
    }
}
