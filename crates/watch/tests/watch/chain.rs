//! Watches on the flows of a chain, which come once: what happens to them when files change.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use weir_watch::{FlowFeed, LoadedFiles, Message, Runner, RunnerOptions, watches};

use crate::scene::{Flow, NEW_YEAR_MS, batch};

const WATCH: &str = "repeat_after = '0s'\n\
                     query = \"SELECT count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND)\"\n";

fn start(journal: &Path) -> (Runner, FlowFeed) {
    let options = RunnerOptions { journal: Some(journal.to_owned()), ..RunnerOptions::new(Path::new("")) };
    Runner::start_fed(&options, None, 1_000_000, true).expect("a runner")
}

/// Hands over a flow of each of these seconds.
fn send(feed: &FlowFeed, seconds: std::ops::RangeInclusive<i64>) {
    let flow = |second: i64| Flow::new(NEW_YEAR_MS + second * 1_000, "10.0.0.1", "192.0.2.1");
    assert!(feed.send(batch(&seconds.map(flow).collect::<Vec<_>>()).record_batch()));
}

/// Waits until a watch has answered so many windows.
fn wait_answered(runner: &Runner, windows: u64) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while runner.counts()[0].1.windows_answered < windows {
        assert!(Instant::now() < deadline, "{:?}", runner.counts());
        thread::sleep(Duration::from_millis(1));
    }
}

/// Files that are loaded, and what is said of them.
fn loaded(journal: &Path) -> (LoadedFiles, Arc<Mutex<Vec<String>>>) {
    let said = Arc::<Mutex<Vec<String>>>::default();
    let lines = Arc::clone(&said);
    let say = move |line: &str| lines.lock().expect("no panic").push(line.to_owned());
    (LoadedFiles::new(journal.to_owned(), true, say), said)
}

#[test]
fn a_file_that_is_written_again_as_it_was_begins_nothing_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, files) = (folder.path().join("journal"), [folder.path().join("count.toml")]);
    let (mut runner, feed) = start(&journal);
    let (mut loaded, said) = loaded(&journal);
    let touch = |files: &[PathBuf], after_secs: u64| {
        let file = File::options().append(true).open(&files[0]).expect("a file");
        file.set_modified(SystemTime::now() + Duration::from_secs(after_secs)).expect("another time");
    };
    fs::write(&files[0], WATCH).expect("a file");
    loaded.refresh(&mut runner, &files).expect("a watch");
    runner.wait_joined();
    send(&feed, 0..=3);
    wait_answered(&runner, 3);
    touch(&files, 100);
    loaded.refresh(&mut runner, &files).expect("the same watch");
    assert_eq!(runner.counts()[0].1.windows_answered, 3, "it is the one that was begun");
    // also when it was wrong meanwhile
    fs::write(&files[0], "query = ''\nlatenes = '1s'").expect("a file");
    touch(&files, 200);
    loaded.refresh(&mut runner, &files).expect("what was begun goes on");
    fs::write(&files[0], WATCH).expect("a file");
    touch(&files, 300);
    loaded.refresh(&mut runner, &files).expect("the same watch");
    assert_eq!(runner.counts()[0].1.windows_answered, 3);
    // the window that was open has its flows
    send(&feed, 4..=4);
    wait_answered(&runner, 4);
    fs::write(&files[0], format!("{WATCH}title = 'Flows'\n")).expect("a file");
    touch(&files, 400);
    loaded.refresh(&mut runner, &files).expect("another watch");
    assert_eq!(runner.counts()[0].1.windows_answered, 0);
    let said = said.lock().expect("no panic").clone();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("error: ") && said[1] == "watch 'count' is changed", "{said:?}");
    drop(feed);
    runner.finish(|_| ()).expect("no error");
}

