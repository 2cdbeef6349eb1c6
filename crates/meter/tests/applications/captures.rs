//! Frames of capture files.

use std::path::Path;

use weir_capture::{CaptureReader, Input, PacketBlock};
use weir_wire::packet::{Packet, dissect};

/// Gives every frame of a capture, dissected, to the function; what is no capture has none.
pub(crate) fn each_packet(path: &Path, mut take: impl FnMut(&Packet<'_>)) {
    let Ok(mut reader) = Input::open(path).and_then(CaptureReader::open) else { return };
    let mut block = PacketBlock::default();
    loop {
        let result = reader.fill(&mut block);
        for packet in block.packets() {
            take(&dissect(packet.link, block.frame(packet)));
        }
        if result.is_err() || block.packets().is_empty() {
            return;
        }
    }
}
