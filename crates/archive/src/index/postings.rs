//! From values to the pages that have them.
//!
//! Values are sorted and cut into blocks of [`BLOCK_VALUES`]. A block is a string of bits: the values as gaps, and for
//! each value one set of pages per *lane* as gaps too, all in Rice codes. Source and destination addresses are two
//! lanes of one list, so that a host's octets are kept once. A dense set costs about one bit a page, like a bitmap; a
//! host on one page costs about a dozen bits. A list of one lane has only values that occur, so there an empty set says
//! that the value is on too many pages to be listed, and stands for all of them. The first value of each block stands
//! apart in a directory, so that finding a value decodes one block.

use super::bits::{BitReader, BitWriter, low_bits};
use super::octets::{CorruptIndex, OctetReader, put_u32};
use super::page_set::PageSet;

/// Values of a block.
const BLOCK_VALUES: usize = 256;

/// Bits of the codes for gaps between values, of which a block has one.
const LOW_BITS_BITS: u32 = 7;

/// Values with the pages on which they occur, while they are collected.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// Ascending.
    pub(crate) values: Vec<u128>,
    /// Pages of all values, by lane, one value after the other.
    pub(crate) pages: Vec<Vec<u32>>,
    /// Where the pages of each value end, by lane.
    pub(crate) ends: Vec<Vec<u32>>,
}

impl Lists {
    /// Lists of pairs of a slot and a page, the pages of each slot ascending. `slots` are values with their slots,
    /// sorted; slots of the same value are taken together.
    pub(crate) fn new(slots: &[(u128, u32)], lanes: &[Vec<(u32, u32)>]) -> Self {
        let mut place = vec![0u32; slots.len()];
        let mut values: Vec<u128> = Vec::with_capacity(slots.len());
        for (value, slot) in slots {
            if values.last() != Some(value) {
                values.push(*value);
            }
            place[*slot as usize] = values.len() as u32 - 1;
        }
        let mut lists = Self::default();
        for pairs in lanes {
            let mut pairs: Vec<(u32, u32)> = pairs.iter().map(|(slot, page)| (place[*slot as usize], *page)).collect();
            if values.len() < slots.len() {
                pairs.sort_unstable();
                pairs.dedup();
            }
            let mut starts = vec![0u32; values.len() + 1];
            for (at, _) in &pairs {
                starts[*at as usize + 1] += 1;
            }
            (0..values.len()).for_each(|at| starts[at + 1] += starts[at]);
            let mut pages = vec![0; pairs.len()];
            for (at, page) in pairs {
                let next = &mut starts[at as usize];
                pages[*next as usize] = page;
                *next += 1;
            }
            // each start has moved to its value's end
            starts.truncate(values.len());
            lists.pages.push(pages);
            lists.ends.push(starts);
        }
        lists.values = values;
        lists
    }

    fn set(&self, lane: usize, value: usize) -> &[u32] {
        let (Some(pages), Some(ends)) = (self.pages.get(lane), self.ends.get(lane)) else { return &[] };
        let start = value.checked_sub(1).map_or(0, |before| ends[before]);
        &pages[start as usize..ends[value] as usize]
    }

    /// The blocks, one after the other, and their directory.
    pub(crate) fn encode(&self, pages: usize) -> (Directory, Vec<u8>) {
        let (mut directory, mut blocks) = (Directory::default(), Vec::new());
        for first in (0..self.values.len()).step_by(BLOCK_VALUES) {
            let last = (first + BLOCK_VALUES).min(self.values.len());
            let block = self.encode_block(first..last, pages);
            directory.blocks.push(Block {
                first: self.values[first],
                values: (last - first) as u32,
                offset: blocks.len() as u32,
                octets: block.len() as u32,
                crc: crc32c::crc32c(&block),
            });
            blocks.extend(block);
        }
        directory.lanes = self.pages.len() as u8;
        (directory, blocks)
    }

    fn encode_block(&self, values: std::ops::Range<usize>, pages: usize) -> Vec<u8> {
        let mut writer = BitWriter::default();
        let gaps = || self.values[values.clone()].windows(2).map(|pair| pair[1] - pair[0] - 1);
        let span = self.values[values.end - 1] - self.values[values.start];
        let low = low_bits(span, values.len() as u128).min(127);
        writer.put(low.into(), LOW_BITS_BITS);
        for (value, gap) in values.clone().zip(std::iter::once(0).chain(gaps())) {
            writer.put_rice(gap, low);
            for lane in 0..self.pages.len() {
                let set = self.set(lane, value);
                writer.put_rice(set.len() as u128, 0);
                let low = gap_bits(pages, set.len());
                let mut next = 0;
                for page in set {
                    writer.put_rice((page - next).into(), low);
                    next = page + 1;
                }
            }
        }
        writer.finish()
    }
}

