//! What can be set about an archive, and every limit with its default.

use std::time::Duration;

use crate::{CompactionOptions, ExpiryOptions, WhenFull};

/// Options of a [`Writer`](crate::Writer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// Longest time between a write to the tail and the start of its sync to the disk. What a crash of the machine can
    /// lose is what came within this time; a crash of the process loses nothing. Default: 1 s.
    pub commit_interval: Duration,
    /// Longest time that a tail collects rows before it is sealed, counted from its first row. Default: 300 s.
    pub seal_interval: Duration,
    /// Time to wait before sealing is tried again after it failed, for instance on a full disk. Default: 5 s.
    pub seal_retry_interval: Duration,
    /// Flows after which a tail is sealed. Default: 2,000,000.
    pub segment_rows_max: usize,
    /// Rows of a row group within a segment: the unit that threads share out when they read. Default: 524,288.
    pub row_group_rows_max: usize,
    /// Octets after which a tail is sealed, whatever its rows. Sealing holds a whole tail in memory. Default: 512 MiB;
    /// more than 1 GiB is taken as 1 GiB, because offsets within a column have 31 bits.
    pub tail_octets_max: u64,
    /// Largest frame, in octets. A larger delivery is refused. Default: 256 MiB; more than 1 GiB is taken as 1 GiB.
    pub frame_octets_max: u64,
    /// Whether segments get their lists of hosts and their rollups when a tail is sealed, rather than when they are
    /// merged. It takes a third more processor time, which at high rates sealing does not have. Default: no.
    pub summaries_when_sealing: bool,
    /// Keys of each kind that rollups keep, at least: as many as are heavy by flows, as many by packets, as many by
    /// bytes. Of hosts one for each 250 rows is kept when that is more. Default: 2048.
    pub heavy_keys_min: u32,
    /// How often the writer looks for what to merge, to expire and to remove. Default: 10 s.
    pub upkeep_interval: Duration,
    /// When segments are merged. Default: see there.
    pub compaction: CompactionOptions,
    /// When segments expire. Default: never.
    pub expiry: ExpiryOptions,
    /// What happens when the disk is full. Default: what cannot be written is refused.
    pub when_full: WhenFull,
    /// The reserve: free space of the file system, in octets, that merging leaves alone. Where the oldest segments go
    /// when the disk is full, it is had back from them, and meanwhile nothing is appended within it. Default: 1 GiB; more than a twentieth of the file system is taken
    /// as that.
    pub free_octets_min: u64,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            commit_interval: Duration::from_secs(1),
            seal_interval: Duration::from_mins(5),
            seal_retry_interval: Duration::from_secs(5),
            segment_rows_max: 2_000_000,
            row_group_rows_max: 1 << 19,
            tail_octets_max: 512 << 20,
            frame_octets_max: 256 << 20,
            summaries_when_sealing: false,
            heavy_keys_min: 2048,
            upkeep_interval: Duration::from_secs(10),
            compaction: CompactionOptions::default(),
            expiry: ExpiryOptions::default(),
            when_full: WhenFull::default(),
            free_octets_min: 1 << 30,
        }
    }
}

const OCTETS_HARD_MAX: u64 = 1 << 30;

impl ArchiveOptions {
    /// These options within what the format can hold.
    pub(crate) fn within_bounds(self) -> Self {
        Self {
            tail_octets_max: self.tail_octets_max.min(OCTETS_HARD_MAX),
            frame_octets_max: self.frame_octets_max.min(OCTETS_HARD_MAX),
            ..self
        }
    }
}
