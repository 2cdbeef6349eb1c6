use super::*;

/// 2026-01-01T00:00:00Z.
const NEW_YEAR_MS: i64 = 1_767_225_600_000;

fn line(watch: &str, number: u64, reported_ms: i64) -> String {
    let reported = jiff::Timestamp::from_millisecond(reported_ms).expect("a time");
    format!("{}\n", json!({ "watch": watch, "number": number, "reported": format!("{reported:.3}") }))
}

fn numbers(path: &Path, place: u64) -> Vec<u64> {
    let mut reader = LogReader::open(path).expect("a file").expect("a file");
    reader.seek(place).expect("a place");
    let mut found = Vec::new();
    while let Some(report) = reader.next_report().expect("a report") {
        found.push(report.members.expect("members")["number"].as_u64().expect("a number"));
    }
    found
}

/// A hundred reports, each a minute after the last; the place after each.
fn written(path: &Path, retention: Retention) -> (LogWriter, Vec<u64>) {
    let mut writer = LogWriter::open(path, retention).expect("a file");
    let mut ends = vec![0];
    for number in 0..100 {
        let text = line(["one", "two"][number as usize % 2], number, NEW_YEAR_MS + number as i64 * 60_000);
        writer.append(&text).expect("appended");
        ends.push(ends[number as usize] + text.len() as u64);
    }
    (writer, ends)
}

#[test]
fn places_stay_when_the_oldest_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("reports.ndjson");
    let retention = Retention { octets_max: 4_000, age_max: Duration::from_hours(24) };
    let (mut writer, ends) = written(&path, retention);
    let length = std::fs::metadata(&path).expect("a file").len();
    assert_eq!(length, ends[100]);
    let removed = writer.cut(NEW_YEAR_MS).expect("cut");
    let reader = LogReader::open(&path).expect("a file").expect("a file");
    // three quarters of 4,000 stay at most, and not a line less than that
    assert!(ends[100] - reader.begins_at() <= 3_000 && ends[100] - reader.begins_at() > 2_900, "{reader:?}");
    assert_eq!(reader.begins_at(), ends[removed as usize]);
    assert_eq!(reader.end(), ends[100]);
    assert_eq!((reader.removed(Some("one")), reader.removed(Some("two"))), (removed.div_ceil(2), removed / 2));
    // what was at a place is there, and what has gone is what is there now
    assert_eq!(numbers(&path, ends[90]), (90..100).collect::<Vec<_>>());
    assert_eq!(numbers(&path, 0), (removed..100).collect::<Vec<_>>());
    // once more on top of it, after a restart
    drop(writer);
    let mut writer = LogWriter::open(&path, Retention { octets_max: 1_000, ..retention }).expect("a file");
    writer.append(&line("one", 100, NEW_YEAR_MS)).expect("appended");
    let more = writer.cut(NEW_YEAR_MS).expect("cut");
    assert!(more > 0);
    assert_eq!(numbers(&path, ends[99]), [99, 100]);
    let reader = LogReader::open(&path).expect("a file").expect("a file");
    assert_eq!(reader.removed(Some("one")) + reader.removed(Some("two")), removed + more);
}

#[test]
fn what_is_too_old_goes_once_a_day() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("reports.ndjson");
    let retention = Retention { octets_max: 1 << 20, age_max: Duration::from_hours(1) };
    let (mut writer, ends) = written(&path, retention);
    let end_ms = NEW_YEAR_MS + 100 * 60_000;
    assert_eq!(writer.cut(end_ms).expect("cut"), 40);
    assert_eq!(numbers(&path, 0), (40..100).collect::<Vec<_>>());
    assert_eq!(writer.cut(end_ms + 3_600_000).expect("too early"), 0);
    assert_eq!(writer.cut(end_ms + AGE_LOOK_EVERY_MS).expect("cut"), 60);
    assert_eq!(LogReader::open(&path).expect("a file").expect("a file").begins_at(), ends[100]);
    writer.append(&line("one", 100, end_ms)).expect("appended");
    assert_eq!(numbers(&path, ends[100]), [100]);
}

/// What a crash leaves at each step: the new file half, the new file whole, and a half line in either.
#[test]
fn a_crash_while_it_is_cut_leaves_one_of_the_two() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("reports.ndjson");
    let retention = Retention { octets_max: 4_000, age_max: Duration::from_hours(24) };
    let (mut writer, ends) = written(&path, retention);
    let old = std::fs::read(&path).expect("octets");
    let removed = writer.cut(NEW_YEAR_MS).expect("cut");
    drop(writer);
    let new = std::fs::read(&path).expect("octets");
    for length in (0..new.len()).step_by(97).chain([new.len()]) {
        // before the new file took the name
        std::fs::write(&path, &old).expect("written");
        std::fs::write(new_path(&path), &new[..length]).expect("written");
        let writer = LogWriter::open(&path, retention).expect("a file");
        assert_eq!(numbers(&path, ends[50]), (50..100).collect::<Vec<_>>());
        assert!(!new_path(&path).exists());
        drop(writer);
        // after it
        std::fs::write(&path, &new).expect("written");
        let mut writer = LogWriter::open(&path, retention).expect("a file");
        assert_eq!(numbers(&path, 0), (removed..100).collect::<Vec<_>>());
        writer.append(&line("one", 100, NEW_YEAR_MS)).expect("appended");
        assert_eq!(numbers(&path, ends[99]), [99, 100]);
    }
    let half = [&new[..], b"{\"watch\":\"o"].concat();
    std::fs::write(&path, half).expect("written");
    drop(LogWriter::open(&path, retention).expect("a file"));
    assert_eq!(std::fs::read(&path).expect("octets"), new);
}

