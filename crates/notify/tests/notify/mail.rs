//! Mail, to a server that speaks SMTP as far as it is needed.

use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openssl::base64::decode_block;
use weir_secure::TlsServer;

use crate::server::{Server, Stream, tls_server};
use crate::{MINUTE, SECOND, Scene, report};

/// What a session had: each line of the client, and the text of its message.
#[derive(Debug, Clone, Default)]
struct Session {
    lines: Vec<String>,
    is_encrypted: bool,
}

type Sessions = Arc<Mutex<Vec<Session>>>;

/// Instead of an answer: the server goes away.
const CLOSES: &str = "";

/// What the server says to some commands, instead of what is usual.
#[derive(Debug, Clone, Copy, Default)]
struct Answers {
    login: Option<&'static str>,
    data: Option<&'static str>,
    /// How long it takes to say so.
    data_after: Duration,
}

/// A session: RFC 5321, with STARTTLS (RFC 3207) and AUTH PLAIN (RFC 4954).
fn serve(stream: Box<dyn Stream>, tls: Option<&TlsServer>, is_encrypted: bool, answers: Answers, kept: &Sessions) {
    let mut session = Session { is_encrypted, ..Session::default() };
    let mut stream = BufReader::new(stream);
    let say = |stream: &mut BufReader<Box<dyn Stream>>, text: &str| {
        stream.get_mut().write_all(format!("{text}\r\n").as_bytes()).is_ok()
    };
    say(&mut stream, "220 mail.example.com ESMTP");
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).is_ok_and(|octets| octets > 0) {
            session.lines.push(line.trim_end().to_owned());
        } else {
            break;
        }
        let line = line.trim_end().to_ascii_uppercase();
        let has_starttls = tls.is_some() && !session.is_encrypted;
        match line.split(' ').next().unwrap_or_default() {
            "EHLO" if has_starttls => say(&mut stream, "250-mail.example.com\r\n250 STARTTLS"),
            "EHLO" => say(&mut stream, "250-mail.example.com\r\n250 AUTH PLAIN"),
            "STARTTLS" => {
                say(&mut stream, "220 go ahead");
                let accepted = tls.expect("TLS").accept(stream.into_inner());
                let Ok(accepted) = accepted else { return };
                stream = BufReader::new(Box::new(accepted) as Box<dyn Stream>);
                session.is_encrypted = true;
                true
            }
            "AUTH" => say(&mut stream, answers.login.unwrap_or("235 welcome")),
            "DATA" => {
                say(&mut stream, "354 go on");
                loop {
                    let mut line = String::new();
                    stream.read_line(&mut line).expect("a line");
                    if line == ".\r\n" {
                        break;
                    }
                    session.lines.push(line.trim_end().to_owned());
                }
                std::thread::sleep(answers.data_after);
                match answers.data {
                    Some(CLOSES) => break,
                    answer => say(&mut stream, answer.unwrap_or("250 taken")),
                }
            }
            "QUIT" => {
                say(&mut stream, "221 bye");
                break;
            }
            _ => say(&mut stream, "250 ok"),
        };
    }
    kept.lock().expect("sessions").push(session);
}

/// A server; with `Some(true)` it speaks TLS from the first octet on, with `Some(false)` after STARTTLS.
fn start(folder: &std::path::Path, is_implicit: Option<bool>, answers: Answers) -> (Server, Sessions) {
    let sessions = Sessions::default();
    let kept = Arc::clone(&sessions);
    let tls = is_implicit.map(|_| tls_server(folder));
    let (outer, inner) = if is_implicit == Some(true) { (tls, None) } else { (None, tls) };
    let is_encrypted = outer.is_some();
    let server = Server::start(0, outer, move |stream| serve(stream, inner.as_ref(), is_encrypted, answers, &kept));
    (server, sessions)
}

fn sessions(kept: &Sessions) -> Vec<Session> {
    kept.lock().expect("sessions").clone()
}

