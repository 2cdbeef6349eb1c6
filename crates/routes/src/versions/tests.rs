use super::*;

const DAY_MS: i64 = 86_400_000;
/// 2025-11-24T16:00:00Z
const DAY_1_MS: i64 = 1_764_000_000_000;
const NOW_MS: i64 = DAY_1_MS + 100 * DAY_MS;

/// A file and the folder of its versions.
struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("labels.csv")
    }

    fn versions(&self) -> PathBuf {
        self.folder.path().join("versions")
    }

    /// Writes the file, as changed at a time, and keeps it.
    fn keep(&self, text: &str, changed_ms: i64, limits: VersionLimits) -> KeptVersion {
        self.keep_at(text, changed_ms, limits, NOW_MS)
    }

    /// The same, found at another time.
    fn keep_at(&self, text: &str, changed_ms: i64, limits: VersionLimits, now_ms: i64) -> KeptVersion {
        let path = self.file();
        fs::write(&path, text).expect("written");
        let changed = UNIX_EPOCH + Duration::from_millis(changed_ms as u64);
        File::options().append(true).open(&path).and_then(|file| file.set_modified(changed)).expect("changed");
        let content = FileContent::of(&path).expect("readable");
        FileVersions::keep(&self.versions(), &path, content, limits, now_ms).expect("kept")
    }

    fn read(&self) -> FileVersions {
        FileVersions::read(&self.versions(), NOW_MS).expect("an index")
    }

    /// Files that are contents of versions.
    fn contents(&self) -> usize {
        let entries = fs::read_dir(self.versions()).expect("a folder");
        entries.filter(|entry| entry.as_ref().expect("an entry").file_name().len() == 40).count()
    }
}

fn starts(versions: &FileVersions) -> Vec<i64> {
    versions.versions().iter().map(|version| version.valid_from_ms).collect()
}

#[test]
fn the_name_of_a_version_is_the_checksum_of_its_content() {
    // FIPS 180-2, appendix A.1
    let content = copy(&mut &b"abc"[..], &mut io::sink()).expect("readable");
    assert_eq!((content.name().as_str(), content.octets), ("a9993e364706816aba3e25717850c26c9cd0d89d", 3));
    assert_eq!(FileContent::parse(&content.name(), 3), Some(content));
    for wrong in ["", "a9993e36", &"g".repeat(40), &"é".repeat(20)] {
        assert_eq!(FileContent::parse(wrong, 3), None, "{wrong}");
    }
}

#[test]
fn a_version_is_valid_from_when_its_file_was_changed() {
    let fixture = Fixture::new();
    let limits = VersionLimits::default();
    assert!(fixture.keep("first", DAY_1_MS, limits).added.is_some());
    // the same content is no other version, whenever it was written
    assert_eq!(fixture.keep("first", DAY_1_MS + 1, limits), KeptVersion::default());
    fixture.keep("second", DAY_1_MS + DAY_MS, limits);
    // an older file in its place, and one of the future: from when they were found
    fixture.keep("first", DAY_1_MS, limits);
    fixture.keep("third", NOW_MS + DAY_MS, limits);
    let versions = fixture.read();
    assert_eq!(starts(&versions), [DAY_1_MS, DAY_1_MS + DAY_MS, NOW_MS, NOW_MS + 1]);
    let text = |version| fs::read_to_string(versions.file_of(version).expect("whole")).expect("readable");
    let texts: Vec<_> = versions.versions().iter().map(text).collect();
    assert_eq!(texts, ["first", "second", "first", "third"]);
    assert_eq!(fixture.contents(), 3, "one content is kept once");
    assert!(versions.versions().iter().all(|version| version.is_of(&fixture.file())));
    assert!(!versions.versions()[0].is_of(&fixture.versions()));
}

