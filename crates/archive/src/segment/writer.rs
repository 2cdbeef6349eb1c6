//! Segments as Parquet files.
//!
//! Columns are encoded one after another, each over all row groups, and the encoded pieces are put together at the
//! end. So one column at a time is gathered into the order of the segment, instead of all of them, and what else is in
//! memory is already compressed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use weir_flow::Table;

use super::check::INDEX_KEY;
use super::chunk::Buffers;
use super::encoder::{Encoded, Encoder, parquet_schema};
use super::encoding::Effort;
use super::found::TAILS_KEY;
use super::gather::Gather;
use super::summed::ChecksumWriter;
use super::times::TimeRange;
use super::{Columns, RowDeliveries, Segment};
use crate::index::{ChunkPlaces, HEADER_AT, HEADER_OCTETS, HOSTS, Header, POSITIONS, ROLLUPS, Section};
use crate::order::FlowOrder;
use crate::position::{LOCAL, Position};
use crate::rollup::build::rollups;
use crate::tail_set::TailSet;
use crate::{Action, ArchiveError, disk};

/// Where the rows of a segment come from, and what it will be.
#[derive(Debug, Clone)]
pub(crate) struct SegmentOrigin {
    /// The folder of the archive.
    pub(crate) root: Arc<Path>,
    pub(crate) day: i64,
    pub(crate) tails: TailSet,
    pub(crate) first: Position,
    pub(crate) last: Position,
    /// Of flows: which delivery each row came in.
    pub(crate) deliveries: Option<Arc<RowDeliveries>>,
}

/// Writes the rows `order` of `columns`, in that order, to a new file and syncs it. Returns the segment that it is once
/// it has been moved to its path. `numbered` has the numbers of the rows' addresses, if they have any, and no address is read again then.
pub(crate) fn write_segment(
    path: &Path,
    columns: &Columns<'_>,
    order: &[u32],
    numbered: &FlowOrder,
    origin: SegmentOrigin,
    row_group_rows_max: usize,
    effort: Effort,
) -> Result<Segment, ArchiveError> {
    let created = Action::CreateSegment.failed(path);
    let failed = |source| ArchiveError::WriteSegment { path: path.to_owned(), source };
    let file = disk::create_anew(path).map_err(created)?;
    let encoder = Encoder::new(columns.table(), key_values(columns, &origin), order, row_group_rows_max, effort);
    let mut encoder = encoder.map_err(failed)?;
    let (mut range_ms, mut buffers) = (TimeRange::default(), Buffers::default());
    for field in columns.table().schema().fields() {
        let gather = if columns.table() != Table::Flows {
            Gather::general(columns, field)?
        } else if let Some(numbers) = numbered.numbers_of(field.name()) {
            Gather::hosts(numbers, &numbered.hosts, &mut buffers)
        } else {
            Gather::flows(columns, field, &mut buffers)?
        };
        let Some(gather) = gather else {
            range_ms.lacks(field);
            encoder.encode_nulls(field).map_err(failed)?;
            continue;
        };
        encoder.encode(field, gather, &mut buffers, &mut range_ms).map_err(failed)?;
    }
    drop(buffers);
    let positions = match &origin.deliveries {
        Some(deliveries) if columns.table() == Table::Flows => {
            deliveries.of_order(columns, order)?.encode((origin.tails.first(), origin.first))
        }
        _ => Vec::new(),
    };
    let (rollups, lists) = match effort.heavy_keys_min {
        None => (Vec::new(), None),
        Some(heavy_keys_min) => (rollups(columns, order, numbered, heavy_keys_min)?, Some(numbered)),
    };
    let sections = rollups.into_iter().map(|(rollup, octets)| (ROLLUPS + rollup as u8, octets));
    let sections = sections.chain((!positions.is_empty()).then_some((POSITIONS, positions))).collect();
    let header = encoder.write_to(&file, order, lists, sections).map_err(failed)?;
    file.write_all_at(&header.encode(), HEADER_AT).map_err(created)?;
    disk::sync(&file, path).map_err(created)?;
    let octets = file.metadata().map_err(created)?.len();
    let SegmentOrigin { root, day, tails, first, last, .. } = origin;
    Ok(Segment {
        table: columns.table(),
        day,
        rows: order.len() as u64,
        octets,
        first,
        last,
        time_range_ms: range_ms.finish(),
        writer: LOCAL,
        tails,
        generation: 0,
        header_crc: Some(header.crc()),
        root,
    })
}

impl Encoder {
    /// Writes everything but the header, which must be written where zeros are now.
    fn write_to(
        self,
        file: &File,
        order: &[u32],
        numbered: Option<&FlowOrder>,
        sections: Vec<(u8, Vec<u8>)>,
    ) -> Result<Header, ParquetError> {
        let Self { schema, properties, groups, mut index, .. } = self;
        let mut writer = SerializedFileWriter::new(ChecksumWriter::new(file), parquet_schema(&schema)?, properties)?;
        let mut at = 0;
        let mut parts = vec![HEADER_AT, HEADER_OCTETS as u64];
        writer.write_all(&[0; HEADER_OCTETS])?;
        parts.extend(groups.iter().flat_map(|group| group.chunks.iter().map(Encoded::octets)));
        for octets in &parts {
            writer.inner_mut().expect(*octets);
        }
        for group in groups {
            let mut row_group = writer.next_row_group()?;
            for chunk in group.chunks {
                chunk.write_to(&mut row_group)?;
            }
            row_group.close()?;
        }
        writer.flush()?;
        let sums = writer.inner_mut().take_sums();
        for (number, (octets, crc)) in parts.into_iter().zip(sums).enumerate() {
            if number > 1 {
                index.add_chunk(ChunkPlaces { offset: at, octets, crc });
            }
            at += octets;
        }
        let hosts = numbered.map_or_else(Vec::new, |numbered| index.host_blocks(order, numbered));
        let mut section = |kind, octets: &[u8]| {
            let section = Section { kind, offset: at, octets: octets.len() as u64, crc: crc32c::crc32c(octets) };
            at += section.octets;
            writer.inner_mut().expect(section.octets);
            writer.write_all(octets).map(|()| section)
        };
        let hosts = section(HOSTS, &hosts)?;
        index.add_section(hosts);
        for (kind, octets) in sections {
            index.add_section(section(kind, &octets)?);
        }
        let index = section(0, &index.finish())?;
        let place = format!("{} {} {:08x}", index.offset, index.octets, index.crc);
        writer.append_key_value_metadata(KeyValue::new(INDEX_KEY.to_owned(), place));
        writer.finish()?;
        writer.flush()?;
        Ok(Header { index, footer_crc: writer.inner().rest() })
    }
}

fn key_values(columns: &Columns<'_>, origin: &SegmentOrigin) -> Vec<KeyValue> {
    let order = if columns.table() == Table::Flows {
        "protocol, smaller port, side of it, boxes of addresses"
    } else if columns.table() == Table::ExporterBooks {
        "minute, exporter, observation domain, version"
    } else {
        "as received"
    };
    [
        ("weir.table", columns.table().name().to_owned()),
        (TAILS_KEY, origin.tails.to_string()),
        ("weir.position.first", origin.first.to_string()),
        ("weir.position.last", origin.last.to_string()),
        ("weir.order", order.to_owned()),
    ]
    .map(|(key, value)| KeyValue::new(key.to_owned(), value))
    .to_vec()
}
