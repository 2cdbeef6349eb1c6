use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use weir_flow::Table;

use super::codec;
use super::commit_lock::CommitLock;
use super::edit::Edit;
use super::key::SegmentKey;
use super::log::Manifest;
use super::state::ArchiveState;
use crate::layout::Layout;
use crate::position::LOCAL;
use crate::tail_set::TailSet;
use crate::{Action, ArchiveError, Position, Segment, SegmentSummary};

/// A segment of one tail, of ten rows, in an archive that is nowhere.
pub(crate) fn segment_of(table: Table, day: i64, tail: u64) -> Segment {
    Segment {
        table,
        day,
        rows: 10,
        octets: 100,
        first: Position::new(tail * 10),
        last: Position::new(tail * 10 + 9),
        time_range_ms: None,
        writer: LOCAL,
        tails: TailSet::range(tail, tail),
        generation: 0,
        header_crc: None,
        root: Arc::from(Path::new("nowhere")),
    }
}

/// What may be done, with numbers that choose among what there is.
#[derive(Debug, Clone, Copy)]
enum Step {
    Open,
    Seal { days: u8 },
    SealSkipped(usize),
    Skip,
    Merge { first: usize, count: usize },
    Expire { which: usize, is_summed: bool },
    ExpireSummary(usize),
    SetAside(usize),
    Deleted,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Open),
        4 => (1u8..8).prop_map(|days| Step::Seal { days }),
        1 => any::<usize>().prop_map(Step::SealSkipped),
        1 => Just(Step::Skip),
        3 => (any::<usize>(), 2usize..5).prop_map(|(first, count)| Step::Merge { first, count }),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(which, is_summed)| Step::Expire { which, is_summed }),
        1 => any::<usize>().prop_map(Step::ExpireSummary),
        1 => any::<usize>().prop_map(Step::SetAside),
        1 => Just(Step::Deleted),
    ]
}

fn pick<T>(items: &[T], number: usize) -> Option<&T> {
    items.get(number.checked_rem(items.len())?)
}

/// The edit of a step; `None` when there is nothing to do it to.
fn edit_of(step: Step, state: &ArchiveState) -> Option<Edit> {
    let local = state.local();
    let keys: Vec<SegmentKey> = state.segments.keys().copied().collect();
    let summaries: Vec<SegmentKey> = state.summaries.keys().copied().collect();
    let seal = |tail: u64, days: u8| Edit::Sealed {
        writer: LOCAL,
        tails: (tail, tail),
        last: Position::new(tail * 10 + 9),
        segments: (0..3).filter(|day| days >> day & 1 == 1).map(|day| segment_of(Table::Flows, day, tail)).collect(),
    };
    Some(match step {
        Step::Open => {
            Edit::Opened { writer: LOCAL, epoch: local.epoch() + 1, position: Position::new(local.position.get() + 1) }
        }
        Step::Seal { days } => seal(local.first_tail, days),
        Step::SealSkipped(number) => seal(*pick(&local.skipped.iter().collect::<Vec<_>>(), number)?, 7),
        Step::Skip => Edit::Skipped { writer: LOCAL, tail: local.first_tail },
        Step::Merge { first, count } => {
            let day = pick(&keys, first)?.day;
            let inputs: Vec<&Segment> =
                state.segments.values().filter(|segment| segment.day == day).take(count).collect();
            Edit::Merged { inputs: inputs.iter().map(|input| input.key()).collect(), output: merged(&inputs)? }
        }
        Step::Expire { which, is_summed } => {
            let key = *pick(&keys, which)?;
            let written = is_summed.then(|| SegmentSummary::of(state.segments[&key].clone(), 7));
            Edit::Expired { segments: vec![key], written: written.into_iter().collect(), summaries: Vec::new() }
        }
        Step::ExpireSummary(which) => {
            let key = *pick(&summaries, which)?;
            Edit::Expired { segments: Vec::new(), written: Vec::new(), summaries: vec![key] }
        }
        Step::SetAside(which) => Edit::SetAside { segments: vec![*pick(&keys, which)?], summaries: Vec::new() },
        Step::Deleted => Edit::Deleted { through: state.sequence },
    })
}

fn merged(inputs: &[&Segment]) -> Option<Segment> {
    let first = inputs.first()?;
    Some(Segment {
        rows: inputs.iter().map(|input| input.rows).sum(),
        tails: TailSet::union(inputs.iter().map(|input| &input.tails)),
        ..Segment::clone(first)
    })
}