#[test]
fn a_clock_that_was_ahead_hides_no_later_version() {
    let fixture = Fixture::new();
    let limits = VersionLimits::default();
    let ahead_ms = NOW_MS + 1000 * DAY_MS;
    fixture.keep("first", DAY_1_MS, limits);
    for (number, text) in [(0, "second"), (1, "third")] {
        fixture.keep_at(text, ahead_ms + number, limits, ahead_ms + number);
    }
    assert_eq!(starts(&fixture.read()), [DAY_1_MS, ahead_ms, ahead_ms + 1]);
    assert_eq!(fixture.read().times_disbelieved(), 2);
    // the clock is right again
    fixture.keep("fourth", NOW_MS - DAY_MS, limits);
    assert_eq!(starts(&fixture.read()), [DAY_1_MS, NOW_MS - 2, NOW_MS - 1, NOW_MS]);
    fixture.keep_at("fifth", NOW_MS + 2, limits, NOW_MS + 3);
    assert_eq!(starts(&fixture.read()), [DAY_1_MS, NOW_MS - 2, NOW_MS - 1, NOW_MS, NOW_MS + 2]);
    // nor does the time that it was ahead to, once it has come
    let later = FileVersions::read(&fixture.versions(), ahead_ms + DAY_MS).expect("an index");
    assert_eq!(starts(&later), [DAY_1_MS, NOW_MS - 2, NOW_MS - 1, NOW_MS, NOW_MS + 2]);
    assert_eq!(later.times_disbelieved(), 2);
}

/// A machine without a clock of its own begins in 1970; what it has of later is right.
#[test]
fn a_clock_that_is_behind_leaves_versions_as_they_are() {
    let fixture = Fixture::new();
    let limits = VersionLimits::default();
    fixture.keep("first", DAY_1_MS, limits);
    fixture.keep("second", DAY_1_MS + DAY_MS, limits);
    fixture.keep_at("third", DAY_1_MS + 2 * DAY_MS, limits, DAY_MS);
    let second_ms = DAY_1_MS + DAY_MS;
    assert_eq!(starts(&fixture.read()), [DAY_1_MS, second_ms, second_ms + 1]);
    // a job that fetched the file has the same clock, so that the file is not of the future
    fixture.keep_at("fourth", 2 * DAY_MS - 1, limits, 2 * DAY_MS);
    let unset = FileVersions::read(&fixture.versions(), 2 * DAY_MS).expect("an index");
    for versions in [unset, fixture.read()] {
        assert_eq!(starts(&versions), [DAY_1_MS, second_ms, second_ms + 1, second_ms + 2]);
    }
    fixture.keep("fifth", NOW_MS, limits);
    assert_eq!(starts(&fixture.read()), [DAY_1_MS, second_ms, second_ms + 1, second_ms + 2, NOW_MS]);
}

/// One that is set, and wrong: as long as it is, later times cannot be right. Once it is right they are again.
#[test]
fn a_clock_that_was_behind_leaves_the_times_of_others_in_the_index() {
    let fixture = Fixture::new();
    let limits = VersionLimits::default();
    let [first_ms, second_ms, third_ms] = [0, 1, 2].map(|day| DAY_1_MS + day * DAY_MS);
    for (text, changed_ms) in [("first", first_ms), ("second", second_ms), ("third", third_ms)] {
        fixture.keep(text, changed_ms, limits);
    }
    let behind_ms = first_ms + DAY_MS / 2;
    fixture.keep_at("fourth", behind_ms, limits, behind_ms);
    let versions = FileVersions::read(&fixture.versions(), behind_ms).expect("an index");
    assert_eq!(starts(&versions), [first_ms, behind_ms - 2, behind_ms - 1, behind_ms]);
    assert_eq!(versions.times_disbelieved(), 2);
    let versions = fixture.read();
    assert_eq!(starts(&versions), [first_ms, second_ms, third_ms, third_ms + 1]);
    assert_eq!(versions.times_disbelieved(), 1);
}

