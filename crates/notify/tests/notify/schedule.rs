//! When reports are sent: severities, quiet hours, digests, limits.

use crate::server::{HttpServer, Request, keys};
use crate::{HOUR, MINUTE, SECOND, Scene, report};

fn sizes(server: &HttpServer) -> Vec<usize> {
    server.requests().iter().map(|request: &Request| request.keys().len()).collect()
}

#[test]
fn only_severities_that_are_wanted_are_sent() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = Scene::new(&format!("webhook = '{}'\nseverity = 'warning'", server.url()));
    scene.append([report(0, "info"), report(1, "critical"), report(2, "notice"), report(3, "warning")]);
    scene.turn();
    scene.restart();
    scene.turn();
    assert_eq!(server.keys(), ["n=1", "n=3"]);
}

/// From noon on: quiet from 13:00 to 15:00.
fn quiet(server: &HttpServer, more: &str) -> Scene {
    Scene::new(&format!("webhook = '{}'\nquiet = ['13:00-15:00']\nzone = 'UTC'\n{more}", server.url()))
}

#[test]
fn what_is_held_back_comes_as_one_and_critical_overtakes() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = quiet(&server, "");
    scene.append([report(0, "warning")]);
    scene.pass(HOUR + MINUTE);
    assert_eq!(server.keys(), ["n=0"]);
    scene.append([report(1, "warning"), report(2, "critical"), report(3, "info")]);
    scene.pass(MINUTE);
    assert_eq!(server.keys(), ["n=0", "n=2"]);
    scene.restart();
    scene.append([report(4, "critical"), report(5, "notice")]);
    scene.pass(MINUTE);
    assert_eq!(server.keys(), ["n=0", "n=2", "n=4"]);
    scene.pass(HOUR + 50 * MINUTE);
    assert_eq!(scene.counts().reports_sent, 3);
    scene.restart();
    scene.pass(10 * MINUTE);
    // what was held, in order, in one message, without what was sent
    assert_eq!(server.keys(), ["n=0", "n=2", "n=4", "n=1", "n=3", "n=5"]);
    assert_eq!(sizes(&server), [1, 1, 1, 3]);
    scene.append([report(6, "warning"), report(7, "warning")]);
    scene.pass(MINUTE);
    assert_eq!(sizes(&server), [1, 1, 1, 3, 1, 1]);
}

#[test]
fn what_is_dropped_is_counted() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = quiet(&server, "quiet_then = 'drop'\nquiet_up_to = 'critical'");
    scene.pass(90 * MINUTE);
    scene.append([report(0, "warning"), report(1, "critical")]);
    scene.pass(2 * HOUR);
    scene.append([report(2, "info")]);
    scene.pass(MINUTE);
    assert_eq!(server.keys(), ["n=2"]);
    assert_eq!((scene.counts().reports_sent, scene.counts().reports_quieted), (1, 2));
}

/// A server that was down before the quiet hours gets what was made then afterwards, and not at night.
#[test]
fn what_waits_when_quiet_hours_begin_is_held() {
    let port = weir_testkit::ports::free_port();
    let mut scene = Scene::new(&format!("webhook = 'http://127.0.0.1:{port}/'\nquiet = ['13:00-15:00']\nzone = 'UTC'"));
    scene.append([report(0, "warning"), report(1, "warning")]);
    scene.pass(61 * MINUTE);
    let server = HttpServer::start(port, None, &[]);
    scene.pass(HOUR + 58 * MINUTE);
    assert_eq!(server.keys().len(), 0);
    scene.pass(3 * MINUTE);
    assert_eq!(server.keys(), keys(0..2));
}

#[test]
fn a_digest_has_the_reports_of_its_time() {
    let server = HttpServer::start(0, None, &["500 Internal Server Error"]);
    let mut scene = Scene::new(&format!("webhook = '{}'\ndigest = '5m'", server.url()));
    for number in 0..10 {
        scene.append([report(number, "warning")]);
        scene.pass(MINUTE);
    }
    scene.pass(10 * MINUTE);
    assert_eq!(scene.counts().reports_sent, 10);
    let requests = server.requests();
    // the one that failed is sent again as it was
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
    let sent: Vec<_> = requests[1..].iter().flat_map(Request::keys).collect();
    assert_eq!(sent, keys(0..10));
    assert!(requests.len() <= 4, "{:?}", sizes(&server));
}

#[test]
fn a_hundred_reports_are_a_message() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = Scene::new(&format!("webhook = '{}'\ndigest = '1h'", server.url()));
    scene.append((0..250).map(|number| report(number, "warning")));
    scene.turn();
    assert_eq!(sizes(&server), [100, 100]);
    scene.pass(HOUR + SECOND);
    assert_eq!(sizes(&server), [100, 100, 50]);
}

#[test]
fn beyond_the_limit_of_an_hour_reports_wait_and_come_together() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = Scene::new(&format!("webhook = '{}'\nmessages_per_hour_max = 3", server.url()));
    for number in 0..30 {
        scene.append([report(number, "warning")]);
        scene.pass(MINUTE);
    }
    assert_eq!(sizes(&server), [1, 1, 1]);
    scene.pass(31 * MINUTE);
    assert_eq!(sizes(&server), [1, 1, 1, 27]);
    assert_eq!(server.keys(), keys(0..30));
}

/// One action for all watches: their reports are sent in the order of the journal.
#[test]
fn an_action_may_be_of_all_watches() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = Scene::new(&format!("webhook = '{}'\ndigest = '1m'", server.url())).of_all();
    let other = [("watch".to_owned(), "other".into())];
    scene.append([report(0, "warning"), report(1, "info").into_iter().chain(other).collect(), report(2, "warning")]);
    scene.pass(2 * MINUTE);
    assert_eq!(server.keys(), keys(0..3));
    assert_eq!(sizes(&server), [3]);
}
