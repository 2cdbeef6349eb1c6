//! Followers: every delivery once, in order, across the ends of everybody.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_archive::{FollowEvent, FollowOptions, FollowPosition, Follower, Position, Snapshot};
use weir_flow::{Column, FlowBatch};

use crate::children::say;
use crate::traffic::{KEPT, ROWS, flow};

/// In a process of its own, and in that of the writer.
pub(crate) const NAMES: [&str; 2] = ["alone", "with-the-writer"];

pub(crate) fn options() -> FollowOptions {
    FollowOptions { poll_interval: Duration::from_millis(5), window_octets_max: 1 << 20, ..FollowOptions::default() }
}

/// Beside the archive: where a follower is.
fn file(dir: &Path, name: &str) -> PathBuf {
    dir.with_file_name(name)
}

/// A follower that goes on where it was when it was killed.
pub(crate) fn resume(dir: &Path, name: &str, open: impl FnOnce(FollowPosition) -> Follower) -> Follower {
    let kept = fs::read_to_string(file(dir, name)).ok();
    open(kept.map_or(FollowPosition::START, |text| text.parse().expect("a position")))
}

/// The way of a follower, which keeps where it is.
pub(crate) struct Walk {
    dir: PathBuf,
    file: PathBuf,
    random: Xoshiro256PlusPlus,
    deliveries: u64,
}

impl Walk {
    pub(crate) fn new(dir: &Path, name: &str, seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { dir: dir.to_owned(), file: file(dir, name), random, deliveries: 0 }
    }

    /// Takes the next event, if there is one soon, and sometimes dawdles.
    pub(crate) fn step(&mut self, follower: &mut Follower) {
        let before = follower.position().position.get();
        let Some(event) = follower.next_timeout(Duration::from_millis(50)).expect("it can be followed") else { return };
        match &event {
            FollowEvent::Delivery(delivery) => {
                let position = delivery.position.position.get();
                assert_eq!(position, before + 1, "{event:?}");
                let flows = delivery.flows.as_ref().and_then(|flows| flows.column(Column::FlowId));
                let mut numbers =
                    flows.map(|numbers| numbers.as_primitive::<UInt64Type>().values().to_vec()).unwrap_or_default();
                numbers.sort_unstable();
                let all = position * ROWS..(position + 1) * ROWS;
                assert_eq!(numbers.len() as u64 + delivery.rows_missing, ROWS, "{event:?}");
                assert!(numbers.iter().all(|number| all.contains(number)), "{event:?}");
                assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{event:?}");
                check_values(delivery.flows.as_ref(), position);
                self.deliveries += 1;
            }
            FollowEvent::Gap { after, through } => {
                assert_eq!(after.position.get(), before, "{event:?}");
                // what is newer cannot have expired
                let newest = Snapshot::open(&self.dir).expect("a snapshot").position().get();
                assert!(through.position.get() + KEPT < newest, "{event:?} of {newest}");
                say("gaps", 1);
            }
            other => panic!("{other:?}"),
        }
        // at once, so that it is never half written
        let new = self.file.with_extension("new");
        fs::write(&new, follower.position().to_string()).and_then(|()| fs::rename(&new, &self.file)).expect("kept");
        if self.deliveries >= 20 {
            say("followed", std::mem::take(&mut self.deliveries));
        }
        if self.random.next_u64().is_multiple_of(200) {
            std::thread::sleep(Duration::from_millis(self.random.next_u64() % 1500));
        }
    }
}

/// The values of a delivery are those of its numbers.
fn check_values(flows: Option<&FlowBatch>, position: u64) {
    let Some(flows) = flows else { return };
    let values = |column| flows.column(column).expect("a column").as_primitive::<UInt64Type>().clone();
    let (numbers, bytes) = (values(Column::FlowId), values(Column::Bytes));
    for (number, bytes) in numbers.values().iter().zip(bytes.values()) {
        assert_eq!(*bytes, flow(*number).bytes, "delivery {position}");
    }
}

/// Follows in a process of its own until it is killed.
pub(crate) fn run(dir: &Path, seed: u64) {
    let mut follower = resume(dir, NAMES[0], |position| open(dir, position));
    let mut walk = Walk::new(dir, NAMES[0], seed);
    loop {
        walk.step(&mut follower);
    }
}

fn open(dir: &Path, position: FollowPosition) -> Follower {
    Follower::open(dir, position, options()).expect("a follower")
}

/// Follows to the end of an archive to which nobody writes any more.
pub(crate) fn follow_to(dir: &Path, name: &str, end: Position) {
    let mut follower = resume(dir, name, |position| open(dir, position));
    let mut walk = Walk::new(dir, name, 0);
    while follower.position().position < end {
        walk.step(&mut follower);
    }
    assert_eq!(follower.position().position, end);
}
