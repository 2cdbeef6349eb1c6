//! Chains of entries of one table: each entry is in several, and leaves all of them without a search.

/// No place in a table.
const NOWHERE: u32 = u32::MAX;

/// The places of the first and of the last entry of a chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub(super) first: u32,
    last: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { first: NOWHERE, last: NOWHERE }
    }
}

/// The neighbours of an entry in a chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links {
    previous: u32,
    pub(super) next: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self { previous: NOWHERE, next: NOWHERE }
    }
}

/// An entry that can be in several chains, one of each kind.
pub(super) trait Linked {
    /// Its neighbours in the chain of this kind.
    fn links(&mut self, kind: usize) -> &mut Links;
}

impl Chain {
    /// Whether nothing is in it.
    pub(super) fn is_empty(self) -> bool {
        self.first == NOWHERE
    }

    /// Adds the entry at this place behind the last.
    pub(super) fn push(&mut self, table: &mut [impl Linked], kind: usize, at: u32) {
        *table[at as usize].links(kind) = Links { previous: self.last, next: NOWHERE };
        match table.get_mut(self.last as usize) {
            Some(last) => last.links(kind).next = at,
            None => self.first = at,
        }
        self.last = at;
    }

    /// Takes out the entry at this place.
    pub(super) fn remove(&mut self, table: &mut [impl Linked], kind: usize, at: u32) {
        let Links { previous, next } = *table[at as usize].links(kind);
        match table.get_mut(previous as usize) {
            Some(before) => before.links(kind).next = next,
            None => self.first = next,
        }
        match table.get_mut(next as usize) {
            Some(after) => after.links(kind).previous = previous,
            None => self.last = previous,
        }
    }
}
