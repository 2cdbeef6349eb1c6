//! Frames of every capture, cut at every octet and with octets replaced: nothing that must hold for any input breaks.

use crate::captures;
use crate::sampled_walk::packet;
use weir_wire::packet::LinkType;

/// Frames of each capture that are taken.
const FRAMES_MAX: usize = 2;
/// Octets of each frame that are cut or replaced: all headers are before that.
const OCTETS_MAX: usize = 160;

#[test]
fn frames_of_every_link_type_cut_and_bent_anywhere() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let (mut frames_read, mut with_ports, mut tunnelled) = (0, 0, 0);
    for (number, frames) in captures::of_corpus(&corpus) {
        let link = LinkType::from_dlt(number).expect("known");
        for frame in frames.iter().filter(|frame| frame.number <= FRAMES_MAX) {
            let whole = packet(link, &frame.octets);
            (frames_read, with_ports, tunnelled) =
                (frames_read + 1, with_ports + whole.ports, tunnelled + whole.tunnelled);
            let octets = frame.octets.len().min(OCTETS_MAX);
            (0..octets).for_each(|end| _ = packet(link, &frame.octets[..end]));
            let mut bent = frame.octets.clone();
            for at in 0..octets {
                for octet in [0, 0x45, 0xff, frame.octets[at] ^ 1, frame.octets[at] ^ 0x80] {
                    bent[at] = octet;
                    packet(link, &bent);
                }
                bent[at] = frame.octets[at];
            }
        }
    }
    assert!(frames_read > 2_000 && with_ports > 1_000 && tunnelled > 100, "{frames_read} {with_ports} {tunnelled}");
}
