//! Servers of syslog.

use std::io::Read;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::server::{Server, Stream, tls_server};
use crate::{MINUTE, Scene, report};

/// Messages that came, each with the length before it.
type Received = Arc<Mutex<Vec<String>>>;

/// Reads frames of RFC 6587 and RFC 5425 until the connection ends, or so many have come.
fn read_frames(mut stream: Box<dyn Stream>, received: &Received, frames_max: usize) {
    for frame in 0..frames_max {
        let mut length = 0;
        loop {
            let mut octet = [0];
            if stream.read_exact(&mut octet).is_err() {
                return;
            }
            match octet[0] {
                b' ' => break,
                digit => length = length * 10 + usize::from(digit - b'0'),
            }
        }
        let mut message = vec![0; length];
        if stream.read_exact(&mut message).is_err() {
            return;
        }
        let message = String::from_utf8(message).expect("UTF-8");
        if frame + 1 == frames_max {
            // closed before anybody may send the next
            drop(stream);
            received.lock().expect("messages").push(message);
            return;
        }
        received.lock().expect("messages").push(message);
    }
}

fn wait_for(received: &Received, count: usize) -> Vec<String> {
    let until = Instant::now() + Duration::from_mins(2);
    loop {
        let found = received.lock().expect("messages").clone();
        if found.len() >= count || Instant::now() > until {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn messages_go_over_tls_to_a_server_of_the_right_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let received = Received::default();
    let kept = Arc::clone(&received);
    // two messages, and then it closes the connection in order
    let server = Server::start(0, Some(tls_server(folder.path())), move |stream| read_frames(stream, &kept, 2));
    let port = server.address.port();
    let ca = folder.path().join("ca.pem");
    let mut scene = Scene::new(&format!("syslog = 'tls://localhost:{port}'\ntls_ca = '{}'", ca.display()));
    for number in 0..6 {
        scene.append([report(number, "critical")]);
        scene.pass(MINUTE);
        let sent = wait_for(&received, number as usize + 1);
        assert_eq!(sent.len(), number as usize + 1, "{:?}", scene.notices());
        assert!(sent[number as usize].starts_with("<130>1 2026-01-01T12:00:00.000Z - weir - scan - "), "{sent:?}");
        assert!(sent[number as usize].ends_with(&format!("id=scan/{number}")), "{sent:?}");
    }
    for (host, ca) in [("localhost", String::new()), ("127.0.0.1", format!("tls_ca = '{}'", ca.display()))] {
        let mut scene = Scene::new(&format!("syslog = 'tls://{host}:{port}'\n{ca}"));
        scene.append([report(9, "critical")]);
        scene.turn();
        assert_eq!(scene.counts().reports_sent, 0, "{host}");
        assert_eq!(scene.notices().len(), 1);
    }
    assert_eq!(wait_for(&received, 6).len(), 6);
}

#[test]
fn a_connection_that_was_closed_is_opened_again() {
    let received = Received::default();
    let kept = Arc::clone(&received);
    let server = Server::start(0, None, move |stream| read_frames(stream, &kept, 1));
    let mut scene = Scene::new(&format!("syslog = 'tcp://{}'", server.address));
    for number in 0..4 {
        scene.append([report(number, "info")]);
        scene.pass(MINUTE);
        assert_eq!(wait_for(&received, number as usize + 1).len(), number as usize + 1, "{:?}", scene.notices());
    }
}

#[test]
fn datagrams_are_messages() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
    let mut scene = Scene::new(&format!("syslog = 'udp://{}'", socket.local_addr().expect("an address")));
    scene.append([report(0, "warning")]);
    scene.turn();
    let mut message = [0; 10_000];
    let length = socket.recv(&mut message).expect("a message");
    let text = String::from_utf8_lossy(&message[..length]);
    assert!(
        text.starts_with("<132>1 2026-01-01T12:00:00.000Z - weir - scan - A host tries many services n=0"),
        "{text}"
    );
}