#[test]
fn the_most_times_that_can_be_right_together_are_believed() {
    let cases: &[(&[Option<i64>], &[bool])] = &[
        (&[], &[]),
        (&[Some(1), Some(2), Some(3)], &[true, true, true]),
        (&[Some(1), Some(9), Some(2), Some(3)], &[true, false, true, true]),
        (&[Some(4), Some(5), Some(1), Some(6)], &[true, true, false, true]),
        (&[None, Some(2), None, Some(3)], &[false, true, false, true]),
        // of as many the later ones; equal times cannot both be right
        (&[Some(1), Some(9), Some(2)], &[true, false, true]),
        (&[Some(5), Some(5)], &[false, true]),
        (&[None, None], &[false, false]),
    ];
    for (times, expected) in cases {
        assert_eq!(believed(times), *expected, "{times:?}");
    }
}

#[test]
fn the_oldest_are_dropped_over_a_limit() {
    let fixture = Fixture::new();
    let limits = VersionLimits { versions_max: 3, octets_max: 100 };
    for number in 0..5 {
        let kept = fixture.keep(&format!("text {number}"), DAY_1_MS + number * DAY_MS, limits);
        let dropped: Vec<_> = kept.dropped.iter().map(|version| version.valid_from_ms).collect();
        let expected = if number < 3 { vec![] } else { vec![DAY_1_MS + (number - 3) * DAY_MS] };
        assert_eq!(dropped, expected, "{number}");
    }
    assert_eq!(starts(&fixture.read()), [2, 3, 4].map(|day| DAY_1_MS + day * DAY_MS));
    assert_eq!(fixture.contents(), 3);
    // 90 octets leave place for one of 6 before them; 200 are over the limit themselves, and kept alone
    fixture.keep(&"x".repeat(90), DAY_1_MS + 5 * DAY_MS, limits);
    assert_eq!(starts(&fixture.read()), [4, 5].map(|day| DAY_1_MS + day * DAY_MS));
    fixture.keep(&"y".repeat(200), DAY_1_MS + 6 * DAY_MS, limits);
    assert_eq!(starts(&fixture.read()), [DAY_1_MS + 6 * DAY_MS]);
    assert_eq!(fixture.contents(), 1);
}

#[test]
fn what_is_damaged_costs_itself_alone() {
    let fixture = Fixture::new();
    for (day, text) in [(0, "first"), (1, "second"), (2, "third")] {
        fixture.keep(text, DAY_1_MS + day * DAY_MS, VersionLimits::default());
    }
    let versions = fixture.read();
    let second = &versions.versions()[1];
    fs::write(versions.file_of(second).expect("whole"), "secund").expect("written");
    assert!(matches!(versions.file_of(second), Err(VersionsError::Damaged { .. })));
    assert!(versions.file_of(&versions.versions()[2]).is_ok());
    let index = fixture.versions().join(INDEX);
    let text = fs::read_to_string(&index).expect("readable");
    let lines: Vec<_> = text.lines().map(|line| line.replace(&second.content.name(), "?")).collect();
    fs::write(&index, lines.join("\n")).expect("written");
    let damaged = fixture.read();
    assert_eq!((starts(&damaged), damaged.lines_damaged()), (vec![DAY_1_MS, DAY_1_MS + 2 * DAY_MS], 1));
    // of another version of weir: neither read nor written over
    fs::write(&index, "weir versions 2\n").expect("written");
    let path = fixture.file();
    let content = FileContent::of(&path).expect("readable");
    let kept = FileVersions::keep(&fixture.versions(), &path, content, VersionLimits::default(), NOW_MS);
    assert!(matches!(kept, Err(VersionsError::ForeignIndex { .. })));
    assert_eq!(fs::read_to_string(&index).expect("readable"), "weir versions 2\n");
}

#[test]
fn a_file_that_changes_meanwhile_is_not_kept_as_what_it_was() {
    let fixture = Fixture::new();
    let path = fixture.file();
    fs::write(&path, "first").expect("written");
    let content = FileContent::of(&path).expect("readable");
    fs::write(&path, "second").expect("written");
    let kept = FileVersions::keep(&fixture.versions(), &path, content, VersionLimits::default(), NOW_MS);
    assert!(matches!(kept, Err(VersionsError::Changed { .. })));
    assert_eq!((fixture.read().versions(), fixture.contents()), (&[][..], 0));
}
