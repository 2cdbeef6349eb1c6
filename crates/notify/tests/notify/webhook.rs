//! Webhooks.

use crate::server::{HttpServer, keys, tls_server};
use crate::{HOUR, MINUTE, NOON_MS, SECOND, Scene, report};

#[test]
fn requests_are_signed_and_have_what_was_asked_for() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = Scene::new(&format!(
        "webhook = '{}'\nsigning_secret = 'file:secret'\nheaders = ['Authorization: Bearer {{file:token}}', 'X-Site: north']",
        server.url()
    ));
    std::fs::write(scene.folder().join("secret"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").expect("a secret");
    std::fs::write(scene.folder().join("token"), "t0ken\n").expect("a token");
    scene.append([report(1, "warning"), report(2, "critical")]);
    scene.turn();
    let requests = server.requests();
    assert_eq!(server.keys(), ["n=1", "n=2"], "{:?}", scene.notices());
    let first = &requests[0];
    assert!(first.line.starts_with("POST /hook HTTP/1.1"), "{}", first.line);
    for (name, value) in [
        ("content-type", "application/json"),
        ("authorization", "Bearer t0ken"),
        ("x-site", "north"),
        // date -u -d '2026-01-01 12:00' +%s
        ("webhook-timestamp", "1767268800"),
    ] {
        assert_eq!(first.header(name), value, "{name}");
    }
    let id = first.header("webhook-id");
    assert_eq!(first.header("idempotency-key"), id);
    assert_ne!(requests[1].header("webhook-id"), id);
    // checked by the library of the system, over what came
    let signed = format!("{id}.1767268800.{}", String::from_utf8(first.body.clone()).expect("UTF-8"));
    let key = openssl::base64::decode_block("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("base64");
    let key = openssl::pkey::PKey::hmac(&key).expect("a key");
    let mut signer = openssl::sign::Signer::new(openssl::hash::MessageDigest::sha256(), &key).expect("a signer");
    let expected = openssl::base64::encode_block(&signer.sign_oneshot_to_vec(signed.as_bytes()).expect("signed"));
    assert_eq!(first.header("webhook-signature"), format!("v1,{expected}"));
    let body = first.json();
    assert_eq!((body["type"].as_str(), body["id"].as_str()), (Some("weir.reports"), Some(id)));
    assert_eq!(body["timestamp"], "2026-01-01T12:00:00.000Z");
    assert_eq!(body["data"]["reports"][0]["evidence"][0]["flows"], 1);
    assert_eq!(scene.counts().reports_sent, 2);
}

#[test]
fn a_server_that_is_down_for_an_hour_gets_everything_in_order() {
    let port = weir_testkit::ports::free_port();
    let action = format!("webhook = 'http://127.0.0.1:{port}/hook'");
    let mut scene = Scene::new(&action);
    let mut turns = 0;
    for number in 0..60 {
        scene.append([report(number, "warning")]);
        turns += scene.pass(MINUTE);
        if number == 30 {
            scene.restart();
        }
    }
    // tried all the time, and not too often: each wait is half a minute at least once it has grown
    assert!((60..200).contains(&turns), "{turns}");
    assert_eq!(scene.counts().reports_sent, 0);
    assert!(scene.counts().sends_failed > 50, "{:?}", scene.counts());
    let notices = scene.notices();
    assert_eq!(notices.len(), 2, "once for each start: {notices:?}");
    let server = HttpServer::start(port, None, &[]);
    scene.append([report(60, "warning")]);
    scene.pass(2 * MINUTE);
    assert_eq!(server.keys(), keys(0..61));
    assert_eq!(scene.counts().reports_sent, 61);
    assert!(scene.notices()[2].contains("are sent again"), "{:?}", scene.notices());
}

#[test]
fn answers_decide_what_is_tried_again() {
    let answers = [
        "503 Service Unavailable\r\nRetry-After: 300",
        "401 Unauthorized",
        "302 Found\r\nLocation: http://127.0.0.1:1/elsewhere",
        "200 OK",
        "422 Unprocessable Content",
    ];
    let server = HttpServer::start(0, None, &answers);
    let mut scene = Scene::new(&format!("webhook = '{}'", server.url()));
    scene.append([report(1, "warning"), report(2, "warning"), report(3, "warning")]);
    assert_eq!(scene.turn().as_secs(), 300, "{:?}", scene.notices());
    scene.pass(299 * SECOND);
    assert_eq!(server.requests().len(), 1);
    scene.pass(HOUR);
    // the first until it is taken, always as the same request; the second is refused for good
    assert_eq!(server.keys(), ["n=1", "n=1", "n=1", "n=1", "n=2", "n=3"]);
    let requests = server.requests();
    assert!(requests[..4].windows(2).all(|two| two[0].body == two[1].body));
    assert!(requests[..4].windows(2).all(|two| two[0].header("webhook-id") == two[1].header("webhook-id")));
    let counts = scene.counts();
    assert_eq!((counts.reports_sent, counts.reports_refused, counts.sends_failed), (2, 1, 3));
}

#[test]
fn a_secret_is_in_no_notice() {
    let mut scene = Scene::new(
        "webhook = '{file:url}'\nheaders = ['Authorization: Bearer {file:token}']\nsigning_secret = 'file:token'",
    );
    scene.append([report(1, "warning")]);
    scene.turn();
    let notices = scene.notices();
    assert!(notices[0].contains("cannot read file:") && notices[0].contains("url"), "{notices:?}");
    for url in ["http://127.0.0.1:1/services/T00/s3cret", "no address s3cret", "http://[s3cret/"] {
        std::fs::write(scene.folder().join("url"), url).expect("a file");
        std::fs::write(scene.folder().join("token"), "s3cret\u{7f}\n").expect("a file");
        scene.restart();
        scene.turn();
    }
    assert_eq!(scene.notices().len(), 4, "{:?}", scene.notices());
    assert!(!format!("{:?}", scene.notices()).contains("s3cret"), "{:?}", scene.notices());
}

#[test]
fn the_server_must_be_who_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = HttpServer::start(0, Some(tls_server(folder.path())), &[]);
    let port = server.server.address.port();
    let ca = folder.path().join("ca.pem");
    // signed by an authority that nobody knows, and by one that is known
    for (url, ca, is_sent) in [
        (format!("https://localhost:{port}/"), None, false),
        (format!("https://localhost:{port}/"), Some(&ca), true),
        // the right authority, and another name
        (format!("https://127.0.0.1:{port}/"), Some(&ca), false),
    ] {
        let ca = ca.map(|ca| format!("tls_ca = '{}'", ca.display())).unwrap_or_default();
        let mut scene = Scene::new(&format!("webhook = '{url}'\n{ca}"));
        scene.append([report(1, "warning")]);
        scene.turn();
        assert_eq!(scene.counts().reports_sent, u64::from(is_sent), "{url} {ca} {:?}", scene.notices());
    }
    assert_eq!(server.requests().len(), 1);
    let mut scene = Scene::new(&format!("webhook = 'https://127.0.0.1:{port}/'\ntls_ca = 'missing.pem'"));
    scene.append([report(1, "warning")]);
    scene.turn();
    assert!(scene.notices()[0].contains("missing.pem"), "{:?}", scene.notices());
    assert_eq!(scene.now_ms, NOON_MS);
}