#[test]
fn one_of_two_files_of_a_name_runs_and_the_other_takes_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal");
    let (mut runner, feed) = start(&journal);
    let (mut loaded, said) = loaded(&journal);
    let folders = ["la", "lb"].map(|name| folder.path().join(name));
    for folder in &folders {
        fs::create_dir(folder).expect("a folder");
    }
    let [first, second] = [&folders[0], &folders[1]].map(|folder| folder.join("one.toml"));
    let refused = format!("error: {}: two watches are named 'one', the other is {}", second.display(), first.display());
    let listed = || -> Vec<_> {
        let listed = watches::read(&journal).expect("a list");
        listed.into_iter().map(|watch| (watch.name, watch.error.is_some())).collect()
    };
    let one = |is_wrong: bool| ("one".to_owned(), is_wrong);
    fs::write(&first, WATCH).expect("a file");
    loaded.refresh(&mut runner, &folders).expect("a watch");
    runner.wait_joined();
    send(&feed, 0..=3);
    wait_answered(&runner, 3);
    fs::copy(&first, &second).expect("a file");
    loaded.refresh(&mut runner, &folders).expect("one of them runs");
    loaded.refresh(&mut runner, &folders).expect("one of them runs");
    assert_eq!(*said.lock().expect("no panic"), [refused.as_str()], "it is said once");
    assert_eq!(listed(), [one(false), one(true)]);
    // the one that was refused goes: the other is the one that was begun
    fs::remove_file(&second).expect("no file");
    loaded.refresh(&mut runner, &folders).expect("one of them runs");
    assert_eq!(runner.counts().len(), 1);
    assert_eq!(runner.counts()[0].1.windows_answered, 3);
    assert_eq!(said.lock().expect("no panic").len(), 1);
    assert_eq!(listed(), [one(false)]);
    // what runs can be changed while another one is refused
    fs::copy(&first, &second).expect("a file");
    loaded.refresh(&mut runner, &folders).expect("one of them runs");
    fs::write(&first, format!("{WATCH}title = 'Flows'\n")).expect("a file");
    loaded.refresh(&mut runner, &folders).expect("one of them runs");
    // the one that runs goes: the other begins
    fs::remove_file(&first).expect("no file");
    loaded.refresh(&mut runner, &folders).expect("one of them runs");
    let said = said.lock().expect("no panic").clone();
    let expected = ["watch 'one' is changed", "watch 'one' is removed", "watch 'one' is added"];
    assert_eq!(said, [&[refused.as_str(), refused.as_str()][..], &expected].concat());
    assert_eq!(runner.counts().len(), 1);
    assert_eq!(listed(), [one(false)]);
    drop(feed);
    runner.finish(|_| ()).expect("no error");
}

#[test]
fn a_file_that_is_wrong_at_first_is_left_out_unless_it_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, watches) = (folder.path().join("journal"), folder.path().join("watches"));
    fs::create_dir(&watches).expect("a folder");
    fs::write(watches.join("count.toml"), WATCH).expect("a file");
    let wrong = watches.join("wrong.toml");
    fs::write(&wrong, "query = ''\nlatenes = '1s'").expect("a file");
    let (mut runner, feed) = start(&journal);
    let mut refused = |files: &[PathBuf]| loaded(&journal).0.refresh(&mut runner, files).is_err();
    assert!(refused(&[folder.path().join("nosuch")]));
    assert!(refused(std::slice::from_ref(&wrong)));
    let (mut loaded, said) = loaded(&journal);
    let folders = [watches];
    loaded.refresh(&mut runner, &folders).expect("the other runs");
    let names = |runner: &Runner| runner.counts().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!((names(&runner), loaded.wrong_files()), (vec!["count".to_owned()], 1));
    assert!(matches!(&said.lock().expect("no panic")[..], [error] if error.contains("did you mean 'lateness'?")));
    fs::write(&wrong, WATCH).expect("a file");
    loaded.refresh(&mut runner, &folders).expect("both run");
    assert_eq!((names(&runner), loaded.wrong_files()), (vec!["count".to_owned(), "wrong".to_owned()], 0));
    drop(feed);
    runner.finish(|_| ()).expect("no error");
}

/// The type of a column of the answer says whether its values are addresses, and not its name.
#[test]
fn the_list_says_which_columns_of_keys_are_addresses() {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, files) = (folder.path().join("journal"), [folder.path().join("count.toml")]);
    let (mut runner, feed) = start(&journal);
    let (mut loaded, _) = loaded(&journal);
    let watch = "key = ['exporter', 'who', 'dst_port']\n\
                 query = \"SELECT coalesce(CAST(exporter AS VARCHAR), 'none') AS exporter, src_addr AS who, dst_port, \
                 count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY 1, 2, 3\"\n";
    fs::write(&files[0], watch).expect("a file");
    loaded.refresh(&mut runner, &files).expect("a watch");
    let listed = watches::read(&journal).expect("a list");
    let key = listed[0].key.as_ref().expect("the columns of its keys");
    let columns: Vec<_> = key.iter().map(|column| (column.name.as_str(), column.is_address)).collect();
    assert_eq!(columns, [("exporter", false), ("who", true), ("dst_port", false)]);
    drop(feed);
    runner.finish(|_| ()).expect("no error");
}

#[test]
fn windows_that_wait_when_a_watch_goes_are_reported() {
    const WINDOWS: i64 = 500;
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, files) = (folder.path().join("journal"), [folder.path().join("count.toml")]);
    let (mut runner, feed) = start(&journal);
    let (mut loaded, _) = loaded(&journal);
    fs::write(&files[0], WATCH).expect("a file");
    loaded.refresh(&mut runner, &files).expect("a watch");
    runner.wait_joined();
    send(&feed, 0..=WINDOWS);
    wait_answered(&runner, 1);
    assert!(runner.remove("count"));
    let (mut reports, mut left) = (0, 0);
    while let Some(message) = runner.next_timeout(Duration::ZERO) {
        match message {
            Message::Report(_) => reports += 1,
            Message::Notice(text) => {
                let (before, _) = text.split_once(" window").expect("a notice of windows");
                left += before.rsplit(' ').next().and_then(|count| count.parse::<i64>().ok()).expect("a number");
            }
        }
    }
    assert!(left > 0 && reports + left == WINDOWS, "{reports} reports, {left} windows left");
    drop(feed);
    runner.finish(|_| ()).expect("no error");
}
