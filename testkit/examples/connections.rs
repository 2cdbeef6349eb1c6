//! A load of TCP connections, each a request and a response: `connections serve`, and `connections ADDRESS RATE SECONDS`.
//!
//! `serve` answers on 16 ports from 7000 on, on all addresses, until standard input ends. The other opens so many connections a
//! second to an address, over all of these ports, and prints how many were answered.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PORTS: std::ops::Range<u16> = 7000..7016;
const REQUEST: usize = 100;
const RESPONSE: usize = 400;
/// Threads that open connections.
const CLIENTS: u64 = 4;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [word] if word == "serve" => serve(),
        [address, rate, secs] => {
            let number = |text: &str| text.parse::<u64>().expect("a number");
            load(address, number(rate), number(secs));
        }
        _ => panic!("usage: connections serve | connections ADDRESS RATE SECONDS"),
    }
}

fn serve() {
    for port in PORTS {
        let listener = TcpListener::bind(("0.0.0.0", port)).expect("a port");
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; REQUEST];
                if stream.read_exact(&mut request).is_ok() {
                    let _ = stream.write_all(&[b'x'; RESPONSE]);
                }
            }
        });
    }
    println!("ready");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

fn load(address: &str, rate: u64, secs: u64) {
    let (answered, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (answered, failed) = (&answered, &failed);
            scope.spawn(move || {
                for number in (client..rate * secs).step_by(CLIENTS as usize) {
                    let due = began + Duration::from_nanos(number * 1_000_000_000 / rate);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let port = PORTS.start + (number % PORTS.len() as u64) as u16;
                    let of = if ask(address, port).is_ok() { answered } else { failed };
                    of.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let took = began.elapsed().as_secs_f64();
    let [answered, failed] = [answered, failed].map(AtomicU64::into_inner);
    println!("{answered} {failed} {took:.1}");
}

fn ask(address: &str, port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect((address, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(&[b'q'; REQUEST])?;
    stream.read_exact(&mut [0; RESPONSE])
}
