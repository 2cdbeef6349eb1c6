//! What has the same key and the nearest start.

use std::collections::{BTreeSet, HashMap};

use super::Place;
use crate::keys::NO_KEY;

/// Places by key. Most keys have one place or none, which lies in a column; only those with more have a tree.
#[derive(Debug, Default)]
pub struct Nearest {
    /// For each key its only place, or [`EMPTY`], or [`MANY`].
    only: Vec<Place>,
    many: HashMap<u32, BTreeSet<Place>, foldhash::fast::FixedState>,
    places: usize,
}

const EMPTY: Place = Place { start: 0, arrival: u64::MAX, slot: u32::MAX };
const MANY: Place = Place { start: 1, arrival: u64::MAX, slot: u32::MAX };

impl Nearest {
    /// Adds a place to a key.
    pub fn add(&mut self, key: u32, place: Place) {
        if key as usize >= self.only.len() {
            self.only.resize(key as usize + 1, EMPTY);
        }
        self.places += 1;
        let only = &mut self.only[key as usize];
        if *only == EMPTY {
            *only = place;
            return;
        }
        let tree = self.many.entry(key).or_default();
        if *only != MANY {
            tree.insert(*only);
            *only = MANY;
        }
        tree.insert(place);
    }

    /// Removes a place from its key; it must be there.
    pub fn remove(&mut self, key: u32, place: Place) {
        self.places -= 1;
        let only = &mut self.only[key as usize];
        if *only == place {
            *only = EMPTY;
            return;
        }
        let tree = self.many.get_mut(&key);
        debug_assert!(tree.as_ref().is_some_and(|tree| tree.contains(&place)), "{place:?} is not at key {key}");
        let Some(tree) = tree else { return };
        tree.remove(&place);
        if tree.is_empty() {
            self.many.remove(&key);
            *only = EMPTY;
        }
    }

    /// The place of a key whose start is nearest to `start`, among those that are not farther than `within` and that
    /// `accepts` says yes to; the earlier one of two that are equally far, by start and then by arrival. No more than
    /// `tries_max` are asked about.
    pub fn find(
        &self,
        key: u32,
        start: i64,
        within: u64,
        tries_max: usize,
        mut accepts: impl FnMut(Place) -> bool,
    ) -> Option<Place> {
        let only = *self.only.get(key as usize)?;
        let is_near = |place: &Place| place.start.abs_diff(start) <= within;
        if only != MANY {
            return Some(only).filter(|only| *only != EMPTY && is_near(only) && accepts(*only));
        }
        let tree = self.many.get(&key)?;
        by_distance(tree, start).take_while(is_near).take(tries_max).find(|place| accepts(*place))
    }

    /// Whether a key has no place.
    pub fn has_none(&self, key: u32) -> bool {
        self.only.get(key as usize).is_none_or(|only| *only == EMPTY)
    }

    /// Number of places.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Gives keys other numbers: the new one of each old one, [`NO_KEY`] for keys without places.
    pub fn renumber(&mut self, renumbered: &[u32]) {
        let mut only = Vec::new();
        for (place, key) in self.only.iter().zip(renumbered).filter(|(_, key)| **key != NO_KEY) {
            only.resize(*key as usize, EMPTY);
            only.push(*place);
        }
        self.only = only;
        let many = std::mem::take(&mut self.many);
        self.many = many.into_iter().map(|(key, tree)| (renumbered[key as usize], tree)).collect();
    }

    /// Octets of memory, about.
    pub fn octets(&self) -> usize {
        let in_trees: usize = self.many.values().map(|tree| 96 + tree.len() * 2 * size_of::<Place>()).sum();
        self.only.capacity() * size_of::<Place>() + in_trees
    }
}

