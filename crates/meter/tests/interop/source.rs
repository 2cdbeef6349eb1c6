//! Sources of packets: a capture in the blocks that its reader makes, or in smaller ones.

use std::path::Path;
use std::sync::Arc;

use weir_capture::{
    FileOptions, FillOutcome, Interface, PacketBlock, PacketSource, SourceCounts, SourceError, WarningHandler,
    open_files,
};

/// The packets of a capture file.
pub(crate) fn capture(path: &Path) -> Box<dyn PacketSource> {
    // What is damaged is told; here it is enough that it is counted.
    let tell: WarningHandler = Arc::new(|_| {});
    open_files(&FileOptions { paths: vec![path.to_owned()], ..FileOptions::default() }, &tell)
        .expect("a source of one file")
}

/// The same packets in blocks of so many, so that small captures too are many blocks, and several workers have
/// something to put in order.
pub(crate) struct Small {
    whole: Box<dyn PacketSource>,
    packets: usize,
    block: PacketBlock,
    handed_on: usize,
}

impl Small {
    pub(crate) fn new(whole: Box<dyn PacketSource>, packets: usize) -> Self {
        Self { whole, packets, block: PacketBlock::default(), handed_on: 0 }
    }
}

impl PacketSource for Small {
    fn fill(&mut self, block: &mut PacketBlock) -> Result<FillOutcome, SourceError> {
        block.clear();
        if self.handed_on == self.block.packets().len() {
            self.handed_on = 0;
            match self.whole.fill(&mut self.block)? {
                FillOutcome::Packets => {}
                other => return Ok(other),
            }
        }
        for meta in self.block.packets().iter().skip(self.handed_on).take(self.packets) {
            block.push(*meta, self.block.frame(meta));
        }
        self.handed_on += block.packets().len();
        Ok(FillOutcome::Packets)
    }

    fn interfaces(&self) -> &[Interface] {
        self.whole.interfaces()
    }

    fn counts(&self) -> SourceCounts {
        self.whole.counts()
    }
}