fn action(scheme: &str, server: &Server, folder: &std::path::Path, more: &str) -> String {
    let ca = if scheme == "plain" { String::new() } else { format!("tls_ca = '{}'", folder.join("ca.pem").display()) };
    format!(
        "mail = ['ops@example.com', 'noc@example.com']\nmail_from = 'weir@example.com'\nsmtp = '{scheme}://localhost:{}'\n{ca}\n{more}",
        server.address.port()
    )
}

#[test]
fn a_digest_is_one_message_over_tls_with_a_login() {
    for (scheme, is_implicit) in [("tls", true), ("starttls", false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (server, kept) = start(folder.path(), Some(is_implicit), Answers::default());
        std::fs::write(folder.path().join("password"), "pa55\n").expect("a password");
        let login = format!("user = 'weir'\npassword = 'file:{}'", folder.path().join("password").display());
        let mut scene = Scene::new(&action(scheme, &server, folder.path(), &login));
        scene.append([report(1, "warning"), report(2, "critical")]);
        scene.pass(30 * SECOND);
        scene.append([report(3, "notice")]);
        assert!(sessions(&kept).is_empty(), "a digest is a minute by default");
        scene.pass(MINUTE);
        drop(server);
        let sessions = sessions(&kept);
        assert_eq!(sessions.len(), 1, "{scheme}: {:?}", scene.notices());
        let Session { lines, is_encrypted } = &sessions[0];
        assert!(is_encrypted);
        let text = lines.join("\n");
        let coded: String = lines.iter().skip_while(|line| !line.is_empty()).map(String::as_str).collect();
        let coded = coded.trim_end_matches("QUIT");
        let body = String::from_utf8(decode_block(coded).expect("base64")).expect("UTF-8");
        let login = lines.iter().find_map(|line| line.strip_prefix("AUTH PLAIN ")).expect("a login");
        assert_eq!(decode_block(login).expect("base64"), b"\0weir\0pa55");
        for expected in [
            "MAIL FROM:<weir@example.com>",
            "RCPT TO:<ops@example.com>",
            "RCPT TO:<noc@example.com>",
            "Subject: [weir] 3 reports, the highest critical: scan",
            "warning scan: A host tries many services",
            "  key       n=1",
            "  key       n=3",
        ] {
            assert!(text.contains(expected) || body.contains(expected), "{expected}: {text}\n{body}");
        }
        assert!(lines.iter().any(|line| line.starts_with("Message-ID: <") && line.ends_with("@weir>")), "{text}");
        assert_eq!(scene.counts().reports_sent, 3);
    }
}

#[test]
fn nothing_is_sent_without_the_encryption_that_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    // it offers no STARTTLS, as if somebody had removed it on the way
    let (server, kept) = start(folder.path(), None, Answers::default());
    crate::server::tls_server(folder.path());
    let mut scene = Scene::new(&action("starttls", &server, folder.path(), "digest = '0s'"));
    scene.append([report(1, "warning")]);
    scene.turn();
    drop(server);
    assert_eq!(scene.counts().reports_sent, 0);
    assert!(sessions(&kept).iter().all(|session| !session.lines.iter().any(|line| line.starts_with("MAIL"))));
    // a certificate of an authority that is not trusted
    let (server, kept) = start(folder.path(), Some(true), Answers::default());
    let ours = "mail = 'ops@example.com'\nmail_from = 'weir@example.com'\ndigest = '0s'";
    let mut scene = Scene::new(&format!("{ours}\nsmtp = 'tls://localhost:{}'", server.address.port()));
    scene.append([report(1, "warning")]);
    scene.turn();
    drop(server);
    assert_eq!((scene.counts().reports_sent, sessions(&kept).len()), (0, 0));
    assert!(scene.notices()[0].contains("certificate"), "{:?}", scene.notices());
}

