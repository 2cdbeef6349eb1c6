//! What keys of open sessions take, and that it is freed.

use super::*;

const KIND: SessionKind = SessionKind { gap_ms: 1_000, cap_ms: 10_000, every_ms: 500 };

fn push(keys: &mut OpenKeys, name: u32, time_ms: i64) -> u64 {
    let name = name.to_be_bytes();
    let (place, end_ms) = (keys.place_of(&name), KIND.earliest_end(time_ms));
    let more = keys.more_octets(place, &name, end_ms);
    keys.push(place, &name, KeptRow { time_ms, batch: 0, row: 0 }, end_ms);
    more
}

/// Ends what is due, as if all sessions were given.
fn end_through(keys: &mut OpenKeys, through_ms: i64) {
    while let Some((at_ms, places)) = keys.pop_due(through_ms) {
        for place in places {
            if let Some(key) = keys.due_mut(place, at_ms) {
                key.rows.clear();
                keys.reschedule(place, KIND);
            }
        }
    }
}

#[test]
fn what_a_row_takes_is_known_before() {
    let mut keys = OpenKeys::default();
    for number in 0..5_000_u32 {
        let before = keys.octets();
        // of hosts that come again, some of them with rows that are earlier than those before
        let more = push(&mut keys, number % 700, i64::from((number * 7_919) % 900));
        assert_eq!(keys.octets(), before + more, "row {number}");
    }
    assert_eq!((keys.len(), keys.rows().count()), (700, 5_000));
    // no less than what is in the tables
    let least = keys.keys.capacity() * size_of::<OpenKey>()
        + keys.places.capacity() * size_of::<(Box<[u8]>, usize)>()
        + keys.keys.iter().map(|key| 2 * key.name.len() + key.rows.capacity() * size_of::<KeptRow>()).sum::<usize>()
        + keys.schedule.values().map(|places| places.capacity() * size_of::<usize>()).sum::<usize>();
    assert!(keys.octets() > least as u64, "{} of {least}", keys.octets());
}

#[test]
fn memory_of_keys_that_have_gone_is_freed() {
    let mut keys = OpenKeys::default();
    for number in 0..200_000 {
        push(&mut keys, number, i64::from(number / 1_000));
    }
    push(&mut keys, 7, 5_000);
    let full = keys.octets();
    end_through(&mut keys, 1_150);
    keys.free_places();
    // keys 0 to 150,999 are gone, and their places with them
    assert_eq!((keys.len(), keys.keys.len(), keys.free.len()), (49_000, 49_000, 0));
    assert!(keys.octets() < full / 3, "{} of {full}", keys.octets());
    assert!((151_000..200_000_u32).all(|number| {
        let place = keys.place_of(&number.to_be_bytes());
        place.is_some_and(|place| keys.keys[place].name[..] == number.to_be_bytes())
    }));
    end_through(&mut keys, 10_000);
    keys.free_places();
    assert_eq!((keys.len(), keys.next_look_ms(), keys.scheduled), (0, None, 0));
    assert_eq!((keys.octets(), keys.octets_of_keys), (0, 0));
}
