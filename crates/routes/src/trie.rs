//! Longest prefixes by a trie of six bits a level, compressed with population counts.
//!
//! The first bits lead through a table at the top straight to a leaf or to a node ([`Span`] says which bits). A node has
//! 64 branches: one word says which of them go on to a node, another one where the leaf of a branch differs from the one
//! before it, so that equal neighbours have one leaf together. Nodes and leaves of a node are next to each other, and the number
//! of bits set before a branch is the place of its node or leaf.
//!
//! A lookup waits for memory most of the time. So [`Trie::find_all`] takes addresses in lanes and goes one level with all
//! of them before it goes to the next: what one lane waits for does not depend on the others, and the processor waits for
//! many at the same time. Lanes that have come to a leaf are left out without a branch that could be foretold wrongly.
//!
//! Source: H. Asai and Y. Ohara, "Poptrie: A Compressed Trie with Population Count for Fast and Scalable Software IP
//! Routing Table Lookup", SIGCOMM 2015.

use super::prefix_table::PrefixMatch;

/// Bits that a node takes.
const NODE_BITS: u32 = 6;
/// Marks an entry of the table at the top that is a node.
const IS_NODE: u32 = 1 << 31;
/// Addresses that are looked up together: more of them than a core has loads in flight.
const LANES: usize = 32;

/// Most different values of a table: a leaf has 23 bits for their number.
pub(super) const VALUES_MAX: usize = (1 << 23) - 1;

/// What is at the end of a path through a trie: the number of the value, from 1, and the bits of the prefix. 0 is no
/// prefix, and the highest bit is the trie's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Leaf(u32);

impl Leaf {
    pub(super) const NONE: Self = Self(0);

    /// The leaf of a value by its number; `None` beyond [`VALUES_MAX`].
    pub(super) fn new(value: usize, prefix_bits: u8) -> Option<Self> {
        (value < VALUES_MAX).then(|| Self((value as u32 + 1) << 8 | u32::from(prefix_bits)))
    }

    #[inline]
    pub(super) fn matched(self) -> Option<PrefixMatch> {
        let value = (self.0 >> 8).checked_sub(1)? as usize;
        Some(PrefixMatch { value, prefix_bits: self.0 as u8 })
    }
}

/// Which bits of an address the table at the top takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Bits before them, which all addresses that are looked up have in common.
    pub(super) skipped: u32,
    /// Their number; the table has an entry of 4 octets for each value.
    pub(super) count: u32,
}

impl Span {
    /// Bits up to the end of the span.
    const fn end(self) -> u32 {
        self.skipped + self.count
    }
}

/// Addresses as numbers, the first bit of the address being the highest one.
pub(super) trait Key: Copy + Ord {
    /// The bits from an offset on, in the lowest bits of the result; behind the end there are zeros.
    fn bits(self, offset: u32, count: u32) -> usize;

    /// The address without what is behind the prefix.
    fn masked(self, prefix_bits: u8) -> Self;
}

impl Key for u32 {
    #[inline]
    fn bits(self, offset: u32, count: u32) -> usize {
        (self.checked_shl(offset).unwrap_or_default() >> (Self::BITS - count)) as usize
    }

    fn masked(self, prefix_bits: u8) -> Self {
        self & Self::MAX.checked_shl(Self::BITS - u32::from(prefix_bits)).unwrap_or_default()
    }
}

impl Key for u128 {
    #[inline]
    fn bits(self, offset: u32, count: u32) -> usize {
        (self.checked_shl(offset).unwrap_or_default() >> (Self::BITS - count)) as usize
    }

    fn masked(self, prefix_bits: u8) -> Self {
        self & Self::MAX.checked_shl(Self::BITS - u32::from(prefix_bits)).unwrap_or_default()
    }
}

/// A prefix and what it leads to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefix<K> {
    pub(super) key: K,
    pub(super) bits: u8,
    pub(super) leaf: Leaf,
}

