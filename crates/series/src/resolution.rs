//! How long steps are, and how long they are kept.

use std::fmt::Write;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::SeriesError;

/// Steps of a block. A day at 5 minutes: a year of a series is then in 366 places.
pub(crate) const BLOCK_STEPS: usize = 288;

/// One of the resolutions of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resolution {
    /// Length of a step in seconds.
    pub step_secs: u32,
    /// How long steps are kept, in seconds; some more are kept until a block is over.
    pub keep_secs: u64,
}

/// Options of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// Resolutions, the finest first. Each step is a multiple of the one before it, and each resolution is kept for as
    /// long as a step of the next one at least.
    pub resolutions: Vec<Resolution>,
    /// Steps that may wait to be consolidated before writing waits for it. Default: 16.
    pub waiting_steps_max: usize,
    /// How often written steps are synced to the disk, in milliseconds. Default: 1,000.
    pub sync_interval_ms: u64,
    /// Steps that are more than this many seconds ahead of the clock when the store is opened for writing, and as far from the step
    /// before them, are set aside: the clock was ahead when they were written. Default: 120.
    pub ahead_secs_max: u64,
    /// How many keys coarser steps keep of families that have their largest keys only. Default: `None`, every key that one of their
    /// finest steps has, so that they grow with the number of keys that come and go.
    pub largest: Option<LargestKeys>,
    /// Octets of the store at most: when it has more, the oldest blocks go, those of the finest steps first. It is looked at when
    /// a block of finest steps ends, and the two newest blocks of each resolution stay. Default: `None`, no limit but the time.
    pub octets_max: Option<u64>,
}

/// What a coarser step keeps of a family that has its largest keys only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargestKeys {
    /// How many keys.
    pub keys_max: usize,
    /// The metric by which they are the largest.
    pub metric: String,
    /// The key that the others are added to.
    pub other: String,
}

impl StoreOptions {
    /// The latest step that is believed.
    pub(crate) fn latest_secs(&self) -> i64 {
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(i64::MAX, |since| since.as_secs() as i64);
        now.saturating_add_unsigned(self.ahead_secs_max)
    }
}

impl Default for StoreOptions {
    /// 1 s for an hour, 1 min for 2 days, 5 min for 400 days, 1 h for 5 years.
    fn default() -> Self {
        let of = |step_secs, keep_secs| Resolution { step_secs, keep_secs };
        let day = 86_400;
        let resolutions = vec![of(1, 3_600), of(60, 2 * day), of(300, 400 * day), of(3_600, 5 * 366 * day)];
        Self {
            resolutions,
            waiting_steps_max: 16,
            sync_interval_ms: 1_000,
            ahead_secs_max: 120,
            largest: None,
            octets_max: None,
        }
    }
}

impl Resolution {
    /// Seconds of a block.
    pub(crate) fn block_secs(self) -> i64 {
        i64::from(self.step_secs) * BLOCK_STEPS as i64
    }

    /// The block that a time is in.
    pub(crate) fn block_of(self, time_secs: i64) -> i64 {
        time_secs.div_euclid(self.block_secs())
    }

    /// The place of a step in its block.
    pub(crate) fn place_of(self, time_secs: i64) -> usize {
        (time_secs.rem_euclid(self.block_secs()) / i64::from(self.step_secs)) as usize
    }

    /// When the step began, in seconds since the epoch, that a time is in.
    pub fn step_of(self, time_secs: i64) -> i64 {
        time_secs - time_secs.rem_euclid(i64::from(self.step_secs))
    }

    /// The oldest block that is kept when the newest step is at this time.
    pub(crate) fn oldest_block(self, newest_secs: i64) -> i64 {
        self.block_of(newest_secs.saturating_sub(i64::try_from(self.keep_secs).unwrap_or(i64::MAX)))
    }

    /// How many blocks the retention has, the one that is written and the one that is partly over included.
    pub(crate) fn blocks_kept(self) -> usize {
        let blocks = self.keep_secs.div_ceil(self.block_secs().unsigned_abs());
        usize::try_from(blocks).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// The name of its folder, such as `60s`.
    pub(crate) fn folder_name(self) -> String {
        format!("{}s", self.step_secs)
    }
}

/// Checks that each resolution can be made of the one before it.
pub fn check(resolutions: &[Resolution]) -> Result<(), SeriesError> {
    let wrong = |text: String| Err(SeriesError::Resolutions(text));
    if resolutions.is_empty() || resolutions.iter().any(|resolution| resolution.step_secs == 0) {
        return wrong("there must be a step, and none of 0 s".to_owned());
    }
    for pair in resolutions.windows(2) {
        let [fine, coarse] = [pair[0], pair[1]];
        if coarse.step_secs <= fine.step_secs || coarse.step_secs % fine.step_secs != 0 {
            return wrong(format!("{} s is no multiple of {} s", coarse.step_secs, fine.step_secs));
        }
        if fine.keep_secs < u64::from(coarse.step_secs) {
            return wrong(format!(
                "steps of {} s are kept for {} s, and one of {} s is made of them",
                fine.step_secs, fine.keep_secs, coarse.step_secs
            ));
        }
    }
    Ok(())
}

/// The steps, as errors name them.
pub(crate) fn steps_text(resolutions: &[Resolution]) -> String {
    let mut text = String::new();
    for resolution in resolutions {
        let _ = write!(text, "{}{} s", if text.is_empty() { "" } else { ", " }, resolution.step_secs);
    }
    text
}
