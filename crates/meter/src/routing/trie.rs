//! Longest prefixes by a trie of six bits a level, compressed with population counts.
//!
//! The first 16 bits lead through a table straight to a leaf or to a node. A node has 64 branches: one word tells
//! which of them go on to a node, another one where the leaf of a branch differs from the one before it, so that equal
//! neighbours have one leaf together. Nodes and leaves of a node lie side by side, and the number of bits set before a
//! branch is the place of its node or leaf.
//!
//! Source: H. Asai and Y. Ohara, "Poptrie: A Compressed Trie with Population Count for Fast and Scalable Software IP
//! Routing Table Lookup", SIGCOMM 2015.

use super::Leaf;

/// Bits that the table at the top takes.
const TOP_BITS: u32 = 16;
/// Bits that a node takes.
const NODE_BITS: u32 = 6;
/// Marks an entry of the table at the top that is a node.
const IS_NODE: u32 = 1 << 31;

/// Addresses as numbers, the first bit of the address being the highest one.
pub(super) trait Key: Copy + Ord {
    /// The bits from an offset on, in the lowest bits of the result; behind the end there are zeros.
    fn bits(self, offset: u32, count: u32) -> usize;

    /// The address without what lies behind the prefix.
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

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    /// Branches that go on to a node.
    branches: u64,
    /// Branches whose leaf is not that of the branch before.
    leaves: u64,
    first_node: u32,
    first_leaf: u32,
}

/// Prefixes of one kind of address.
#[derive(Debug)]
pub(super) struct Trie<K> {
    /// A leaf, or the number of a node with [`IS_NODE`]. Empty when there is no prefix.
    top: Box<[u32]>,
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
    kind: std::marker::PhantomData<K>,
}

impl<K> Default for Trie<K> {
    fn default() -> Self {
        Self { top: Box::default(), nodes: Vec::new(), leaves: Vec::new(), kind: std::marker::PhantomData }
    }
}

impl<K: Key> Trie<K> {
    /// The trie of prefixes, of which each is there once, in the order of their keys and then of their lengths.
    pub(super) fn build(prefixes: &[Prefix<K>]) -> Self {
        let mut trie = Self::default();
        if prefixes.is_empty() {
            return trie;
        }
        let slots = slots(prefixes, 0, TOP_BITS, Leaf::NONE);
        let mut top = vec![0; slots.len()].into_boxed_slice();
        for (entry, slot) in top.iter_mut().zip(slots) {
            *entry = slot.leaf.0;
            if !slot.longer.is_empty() {
                *entry = trie.nodes.len() as u32 | IS_NODE;
                trie.nodes.push(Node::default());
                trie.fill(trie.nodes.len() - 1, slot.longer, TOP_BITS, slot.leaf);
            }
        }
        trie.top = top;
        trie
    }

    /// Fills a node that stands at this depth with prefixes that are longer; `inherited` is what led there.
    fn fill(&mut self, node: usize, prefixes: &[Prefix<K>], depth: u32, inherited: Leaf) {
        let slots = slots(prefixes, depth, NODE_BITS, inherited);
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
        let Some(&entry) = self.top.get(key.bits(0, TOP_BITS)) else { return Leaf::NONE };
        if entry & IS_NODE == 0 {
            return Leaf(entry);
        }
        let (mut at, mut depth) = ((entry & !IS_NODE) as usize, TOP_BITS);
        while let Some(node) = self.nodes.get(at) {
            let branch = key.bits(depth, NODE_BITS);
            // Bits up to this branch, with it.
            let before = u64::MAX >> (63 - branch);
            let nodes = node.branches & before;
            if node.branches >> branch & 1 == 0 {
                let place = node.first_leaf + (node.leaves & before).count_ones() - 1;
                return self.leaves.get(place as usize).copied().unwrap_or_default();
            }
            at = (node.first_node + nodes.count_ones() - 1) as usize;
            depth += NODE_BITS;
        }
        Leaf::NONE
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

/// The branches of a node at this depth that takes so many bits.
fn slots<K: Key>(prefixes: &[Prefix<K>], depth: u32, count: u32, inherited: Leaf) -> Vec<Slot<'_, K>> {
    let mut slots: Vec<Slot<'_, K>> = (0..1_usize << count).map(|_| Slot { leaf: inherited, longer: &[] }).collect();
    let end = depth + count;
    let mut rest = prefixes;
    while let Some(prefix) = rest.first() {
        let branch = prefix.key.bits(depth, count);
        if u32::from(prefix.bits) <= end {
            // Prefixes within this one follow it, and write over what it wrote.
            let width = 1 << (end - u32::from(prefix.bits)).min(count);
            slots.iter_mut().skip(branch).take(width).for_each(|slot| slot.leaf = prefix.leaf);
            rest = &rest[1..];
            continue;
        }
        // All that are longer than this node reaches and begin with the same bits stand together.
        let together = rest.partition_point(|other| other.key.bits(depth, count) == branch);
        slots[branch].longer = &rest[..together];
        rest = &rest[together..];
    }
    slots
}