impl<K> Prefix<K> {
    /// How many values the bits of a span have within the prefix, which ends no later than the span.
    fn width(&self, skipped: u32, count: u32) -> usize {
        1 << (skipped + count - u32::from(self.bits)).min(count)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    /// Branches that go on to a node.
    branches: u64,
    /// Branches whose leaf is not that of the branch before.
    leaves: u64,
    first_node: u32,
    first_leaf: u32,
}

impl Node {
    /// The place of the node that a branch goes on to, or else of its leaf, and whether it goes on.
    #[inline]
    fn follow(&self, branch: usize) -> (u32, bool) {
        let goes_on = self.branches >> branch & 1 != 0;
        let (word, first) = if goes_on { (self.branches, self.first_node) } else { (self.leaves, self.first_leaf) };
        // Bits up to this branch, with it.
        let before = u64::MAX >> (63 - branch);
        (first + (word & before).count_ones() - 1, goes_on)
    }
}

/// Prefixes of one kind of address.
#[derive(Debug)]
pub(super) struct Trie<K> {
    span: Span,
    /// A leaf, or the number of a node with [`IS_NODE`]. Empty when there is no prefix.
    top: Box<[u32]>,
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
    kind: std::marker::PhantomData<K>,
}

impl<K> Default for Trie<K> {
    fn default() -> Self {
        // a span of no bits cannot be asked for
        let (span, top) = (Span { skipped: 0, count: 1 }, Box::default());
        Self { span, top, nodes: Vec::new(), leaves: Vec::new(), kind: std::marker::PhantomData }
    }
}

impl<K: Key> Trie<K> {
    /// The trie of prefixes, of which each is there once, in the order of their keys and then of their lengths. Those
    /// that are longer than what the span skips agree in the bits that it skips.
    pub(super) fn build(span: Span, prefixes: &[Prefix<K>]) -> Self {
        let mut trie = Self::default();
        if prefixes.is_empty() {
            return trie;
        }
        let mut top = vec![Leaf::NONE.0; 1 << span.count].into_boxed_slice();
        let mut rest = prefixes;
        while let Some(prefix) = rest.first() {
            let entry = prefix.key.bits(span.skipped, span.count);
            if u32::from(prefix.bits) <= span.end() {
                top[entry..entry + prefix.width(span.skipped, span.count)].fill(prefix.leaf.0);
                rest = &rest[1..];
                continue;
            }
            // All that are shorter and lead here came before, so the entry has what they lead to.
            let together = rest.partition_point(|other| other.key.bits(span.skipped, span.count) == entry);
            let node = trie.nodes.len();
            trie.nodes.push(Node::default());
            trie.fill(node, &rest[..together], span.end(), Leaf(top[entry]));
            top[entry] = node as u32 | IS_NODE;
            rest = &rest[together..];
        }
        (trie.span, trie.top) = (span, top);
        trie
    }

    /// Fills a node at this depth with prefixes that are longer; `inherited` is what led there.
    fn fill(&mut self, node: usize, prefixes: &[Prefix<K>], depth: u32, inherited: Leaf) {
        let slots = slots(prefixes, depth, inherited);
        let mut filled =
            Node { first_node: self.nodes.len() as u32, first_leaf: self.leaves.len() as u32, ..Node::default() };
        let mut last = None;
        for (branch, slot) in slots.iter().enumerate() {
            if !slot.longer.is_empty() {
                filled.branches |= 1 << branch;
                self.nodes.push(Node::default());
            } else if last != Some(slot.leaf) {
                filled.leaves |= 1 << branch;
                self.leaves.push(slot.leaf);
                last = Some(slot.leaf);
            }
        }
        self.nodes[node] = filled;
        for (place, slot) in slots.iter().filter(|slot| !slot.longer.is_empty()).enumerate() {
            self.fill(filled.first_node as usize + place, slot.longer, depth + NODE_BITS, slot.leaf);
        }
    }

    /// The leaf of the longest prefix that an address is in.
    #[inline]
    pub(super) fn find(&self, key: K) -> Leaf {
        let Some(&entry) = self.top.get(key.bits(self.span.skipped, self.span.count)) else { return Leaf::NONE };
        if entry & IS_NODE == 0 {
            return Leaf(entry);
        }
        let (mut at, mut depth) = (entry & !IS_NODE, self.span.end());
        loop {
            let (next, goes_on) = self.nodes[at as usize].follow(key.bits(depth, NODE_BITS));
            if !goes_on {
                return self.leaves[next as usize];
            }
            (at, depth) = (next, depth + NODE_BITS);
        }
    }

