//! Which delivery each row of a segment of flows came in: the section `positions`.
//!
//! Rows of a segment are clustered by service, so the order in which they came is gone. But the time of reception says
//! nearly all of it: deliveries come one after another, and their times hardly overlap. So the section has, for each
//! delivery, its rows and the smallest and largest `received`; a row belongs to the first delivery whose range has its
//! value. What that rule gets wrong is listed row by row, or, when that would be longer, the delivery of every row is
//! there as bits. What speaks against it is that a reader must decode `received` to know where a row belongs.
//!
//! ```text
//! number of runs; of each: tail and first position, less those before it, and deliveries
//! of each delivery: rows here, rows in segments of other days and,
//!   when there are rows here: smallest received less that before it (zigzag), largest less smallest
//! 0, number of exceptions; of each: row less the one before it, delivery
//! or 1, bits of a number, and the delivery of each row in so many bits
//! ```
//!
//! Numbers are LEB128. Tails and positions count from those in the name of the segment, so a segment that is imported
//! into another archive need not be written anew.

use std::collections::BTreeSet;

use super::bits::{BitReader, BitWriter};
use super::octets::{CorruptIndex, OctetReader, put_varint, varint_octets, zigzag};
use crate::Position;
use crate::position::TailNumber;

/// A delivery, as far as a segment has to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentDelivery {
    pub(crate) tail: TailNumber,
    pub(crate) position: Position,
    /// Its rows in this segment.
    pub(crate) rows: u64,
    /// Its rows in segments of other days, as they were written.
    pub(crate) rows_elsewhere: u64,
    /// Smallest and largest `received` of its rows in this segment; zeros without rows.
    pub(crate) received: (i64, i64),
}

/// The deliveries of a segment, and where each row belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentDeliveries {
    /// In the order of positions. Deliveries without rows here are among them, when their tail has rows here.
    pub(crate) deliveries: Vec<SegmentDelivery>,
    steps: Steps,
    corrections: Corrections,
}

/// What the rule by `received` does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Corrections {
    /// Rows in ascending order, each with its delivery.
    Rows(Vec<(u32, u32)>),
    /// The delivery of every row, in so many bits.
    Packed { width: u32, octets: Vec<u8> },
}

/// No delivery has this time.
const NONE: u32 = u32::MAX;

/// From which time on which delivery is the first whose range has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Steps(Vec<(i64, u32)>);

impl Steps {
    fn of(deliveries: &[SegmentDelivery]) -> Self {
        let mut bounds: Vec<(i64, bool, u32)> = Vec::with_capacity(2 * deliveries.len());
        for (delivery, number) in deliveries.iter().zip(0..) {
            if delivery.rows > 0 {
                bounds.push((delivery.received.0, true, number));
                bounds.extend(delivery.received.1.checked_add(1).map(|end| (end, false, number)));
            }
        }
        bounds.sort_unstable();
        let mut open: BTreeSet<u32> = BTreeSet::new();
        let mut steps: Vec<(i64, u32)> = Vec::with_capacity(bounds.len());
        for at in bounds.chunk_by(|a, b| a.0 == b.0) {
            for &(_, begins, number) in at {
                if begins {
                    open.insert(number)
                } else {
                    open.remove(&number)
                };
            }
            let first = open.first().copied().unwrap_or(NONE);
            if let (Some(bound), true) = (at.first(), steps.last().is_none_or(|step| step.1 != first)) {
                steps.push((bound.0, first));
            }
        }
        Self(steps)
    }

    fn at(&self, received: i64) -> u32 {
        let behind = self.0.partition_point(|step| step.0 <= received);
        behind.checked_sub(1).and_then(|at| self.0.get(at)).map_or(NONE, |step| step.1)
    }
}

impl SegmentDeliveries {
    /// Of rows in the order of the segment: the number of the delivery of each among `deliveries`, and its `received`.
    /// Rows and times of the deliveries are counted here.
    pub(crate) fn of_rows(mut deliveries: Vec<SegmentDelivery>, numbers: &[u32], received: &[i64]) -> Self {
        for delivery in &mut deliveries {
            (delivery.rows, delivery.received) = (0, (i64::MAX, i64::MIN));
        }
        for (number, &received) in numbers.iter().zip(received) {
            let Some(delivery) = deliveries.get_mut(*number as usize) else { continue };
            delivery.rows += 1;
            delivery.received = (delivery.received.0.min(received), delivery.received.1.max(received));
        }
        for delivery in deliveries.iter_mut().filter(|delivery| delivery.rows == 0) {
            delivery.received = (0, 0);
        }
        let steps = Steps::of(&deliveries);
        let width = (deliveries.len().max(1) as u32).ilog2() + 1;
        let octets_max = numbers.len() * width as usize / 8;
        let (mut rows, mut octets, mut before) = (Vec::new(), 0, 0);
        for ((&number, &received), row) in numbers.iter().zip(received).zip(0u32..) {
            if steps.at(received) == number {
                continue;
            }
            octets += varint_octets(u64::from(row - before)) + varint_octets(number.into());
            before = row;
            if octets > octets_max {
                let mut bits = BitWriter::default();
                for number in numbers {
                    bits.put((*number).into(), width);
                }
                let corrections = Corrections::Packed { width, octets: bits.finish() };
                return Self { deliveries, steps, corrections };
            }
            rows.push((row, number));
        }
        Self { deliveries, steps, corrections: Corrections::Rows(rows) }
    }