/// What became of each tail's part of a day, kept without regard to how segments are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Live,
    Summed,
    Gone,
}

type Model = BTreeMap<(i64, u64), Fate>;

fn follow(model: &mut Model, edit: &Edit, before: &ArchiveState) {
    let mut set = |day: i64, tails: &TailSet, fate: Fate| {
        for tail in tails.iter() {
            model.insert((day, tail), fate);
        }
    };
    match edit {
        Edit::Sealed { segments, .. } => {
            for segment in segments {
                set(segment.day, &segment.tails, Fate::Live);
            }
        }
        Edit::Expired { segments, written, summaries } => {
            for key in segments {
                set(key.day, &before.segments[key].tails, Fate::Gone);
            }
            for summary in written {
                set(summary.key().day, summary.tails(), Fate::Summed);
            }
            for key in summaries {
                set(key.day, before.summaries[key].tails(), Fate::Gone);
            }
        }
        Edit::SetAside { segments, .. } => {
            for key in segments {
                set(key.day, &before.segments[key].tails, Fate::Gone);
            }
        }
        _ => {}
    }
}

/// Every part counts exactly where the model has it: in one segment, in one summary, or nowhere.
fn assert_same(model: &Model, state: &ArchiveState) {
    let mut found: Vec<((i64, u64), Fate)> = Vec::new();
    for segment in state.segments.values() {
        assert_eq!(segment.rows, 10 * segment.tails.iter().count() as u64);
        found.extend(segment.tails.iter().map(|tail| ((segment.day, tail), Fate::Live)));
    }
    for summary in state.summaries.values() {
        found.extend(summary.tails().iter().map(|tail| ((summary.key().day, tail), Fate::Summed)));
    }
    let gone: std::collections::BTreeSet<u64> =
        model.iter().filter(|(_, fate)| **fate != Fate::Live).map(|((_, tail), _)| *tail).collect();
    assert_eq!(state.local().gone.iter().collect::<Vec<_>>(), gone.into_iter().collect::<Vec<_>>());
    found.sort_unstable_by_key(|(part, _)| *part);
    let wanted: Vec<_> =
        model.iter().filter(|(_, fate)| **fate != Fate::Gone).map(|(part, fate)| (*part, *fate)).collect();
    assert_eq!(found, wanted);
}

proptest! {
    #[test]
    fn each_part_counts_once_whatever_happens(steps in proptest::collection::vec(step(), 1..60)) {
        let (mut state, mut model) = (ArchiveState::new(), Model::new());
        for step in steps {
            let Some(edit) = edit_of(step, &state) else { continue };
            let before = state.clone();
            prop_assert_eq!(state.apply(&edit), Ok(()), "{:?}", edit);
            follow(&mut model, &edit, &before);
            assert_same(&model, &state);
            prop_assert_eq!(state.sequence, before.sequence + 1);
            prop_assert!(state.local().position >= before.local().position);
            // the same again is refused, or changes nothing of what counts; and a refusal changes nothing at all
            let after = state.clone();
            if state.apply(&edit).is_err() {
                prop_assert_eq!(&state, &after);
            }
            assert_same(&model, &after);
            state = after;
            let root = Arc::from(Path::new("nowhere"));
            let payload = codec::encode_state(&state);
            prop_assert_eq!(codec::decode_state(&payload, state.sequence, &root), Ok(state.clone()));
            prop_assert_eq!(codec::decode_edit(&codec::encode_edit(&edit), &root), Ok(edit));
        }
    }

    #[test]
    fn octets_that_are_no_manifest_are_refused_without_a_panic(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        let root = Arc::from(Path::new("nowhere"));
        let _ = codec::decode_edit(&octets, &root);
        let _ = codec::decode_state(&octets, 1, &root);
        prop_assert!(codec::payload_of(&octets).is_err());
    }
}