#[test]
fn a_wrong_password_is_tried_again_and_a_refused_message_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("password"), "wr0ng\n").expect("a password");
    let login = format!("digest = '0s'\nuser = 'weir'\npassword = 'file:{}'", folder.path().join("password").display());
    let answers = Answers { login: Some("535 5.7.8 no"), ..Answers::default() };
    let (server, _) = start(folder.path(), Some(true), answers);
    let mut scene = Scene::new(&action("tls", &server, folder.path(), &login));
    scene.append([report(1, "warning")]);
    scene.pass(MINUTE);
    let counts = scene.counts();
    assert!(counts.reports_refused == 0 && counts.sends_failed > 1, "{counts:?}");
    assert!(!format!("{:?}", scene.notices()).contains("wr0ng"), "{:?}", scene.notices());
    let answers = Answers { data: Some("554 5.6.0 this looks like spam"), ..Answers::default() };
    let (server, kept) = start(folder.path(), None, answers);
    let mut scene = Scene::new(&action("plain", &server, folder.path(), "digest = '0s'"));
    scene.append([report(1, "warning"), report(2, "warning")]);
    scene.pass(MINUTE);
    drop(server);
    assert_eq!((scene.counts().reports_refused, sessions(&kept).len()), (2, 2), "{:?}", scene.notices());
    assert!(scene.notices()[0].contains("looks like spam"), "{:?}", scene.notices());
}

/// Thirty an hour, unless another number is given.
#[test]
fn mail_has_a_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, kept) = start(folder.path(), None, Answers::default());
    let mut scene = Scene::new(&action("plain", &server, folder.path(), "digest = '0s'"));
    scene.append((0..40).map(|number| report(number, "warning")));
    scene.turn();
    assert_eq!(scene.counts().reports_sent, 30);
    scene.pass(61 * MINUTE);
    drop(server);
    assert_eq!((scene.counts().reports_sent, sessions(&kept).len()), (40, 31));
}

/// A server that looks for spam may take ten minutes (RFC 5321 section 4.5.3.2.6).
#[test]
fn a_slow_server_gets_a_message_once() {
    let folder = tempfile::tempdir().expect("a folder");
    for (scheme, is_implicit) in [("plain", None), ("tls", Some(true))] {
        let answers = Answers { data_after: Duration::from_secs(11), ..Answers::default() };
        let (server, kept) = start(folder.path(), is_implicit, answers);
        let mut scene = Scene::new(&action(scheme, &server, folder.path(), "digest = '0s'"));
        scene.append([report(1, "warning")]);
        scene.turn();
        drop(server);
        assert_eq!((scene.counts().reports_sent, sessions(&kept).len()), (1, 1), "{:?}", scene.notices());
    }
}

/// A server that sends an octet now and then, and never ends a line.
#[test]
fn a_server_that_drips_octets_holds_up_no_end() {
    let server = Server::start(0, None, |mut stream| {
        while stream.write_all(b"2").and_then(|()| stream.flush()).is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let mut scene = Scene::new(&action("plain", &server, std::path::Path::new(""), "digest = '0s'"));
    scene.append([report(1, "warning")]);
    let is_ending = Arc::<AtomicBool>::default();
    let sending = scene.start(&is_ending);
    std::thread::sleep(Duration::from_millis(500));
    is_ending.store(true, Ordering::Relaxed);
    let until = Instant::now() + Duration::from_mins(1);
    while !sending.is_finished() {
        assert!(Instant::now() < until, "it waits for the end of the line");
        std::thread::sleep(Duration::from_millis(50));
    }
    sending.join().expect("no panic");
    assert_eq!(scene.counts().reports_sent, 0);
}

/// It may have been taken, so it counts.
#[test]
fn a_message_without_an_answer_counts_in_its_hour() {
    let folder = tempfile::tempdir().expect("a folder");
    let answers = Answers { data: Some(CLOSES), ..Answers::default() };
    let (server, kept) = start(folder.path(), None, answers);
    let mut scene = Scene::new(&action("plain", &server, folder.path(), "digest = '0s'\nmessages_per_hour_max = 3"));
    scene.append([report(1, "warning")]);
    scene.pass(59 * MINUTE);
    drop(server);
    assert_eq!((scene.counts().sends_failed, sessions(&kept).len()), (3, 3), "{:?}", scene.notices());
}
