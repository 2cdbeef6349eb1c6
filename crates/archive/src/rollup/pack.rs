//! A table of sums as octets: keys in order as gaps, sums as they are, all in Rice codes, block by block.

use super::table::{OmittedKeys, Sum};
use crate::index::bits::{BitReader, BitWriter, low_bits};
use crate::index::octets::{CorruptIndex, OctetReader, put_u32, put_u64};

/// Keys that share the parameters of their codes.
const BLOCK_KEYS: usize = 256;

/// Numbers of each key: its gap to the one before, flows, packets, bytes, start, duration.
const NUMBERS: usize = 6;

/// Bits of a code's parameter.
const LOW_BITS_BITS: u32 = 7;

/// Keys in order: none, then those of up to 64 bits, then addresses of 128 bits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RollupKeys {
    pub(crate) has_null: bool,
    pub(crate) short: Vec<u128>,
    pub(crate) long: Vec<u128>,
}

/// A table of sums.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PackedRollup {
    pub(crate) keys: RollupKeys,
    /// In the order of keys.
    pub(crate) sums: Vec<Sum>,
    pub(crate) rest: Option<OmittedKeys>,
}

impl PackedRollup {
    /// Keys with a place of their own, in order; the null key counts as 0.
    fn runs(&self) -> [Vec<u128>; 3] {
        [vec![0; usize::from(self.keys.has_null)], self.keys.short.clone(), self.keys.long.clone()]
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.keys.has_null), u8::from(self.rest.is_some())];
        put_u32(&mut out, self.keys.short.len() as u32);
        put_u32(&mut out, self.keys.long.len() as u32);
        if let Some(OmittedKeys { keys, flows_max, packets_max, bytes_max }) = self.rest {
            for number in [keys, flows_max, packets_max, bytes_max] {
                put_u64(&mut out, number);
            }
        }
        let start_ms = self.sums.iter().map(|sum| sum.start_ms).min().unwrap_or(0);
        put_u64(&mut out, start_ms as u64);
        let mut writer = BitWriter::default();
        let mut sums = self.sums.iter();
        for run in self.runs() {
            let mut before = 0;
            let rows: Vec<[u128; NUMBERS]> = run
                .iter()
                .zip(&mut sums)
                .map(|(key, sum)| {
                    let gap = key - before;
                    before = *key;
                    let start = sum.start_ms.wrapping_sub(start_ms) as u64;
                    let duration = sum.end_ms.wrapping_sub(sum.start_ms) as u64;
                    [gap, sum.flows.into(), sum.packets.into(), sum.bytes.into(), start.into(), duration.into()]
                })
                .collect();
            rows.chunks(BLOCK_KEYS).for_each(|block| put_block(&mut writer, block));
        }
        out.extend(writer.finish());
        out
    }

    pub(crate) fn read(octets: &[u8]) -> Result<Self, CorruptIndex> {
        let mut reader = OctetReader::new(octets);
        let [has_null, has_rest] = [reader.u8()? != 0, reader.u8()? != 0];
        let [short, long] = [reader.u32()? as usize, reader.u32()? as usize];
        let mut rest = None;
        if has_rest {
            let [keys, flows_max, packets_max, bytes_max] =
                [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
            rest = Some(OmittedKeys { keys, flows_max, packets_max, bytes_max });
        }
        let start_ms = reader.u64()? as i64;
        let bits = reader.take(reader.left())?;
        // every key takes at least a bit for each of its numbers
        if short.saturating_add(long) > bits.len() * 8 {
            return Err(CorruptIndex);
        }
        let mut bits = BitReader::new(bits);
        let mut sums = Vec::with_capacity(short + long + 1);
        read_run(&mut bits, usize::from(has_null), start_ms, &mut sums)?;
        let short = read_run(&mut bits, short, start_ms, &mut sums)?;
        let long = read_run(&mut bits, long, start_ms, &mut sums)?;
        Ok(Self { keys: RollupKeys { has_null, short, long }, sums, rest })
    }
}

fn put_block(writer: &mut BitWriter, rows: &[[u128; NUMBERS]]) {
    let low: [u32; NUMBERS] = std::array::from_fn(|number| {
        let sum = rows.iter().map(|row| row[number]).fold(0u128, u128::saturating_add);
        low_bits(sum, rows.len() as u128)
    });
    for low in &low {
        writer.put((*low).into(), LOW_BITS_BITS);
    }
    for row in rows {
        row.iter().zip(low).for_each(|(number, low)| writer.put_rice(*number, low));
    }
}

fn read_run(
    bits: &mut BitReader<'_>,
    count: usize,
    start_ms: i64,
    sums: &mut Vec<Sum>,
) -> Result<Vec<u128>, CorruptIndex> {
    let mut keys = Vec::with_capacity(count);
    let mut key = 0u128;
    let mut low = [0; NUMBERS];
    for at in 0..count {
        if at % BLOCK_KEYS == 0 {
            low = std::array::from_fn(|_| bits.bits(LOW_BITS_BITS) as u32);
        }
        let [gap, numbers @ ..] = low.map(|low| bits.rice(low));
        if bits.is_over() {
            return Err(CorruptIndex);
        }
        key = key.checked_add(gap).ok_or(CorruptIndex)?;
        keys.push(key);
        let [flows, packets, bytes, start, duration] = numbers.map(|number| number as u64);
        let start_ms = start_ms.wrapping_add(start as i64);
        sums.push(Sum { flows, packets, bytes, start_ms, end_ms: start_ms.wrapping_add(duration as i64) });
    }
    Ok(keys)
}
