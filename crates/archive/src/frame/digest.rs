//! What a frame says about its flows, so that a question can leave it out without reading it.
//!
//! It lies at the end of the payload, padded with zeros to a multiple of 64 octets. All numbers are little-endian:
//!
//! ```text
//!  0  CRC-32C of what follows            4
//!  4  logarithm of the bits of hosts     4
//!  8  start: smallest, largest          16   milliseconds since the epoch; `received` stands for a time that is null
//! 24  end: smallest, largest            16
//! 40  received: smallest, largest       16
//! 56  bits of hosts                         a Bloom filter of source and destination addresses
//! ```
//!
//! Each address sets three bits: its [`hash`] has their numbers in its lowest bits, from bit 0, 21 and 42 on. Half of
//! the bits can be laid over the other half without a change of what they say, so the filter is made large and folded
//! until it is well filled.

use arrow::array::{Array, AsArray, BinaryArray};
use arrow::buffer::Buffer;
use arrow::datatypes::TimestampMillisecondType;
use weir_flow::{Column, FlowBatch};

/// Octets before the bits of hosts.
const FIXED_OCTETS: usize = 56;
const LOG_BITS_MIN: u32 = 9;
const LOG_BITS_MAX: u32 = 20;
/// A filter of which a larger part is set is not folded.
const FILL_MAX: f64 = 0.2;

/// Smallest and largest time, both included; the smallest is larger when there is none.
type Times = (i64, i64);

/// What is known of the flows of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameDigest {
    start: Times,
    end: Times,
    received: Times,
    hosts: Vec<u64>,
}

impl FrameDigest {
    /// Makes that of some flows.
    pub(crate) fn of(flows: &FlowBatch) -> Self {
        let received = times(flows, Column::Received, None);
        let mut hosts = HostFilter::new(flows.rows());
        for column in [Column::SrcAddr, Column::DstAddr] {
            if let Some(addresses) = flows.column(column).and_then(|values| values.as_binary_opt::<i32>()) {
                hosts.add(addresses);
            }
        }
        let of = |column| times(flows, column, Some(received));
        Self { start: of(Column::Start), end: of(Column::End), received, hosts: hosts.folded() }
    }

    /// The octets, without padding.
    pub(crate) fn encode(&self) -> Buffer {
        let mut octets = vec![0; 4];
        octets.extend((self.hosts.len() as u32 * u64::BITS).trailing_zeros().to_le_bytes());
        for (first, last) in [self.start, self.end, self.received] {
            octets.extend(first.to_le_bytes());
            octets.extend(last.to_le_bytes());
        }
        octets.extend(self.hosts.iter().flat_map(|word| word.to_le_bytes()));
        let crc = crc32c::crc32c(&octets[4..]);
        octets[..4].copy_from_slice(&crc.to_le_bytes());
        Buffer::from_vec(octets)
    }

    /// Reads the octets, behind which there may be padding; `None` when they are not what was written.
    pub(crate) fn decode(octets: &[u8]) -> Option<Self> {
        let log_bits = u32::from_le_bytes(*octets.get(4..)?.first_chunk()?);
        if !(LOG_BITS_MIN..=LOG_BITS_MAX).contains(&log_bits) {
            return None;
        }
        let octets = octets.get(..FIXED_OCTETS + (1 << log_bits >> 3))?;
        let (crc, rest) = octets.split_first_chunk()?;
        if crc32c::crc32c(rest) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (fixed, hosts) = octets.split_at(FIXED_OCTETS);
        let number = |at: usize| Some(i64::from_le_bytes(*fixed.get(at..)?.first_chunk()?));
        let times = |at: usize| Some((number(at)?, number(at + 8)?));
        let (words, _) = hosts.as_chunks();
        let hosts = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        Some(Self { start: times(8)?, end: times(24)?, received: times(40)?, hosts })
    }

    /// Smallest and largest time of a column of times; `received` stands for `start` and `end` that are null. `None`
    /// when nothing is known of the column.
    pub fn times(&self, column: Column) -> Option<(i64, i64)> {
        match column {
            Column::Start => Some(self.start),
            Column::End => Some(self.end),
            Column::Received => Some(self.received),
            _ => None,
        }
    }

    /// Whether a flow may have this source or destination address, of 4 or 16 octets.
    pub fn may_have_host(&self, address: &[u8]) -> bool {
        let mask = self.hosts.len() as u64 * u64::from(u64::BITS) - 1;
        places(hash(address), mask).iter().all(|place| self.hosts[(place >> 6) as usize] >> (place & 63) & 1 == 1)
    }
}