    /// Of a segment that was written before there was the section: which delivery a row came in is not known. Its
    /// positions are spread evenly over its times of reception, so that its rows come in an order that stays the same.
    /// `received` gives the times of all rows, twice.
    pub(crate) fn spread<E>(
        (tail, first, last): (TailNumber, Position, Position),
        mut received: impl FnMut(&mut dyn FnMut(&[i64])) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut range = (i64::MAX, i64::MIN);
        received(&mut |times| {
            range = times.iter().fold(range, |range, time| (range.0.min(*time), range.1.max(*time)));
        })?;
        let count = u128::from(last.get().saturating_sub(first.get()).min(SPREAD_MAX - 1)) + 1;
        let span = (i128::from(range.1) - i128::from(range.0)).max(0) as u128 + 1;
        let mut deliveries = Vec::with_capacity(count as usize);
        for number in 0..count {
            // the times of which `place` makes this number
            let (from, to) = ((number * span).div_ceil(count), ((number + 1) * span).div_ceil(count));
            let time = |since: u128| (i128::from(range.0) + since as i128) as i64;
            let position = Position::new(first.get() + number as u64);
            let received = (time(from), time(to.saturating_sub(1)));
            deliveries.push(SegmentDelivery { tail, position, rows: 0, rows_elsewhere: 0, received });
        }
        let place = |time: i64| ((i128::from(time) - i128::from(range.0)) as u128 * count / span) as usize;
        received(&mut |times| {
            for time in times {
                if let Some(delivery) = deliveries.get_mut(place(*time)) {
                    delivery.rows += 1;
                }
            }
        })?;
        let steps = Steps::of(&deliveries);
        Ok(Self { deliveries, steps, corrections: Corrections::Rows(Vec::new()) })
    }

    /// Adds the numbers of the deliveries of some rows, of which `received` are the times, from row `first` on. A row
    /// that belongs nowhere gets a number that no delivery has.
    pub(crate) fn numbers(&self, first: u64, received: &[i64], numbers: &mut Vec<u32>) {
        match &self.corrections {
            Corrections::Packed { width, octets } => {
                let at = first * u64::from(*width);
                let mut bits = BitReader::new(octets.get((at / 8) as usize..).unwrap_or_default());
                bits.bits((at % 8) as u32);
                numbers.extend(received.iter().map(|_| bits.bits(*width) as u32));
            }
            Corrections::Rows(rows) => {
                let start = numbers.len();
                numbers.extend(received.iter().map(|time| self.steps.at(*time)));
                let from = rows.partition_point(|(row, _)| u64::from(*row) < first);
                for &(row, number) in rows.get(from..).unwrap_or_default() {
                    match numbers.get_mut(start + (u64::from(row) - first) as usize) {
                        Some(place) => *place = number,
                        None => break,
                    }
                }
            }
        }
    }

