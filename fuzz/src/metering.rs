//! A Metering Process over packets of a fuzzer.

use arrow::array::Array;
use arrow::compute::sum;
use arrow::datatypes::UInt64Type;
use weir_capture::{FillOutcome, Interface, PacketBlock, PacketMeta, PacketSource, SourceCounts, SourceError};
use weir_flow::{Column, FlowBatch};
use weir_meter::{KeyFields, KeyHeaders, Measures, MeterOptions, Metering, Selection, Step};
use weir_wire::packet::LinkType;

/// Packets of a block, few, so that there are several blocks.
const BLOCK_PACKETS: usize = 7;

/// Packets of one link type. Each is two octets of its length, one of how much later it came (in units of 2^16
/// microseconds; above 250 a second earlier), and its octets, or what is left of them.
struct Packets {
    link: LinkType,
    octets: Vec<u8>,
    at: usize,
    time_us: i64,
    handed_on: u64,
}

impl Packets {
    fn push_next(&mut self, block: &mut PacketBlock) -> bool {
        let rest = &self.octets[self.at..];
        let Some((&[high, low, later], rest)) = rest.split_first_chunk() else { return false };
        let octets = usize::from(u16::from_be_bytes([high, low]) & 0x7ff).min(rest.len());
        self.at += 3 + octets;
        self.time_us += if later > 250 { -(1 << 20) } else { i64::from(later) << 16 };
        let meta = PacketMeta {
            time_us: self.time_us,
            offset: 0,
            captured: 0,
            length: octets as u32,
            interface: 0,
            link: self.link,
        };
        block.push(meta, &rest[..octets]);
        self.handed_on += 1;
        true
    }
}

impl PacketSource for Packets {
    fn fill(&mut self, block: &mut PacketBlock) -> Result<FillOutcome, SourceError> {
        block.clear();
        while block.packets().len() < BLOCK_PACKETS && self.push_next(block) {}
        Ok(if block.packets().is_empty() { FillOutcome::Ended } else { FillOutcome::Packets })
    }

    fn interfaces(&self) -> &[Interface] {
        &[]
    }

    /// The count of octets says how many packets there were.
    fn counts(&self) -> SourceCounts {
        SourceCounts { octets_read: self.handed_on, ..SourceCounts::default() }
    }
}

/// Meters packets with every measure. What was handed on must balance, and flows must tell as many packets. Returns how
/// many flows told the name of a server or the like.
pub(crate) fn meter(link: LinkType, choice: u8, octets: &[u8]) -> usize {
    let options = MeterOptions {
        fields: KeyFields {
            headers: if choice & 1 == 0 { KeyHeaders::Inner } else { KeyHeaders::Outer },
            tunnel: choice & 2 != 0,
            ..KeyFields::default()
        },
        is_biflow: choice & 4 != 0,
        // so few that some are given up
        flows_max: 16,
        measures: Measures { application: true, tcp: true, macs: true, mpls: true, microseconds: true },
        sampling: (choice & 8 != 0).then_some((Selection::CountBased, 2)),
        seed: 1,
        ..MeterOptions::default()
    };
    let source = Packets { link, octets: octets.to_vec(), at: 0, time_us: 1_700_000_000_000_000, handed_on: 0 };
    let (metering, mut workers) = Metering::new(&options, vec![Box::new(source)], 1);
    let (mut packets, mut named) = (0, 0);
    for worker in &mut workers {
        while worker.step(&mut |flows| tell(&flows, &mut packets, &mut named)) != Step::Ended {}
    }
    let counts = metering.counts();
    assert!(counts.balances(), "{counts:?}");
    assert_eq!(counts.packets, metering.source_counts().octets_read, "every packet is counted");
    assert_eq!(counts.packets_in_flows, packets, "what is in flows is told");
    named
}

/// Adds up the packets of flows, and how many have elements of text.
fn tell(flows: &FlowBatch, packets: &mut u64, named: &mut usize) {
    for column in [Column::Packets, Column::PacketsReverse] {
        *packets += flows.primitive::<UInt64Type>(column).and_then(sum).unwrap_or(0);
    }
    if let Some(elements) = flows.column(Column::Elements) {
        for row in (0..elements.len()).filter(|&row| elements.is_valid(row)) {
            let of_row = weir_flow::elements::elements_of_row(elements, row);
            *named += usize::from(of_row.iter().any(|element| element.octets.len() > 8));
        }
    }
}
