//! What can be set about an archive, and every limit with its default.

use std::time::Duration;

/// Options of a [`Writer`](crate::Writer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// Longest time between a write to the tail and the start of its sync to the disk. What a crash of the machine can
    /// lose is what came within this time; a crash of the process loses nothing. Default: 1 s.
    pub commit_interval: Duration,
    /// Longest time that a tail collects rows before it is sealed, counted from its first row. Default: 300 s.
    pub seal_interval: Duration,
    /// What happens when sealing fails. Default: see there.
    pub seal_retries: SealRetries,
    /// Flows after which a tail is sealed; a delivery of more, and of more than 65,536, is refused. Default: 2,000,000.
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
    /// when the disk is full, it is had back from them, and meanwhile nothing is appended within it. Default: 1 GiB;
    /// more than a twentieth of the file system is taken as that.
    pub free_octets_min: u64,
    /// The newest tails and segments that stay when the oldest are removed for a full disk, in octets: when another
    /// program fills the disk, removing ours does not help. As many octets of summaries stay. Default: 1 GiB; more than a
    /// twentieth of the file system is taken as that.
    pub oldest_first_octets_min: u64,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            commit_interval: Duration::from_secs(1),
            seal_interval: Duration::from_mins(5),
            seal_retries: SealRetries::default(),
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
            oldest_first_octets_min: 1 << 30,
        }
    }
}

/// What happens when a tail cannot be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealRetries {
    /// Time to wait before sealing is tried again after it failed, for instance on a full disk. Default: 5 s.
    pub interval: Duration,
    /// After so many failures to seal a tail it is left behind, readable as it is, and the next one is sealed. It is
    /// tried again when the others are sealed. Default: 5.
    pub failures_max: u32,
}

impl Default for SealRetries {
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), failures_max: 5 }
    }
}

/// When segments are merged, and into how large ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionOptions {
    /// Whether a writer merges at all. Default: true.
    pub enabled: bool,
    /// Rows of a merged segment at most. Merging takes memory for them, some 100 octets a row (keys, numbers of hosts,
    /// what rollups sum up, encoded columns): 0.8 GB. More than [`REWRITE_ROWS_MAX`](crate::REWRITE_ROWS_MAX) is taken
    /// as that. Default: 8,000,000.
    pub segment_rows_max: u64,
    /// Octets of the segments that are merged into one, at most, all together. Default: 512 MiB.
    pub segment_octets_max: u64,
    /// Segments of about one size that are merged as soon as there are this many, and the factor between sizes. At
    /// least 2. Default: 4.
    pub fan_in: u64,
    /// Segments merged into one at most. Default: 64.
    pub inputs_max: usize,
    /// Octets of one column, as it is in memory, that the segments of a merge may have together; what has more stays in
    /// smaller segments. A sender may make flows that are large, or that compress a thousand times. Default: 1 GiB.
    pub column_octets_max: u64,
    /// Time after the end of a day until whatever fits together is merged. Default: 1 hour.
    pub settle_time: Duration,
    /// Age of a day, from its end, up to which its books keep a row for each minute; an older one gets one row for each
    /// exporter, Observation Domain and version. Of a window that cuts such a day, the completeness of the whole day is
    /// known. Default: 32 days, so that the last month is known by the minute.
    pub books_minutes_age_max: Duration,
    /// How much of its time the thread of a writer may spend on merging, in percent: it rests after each merge. A
    /// command never rests. Default: 25.
    pub busy_percent: u8,
    /// Longest time that superseded segments wait for readers before they are removed all the same; such a reader gets
    /// an error. Default: 1 hour.
    pub readers_wait_max: Duration,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            segment_rows_max: 8_000_000,
            segment_octets_max: 512 << 20,
            fan_in: 4,
            inputs_max: 64,
            column_octets_max: 1 << 30,
            settle_time: Duration::from_hours(1),
            books_minutes_age_max: Duration::from_hours(32 * 24),
            busy_percent: 25,
            readers_wait_max: Duration::from_hours(1),
        }
    }
}

/// When segments expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiryOptions {
    /// Age of flows at most. Default: none.
    pub age_max: Option<Duration>,
    /// Age of the side tables (books, options, counters) at most. Default: none.
    pub side_tables_age_max: Option<Duration>,
    /// Octets of the archive at most: segments of all tables, tails and summaries. What waits for readers is beside it, see
    /// `pending_octets_max`. Default: none.
    pub octets_max: Option<u64>,
    /// When a limit is hit, data goes down to so much of it, in percent. More than 100 is taken as 100. Default: 95.
    pub low_water_percent: u8,
    /// Longest time that expired segments wait for readers before they are removed all the same; such a reader gets an
    /// error. Default: 1 hour.
    pub readers_wait_max: Duration,
    /// Octets of segments that expired or were merged and wait for readers, at most: when there are more, the oldest of
    /// them are removed all the same, so that the limit of the archive is one of the disk. Default: an eighth of
    /// `octets_max`, when that is set.
    pub pending_octets_max: Option<u64>,
    /// Time for which such a segment waits even so: questions that take less are always answered. Default: 5 s.
    pub readers_wait_min: Duration,
    /// What stays of flows that expire, and for how long. Default: see there.
    pub summaries: SummaryOptions,
}

impl Default for ExpiryOptions {
    fn default() -> Self {
        Self {
            age_max: None,
            side_tables_age_max: None,
            octets_max: None,
            low_water_percent: 95,
            readers_wait_max: Duration::from_hours(1),
            pending_octets_max: None,
            readers_wait_min: Duration::from_secs(5),
            summaries: SummaryOptions::default(),
        }
    }
}

/// How long summaries are kept, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryOptions {
    /// Age of summaries at most, by the newest flow that they sum up. Zero: none are kept. Default: 400 days, so that a
    /// month can be held against the same month of the year before.
    pub age_max: Duration,
    /// Octets of all summaries at most; the oldest go first. Default: a tenth of the limit of the archive, when that
    /// has one.
    pub octets_max: Option<u64>,
}

impl Default for SummaryOptions {
    fn default() -> Self {
        Self { age_max: Duration::from_hours(400 * 24), octets_max: None }
    }
}

/// What a writer does when the disk is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Refuse what cannot be written, and seal later. Nothing is lost that was taken.
    #[default]
    Refuse,
    /// Remove the oldest segments until there is room, and so much free space as is to be kept. Readers are not waited
    /// for; one that had such a segment in its listing gets an error.
    OldestFirst,
}

const OCTETS_HARD_MAX: u64 = 1 << 30;

/// So many flows a delivery may always have, so that few flows in a segment do not part what comes together.
const FRAME_ROWS_MIN: usize = 1 << 16;

impl ArchiveOptions {
    /// Most flows of one delivery: as many as one segment is made of. A delivery is not parted when its tail is sealed,
    /// so a larger one would be put in order as a whole, by one thread, in memory that grows with it.
    pub fn frame_rows_max(&self) -> usize {
        self.segment_rows_max.max(FRAME_ROWS_MIN)
    }

    /// These options within what the format can hold.
    pub(crate) fn within_bounds(self) -> Self {
        Self {
            tail_octets_max: self.tail_octets_max.min(OCTETS_HARD_MAX),
            frame_octets_max: self.frame_octets_max.min(OCTETS_HARD_MAX),
            ..self
        }
    }
}