#[test]
fn a_merge_that_is_not_what_its_inputs_were_is_refused() {
    let mut state = ArchiveState::new();
    for tail in 1..=3 {
        let segments = vec![segment_of(Table::Flows, 0, tail)];
        let edit = Edit::Sealed { writer: LOCAL, tails: (tail, tail), last: Position::new(tail * 10 + 9), segments };
        state.apply(&edit).expect("sealed");
    }
    let [one, two, three] = [1, 2, 3].map(|tail| segment_of(Table::Flows, 0, tail));
    let keys = || vec![one.key(), three.key()];
    let right = merged(&[&one, &three]).expect("inputs");
    let wrong = [
        Segment { rows: right.rows + 1, ..right.clone() },
        Segment { tails: TailSet::range(1, 3), ..right.clone() },
        Segment { day: 1, ..right.clone() },
        Segment { table: Table::ExporterOptions, ..right.clone() },
    ];
    for output in wrong {
        assert!(state.apply(&Edit::Merged { inputs: keys(), output }).is_err());
    }
    assert!(state.apply(&Edit::Merged { inputs: vec![one.key(); 2], output: right.clone() }).is_err());
    state.apply(&Edit::Merged { inputs: keys(), output: right }).expect("merged");
    assert_eq!(state.segments.values().map(|segment| segment.tails.to_string()).collect::<Vec<_>>(), ["1,3", "2"]);
    assert_eq!(state.segments.get(&two.key()), Some(&two), "what lies between was not read, and is not covered");
}

fn sealed(manifest: &mut Manifest, tail: u64) {
    let segments = vec![segment_of(Table::Flows, 0, tail)];
    let committed = manifest.commit(|state| {
        let edit = Edit::Sealed {
            writer: LOCAL,
            tails: (tail, tail),
            last: Position::new(tail * 10 + 9),
            segments: segments.clone(),
        };
        Ok((state.local().first_tail == tail).then_some(edit))
    });
    assert!(committed.expect("committed"));
}

/// The edit that seals the next tail, whichever that is.
fn next_sealed(state: &ArchiveState) -> Edit {
    let tail = state.local().first_tail;
    let segments = vec![segment_of(Table::Flows, 0, tail)];
    Edit::Sealed { writer: LOCAL, tails: (tail, tail), last: Position::new(tail * 10 + 9), segments }
}

fn edit_path(layout: &Layout, number: u64) -> PathBuf {
    layout.manifest().join(format!("{number:016}.edit"))
}

/// Numbers of the edits that are there, ascending.
fn edits(layout: &Layout) -> Vec<u64> {
    let names = fs::read_dir(layout.manifest()).expect("listed").map(|entry| entry.expect("an entry").file_name());
    let number = |name: std::ffi::OsString| name.to_str()?.strip_suffix(".edit")?.parse().ok();
    let mut numbers: Vec<u64> = names.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

fn archive() -> (tempfile::TempDir, Layout) {
    let dir = tempfile::tempdir().expect("a folder");
    let layout = Layout::new(dir.path());
    crate::recovery::create(&layout, layout.create_root().expect("a folder")).expect("an archive");
    (dir, layout)
}

fn same(one: &Manifest, other: &Manifest) -> bool {
    codec::encode_state(one.state()) == codec::encode_state(other.state())
        && one.state().sequence == other.state().sequence
}

#[test]
fn who_comes_late_reads_what_was_committed_however_far_the_log_has_gone() {
    let (_dir, layout) = archive();
    let mut writer = Manifest::load(&layout).expect("a manifest");
    let mut late = writer.clone();
    let mut often = writer.clone();
    for tail in 1..=700 {
        sealed(&mut writer, tail);
        if tail % 50 == 0 {
            assert!(often.refresh().expect("readable") && same(&often, &writer));
            assert!(same(&Manifest::load(&layout).expect("readable"), &writer));
        }
    }
    assert!(late.refresh().expect("readable") && same(&late, &writer), "its edits are gone, the checkpoint is there");
    assert!(!late.refresh().expect("readable"));
    let edits = fs::read_dir(layout.manifest()).expect("listed").count();
    assert!(edits < 400, "{edits} files");
}

#[test]
fn two_who_commit_at_once_do_not_overwrite_each_other() {
    let (_dir, layout) = archive();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut manifest = Manifest::load(&layout).expect("a manifest");
            scope.spawn(move || {
                for _ in 0..40 {
                    let committed = manifest.commit(|state| Ok(Some(next_sealed(state))));
                    assert!(committed.expect("committed"));
                }
            });
        }
    });
    let state = Arc::clone(Manifest::load(&layout).expect("a manifest").state());
    assert_eq!((state.local().first_tail, state.segments.len()), (161, 160));
}

