//! Segments by their files, where no manifest names them.

use std::fs::{self, File};
use std::io::ErrorKind;

use parquet::file::reader::{FileReader, SerializedFileReader};
use weir_flow::Table;

use super::{Segment, SegmentName};
use crate::index::Header;
use crate::layout::Layout;
use crate::position::LOCAL;
use crate::tail_set::TailSet;
use crate::{Action, ArchiveError};

/// The key under which Parquet's footer says which tails a segment was made of: `1-3,7`.
pub(super) const TAILS_KEY: &str = "weir.tails";

/// The segment in a file, by its name and, where it is to be read, by its header and what its footer says of its tails,
/// if these begin and end as in the name. `None` when the file has just vanished. One that cannot be read goes by its
/// name: reading it is an error then.
pub(crate) fn found_segment(
    layout: &Layout,
    (table, day): (Table, i64),
    name: SegmentName,
    read: bool,
) -> Result<Option<Segment>, ArchiveError> {
    let SegmentName { tails, first, last, rows, time_range_ms, generation } = name;
    let (tails, root) = (TailSet::range(tails.0, tails.1), layout.shared_root());
    let mut segment = Segment {
        table,
        day,
        rows,
        octets: 0,
        first,
        last,
        time_range_ms,
        writer: LOCAL,
        tails,
        generation,
        header_crc: None,
        root,
    };
    let path = segment.path();
    segment.octets = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Action::OpenSegment.failed(&path)(source)),
    };
    if read && let Ok(file) = File::open(&path) {
        segment.header_crc = Header::read(&file, &path).ok().flatten().map(|header| header.crc());
        if segment.tails.first() < segment.tails.last() {
            // In a segment that was imported the numbers are those of the archive that it comes from.
            let named = (segment.tails.first(), segment.tails.last());
            let footer = tails_in_footer(file).filter(|tails| (tails.first(), tails.last()) == named);
            segment.tails = footer.unwrap_or(segment.tails);
        }
    }
    Ok(Some(segment))
}

fn tails_in_footer(file: File) -> Option<TailSet> {
    let reader = SerializedFileReader::new(file).ok()?;
    let pairs = reader.metadata().file_metadata().key_value_metadata()?;
    let text = pairs.iter().find(|pair| pair.key == TAILS_KEY)?.value.as_ref()?;
    text.parse().ok().filter(|tails: &TailSet| !tails.is_empty())
}
