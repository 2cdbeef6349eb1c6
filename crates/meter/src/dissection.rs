//! From a block of packets to digests, dealt out by shard.

use weir_wire::packet::Packet;

use crate::counts::MeterCounts;
use crate::digest::{Digest, DigestOutcome, Digester};
use crate::endpoints::Labeller;
use crate::fragments::{Fragment, Resolved};
use crate::sampling::Sampler;
use weir_capture::{PacketBlock, PacketMeta};

/// Dissects blocks. Every worker has one, and all of them do the same.
#[derive(Debug)]
pub(crate) struct Dissection {
    digester: Digester,
    sampler: Option<Sampler>,
    /// Where the ends of tunnels are part of the key.
    labeller: Option<Labeller>,
    /// For each shard what it has to take in, in order.
    pub(crate) shards: Vec<Vec<Digest>>,
    /// Fragments of the block, whose table is shared.
    pub(crate) fragments: Vec<Fragment>,
}

impl Dissection {
    pub(crate) fn new(digester: Digester, sampler: Option<Sampler>, labeller: Option<Labeller>, shards: usize) -> Self {
        Self { digester, sampler, labeller, shards: vec![Vec::new(); shards], fragments: Vec::new() }
    }

    /// Dissects the packets of a block whose first is number `first` of all.
    pub(crate) fn block(&mut self, block: &PacketBlock, first: u64, counts: &mut MeterCounts) {
        let mut packet = Packet::default();
        if let Some(labeller) = &mut self.labeller {
            labeller.begin_block();
        }
        counts.packets += block.packets().len() as u64;
        for (number, meta) in block.packets().iter().enumerate() {
            counts.octets += u64::from(meta.length);
            if self.sampler.as_ref().is_some_and(|sampler| !sampler.takes_number(first + number as u64)) {
                counts.packets_not_sampled += 1;
                continue;
            }
            let frame = block.frame(meta);
            // what is plain is in no tunnel
            if let Some(digest) = self.digester.digest_plain(number as u32, meta, frame) {
                self.deal(digest, counts);
                continue;
            }
            let mut digested = self.digester.digest(number as u32, meta, frame, &mut packet);
            if let Some(labeller) = &mut self.labeller {
                self.digester.label(&mut digested, &packet, labeller.label(&packet, packet.tunnel));
            }
            self.carriers(meta, &packet);
            match digested {
                DigestOutcome::Whole(digest) => self.deal(digest, counts),
                DigestOutcome::FirstFragment(digest, id, transport) => {
                    self.fragments.push(Fragment::First(id, transport, digest.time_us, digest.packet));
                    self.deal(digest, counts);
                }
                DigestOutcome::LaterFragment(digest, id) => self.fragments.push(Fragment::Later(id, digest)),
                DigestOutcome::NotFlow(reason) => counts.not_flows[reason as usize] += 1,
            }
        }
    }

    /// Notes the packets whose first fragments this frame has, where it is metered by what they carry.
    fn carriers(&mut self, meta: &PacketMeta, packet: &Packet<'_>) {
        if packet.fragmented.is_none() && packet.outer.ip.as_ref().is_none_or(|ip| ip.fragment.is_none()) {
            return;
        }
        let around = packet.fragmented.map(|(_, tunnel)| tunnel);
        let label = self.labeller.as_mut().filter(|_| around.is_some()).map(|labeller| labeller.label(packet, around));
        for id in [self.digester.carrier(meta, packet), self.digester.carrier_within(meta, packet, label)] {
            self.fragments.extend(id.map(|id| Fragment::Carrier(id, meta.time_us)));
        }
    }

    /// Deals out to these shards fragments whose ports are known by now, and those whose ports will not come, each in its
    /// place among the packets of the block: a flow that ends within the block would otherwise get fragments of the one
    /// before.
    pub(crate) fn resolve(&mut self, shards: &mut Vec<Vec<Digest>>, resolved: &mut Resolved, counts: &mut MeterCounts) {
        std::mem::swap(&mut self.shards, shards);
        let in_order: Vec<usize> = self.shards.iter().map(Vec::len).collect();
        for (digest, transport) in resolved.with_transport.drain(..) {
            let digest = self.digester.with_transport(digest, transport);
            self.deal(digest, counts);
        }
        counts.fragments_of_tunnels += std::mem::take(&mut resolved.of_tunnels);
        counts.fragments_without_first += resolved.without_ports.len() as u64;
        for digest in resolved.without_ports.drain(..) {
            let digest = self.digester.complete(digest);
            self.deal(digest, counts);
        }
        for (shard, in_order) in self.shards.iter_mut().zip(in_order) {
            put_in_place(shard, in_order);
        }
        std::mem::swap(&mut self.shards, shards);
    }

    #[inline]
    fn deal(&mut self, digest: Digest, counts: &mut MeterCounts) {
        let takes = |sampler: &Sampler| match self.labeller {
            None => sampler.takes_flow(&digest),
            Some(_) => sampler.takes_hash(self.digester.hash_without_endpoints(&digest)),
        };
        if self.sampler.as_ref().is_some_and(|sampler| !takes(sampler)) {
            counts.packets_not_sampled += 1;
            return;
        }
        // the lower half of the hash, since the index takes the upper one
        let shards = self.shards.len() as u64;
        let shard = ((digest.hash & 0xffff_ffff) * shards) >> 32;
        self.shards[shard as usize].push(digest);
    }
}

/// Puts the digests from `in_order` on, which are few, in their place among those before, which are in the order of their
/// packets. Sorting all of them would take room for a copy of the block's.
fn put_in_place(shard: &mut [Digest], in_order: usize) {
    let mut late = shard[in_order..].to_vec();
    late.sort_by_key(|digest| digest.packet);
    let (mut from, mut to) = (in_order, shard.len());
    while let Some(digest) = late.pop() {
        while from > 0 && shard[from - 1].packet > digest.packet {
            (from, to) = (from - 1, to - 1);
            shard[to] = shard[from];
        }
        to -= 1;
        shard[to] = digest;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::FlowKey;

    fn digest(packet: u32, number: usize) -> Digest {
        Digest {
            key: FlowKey::ZERO,
            hash: number as u64,
            time_us: 0,
            octets: 0,
            packet,
            tcp_flags: 0,
            ttl: 0,
            tos: 0,
            icmp_code: 0,
            marks: 0,
        }
    }

    proptest! {
        #[test]
        fn late_digests_come_to_where_sorting_puts_them(
            mut first in prop::collection::vec(0_u32..50, 0..60), late in prop::collection::vec(0_u32..50, 0..9),
        ) {
            first.sort_unstable();
            let in_order = first.len();
            first.extend(late);
            let mut shard: Vec<Digest> =
                first.iter().enumerate().map(|(number, &packet)| digest(packet, number)).collect();
            let mut sorted = shard.clone();
            sorted.sort_by_key(|digest| digest.packet);
            put_in_place(&mut shard, in_order);
            let order = |digests: &[Digest]| digests.iter().map(|digest| (digest.packet, digest.hash)).collect::<Vec<_>>();
            prop_assert_eq!(order(&shard), order(&sorted));
        }
    }
}
