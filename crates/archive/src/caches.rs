//! What questions to one archive share: indexes of segments, and frames of tails.

use std::sync::Arc;

use arrow::buffer::Buffer;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::index::{IndexContents, SegmentIndex};
use crate::manifest::SegmentKey;
use crate::{ArchiveError, Position, Segment};

/// Octets that a file descriptor's worth of bookkeeping stands for, so that many small things count, too.
const ENTRY_OCTETS: u64 = 128;
/// What an entry is expected to take, to size the tables of a cache.
const INDEX_OCTETS: u64 = 64 << 10;
const FRAME_OCTETS: u64 = 256 << 10;

/// Indexes and frames, together at most as many octets as were asked for.
#[derive(Debug)]
pub(crate) struct Caches {
    indexes: Cache<IndexKey, Option<Arc<IndexContents>>, IndexWeight>,
    frames: Cache<Position, Buffer, FrameWeight>,
}

/// A file of a segment, which never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct IndexKey {
    key: SegmentKey,
    generation: u32,
    header_crc: Option<u32>,
}

#[derive(Debug, Clone)]
struct IndexWeight;

impl Weighter<IndexKey, Option<Arc<IndexContents>>> for IndexWeight {
    fn weight(&self, _: &IndexKey, contents: &Option<Arc<IndexContents>>) -> u64 {
        ENTRY_OCTETS + contents.as_ref().map_or(0, |contents| contents.memory_octets() as u64)
    }
}

#[derive(Debug, Clone)]
struct FrameWeight;

impl Weighter<Position, Buffer> for FrameWeight {
    fn weight(&self, _: &Position, payload: &Buffer) -> u64 {
        ENTRY_OCTETS + payload.capacity() as u64
    }
}

impl Caches {
    /// Empty ones: half of the octets are for indexes, half for frames.
    pub(crate) fn new(octets_max: u64) -> Self {
        let half = octets_max / 2;
        let entries = |octets: u64| (half / octets).max(16) as usize;
        Self {
            indexes: Cache::with_weighter(entries(INDEX_OCTETS), half, IndexWeight),
            frames: Cache::with_weighter(entries(FRAME_OCTETS), half, FrameWeight),
        }
    }

    /// Octets that they take.
    pub(crate) fn octets(&self) -> u64 {
        self.indexes.weight() + self.frames.weight()
    }

    /// The index of a segment, read when it is not known. The file is verified to be the segment either way.
    pub(crate) fn index(&self, segment: &Segment) -> Result<Option<SegmentIndex>, ArchiveError> {
        let Segment { generation, header_crc, .. } = *segment;
        let key = IndexKey { key: segment.key(), generation, header_crc };
        match self.indexes.get(&key) {
            Some(None) => Ok(None),
            Some(Some(contents)) => Ok(Some(SegmentIndex::of(segment.path(), segment.file()?, contents))),
            None => {
                let index = segment.index()?;
                self.indexes.insert(key, index.as_ref().map(|index| Arc::clone(&index.contents)));
                Ok(index)
            }
        }
    }

    /// The payload of the frame of a position, read when it is not known.
    pub(crate) fn payload(
        &self,
        position: Position,
        read: impl FnOnce() -> Result<Buffer, ArchiveError>,
    ) -> Result<Buffer, ArchiveError> {
        match self.frames.get(&position) {
            Some(payload) => Ok(payload),
            None => read().inspect(|payload| self.frames.insert(position, payload.clone())),
        }
    }

    /// Forgets frames: their positions may be given again after a crash.
    pub(crate) fn clear_frames(&self) {
        self.frames.clear();
    }
}