/// A reader that meets a half line gives the whole one when it is there.
#[test]
fn a_line_that_is_being_written_is_read_when_it_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("reports.ndjson");
    let (first, second) = (line("one", 1, NEW_YEAR_MS), line("one", 2, NEW_YEAR_MS));
    let mut file = File::create(&path).expect("a file");
    file.write_all(format!("{first}{}", &second[..10]).as_bytes()).expect("written");
    let mut reader = LogReader::open(&path).expect("a file").expect("a file");
    assert!(reader.next_report().expect("a report").is_some());
    assert_eq!(reader.next_report().expect("half a line"), None);
    assert_eq!(reader.next_report().expect("half a line"), None);
    file.write_all(&second.as_bytes()[10..]).expect("written");
    let report = reader.next_report().expect("a report").expect("a report");
    assert_eq!((report.text("watch"), report.end), ("one", (first.len() + second.len()) as u64));
}

/// There is no room for a second file: nothing is lost, and nothing is left of it.
#[test]
fn a_file_that_cannot_be_cut_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("reports.ndjson");
    let retention = Retention { octets_max: 4_000, age_max: Duration::from_hours(24) };
    let (mut writer, ends) = written(&path, retention);
    std::fs::create_dir(new_path(&path)).expect("a folder in the way");
    assert!(writer.cut(NEW_YEAR_MS).is_err());
    writer.append(&line("one", 100, NEW_YEAR_MS)).expect("appended");
    assert_eq!(numbers(&path, ends[99]), [99, 100]);
    std::fs::remove_dir(new_path(&path)).expect("removed");
    assert_eq!(writer.cut(NEW_YEAR_MS + CUT_AGAIN_MS - 1).expect("not yet"), 0);
    assert!(writer.cut(NEW_YEAR_MS + CUT_AGAIN_MS).expect("cut") > 0);
    assert_eq!(numbers(&path, ends[99]), [99, 100]);
}

/// Whoever removes, rotates or empties the file takes no later report away, and the places go on.
#[test]
fn a_file_that_others_took_away_is_made_anew() {
    let rotate = |path: &Path| std::fs::rename(path, path.with_extension("1")).expect("renamed");
    let empty = |path: &Path| File::create(path).map(drop).expect("a file");
    for (step, removed) in [("remove", 100), ("rotate", 100), ("rotate and create", 100), ("empty", 0)] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("reports.ndjson");
        let (mut writer, ends) = written(&path, Retention::default());
        match step {
            "remove" => std::fs::remove_file(&path).expect("removed"),
            "rotate" => rotate(&path),
            "empty" => empty(&path),
            _ => {
                rotate(&path);
                empty(&path);
            }
        }
        let next = line("one", 100, NEW_YEAR_MS);
        writer.append(&next).expect("appended");
        let reader = LogReader::open(&path).expect("a file").expect(step);
        assert_eq!((reader.begins_at(), reader.removed(None)), (ends[100], removed), "{step}");
        writer.append(&line("one", 101, NEW_YEAR_MS)).expect("appended");
        assert_eq!(numbers(&path, 0), [100, 101], "{step}");
        assert_eq!(numbers(&path, ends[100] + next.len() as u64), [101], "{step}");
        // and again, after a restart
        drop(writer);
        let mut writer = LogWriter::open(&path, Retention::default()).expect("a file");
        std::fs::remove_file(&path).expect("removed");
        writer.append(&line("one", 102, NEW_YEAR_MS)).expect("appended");
        assert_eq!(numbers(&path, 0), [102], "{step}");
        let reader = LogReader::open(&path).expect("a file").expect(step);
        assert_eq!(
            (reader.begins_at(), reader.removed(None)),
            (ends[100] + 2 * next.len() as u64, removed + 2),
            "{step}"
        );
    }
}

#[test]
fn what_is_cut_is_the_file_that_has_the_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("reports.ndjson");
    let retention = Retention { octets_max: 4_000, age_max: Duration::from_hours(24) };
    let (mut writer, ends) = written(&path, retention);
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(writer.cut(NEW_YEAR_MS).expect("nothing to cut"), 0);
    assert_eq!(LogReader::open(&path).expect("a file").expect("a file").begins_at(), ends[100]);
    // what somebody puts there, such as a copy that was edited
    let edited = folder.path().join("edited");
    std::fs::write(&edited, format!("{}half", line("one", 7, NEW_YEAR_MS))).expect("written");
    std::fs::rename(&edited, &path).expect("renamed");
    writer.append(&line("one", 100, NEW_YEAR_MS)).expect("appended");
    assert_eq!(numbers(&path, 0), [7, 100]);
}