    /// The leaves of all these addresses.
    pub(super) fn find_all(&self, keys: &[K], leaves: &mut [Leaf]) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("popcnt") {
            #[expect(unsafe_code, reason = "the processor has the instruction")]
            // SAFETY: the line above asked whether it has.
            unsafe {
                self.find_all_with_popcnt(keys, leaves);
            }
            return;
        }
        self.find_in_lanes(keys, leaves);
    }

    /// The same, with an instruction that not every processor of the architecture has.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt")]
    fn find_all_with_popcnt(&self, keys: &[K], leaves: &mut [Leaf]) {
        self.find_in_lanes(keys, leaves);
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is compiled once for each set of instructions")]
    fn find_in_lanes(&self, keys: &[K], leaves: &mut [Leaf]) {
        if self.top.is_empty() {
            leaves.fill(Leaf::NONE);
            return;
        }
        for (keys, leaves) in keys.chunks(LANES).zip(leaves.chunks_mut(LANES)) {
            self.lanes(keys, leaves);
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    fn lanes(&self, keys: &[K], leaves: &mut [Leaf]) {
        // Node of each lane, and in the end the place of its leaf.
        let mut at = [0_u32; LANES];
        let (mut walking, mut walking_count) = ([0_u8; LANES], 0);
        let (mut ended, mut ended_count) = ([0_u8; LANES], 0);
        for (lane, (key, leaf)) in keys.iter().zip(&mut *leaves).enumerate() {
            let entry = self.top[key.bits(self.span.skipped, self.span.count)];
            (*leaf, at[lane]) = (Leaf(entry), entry & !IS_NODE);
            walking[walking_count] = lane as u8;
            walking_count += usize::from(entry & IS_NODE != 0);
        }
        let mut depth = self.span.end();
        while walking_count > 0 {
            let mut still_walking = 0;
            for walked in 0..walking_count {
                let lane = walking[walked];
                let place = &mut at[usize::from(lane)];
                let branch = keys[usize::from(lane)].bits(depth, NODE_BITS);
                let goes_on;
                (*place, goes_on) = self.nodes[*place as usize].follow(branch);
                (walking[still_walking], ended[ended_count]) = (lane, lane);
                still_walking += usize::from(goes_on);
                ended_count += usize::from(!goes_on);
            }
            walking_count = still_walking;
            depth += NODE_BITS;
        }
        for lane in ended[..ended_count].iter().map(|lane| usize::from(*lane)) {
            leaves[lane] = self.leaves[at[lane] as usize];
        }
    }

    pub(super) fn octets(&self) -> usize {
        size_of_val(&*self.top) + self.nodes.len() * size_of::<Node>() + self.leaves.len() * size_of::<Leaf>()
    }
}

/// What a branch leads to: a leaf, and the prefixes that are longer.
struct Slot<'a, K> {
    leaf: Leaf,
    longer: &'a [Prefix<K>],
}

/// The branches of a node at this depth.
fn slots<K: Key>(prefixes: &[Prefix<K>], depth: u32, inherited: Leaf) -> [Slot<'_, K>; 1 << NODE_BITS] {
    let mut slots = std::array::from_fn(|_| Slot { leaf: inherited, longer: &[][..] });
    let mut rest = prefixes;
    while let Some(prefix) = rest.first() {
        let branch = prefix.key.bits(depth, NODE_BITS);
        if u32::from(prefix.bits) <= depth + NODE_BITS {
            // Prefixes within this one follow it, and write over what it wrote.
            let width = prefix.width(depth, NODE_BITS);
            slots[branch..branch + width].iter_mut().for_each(|slot| slot.leaf = prefix.leaf);
            rest = &rest[1..];
            continue;
        }
        // All that are longer than this node reaches and begin with the same bits are together.
        let together = rest.partition_point(|other| other.key.bits(depth, NODE_BITS) == branch);
        slots[branch].longer = &rest[..together];
        rest = &rest[together..];
    }
    slots
}