/// The places of a tree, nearest first.
fn by_distance(tree: &BTreeSet<Place>, start: i64) -> impl Iterator<Item = Place> {
    let at = |start| Place { start, arrival: 0, slot: 0 };
    let mut after = tree.range(at(start)..).copied().peekable();
    // of those before, the later start comes first, but of the same start the earlier arrival
    let mut before =
        tree.range(..at(start)).next_back().map(|last| tree.range(at(last.start)..at(start)).copied().peekable());
    std::iter::from_fn(move || {
        let earlier = before.as_mut().and_then(|run| run.peek().copied());
        let later = after.peek().copied();
        let takes_earlier = match (earlier, later) {
            (Some(earlier), Some(later)) => earlier.start.abs_diff(start) <= later.start.abs_diff(start),
            (earlier, _) => earlier.is_some(),
        };
        if !takes_earlier {
            return after.next();
        }
        let earlier = earlier?;
        if let Some(run) = before.as_mut() {
            run.next();
            if run.peek().is_none() {
                let last = tree.range(..at(earlier.start)).next_back();
                before = last.map(|last| tree.range(at(last.start)..at(earlier.start)).copied().peekable());
            }
        }
        Some(earlier)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Adds or removes a place, or looks for one.
    #[derive(Debug, Clone)]
    enum Step {
        Add(u32, i64),
        Remove(prop::sample::Index),
        Find { key: u32, start: i64, within: u64, slots: u32 },
        Renumber,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0..4u32, -9..9i64).prop_map(|(key, start)| Step::Add(key, start)),
            2 => any::<prop::sample::Index>().prop_map(Step::Remove),
            6 => (0..5u32, -12..12i64, 0..14u64, 1..4u32)
                .prop_map(|(key, start, within, slots)| Step::Find { key, start, within, slots }),
            1 => Just(Step::Renumber),
        ];
        proptest::collection::vec(step, 0..120)
    }

    proptest! {
        #[test]
        fn it_finds_what_sorting_all_finds(steps in steps()) {
            let mut nearest = Nearest::default();
            let mut all: Vec<(u32, Place)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Add(key, start) => {
                        let place = Place { start, arrival: number as u64, slot: number as u32 };
                        nearest.add(key, place);
                        all.push((key, place));
                    }
                    Step::Remove(index) if !all.is_empty() => {
                        let (key, place) = all.swap_remove(index.index(all.len()));
                        nearest.remove(key, place);
                    }
                    Step::Remove(_) => {}
                    Step::Find { key, start, within, slots } => {
                        let accepts = |place: Place| place.slot.is_multiple_of(slots);
                        let near = all.iter().filter(|(other, place)| {
                            *other == key && place.start.abs_diff(start) <= within && accepts(*place)
                        });
                        let first = near.map(|(_, place)| (place.start.abs_diff(start), *place)).min();
                        let found = nearest.find(key, start, within, usize::MAX, accepts);
                        prop_assert_eq!(found, first.map(|(_, place)| place));
                    }
                    Step::Renumber => {
                        let live: Vec<u32> = (0..4).filter(|key| !nearest.has_none(*key)).collect();
                        let number = |key: u32| live.iter().position(|other| *other == key);
                        let renumbered: Vec<u32> = (0..4).map(|key| number(key).map_or(NO_KEY, |key| key as u32)).collect();
                        nearest.renumber(&renumbered);
                        for (key, _) in &mut all {
                            *key = renumbered[*key as usize];
                        }
                    }
                }
                prop_assert_eq!(nearest.places(), all.len());
                for key in 0..5 {
                    prop_assert_eq!(nearest.has_none(key), !all.iter().any(|(other, _)| *other == key));
                }
            }
        }
    }

    #[test]
    fn no_more_are_asked_about_than_allowed() {
        let mut nearest = Nearest::default();
        for slot in 0..10 {
            nearest.add(0, Place { start: i64::from(slot), arrival: u64::from(slot), slot });
        }
        let mut asked = 0;
        assert_eq!(
            nearest.find(0, 0, 100, 4, |place| {
                asked += 1;
                place.slot == 5
            }),
            None
        );
        assert_eq!(asked, 4);
    }
}
