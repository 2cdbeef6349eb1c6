//! Records that wait for a datagram to go out in.

use std::collections::VecDeque;

/// Encoded records of one template, first in, first out.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    octets: Vec<u8>,
    /// Octets at the front that have gone out already.
    gone: usize,
    /// Length of every record; `None` when they differ.
    record_octets: Option<usize>,
    /// Lengths of the records that wait, when they differ.
    lengths: VecDeque<u32>,
}

impl Stage {
    pub(crate) fn new(record_octets: Option<usize>) -> Self {
        Self { record_octets, ..Self::default() }
    }

    /// Octets that wait.
    pub(crate) fn len(&self) -> usize {
        self.octets.len() - self.gone
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends space for `records` more records of `octets` each, all zero.
    pub(crate) fn extend_fixed(&mut self, records: usize, octets: usize) -> &mut [u8] {
        self.compact();
        let from = self.octets.len();
        self.octets.resize(from + records * octets, 0);
        &mut self.octets[from..]
    }

    /// Appends a record whose octets `write` adds to the end.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.compact();
        let from = self.octets.len();
        write(&mut self.octets);
        self.lengths.push_back((self.octets.len() - from) as u32);
    }

    /// How many records at the front have at most `octets` octets together, and how many octets that is.
    pub(crate) fn fitting(&self, octets: usize) -> (usize, usize) {
        if let Some(length) = self.record_octets {
            let records = octets.min(self.len()) / length.max(1);
            return (records, records * length);
        }
        let (mut records, mut total) = (0, 0);
        for &length in &self.lengths {
            if total + length as usize > octets {
                break;
            }
            (records, total) = (records + 1, total + length as usize);
        }
        (records, total)
    }

    /// The next `octets` octets.
    pub(crate) fn front(&self, octets: usize) -> &[u8] {
        &self.octets[self.gone..self.gone + octets]
    }

    /// Drops records at the front, after they went out.
    pub(crate) fn consume(&mut self, records: usize, octets: usize) {
        self.gone += octets;
        if self.record_octets.is_none() {
            self.lengths.drain(..records);
        }
    }

    /// Moves what waits to the front once most of the space is before it, so that it does not grow for ever.
    fn compact(&mut self) {
        if self.gone > self.len() {
            self.octets.drain(..self.gone);
            self.gone = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_leave_in_the_order_they_came() {
        let mut stage = Stage::new(Some(2));
        stage.extend_fixed(3, 2).copy_from_slice(&[1, 1, 2, 2, 3, 3]);
        assert_eq!(stage.fitting(5), (2, 4));
        assert_eq!(stage.front(4), [1, 1, 2, 2]);
        stage.consume(2, 4);
        stage.extend_fixed(1, 2).copy_from_slice(&[4, 4]);
        assert_eq!((stage.len(), stage.fitting(100)), (4, (2, 4)));
        assert_eq!(stage.front(4), [3, 3, 4, 4]);
    }

    #[test]
    fn records_of_different_lengths() {
        let mut stage = Stage::new(None);
        for length in [1_u8, 5, 2] {
            stage.push(|out| out.extend(std::iter::repeat_n(length, length.into())));
        }
        assert_eq!(stage.fitting(7), (2, 6));
        stage.consume(2, 6);
        assert_eq!((stage.fitting(7), stage.front(2)), ((1, 2), [2, 2].as_slice()));
        stage.consume(1, 2);
        assert!(stage.is_empty());
    }
}
