//! Datagrams of captures, spoiled.

/// A generator of random numbers that is good enough for this (`SplitMix64`).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a bound, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// What lengths, counts and numbers are overwritten with.
const WORDS: [u16; 6] = [0, 1, 3, 0x0101, 0x7fff, 0xffff];

/// A datagram of a capture: one in four as it is, the others with octets changed, words overwritten, cut, or joined with
/// a piece of another.
pub(crate) fn mutated(datagrams: &[Vec<u8>], at: usize, random: &mut Random) -> Vec<u8> {
    let mut octets = datagrams[at % datagrams.len()].clone();
    for _ in 0..random.below(4) {
        if octets.len() < 4 {
            break;
        }
        let place = random.below(octets.len() - 1);
        match random.below(5) {
            0 => octets[place] = random.next() as u8,
            1 => octets[place] ^= 1 << random.below(8),
            2 => octets[place..place + 2].copy_from_slice(&WORDS[random.below(WORDS.len())].to_be_bytes()),
            3 => octets.truncate(place + 1),
            _ => {
                let other = &datagrams[random.below(datagrams.len())];
                let piece = &other[random.below(other.len())..];
                octets.extend_from_slice(&piece[..piece.len().min(1_400)]);
            }
        }
    }
    octets
}