/// Low bits of the code for the gaps of so many pages out of all.
fn gap_bits(pages: usize, count: usize) -> u32 {
    // a geometric distribution of mean m wants about log2(0.69 m)
    (pages * 45 / (count.max(1) * 64)).checked_ilog2().unwrap_or(0)
}

/// Where blocks are, and what they begin with.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) lanes: u8,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) first: u128,
    pub(crate) values: u32,
    /// Offset from the first block.
    pub(crate) offset: u32,
    pub(crate) octets: u32,
    pub(crate) crc: u32,
}

impl Directory {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let wide = self.blocks.iter().any(|block| block.first > u128::from(u32::MAX));
        out.extend([self.lanes, u8::from(wide)]);
        put_u32(out, self.blocks.len() as u32);
        for block in &self.blocks {
            let first = block.first.to_le_bytes();
            out.extend(if wide { &first[..] } else { &first[..4] });
            for number in [block.values, block.octets, block.crc] {
                put_u32(out, number);
            }
        }
    }

    pub(crate) fn read(reader: &mut OctetReader<'_>) -> Result<Self, CorruptIndex> {
        let [lanes, wide] = *reader.take(2)? else { return Err(CorruptIndex) };
        let width = if wide == 0 { 4 } else { 16 };
        let count = reader.u32()? as usize;
        let entry = width + 12;
        let entries = reader.take(count.checked_mul(entry).ok_or(CorruptIndex)?)?;
        let mut offset = 0u32;
        let blocks = entries.chunks_exact(entry).map(|entry| {
            let mut entry = OctetReader::new(entry);
            let mut first = [0; 16];
            first[..width].copy_from_slice(entry.take(width)?);
            let (values, octets, crc) = (entry.u32()?, entry.u32()?, entry.u32()?);
            let block = Block { first: u128::from_le_bytes(first), values, offset, octets, crc };
            offset = offset.checked_add(octets).ok_or(CorruptIndex)?;
            Ok(block)
        });
        Ok(Self { lanes, blocks: blocks.collect::<Result<_, CorruptIndex>>()? })
    }

    /// Octets of all blocks.
    pub(crate) fn octets(&self) -> u64 {
        self.blocks.last().map_or(0, |block| u64::from(block.offset) + u64::from(block.octets))
    }

    /// Blocks that may have values from `low` to `high`.
    pub(crate) fn covering(&self, low: u128, high: u128) -> &[Block] {
        let end = self.blocks.partition_point(|block| block.first <= high);
        let start = self.blocks.partition_point(|block| block.first <= low).saturating_sub(1);
        self.blocks.get(start..end).unwrap_or(&[])
    }
}

/// Adds the pages of a block's values from `low` to `high`, to one set for each lane.
pub(crate) fn add_pages(
    block: &Block,
    octets: &[u8],
    (low, high): (u128, u128),
    lanes: &mut [PageSet],
) -> Result<(), CorruptIndex> {
    if crc32c::crc32c(octets) != block.crc {
        return Err(CorruptIndex);
    }
    let is_only_lane = lanes.len() == 1;
    let mut reader = BitReader::new(octets);
    let value_bits = reader.bits(LOW_BITS_BITS) as u32;
    let mut value = block.first;
    for number in 0..block.values {
        let gap = reader.rice(value_bits);
        if number > 0 {
            value = value.checked_add(gap).and_then(|value| value.checked_add(1)).ok_or(CorruptIndex)?;
        }
        if value > high {
            return Ok(());
        }
        for pages in &mut *lanes {
            let all = pages.pages();
            let count = usize::try_from(reader.rice(0)).map_err(|_| CorruptIndex)?;
            if count > all || reader.is_over() {
                return Err(CorruptIndex);
            }
            if count == 0 && is_only_lane && value >= low {
                *pages = PageSet::all(all);
            }
            let bits = gap_bits(all, count);
            let mut next = 0usize;
            for _ in 0..count {
                let page = usize::try_from(reader.rice(bits))
                    .ok()
                    .and_then(|gap| next.checked_add(gap))
                    .ok_or(CorruptIndex)?;
                if value >= low {
                    pages.insert(page);
                }
                next = page.saturating_add(1);
            }
        }
    }
    Ok(())
}
