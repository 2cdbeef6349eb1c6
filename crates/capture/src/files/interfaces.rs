//! The interfaces of all files together.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use weir_wire::packet::LinkType;

use crate::source::Interface;

/// Most interfaces of all files together: what the number in a packet can express.
pub(super) const INTERFACES_MAX: usize = u16::MAX as usize;

/// A list that only grows.
///
/// Interfaces of the same number, name and link type are one, so that the thousand files of a rotated capture do not
/// have a thousand interfaces.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    list: Vec<Interface>,
    known: HashMap<(u32, String, LinkType), u16, RandomState>,
}

impl Interfaces {
    pub(super) fn list(&self) -> &[Interface] {
        &self.list
    }

    /// The position of an interface, which is added if it is new; `None` when the list is full.
    pub(super) fn position(&mut self, index: u32, name: &str, link: LinkType) -> Option<u16> {
        let key = (index, name.to_owned(), link);
        if let Some(&position) = self.known.get(&key) {
            return Some(position);
        }
        if self.list.len() >= INTERFACES_MAX {
            return None;
        }
        let position = self.list.len() as u16;
        self.list.push(Interface { index, name: name.to_owned(), link });
        self.known.insert(key, position);
        Some(position)
    }
}