    /// The section, of a segment whose first tail and position are these.
    pub(crate) fn encode(&self, (tail, position): (TailNumber, Position)) -> Vec<u8> {
        let mut out = Vec::new();
        let follows =
            |a: &SegmentDelivery, b: &SegmentDelivery| a.tail == b.tail && a.position.get() + 1 == b.position.get();
        put_varint(&mut out, self.deliveries.chunk_by(follows).count() as u64);
        let (mut tail, mut position) = (tail, position.get());
        for run in self.deliveries.chunk_by(follows) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            put_varint(&mut out, zigzag(first.tail.wrapping_sub(tail) as i64));
            put_varint(&mut out, first.position.get().wrapping_sub(position));
            put_varint(&mut out, run.len() as u64);
            (tail, position) = (first.tail, last.position.get());
        }
        let mut before = 0;
        for delivery in &self.deliveries {
            put_varint(&mut out, delivery.rows);
            put_varint(&mut out, delivery.rows_elsewhere);
            if delivery.rows > 0 {
                let (first, last) = delivery.received;
                put_varint(&mut out, zigzag(first.wrapping_sub(before)));
                put_varint(&mut out, last.wrapping_sub(first) as u64);
                before = first;
            }
        }
        match &self.corrections {
            Corrections::Rows(rows) => {
                out.push(0);
                put_varint(&mut out, rows.len() as u64);
                let mut before = 0;
                for (row, number) in rows {
                    put_varint(&mut out, u64::from(row - before));
                    put_varint(&mut out, u64::from(*number));
                    before = *row;
                }
            }
            Corrections::Packed { width, octets } => {
                out.extend([1, *width as u8]);
                out.extend(octets);
            }
        }
        out
    }

    /// Reads the section of a segment of so many rows.
    pub(crate) fn parse(
        octets: &[u8],
        (tail, position): (TailNumber, Position),
        rows: u64,
    ) -> Result<Self, CorruptIndex> {
        let mut reader = OctetReader::new(octets);
        let mut deliveries = parse_runs(&mut reader, tail, position)?;
        let (mut before, mut found) = (0i64, 0u64);
        for delivery in &mut deliveries {
            delivery.rows = reader.varint()?;
            delivery.rows_elsewhere = reader.varint()?;
            if delivery.rows > 0 {
                let first = before.wrapping_add(reader.signed()?);
                delivery.received = (first, first.wrapping_add(reader.varint()? as i64));
                before = first;
                found = found.checked_add(delivery.rows).ok_or(CorruptIndex)?;
            }
        }
        if found != rows {
            return Err(CorruptIndex);
        }
        let corrections = parse_corrections(&mut reader, rows, deliveries.len())?;
        if reader.left() > 0 {
            return Err(CorruptIndex);
        }
        let steps = Steps::of(&deliveries);
        Ok(Self { deliveries, steps, corrections })
    }
}

/// Positions that rows without known deliveries are spread over at most.
const SPREAD_MAX: u64 = 1 << 16;

fn parse_runs(
    reader: &mut OctetReader<'_>,
    mut tail: TailNumber,
    position: Position,
) -> Result<Vec<SegmentDelivery>, CorruptIndex> {
    let mut deliveries = Vec::new();
    let mut at = position.get();
    for _ in 0..reader.varint()? {
        tail = tail.wrapping_add(reader.signed()? as u64);
        at = at.checked_add(reader.varint()?).ok_or(CorruptIndex)?;
        let count = reader.varint()?;
        // each takes two octets at least, so no number of them makes us allocate more than the file has
        let all = count.saturating_add(deliveries.len() as u64);
        if count == 0 || all > reader.left() as u64 / 2 {
            return Err(CorruptIndex);
        }
        let last = at.checked_add(count - 1).ok_or(CorruptIndex)?;
        deliveries.extend((at..=last).map(Position::new).map(|position| {
            let (rows, rows_elsewhere, received) = (0, 0, (0, 0));
            SegmentDelivery { tail, position, rows, rows_elsewhere, received }
        }));
        at = last;
    }
    let is_ascending = deliveries.is_sorted_by(|a, b| a.position < b.position);
    if is_ascending { Ok(deliveries) } else { Err(CorruptIndex) }
}