fn times(flows: &FlowBatch, column: Column, instead: Option<Times>) -> Times {
    const NONE: Times = (i64::MAX, i64::MIN);
    let known = flows.column(column).and_then(|values| values.as_primitive_opt::<TimestampMillisecondType>());
    let Some(known) = known else { return instead.unwrap_or(NONE) };
    let ends = arrow::compute::min(known).zip(arrow::compute::max(known)).unwrap_or(NONE);
    match instead.filter(|_| known.null_count() > 0) {
        Some(instead) => (ends.0.min(instead.0), ends.1.max(instead.1)),
        None => ends,
    }
}

/// Bits of addresses, while they are set.
struct HostFilter {
    bits: Vec<u64>,
}

impl HostFilter {
    fn new(rows: usize) -> Self {
        let log_bits = (rows.saturating_mul(16)).max(1).ilog2().clamp(LOG_BITS_MIN, LOG_BITS_MAX);
        Self { bits: vec![0; 1 << (log_bits - 6)] }
    }

    fn add(&mut self, addresses: &BinaryArray) {
        let mask = self.bits.len() as u64 * u64::from(u64::BITS) - 1;
        // without a look at nulls: their octets are none
        for ends in addresses.value_offsets().windows(2) {
            let address = &addresses.value_data()[ends[0] as usize..ends[1] as usize];
            if address.is_empty() {
                continue;
            }
            for place in places(hash(address), mask) {
                self.bits[(place >> 6) as usize] |= 1 << (place & 63);
            }
        }
    }

    /// The bits, folded as long as few are set.
    fn folded(mut self) -> Vec<u64> {
        while self.bits.len() * 64 > 1 << LOG_BITS_MIN {
            let (low, high) = self.bits.split_at(self.bits.len() / 2);
            let half: Vec<u64> = low.iter().zip(high).map(|(low, high)| low | high).collect();
            let set: u32 = half.iter().map(|word| word.count_ones()).sum();
            if f64::from(set) > half.len() as f64 * 64.0 * FILL_MAX {
                break;
            }
            self.bits = half;
        }
        self.bits
    }
}

/// The three bits of a hash.
fn places(hash: u64, mask: u64) -> [u64; 3] {
    [hash & mask, hash >> 21 & mask, hash >> 42 & mask]
}

/// Mixes the octets of an address, 8 of them at a time, by the finalizer of `SplitMix64`.
fn hash(address: &[u8]) -> u64 {
    let mut hash = address.len() as u64;
    for piece in address.chunks(8) {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
    }
    hash
}

#[cfg(test)]
mod tests {
    use weir_flow::FlowBatchBuilder;

    use super::*;

    fn flows(hosts: std::ops::Range<u32>) -> FlowBatch {
        let rows = hosts.len();
        let mut builder = FlowBatchBuilder::new(rows);
        builder.begin_rows(rows);
        builder.time(Column::Received).repeat(5000, rows);
        builder.address(Column::SrcAddr).extend_fixed(hosts.map(u32::to_be_bytes));
        builder.finish()
    }

    #[test]
    fn every_host_is_found_and_few_others() {
        for rows in [1, 100, 8192, 100_000] {
            let digest = FrameDigest::of(&flows(7..7 + rows));
            let digest = FrameDigest::decode(&digest.encode()).expect("what was written");
            assert!((7..7 + rows).all(|host| digest.may_have_host(&host.to_be_bytes())));
            let wrong = (0..20_000_u32).filter(|host| digest.may_have_host(&(host + 0x0a00_0000).to_be_bytes()));
            assert!(wrong.count() < 400, "{rows} rows");
            assert!(!digest.may_have_host(&[1; 16]) || rows > 10_000);
        }
    }

    #[test]
    fn times_that_are_null_are_when_the_flow_was_received() {
        let digest = FrameDigest::of(&flows(0..3));
        assert_eq!(digest.times(Column::Start), Some((5000, 5000)));
        let mut builder = FlowBatchBuilder::new(2);
        builder.begin_rows(2);
        builder.time(Column::Received).repeat(5000, 2);
        builder.time(Column::Start).push(Some(4000));
        builder.time(Column::Start).push(None);
        builder.time(Column::End).push(Some(4500));
        builder.time(Column::End).push(Some(4600));
        let digest = FrameDigest::of(&builder.finish());
        assert_eq!(
            [Column::Start, Column::End].map(|column| digest.times(column)),
            [Some((4000, 5000)), Some((4500, 4600))]
        );
    }

    #[test]
    fn octets_that_were_changed_are_no_digest() {
        let octets = FrameDigest::of(&flows(0..50)).encode();
        for at in 0..octets.len() {
            let mut octets = octets.to_vec();
            octets[at] ^= 4;
            assert_eq!(FrameDigest::decode(&octets), None, "octet {at}");
        }
        assert_eq!(FrameDigest::decode(&octets[..octets.len() - 1]), None);
        assert_eq!(FrameDigest::decode(&[]), None);
    }
}
