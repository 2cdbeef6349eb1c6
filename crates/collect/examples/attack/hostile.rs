//! Senders that mean harm: mutated captures, connections that hang, handshakes that are not finished.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::mutation::{Random, mutated};
use crate::real::{EXPORTERS, client, connect, dtls_session};
use crate::{Sent, Target};

/// Datagrams a second over UDP, and over DTLS.
const UDP_RATE: u32 = 10_000;
const DTLS_RATE: u32 = 1_000;
/// Sockets that datagrams are sent from at a time, and datagrams after which one is replaced.
const SOCKETS: usize = 64;
const SOCKET_EVERY: u64 = 50;
/// Connections that are left open and silent.
const IDLE_MAX: usize = 200;

/// An address for a hostile sender: of its own, or one time in eight that of a real exporter.
fn address(random: &mut Random) -> Ipv4Addr {
    match random.below(8) {
        0 => EXPORTERS[random.below(EXPORTERS.len())].1,
        _ => Ipv4Addr::new(127, 1 + random.below(3) as u8, random.below(256) as u8, 1 + random.below(250) as u8),
    }
}

/// Calls for as many times as a rate asks for, until it is over.
fn paced(target: &Target, rate: u32, mut each: impl FnMut(u64)) {
    let (began, mut done) = (Instant::now(), 0_u64);
    while !target.is_over() {
        let due = (began.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        // what could not be sent in time is not made up for at once
        done = done.max(due.saturating_sub(u64::from(rate) / 10));
        while done < due {
            each(done);
            done += 1;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn udp(target: &Target, datagrams: &[Vec<u8>], sent: &Sent) {
    let mut random = Random::new(1);
    send(target, target.udp, UDP_RATE, &mut random, |number, random| {
        let datagram = mutated(datagrams, number as usize, random);
        Sent::add(&sent.datagrams, 1);
        datagram
    });
}

/// Sends datagrams from changing addresses.
fn send(
    target: &Target,
    to: SocketAddr,
    rate: u32,
    random: &mut Random,
    mut datagram: impl FnMut(u64, &mut Random) -> Vec<u8>,
) {
    let mut sockets: Vec<UdpSocket> = Vec::new();
    paced(target, rate, |number| {
        if sockets.len() < SOCKETS || number % SOCKET_EVERY == 0 {
            if sockets.len() >= SOCKETS {
                sockets.swap_remove(random.below(SOCKETS));
            }
            sockets.extend(UdpSocket::bind((address(random), 0)));
        }
        let octets = datagram(number, random);
        // the templates of a capture and its data come from one socket for a while
        if let Some(socket) = sockets.get((number / 20) as usize % sockets.len().max(1)) {
            let _ = socket.send_to(&octets, to);
        }
    });
}

/// Writes some mutated messages, of IPFIX where it is to be read any further.
fn messages(stream: &mut impl Write, datagrams: &[Vec<u8>], random: &mut Random, sent: &Sent) {
    for _ in 0..=random.below(30) {
        let at = random.below(datagrams.len());
        let message = mutated(datagrams, at, random);
        if message.starts_with(&[0, 10]) || random.below(10) == 0 {
            Sent::add(&sent.messages, 1);
            if stream.write_all(&message).is_err() {
                return;
            }
        }
    }
}

pub(crate) fn tcp(target: &Target, datagrams: &[Vec<u8>], sent: &Sent) {
    let (mut random, mut idle) = (Random::new(2), Vec::new());
    while !target.is_over() {
        let Ok(mut stream) = connect(address(&mut random), target.tcp) else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        Sent::add(&sent.connections, 1);
        messages(&mut stream, datagrams, &mut random, sent);
        leave(stream, &mut idle, &mut random, sent);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Closes a connection, or leaves it open while others take its place.
fn leave(stream: TcpStream, idle: &mut Vec<TcpStream>, random: &mut Random, sent: &Sent) {
    if random.below(4) == 0 {
        Sent::add(&sent.half_open, 1);
        if idle.len() >= IDLE_MAX {
            idle.swap_remove(random.below(IDLE_MAX));
        }
        idle.push(stream);
    }
}

pub(crate) fn tls(target: &Target, datagrams: &[Vec<u8>], sent: &Sent) {
    let (mut random, mut idle) = (Random::new(3), Vec::new());
    let client = client(&target.authority);
    while !target.is_over() {
        let Ok(mut stream) = connect(address(&mut random), target.tls) else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        Sent::add(&sent.connections, 1);
        match random.below(3) {
            0 => messages(&mut stream, datagrams, &mut random, sent),
            1 => {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                if let Ok(Ok(mut session)) = stream.try_clone().map(|stream| client.connect("localhost", stream)) {
                    Sent::add(&sent.handshakes, 1);
                    messages(&mut session, datagrams, &mut random, sent);
                }
            }
            // nothing is said
            _ => {}
        }
        leave(stream, &mut idle, &mut random, sent);
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// The beginning of a hello of DTLS 1.2 without a cookie, with what follows left to chance.
const HELLO: &[u8] = &[
    22, 254, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60, 1, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0, 48, 254, 253, 1, 2, 3, 4, 5, 6, 7,
    8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 0, 0, 0, 4, 192,
    47, 192, 48, 1, 0, 0, 0,
];

pub(crate) fn dtls(target: &Target, datagrams: &[Vec<u8>], sent: &Sent) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let hellos =
                [HELLO.to_vec(), HELLO[..40].to_vec(), vec![23, 254, 253, 0, 1, 0, 0, 0, 0, 0, 9, 0, 3, 1, 2, 3]];
            let mut random = Random::new(4);
            send(target, target.dtls, DTLS_RATE, &mut random, |number, random| {
                Sent::add(&sent.hellos, 1);
                if number % 4 == 0 {
                    mutated(datagrams, number as usize, random)
                } else {
                    mutated(&hellos, number as usize, random)
                }
            });
        });
        let mut random = Random::new(5);
        while !target.is_over() {
            if let Some(mut session) = dtls_session(&target.authority, address(&mut random), target.dtls) {
                Sent::add(&sent.handshakes, 1);
                for _ in 0..100 {
                    let at = random.below(datagrams.len());
                    let mut message = mutated(datagrams, at, &mut random);
                    message.truncate(1_300);
                    Sent::add(&sent.messages, 1);
                    if session.write_all(&message).is_err() {
                        break;
                    }
                }
                // one in two is left without a word
                if random.below(2) == 0 {
                    let _ = session.shutdown();
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}