fn parse_corrections(reader: &mut OctetReader<'_>, rows: u64, deliveries: usize) -> Result<Corrections, CorruptIndex> {
    if reader.u8()? == 1 {
        let width = u32::from(reader.u8()?);
        let octets = rows.checked_mul(width.into()).ok_or(CorruptIndex)?.div_ceil(8);
        let octets = reader.take(usize::try_from(octets).map_err(|_| CorruptIndex)?)?.to_vec();
        return if width <= 32 { Ok(Corrections::Packed { width, octets }) } else { Err(CorruptIndex) };
    }
    let count = reader.varint()?;
    if count > reader.left() as u64 {
        return Err(CorruptIndex);
    }
    let (mut exceptions, mut row) = (Vec::with_capacity(count as usize), 0u64);
    for _ in 0..count {
        row = row.checked_add(reader.varint()?).ok_or(CorruptIndex)?;
        let number = reader.varint()?;
        if row >= rows || number >= deliveries as u64 {
            return Err(CorruptIndex);
        }
        exceptions.push((row as u32, number as u32));
    }
    Ok(Corrections::Rows(exceptions))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delivery(tail: u64, position: u64) -> SegmentDelivery {
        let (rows, rows_elsewhere, received) = (0, position % 3, (0, 0));
        SegmentDelivery { tail, position: Position::new(position), rows, rows_elsewhere, received }
    }

    fn numbers_of(deliveries: &SegmentDeliveries, received: &[i64], piece: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        for (number, times) in received.chunks(piece).enumerate() {
            deliveries.numbers((number * piece) as u64, times, &mut numbers);
        }
        numbers
    }

    /// Rows of deliveries whose times overlap by `blur`, in an order that has nothing to do with them.
    fn rows(deliveries: u32, each: u64, blur: i64) -> (Vec<u32>, Vec<i64>) {
        let mut all: Vec<(u32, i64)> = (0..deliveries)
            .flat_map(|number| (0..each).map(move |row| (number, row)))
            .map(|(number, row)| (number, i64::from(number) * 1000 + (row as i64 * 7919) % (1000 + blur)))
            .collect();
        all.sort_by_key(|(number, time)| (time.wrapping_mul(0x9E37) ^ i64::from(*number)) % 8191);
        all.into_iter().unzip()
    }

    #[test]
    fn times_say_where_rows_belong_in_few_octets() {
        let known = || (1..=300).map(|position| delivery(7, position)).collect::<Vec<_>>();
        for (blur, octets_max) in [(0, 3000), (2, 8000), (5000, 100 * 300 * 9 / 8 + 4000)] {
            let (numbers, received) = rows(300, 100, blur);
            let made = SegmentDeliveries::of_rows(known(), &numbers, &received);
            let octets = made.encode((7, Position::new(1)));
            assert!(octets.len() < octets_max, "blur {blur}: {} octets", octets.len());
            let read = SegmentDeliveries::parse(&octets, (7, Position::new(1)), 30_000).expect("readable");
            assert_eq!(read, made);
            assert_eq!(numbers_of(&read, &received, 1000), numbers);
            // an archive that has imported it calls everything by other numbers
            let moved = SegmentDeliveries::parse(&octets, (107, Position::new(1001)), 30_000).expect("readable");
            assert_eq!((moved.deliveries[0].tail, moved.deliveries[299].position), (107, Position::new(1300)));
        }
    }

    #[test]
    fn rows_of_unknown_deliveries_are_spread_over_the_times() {
        let received: Vec<i64> = (0..1000).map(|row| 5000 + row * row % 997).collect();
        let give = |each: &mut dyn FnMut(&[i64])| -> Result<(), ()> {
            each(&received);
            Ok(())
        };
        for last in [41, 50, 3000] {
            let spread = SegmentDeliveries::spread((3, Position::new(41), Position::new(last)), give).expect("times");
            assert_eq!(spread.deliveries.iter().map(|delivery| delivery.rows).sum::<u64>(), 1000);
            let numbers = numbers_of(&spread, &received, 100);
            for (number, time) in numbers.iter().zip(&received) {
                let delivery = spread.deliveries[*number as usize];
                assert!(delivery.received.0 <= *time && *time <= delivery.received.1);
            }
            for (delivery, number) in spread.deliveries.iter().zip(0u32..) {
                let found = numbers.iter().filter(|found| **found == number).count() as u64;
                assert_eq!(found, delivery.rows, "{delivery:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_row_comes_back_to_its_delivery(
            rows in proptest::collection::vec((0u32..6, prop_oneof![-3i64..9, Just(i64::MIN), Just(i64::MAX)]), 0..60),
            gaps in proptest::collection::vec((0u64..3, 1u64..4), 6),
            piece in 1usize..9,
        ) {
            let (mut tail, mut position) = (4, 10);
            let known: Vec<SegmentDelivery> = gaps.iter().map(|(tails, positions)| {
                (tail, position) = (tail + tails, position + positions);
                delivery(tail, position)
            }).collect();
            let (numbers, received): (Vec<u32>, Vec<i64>) = rows.into_iter().unzip();
            let made = SegmentDeliveries::of_rows(known, &numbers, &received);
            let base = (4, Position::new(10));
            let octets = made.encode(base);
            let read = SegmentDeliveries::parse(&octets, base, numbers.len() as u64).expect("readable");
            prop_assert_eq!(numbers_of(&read, &received, piece), numbers);
            let positions: Vec<_> = read.deliveries.iter().map(|delivery| (delivery.tail, delivery.position)).collect();
            let wanted: Vec<_> = made.deliveries.iter().map(|delivery| (delivery.tail, delivery.position)).collect();
            prop_assert_eq!(positions, wanted);
            for cut in 0..octets.len() {
                prop_assert!(SegmentDeliveries::parse(&octets[..cut], base, received.len() as u64).is_err());
            }
        }

        #[test]
        fn other_octets_are_refused_without_a_panic(octets in proptest::collection::vec(any::<u8>(), 0..100), rows in 0u64..50) {
            if let Ok(read) = SegmentDeliveries::parse(&octets, (1, Position::new(1)), rows) {
                let mut numbers = Vec::new();
                read.numbers(0, &vec![0; rows as usize], &mut numbers);
                prop_assert_eq!(numbers.len() as u64, rows);
            }
        }
    }
}
