//! Numbers about a writer's work.

use std::time::Duration;

use crate::Position;

/// What a writer has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Position of the last delivery taken.
    pub position: Position,
    /// Position up to which deliveries survive a crash of the machine.
    pub durable: Position,
    /// Flows taken.
    pub rows_appended: u64,
    /// Flows of these that survive a crash of the machine.
    pub rows_durable: u64,
    /// Times that the disk did not confirm what was written to it; the tails concerned are written again.
    pub sync_failures: u64,
    /// Flows of these tails that could not be read back any more and are lost.
    pub rows_lost: u64,
    /// Flows sealed, those of tails that an earlier writer left included.
    pub rows_sealed: u64,
    /// Tails sealed.
    pub tails_sealed: u64,
    /// Segments written, of all tables.
    pub segments_sealed: u64,
    /// Octets of these segments.
    pub octets_sealed: u64,
    /// Tails that wait for being sealed, the one that is being sealed included.
    pub backlog_tails: u64,
    /// Flows in these tails.
    pub backlog_rows: u64,
    /// Octets of these tails.
    pub backlog_octets: u64,
    /// Tails left behind because they could not be sealed. They are read as they are, and tried again.
    pub tails_skipped: u64,
    /// Times that sealing failed; it is tried again.
    pub seal_failures: u64,
    /// Tails found damaged when they were sealed, and set aside.
    pub tails_damaged: u64,
    /// Time spent on reading and checking tails.
    pub seal_read_time: Duration,
    /// Time spent on finding the order of rows.
    pub seal_order_time: Duration,
    /// Time spent on gathering, encoding and writing segments.
    pub seal_write_time: Duration,
    /// Segments that merges wrote.
    pub segments_written: u64,
    /// Segments merged into these.
    pub segments_merged: u64,
    /// Rows that merges rewrote, of all tables.
    pub rows_rewritten: u64,
    /// Merges that failed, for instance on a damaged segment; its segments stay as they are.
    pub compaction_failures: u64,
    /// Times that a merge was put off because there was no room for it.
    pub compactions_postponed: u64,
    /// Times that segments had too much in one column for one merge.
    pub compactions_too_large: u64,
    /// Time spent on merging.
    pub compaction_time: Duration,
    /// Segments that expired by age or size.
    pub segments_expired: u64,
    /// Segments removed because the disk was full, superseded ones included.
    pub segments_removed_for_room: u64,
    /// Flows that went with these and with those that expired.
    pub rows_expired: u64,
    /// Octets of the same.
    pub octets_expired: u64,
    /// Summaries written of segments that expired or were removed.
    pub summaries_written: u64,
    /// Segments of these that could not be summed up, see [`ExpiryReport`](crate::ExpiryReport).
    pub segments_without_sums: u64,
    /// Segments that went without a summary because the disk was full.
    pub summaries_lost: u64,
    /// Summaries that expired or were removed because the disk was full.
    pub summaries_expired: u64,
    /// Files that count no more and wait for readers.
    pub files_pending: u64,
    /// Octets of these.
    pub octets_pending: u64,
    /// Files removed although readers held them, because more waited than may.
    pub files_removed_early: u64,
    /// Times that there was no room and nothing more could be removed for it, because the newest segments stay.
    pub room_refused: u64,
    /// Times that expiry by age was put off because the clock had jumped.
    pub expiry_suspended: u64,
    /// Commits after the checkpoint of the manifest, at the last look.
    pub commits_since_checkpoint: u64,
    /// Times that maintenance failed; it is tried again.
    pub upkeep_failures: u64,
}

/// What a writer leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterReport {
    /// Position of the archive.
    pub position: Position,
    /// What the writer has done.
    pub statistics: Statistics,
}
