//! What goes wrong in the middle.

use std::time::Duration;

use weir_reports::Retention;

use crate::server::{HttpServer, keys};
use crate::{HOUR, MINUTE, SECOND, Scene, report};

/// Killed after a report was sent and before that was kept: it is sent again, as the same request.
#[test]
fn a_report_sent_just_before_a_crash_is_sent_again() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = Scene::new(&format!("webhook = '{}'", server.url()));
    scene.append((0..3).map(|number| report(number, "warning")));
    let cursor = scene.cursor();
    let before = std::fs::read(&cursor).expect("a cursor");
    scene.turn();
    assert_eq!(server.keys(), keys(0..3));
    std::fs::write(&cursor, before).expect("written");
    scene.restart();
    scene.turn();
    assert_eq!(server.keys(), [keys(0..3), keys(0..3)].concat());
    let requests = server.requests();
    for number in 0..3 {
        assert_eq!(requests[number].header("webhook-id"), requests[number + 3].header("webhook-id"));
    }
}

/// The disk is full: how far reports were sent cannot be kept. One is sent, and then none until it can.
#[test]
fn what_cannot_be_kept_is_not_sent_again() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = Scene::new(&format!("webhook = '{}'", server.url()));
    scene.append((0..3).map(|number| report(number, "warning")));
    let mut new = scene.cursor().into_os_string();
    new.push(".new");
    std::fs::create_dir(&new).expect("a folder in the way");
    scene.pass(HOUR);
    assert_eq!(server.keys(), ["n=0"]);
    assert!(scene.notices()[0].contains(".sent"), "{:?}", scene.notices());
    std::fs::remove_dir(&new).expect("removed");
    scene.pass(2 * MINUTE);
    assert_eq!(server.keys(), keys(0..3));
}

/// A target that is down for longer than the journal is long: what was removed is counted exactly.
#[test]
fn what_is_removed_before_it_is_sent_is_counted() {
    let port = weir_testkit::ports::free_port();
    let retention = Retention { octets_max: 8_000, age_max: Duration::from_hours(24) };
    let mut scene = Scene::with_retention(&format!("webhook = 'http://127.0.0.1:{port}/'"), retention);
    for number in 0..200 {
        let other = [("watch".to_owned(), "other".into())];
        scene.append([report(number, "warning"), report(1_000, "info").into_iter().chain(other).collect()]);
        scene.pass(SECOND);
    }
    let server = HttpServer::start(port, None, &[]);
    scene.pass(2 * MINUTE);
    let got = server.keys();
    let counts = scene.counts();
    assert!(got.len() > 5 && counts.reports_unsent > 100, "{counts:?}");
    assert_eq!(got, keys(counts.reports_unsent..200));
    assert_eq!(counts.reports_sent + counts.reports_unsent, 200);
    assert!(
        scene.notices().iter().any(|notice| notice.contains("were removed from the journal")),
        "{:?}",
        scene.notices()
    );
}

/// A journal that somebody removed, or a cursor that somebody broke, costs what is not known, and says so.
#[test]
fn a_cursor_that_means_nothing_begins_at_the_end() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = Scene::new(&format!("webhook = '{}'", server.url()));
    scene.append([report(0, "warning")]);
    std::fs::write(scene.cursor(), "what?").expect("written");
    scene.restart();
    scene.turn();
    assert!(server.keys().is_empty());
    assert!(scene.notices()[0].contains("is not known"), "{:?}", scene.notices());
    scene.append([report(1, "warning")]);
    scene.turn();
    std::fs::write(scene.cursor(), "999999").expect("written");
    scene.restart();
    scene.append([report(2, "warning")]);
    scene.turn();
    assert_eq!(server.keys(), ["n=1", "n=2"]);
}

/// A cleanup or logrotate takes the journal away: later reports are sent, and those that are gone are counted.
#[test]
fn a_journal_that_others_removed_costs_what_was_in_it_alone() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = Scene::new(&format!("webhook = '{}'", server.url()));
    let journal = scene.folder().join("reports.ndjson");
    scene.append([report(0, "warning")]);
    scene.turn();
    // looked at while it is away
    std::fs::remove_file(&journal).expect("removed");
    scene.turn();
    scene.turn();
    let notices = scene.notices();
    assert!(notices.len() == 1 && notices[0].contains("is not there any more"), "{notices:?}");
    scene.append([report(1, "warning")]);
    scene.turn();
    assert_eq!(server.keys(), ["n=0", "n=1"]);
    // and not, with two reports that were not sent
    scene.append([report(2, "warning"), report(3, "warning")]);
    std::fs::rename(&journal, scene.folder().join("reports.ndjson.1")).expect("renamed");
    scene.append([report(4, "warning")]);
    scene.turn();
    assert_eq!(server.keys(), ["n=0", "n=1", "n=4"]);
    assert_eq!(scene.counts().reports_unsent, 2);
    assert!(scene.notices()[1].contains("2 reports were removed from the journal"), "{:?}", scene.notices());
}

/// The same while nothing runs: the journal that is made at the start is sent from its first report on.
#[test]
fn a_journal_that_was_removed_before_the_start_is_sent_from_its_begin() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = Scene::new(&format!("webhook = '{}'", server.url()));
    scene.append([report(0, "warning"), report(1, "warning")]);
    scene.turn();
    std::fs::write(scene.folder().join("reports.ndjson"), "").expect("emptied");
    scene.reopen();
    scene.append([report(2, "warning")]);
    scene.turn();
    assert_eq!(server.keys(), ["n=0", "n=1", "n=2"]);
    assert!(scene.notices()[0].contains("shorter than it was"), "{:?}", scene.notices());
}

/// The cursors of journals of before are places alone.
#[test]
fn cursors_of_before_are_understood() {
    let server = HttpServer::start(0, None, &[]);
    let mut scene = Scene::new(&format!("webhook = '{}'", server.url()));
    scene.append([report(0, "warning")]);
    let end = std::fs::metadata(scene.folder().join("reports.ndjson")).expect("a journal").len();
    std::fs::write(scene.cursor(), end.to_string()).expect("written");
    scene.append([report(1, "warning")]);
    scene.restart();
    scene.turn();
    assert_eq!(server.keys(), ["n=1"]);
}