#[test]
fn a_commit_that_was_held_up_is_made_again_however_many_came_first() {
    for others in [0, 1, 31, 62, 63, 64, 100, 161] {
        let (_dir, layout) = archive();
        let mut other = Manifest::load(&layout).expect("a manifest");
        let mut held_up = other.clone();
        let mut is_first = true;
        let committed = held_up.commit(|state| {
            // as if the process were stopped once it has read the manifest
            let before = if std::mem::take(&mut is_first) { others } else { 0 };
            (1..=before).for_each(|tail| sealed(&mut other, tail));
            Ok(Some(next_sealed(state)))
        });
        assert!(committed.expect("committed"));
        let found = Manifest::load(&layout).expect("a manifest");
        let state = found.state();
        assert_eq!(
            (state.local().first_tail, state.segments.len() as u64),
            (others + 2, others + 1),
            "{others} others"
        );
        assert!(same(&found, &held_up));
    }
}

#[test]
fn a_process_that_is_stopped_in_a_commit_holds_up_nobody_and_finds_its_number_taken() {
    let (_dir, layout) = archive();
    let mut other = Manifest::load(&layout).expect("a manifest");
    let number = other.state().sequence + 1;
    // It has seen that its number is free, and is stopped before it takes it.
    let stopped = CommitLock::share(&layout.manifest()).expect("the lock");
    for tail in 1..=100 {
        sealed(&mut other, tail);
    }
    assert_eq!(Manifest::commits_since_checkpoint(&layout).expect("readable"), 100);
    assert!(edit_path(&layout, number).exists());
    assert!(same(&Manifest::load(&layout).expect("a manifest"), &other));
    drop(stopped);
    for tail in 101..=130 {
        sealed(&mut other, tail);
    }
    assert_eq!(edits(&layout).first(), Some(&96), "32 before the checkpoint of commit 128");
    assert_eq!(Manifest::commits_since_checkpoint(&layout).expect("readable"), other.state().sequence - 128);
    assert!(same(&Manifest::load(&layout).expect("a manifest"), &other));
}

#[test]
fn a_number_that_was_free_again_is_given_back() {
    let (_dir, layout) = archive();
    let mut manifest = Manifest::load(&layout).expect("a manifest");
    for tail in 1..=100 {
        sealed(&mut manifest, tail);
    }
    // as by a program that knows no lock, whose checkpoint came after it was looked for
    let new = layout.manifest().join("new-x");
    let edit = codec::encode_edit(&next_sealed(manifest.state()));
    for (number, counts) in [(2, false), (63, false), (101, false), (102, true)] {
        fs::write(&new, codec::file(number, &edit)).expect("written");
        assert_eq!(manifest.link(&new, number).expect("linked"), counts, "{number}");
        let last = if counts { 102 } else { 101 };
        assert_eq!(edits(&layout), (64..=last).collect::<Vec<_>>());
    }
    assert!(manifest.refresh().expect("readable"));
    assert_eq!(manifest.state().local().first_tail, 102);
}

#[test]
fn an_edit_that_was_left_behind_is_removed_and_no_state_is_made_of_it() {
    let (_dir, layout) = archive();
    let mut writer = Manifest::load(&layout).expect("a manifest");
    let mut late = writer.clone();
    sealed(&mut writer, 1);
    let path = edit_path(&layout, writer.state().sequence);
    let edit = fs::read(&path).expect("the edit");
    for tail in 2..=100 {
        sealed(&mut writer, tail);
    }
    assert!(!path.exists());
    fs::write(&path, edit).expect("put back");
    assert!(late.refresh().expect("readable") && same(&late, &writer), "what it reads is not the newest");
    for tail in 101..=130 {
        sealed(&mut writer, tail);
    }
    assert_eq!(edits(&layout).first(), Some(&96), "whatever lies between");
}

#[test]
fn a_checkpoint_replaces_no_later_one() {
    let (_dir, layout) = archive();
    let mut writer = Manifest::load(&layout).expect("a manifest");
    for tail in 1..=31 {
        sealed(&mut writer, tail);
    }
    // stopped before it replaces the checkpoint
    let stopped = writer.clone();
    for tail in 32..=100 {
        sealed(&mut writer, tail);
    }
    stopped.move_checkpoint().expect("there is a later one");
    assert!(same(&Manifest::load(&layout).expect("a manifest"), &writer), "the edits behind the older one are gone");
    let names = fs::read_dir(layout.manifest()).expect("listed").map(|entry| entry.expect("an entry").file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().starts_with("new-")).count(), 0);
}

#[test]
fn a_process_of_the_same_number_in_another_container_has_files_of_its_own() {
    let (_dir, layout) = archive();
    let mut manifest = Manifest::load(&layout).expect("a manifest");
    let path = |number: u32| layout.manifest().join(format!("new-{}-{number}", std::process::id()));
    (0..2000).for_each(|number| fs::write(path(number), "an edit").expect("written"));
    sealed(&mut manifest, 1);
    assert!((0..2000).all(|number| fs::read(path(number)).is_ok_and(|octets| octets == b"an edit")));
}

