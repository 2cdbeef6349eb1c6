//! Which columns of an agent are asked for first.
//!
//! A poll that ends early is followed by one that begins where it ended, so that an agent which is too slow for its interval has all of its
//! columns read in turn. A column at which the agent falls silent whenever it is asked for would be all that is asked for then: once a poll
//! has begun with it and came to nothing, it is the last one. So it is with the very first column: a poll that has read none counts as
//! unanswered, and the next one begins with another. What speaks against it is an agent that was silent once: its names are read last by
//! the poll after that.

/// Where the next poll of an agent begins.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct PollOrder {
    first: usize,
    /// What was not read although a poll began with it.
    hanging: Option<usize>,
    /// Whether interfaces were found since all were read.
    has_found: bool,
}

impl PollOrder {
    /// The first one that is asked for; those behind the last one are followed by those before it.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Whether polls that ended early have found interfaces.
    pub(crate) fn is_resumed(&self) -> bool {
        self.has_found
    }

    /// Whether a poll began with this one and could not read it; others were asked for first since.
    pub(crate) fn is_hanging(&self, place: usize) -> bool {
        self.hanging == Some(place)
    }

    /// Notes that the agent has answered one of them.
    pub(crate) fn answered(&mut self, place: usize) {
        self.hanging = self.hanging.filter(|hanging| *hanging != place);
    }

    /// Notes that a poll which ended early has found interfaces.
    pub(crate) fn found(&mut self) {
        self.has_found = true;
    }

    /// Notes that a poll ended early at one of so many.
    pub(crate) fn stopped_at(&mut self, place: usize, count: usize) {
        if place == self.first || self.hanging == Some(place) {
            self.hanging = Some(place);
            self.first = (place + 1) % count.max(1);
        } else {
            self.first = place;
        }
    }

    /// Notes that all were read, or that nothing is known of the agent any more.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const COUNT: usize = 8;

    /// What a poll reads in which time suffices for some, and in which one does not answer.
    fn poll(order: &mut PollOrder, most: usize, silent: Option<usize>) -> BTreeSet<usize> {
        let (first, mut read) = (order.first(), BTreeSet::new());
        for place in (0..COUNT).map(|step| (first + step) % COUNT) {
            if read.len() == most || silent == Some(place) {
                order.stopped_at(place, COUNT);
                if !read.is_empty() {
                    order.found();
                }
                return read;
            }
            order.answered(place);
            read.insert(place);
        }
        order.begin_anew();
        read
    }

    #[test]
    fn a_slow_agent_has_all_columns_read_in_turn() {
        for most in 1..COUNT {
            let mut order = PollOrder::default();
            let polls = COUNT.div_ceil(most);
            let read: BTreeSet<_> = (0..polls).flat_map(|_| poll(&mut order, most, None)).collect();
            assert_eq!(read.len(), COUNT, "{most} in a poll");
        }
    }

    #[test]
    fn a_column_that_hangs_costs_one_poll_and_then_only_itself() {
        for silent in 0..COUNT {
            let mut order = PollOrder::default();
            let first = poll(&mut order, COUNT, Some(silent));
            assert_eq!((first, order.is_resumed()), ((0..silent).collect(), silent > 0));
            if silent > 0 {
                assert!(poll(&mut order, COUNT, Some(silent)).is_empty(), "it is tried again first");
            }
            let others: BTreeSet<_> = (0..COUNT).filter(|place| *place != silent).collect();
            for _ in 0..3 {
                assert!(order.is_hanging(silent));
                assert_eq!(poll(&mut order, COUNT, Some(silent)), others, "{silent}");
            }
            assert_eq!(poll(&mut order, COUNT, None).len(), COUNT, "{silent} answers");
            assert!(!order.is_resumed());
        }
    }
}
