//! No key comes twice within a while, whoever talks to whom.
//!
//! Where there are ports, clients choose theirs as RFC 6056 section 3.3.4 recommends ("double-hash port selection") and
//! Linux does: a hash of client, server and service leads to a counter and to an offset. A port then comes again after
//! as many uses of the counter as there are ports. A counter passes a mark every half round, and is closed until at
//! least the reuse time has gone by since the mark before; between two uses of a port lie at least two marks, so the
//! port rests for the reuse time whatever the traffic is. Where there are no ports, a slot chosen by the same hash
//! tells when it was last used. Keys are refused that did not have to be, when others share their counter or slot;
//! whoever is refused asks for other hosts.

/// The ports that clients choose from, as Linux has them: 32768 to 60999.
const PORT_FIRST: u16 = 32_768;
const PORTS: u16 = 28_232;

/// Uses of a counter from mark to mark.
const MARK_USES: u16 = PORTS / 2;

/// Counters of ports, a power of two. At the highest rate of conversations, each gets an eighth of what it may pass
/// from mark to mark, on the average.
const COUNTERS: usize = 1 << 14;

/// Conversations without ports that may begin within the reuse time.
pub(crate) const WITHOUT_PORTS_MAX: u64 = 1 << 22;

/// Which keys are free.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    reuse_secs: u32,
    counters: Vec<Counter>,
    /// For the conversations without ports: until when each slot is taken, seconds since the start of the model.
    taken_secs: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    uses: u16,
    /// When it may pass the next mark, seconds since the start of the model.
    mark_secs: u32,
}

impl Keys {
    /// `without_ports` conversations without ports are expected within the reuse time.
    pub(crate) fn new(reuse_secs: u32, without_ports: u64) -> Self {
        let slots = (without_ports.min(WITHOUT_PORTS_MAX) * 4).next_power_of_two().max(1 << 10);
        Self::with_slots(reuse_secs, COUNTERS, slots as usize)
    }

    /// Both numbers are powers of two.
    fn with_slots(reuse_secs: u32, counters: usize, slots: usize) -> Self {
        Self { reuse_secs, counters: vec![Counter::default(); counters], taken_secs: vec![0; slots] }
    }

    /// A client's port for a conversation that begins now, `None` when there is none. `digest` is that of client,
    /// server and service; the clock does not go back.
    #[inline]
    pub(crate) fn port(&mut self, digest: u64, now_secs: u32) -> Option<u16> {
        let slot = digest as usize & (self.counters.len() - 1);
        let counter = &mut self.counters[slot];
        if counter.uses.is_multiple_of(MARK_USES) {
            if now_secs < counter.mark_secs {
                return None;
            }
            counter.mark_secs = now_secs.saturating_add(self.reuse_secs);
        }
        let offset = (((digest >> 32) * u64::from(PORTS)) >> 32) as u16;
        let place = (u32::from(offset) + u32::from(counter.uses)) % u32::from(PORTS);
        counter.uses = (counter.uses + 1) % PORTS;
        Some(PORT_FIRST + place as u16)
    }

    /// Whether a conversation without ports can begin now.
    #[inline]
    pub(crate) fn take(&mut self, digest: u64, now_secs: u32) -> bool {
        let slot = digest as usize & (self.taken_secs.len() - 1);
        let is_free = self.taken_secs[slot] <= now_secs;
        if is_free {
            self.taken_secs[slot] = now_secs.saturating_add(self.reuse_secs);
        }
        is_free
    }
}

/// A hash that is the same on every machine and in every version: a multiplication for each word, and a finish that
/// lets every bit reach every other (the one of `SplitMix64`).
#[inline]
pub(crate) fn digest(words: &[u64]) -> u64 {
    let folded =
        words.iter().fold(0_u64, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (folded ^ (folded >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_port_rests_for_the_reuse_time_under_any_load() {
        // Seven services over two counters, asked for from far too seldom to a hundred times too often.
        let mut keys = Keys::with_slots(100, 2, 1);
        let (mut last, mut refused, mut reused) = (HashMap::new(), 0, 0);
        for step in 0..600_000_u64 {
            let (now_secs, service) = ((step / 1000 + step / 300_000 * step / 500) as u32, step % 7);
            let Some(port) = keys.port(digest(&[service]), now_secs) else {
                refused += 1;
                continue;
            };
            assert!((32_768..=60_999).contains(&port));
            if let Some(before) = last.insert((service, port), now_secs) {
                assert!(now_secs - before >= 100, "{port} of {service} after {} s", now_secs - before);
                reused += 1;
            }
        }
        assert!(refused > 1000 && reused > 1000, "{refused} refused, {reused} used again");
    }

    #[test]
    fn ports_of_a_service_go_round_before_one_comes_again() {
        let mut keys = Keys::with_slots(0, 1, 1);
        let mut seen = std::collections::HashSet::new();
        assert!((0..PORTS).all(|_| seen.insert(keys.port(7, 0).expect("nothing to wait for"))));
        assert!(!seen.insert(keys.port(7, 0).expect("nothing to wait for")));
    }

    #[test]
    fn a_pair_of_hosts_rests_for_the_reuse_time() {
        let mut keys = Keys::with_slots(100, 1, 1 << 10);
        assert!(keys.take(5, 0) && !keys.take(5, 99) && keys.take(6, 99) && keys.take(5, 100));
    }

    #[test]
    fn every_word_counts() {
        let digests = [&[1, 2, 3][..], &[2, 1, 3], &[1, 3, 2], &[1, 2], &[1, 2, 4]].map(digest);
        let different: std::collections::HashSet<_> = digests.iter().map(|digest| digest & 0xffff).collect();
        assert_eq!(different.len(), 5, "{digests:x?}");
    }
}