#[test]
fn files_of_segments_that_did_not_come_to_count_are_removed() {
    let (dir, layout) = archive();
    let mut manifest = Manifest::load(&layout).expect("a manifest");
    let segment = Segment { root: Arc::from(dir.path()), ..segment_of(Table::Flows, 0, 1) };
    let edit = Edit::Sealed { writer: LOCAL, tails: (1, 1), last: segment.last, segments: vec![segment.clone()] };
    let mut is_left_after = |answer: Result<Option<Edit>, ArchiveError>| {
        fs::create_dir_all(segment.partition()).expect("a folder");
        fs::write(segment.path(), "rows").expect("a file");
        let mut answer = Some(answer);
        let _ = manifest.commit_segments(std::slice::from_ref(&segment), |_| answer.take().unwrap_or(Ok(None)));
        segment.path().exists()
    };
    let failure = || ArchiveError::Unsettled { path: dir.path().to_owned(), attempts: 1 };
    assert!(!is_left_after(Err(failure())), "a commit that failed");
    assert!(!is_left_after(Ok(None)), "nothing to commit any more");
    assert!(is_left_after(Ok(Some(edit))), "it counts");
    assert!(is_left_after(Err(failure())), "it counts already");
}

#[test]
fn on_a_full_disk_or_quota_the_room_that_is_kept_goes_by_parts() {
    use std::io::ErrorKind;

    for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::PermissionDenied] {
        let (_dir, layout) = archive();
        let mut manifest = Manifest::load(&layout).expect("a manifest");
        for tail in 1..=70 {
            sealed(&mut manifest, tail);
        }
        manifest.keep_reserve(4096);
        fs::write(edit_path(&layout, 5), "left behind").expect("written");
        fs::write(layout.reserve(), "for the books").expect("written");
        let kept = [layout.manifest().join("reserve"), edit_path(&layout, 5), layout.reserve()];
        let mut found = Vec::new();
        let written: Result<(), ArchiveError> = manifest.with_kept_room(|| {
            found.push(kept.iter().filter(|path| path.exists()).count());
            Err(Action::UpdateManifest.failed(&layout.manifest())(kind.into()))
        });
        assert!(matches!(written, Err(ArchiveError::Io { source, .. }) if source.kind() == kind));
        let expected: &[usize] = if kind == ErrorKind::PermissionDenied { &[3] } else { &[3, 2, 1, 0] };
        assert_eq!(found, expected, "{kind}");
        let followed = edits(&layout).into_iter().find(|number| *number > 5);
        assert_eq!(followed, Some(32), "those that may be followed stay");
    }
}

#[test]
fn a_reserve_is_extended_and_never_emptied_for_it() {
    let (_dir, layout) = archive();
    let manifest = Manifest::load(&layout).expect("a manifest");
    for (asked, found) in [(100, 100), (300, 300), (200, 300)] {
        manifest.keep_reserve(asked);
        assert_eq!(manifest.reserve_octets(), found, "{asked}");
    }
}

#[test]
fn a_manifest_that_was_changed_is_an_error_that_names_the_file() {
    let (_dir, layout) = archive();
    let mut writer = Manifest::load(&layout).expect("a manifest");
    for tail in 1..=5 {
        sealed(&mut writer, tail);
    }
    for name in ["checkpoint", "0000000000000003.edit"] {
        let path = layout.manifest().join(name);
        let whole = fs::read(&path).expect("a file");
        for at in 0..whole.len() * 8 {
            let mut octets = whole.clone();
            octets[at / 8] ^= 1 << (at % 8);
            fs::write(&path, &octets).expect("written");
            let error = Manifest::load(&layout).expect_err("damaged");
            assert!(matches!(&error, ArchiveError::DamagedManifest { path: named, .. } if *named == path), "{error:?}");
        }
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).expect("written");
            Manifest::load(&layout).expect_err("cut");
        }
        fs::write(&path, &whole).expect("written");
    }
    // the content of one edit under the name of another
    fs::copy(layout.manifest().join("0000000000000003.edit"), layout.manifest().join("0000000000000004.edit"))
        .expect("copied");
    assert!(matches!(Manifest::load(&layout), Err(ArchiveError::DamagedManifest { .. })));
}
