use weir_archive::Position;

use super::*;

#[test]
fn what_was_kept_is_read_back_and_damage_is_found() {
    let dir = tempfile::tempdir().expect("a folder");
    let files = StateFiles::open(dir.path(), "store").expect("files");
    assert_eq!(files.load().expect("nothing yet"), ForwardState::default());
    let counts = ForwardCounts { rows_forwarded: 12, rows_lost: 3, deliveries_lost: 4, ..ForwardCounts::default() };
    let position = FollowPosition { epoch: 2, position: Position::new(9) };
    let state = ForwardState { position, counts, deliveries_lost_ahead: 3 };
    assert_eq!(state.deliveries_waiting(Position::new(20)), 8);
    files.keep(&state).expect("kept");
    assert_eq!(files.load().expect("a state"), state);
    let path = dir.path().join("forward/store");
    let octets = std::fs::read(&path).expect("the file");
    for at in 0..octets.len() - 1 {
        let mut damaged = octets.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, damaged).expect("written");
        assert!(matches!(files.load(), Err(StateError::Damaged { .. })), "octet {at}");
        std::fs::write(&path, &octets[..at]).expect("written");
        assert!(matches!(files.load(), Err(StateError::Damaged { .. })), "cut at {at}");
    }
}

#[test]
fn an_archive_has_one_number_and_a_name_one_forwarder() {
    let dir = tempfile::tempdir().expect("a folder");
    let first = StateFiles::open(dir.path(), "a").expect("files");
    let other = StateFiles::open(dir.path(), "b").expect("files");
    let origin = first.origin().expect("a number");
    assert_eq!([other.origin().expect("the same"), first.origin().expect("the same")], [origin; 2]);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let files = StateFiles::open(elsewhere.path(), "a").expect("files");
    assert_ne!(files.origin().expect("another"), origin);
    assert!(matches!(StateFiles::open(dir.path(), "a"), Err(StateError::Locked { .. })));
    drop(first);
    StateFiles::open(dir.path(), "a").expect("free again");
    for name in ["", ".a", "../a", "a/b", "origin", "a.lock", "a.durable"] {
        assert!(matches!(StateFiles::open(dir.path(), name), Err(StateError::BadName { .. })), "{name}");
    }
}

/// A loss of power may leave a file empty that was replaced and not synced.
#[test]
fn what_was_durable_is_there_after_a_crash_of_the_machine() {
    let dir = tempfile::tempdir().expect("a folder");
    let files = StateFiles::open(dir.path(), "series").expect("files");
    files.keep_lines("through_secs 1\n", false).expect("kept");
    files.keep_lines("through_secs 2\n", true).expect("kept");
    let path = dir.path().join("forward/series");
    for through in 3..6 {
        files.keep_lines(&format!("through_secs {through}\n"), false).expect("kept");
        let lines = files.lines().expect("whole").expect("lines");
        assert_eq!(value(&lines, "through_secs"), Some(through));
    }
    std::fs::write(&path, "").expect("emptied");
    let lines = files.lines().expect("the durable ones").expect("lines");
    assert_eq!(value(&lines, "through_secs"), Some(2));
    // and again, after a step that was not durable, of a process that began anew
    drop(files);
    let files = StateFiles::open(dir.path(), "series").expect("files");
    files.keep_lines("through_secs 3\n", false).expect("kept");
    std::fs::write(&path, "").expect("emptied");
    let lines = files.lines().expect("the durable ones").expect("lines");
    assert_eq!(value(&lines, "through_secs"), Some(2));
    // whoever removes it wants to begin anew
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(files.lines().expect("nothing"), None);
    files.keep_lines("through_secs 7\n", true).expect("kept");
    files.keep_lines("through_secs 8\n", false).expect("kept");
    std::fs::write(&path, "").expect("emptied");
    let lines = files.lines().expect("the durable ones").expect("lines");
    assert_eq!(value(&lines, "through_secs"), Some(7));
}
