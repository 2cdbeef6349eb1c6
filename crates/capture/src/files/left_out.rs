//! Links whose frames are left out of what is delivered: counted, and each reported once.
//!
//! A file may have interfaces of several links, and the frames of the others are of use. A link is reported when its first
//! frame comes, since files describe interfaces on which nothing was captured.

use std::collections::BTreeSet;

use crate::source::SourceCounts;

/// A link whose frames are left out.
#[derive(Debug, Clone)]
pub(super) struct LeftOutLink {
    /// `LINKTYPE_`
    number: u16,
    /// Why the packet filter has no meaning on it; `None` for a link that is not dissected.
    refusal: Option<String>,
}

impl LeftOutLink {
    /// One that is not dissected.
    pub(super) fn unknown(number: u16) -> Self {
        Self { number, refusal: None }
    }

    /// One on which the packet filter has no meaning, and why.
    pub(super) fn unfilterable(number: u16, reason: String) -> Self {
        Self { number, refusal: Some(reason) }
    }
}

/// The links that were left out so far, of all files together.
#[derive(Debug, Default)]
pub(super) struct LeftOutLinks {
    known: BTreeSet<u16>,
    /// A line for each that is to be reported.
    unreported: Vec<String>,
}

impl LeftOutLinks {
    /// Counts a frame of a link.
    pub(super) fn count(&mut self, link: &LeftOutLink, counts: &mut SourceCounts) {
        let LeftOutLink { number, refusal } = link;
        match refusal {
            None => counts.frames_unknown_link += 1,
            Some(_) => counts.frames_unfilterable += 1,
        }
        if self.known.insert(*number) {
            self.unreported.push(match refusal {
                None => format!("frames of link type {number} are left out, for it is not dissected"),
                Some(refusal) => {
                    format!("frames of link type {number} are left out, for they cannot be filtered: {refusal}")
                }
            });
        }
    }

    /// A line for each link that has come since the last call.
    pub(super) fn take_unreported(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unreported)
    }
}
