//! Numbers in, account out.

use super::*;

fn arrival(sequence: u32, records: u32) -> Arrival {
    Arrival { sequence, records, all_records: records, complete: true, received_ms: 0, export_ms: 0, uptime_ms: None }
}

/// Observes (number, records), and checks lost, late and resets.
fn check(observations: &[(u32, u32, u32, u32, bool)]) {
    let mut sequence = Sequence::new(SequenceUnit::Records);
    for &(number, records, lost, late, reset) in observations {
        let outcome = sequence.observe(&arrival(number, records));
        assert_eq!((outcome.lost, outcome.late, outcome.reset), (lost, late, reset), "at {number}");
    }
}

#[test]
fn gaps_and_what_fills_them() {
    check(&[
        (100, 30, 0, 0, false),
        (130, 30, 0, 0, false),
        (220, 30, 60, 0, false),
        (190, 30, 0, 30, false),
        (160, 30, 0, 30, false),
        (250, 30, 0, 0, false),
    ]);
    // across the wrap of 32 bits
    check(&[(u32::MAX - 9, 10, 0, 0, false), (10, 10, 10, 0, false), (0, 10, 0, 10, false)]);
}

#[test]
fn what_fills_no_gap_is_not_taken_off() {
    // before the first one, where nothing was counted as lost; and twice the same
    check(&[(100, 10, 0, 0, false), (90, 10, 0, 0, false), (120, 10, 10, 0, false), (110, 10, 0, 10, false)]);
    check(&[(100, 10, 0, 0, false), (120, 10, 10, 0, false), (110, 10, 0, 10, false), (110, 10, 0, 0, false)]);
}

#[test]
fn one_odd_number_changes_nothing() {
    for odd in [0, 1_000, 50_000_000, 3_000_000_000] {
        check(&[
            (90_000, 10, 0, 0, false),
            (odd, 10, 0, 0, false),
            (90_010, 10, 0, 0, false),
            (90_020, 5, 0, 0, false),
        ]);
    }
}

#[test]
fn a_new_start_and_a_long_gap_are_confirmed_by_a_second_datagram() {
    check(&[(90_000, 10, 0, 0, false), (0, 10, 0, 0, false), (20, 10, 10, 0, true), (10, 10, 0, 10, false)]);
    check(&[(100, 10, 0, 0, false), (50_110, 10, 0, 0, false), (50_120, 10, 50_000, 0, false)]);
    check(&[(100, 10, 0, 0, false), (5_000_110, 10, 0, 0, false), (5_000_120, 10, 0, 0, true)]);
}

#[test]
fn an_uptime_that_went_back_shows_a_restart_at_once() {
    let with =
        |sequence, export_ms, uptime_ms| Arrival { export_ms, uptime_ms: Some(uptime_ms), ..arrival(sequence, 10) };
    let mut sequence = Sequence::new(SequenceUnit::Records);
    sequence.observe(&with(100, 1_000_000, 500_000));
    // a late one, the wrap of the uptime and a clock set back by a day are none
    assert!(!sequence.observe(&with(90, 998_000, 498_000)).reset);
    let mut wrapping = sequence.clone();
    wrapping.observe(&with(110, 1_000_000, u32::MAX - 500));
    assert!(!wrapping.observe(&with(130, 1_001_000, 499)).reset);
    let mut set_back = sequence.clone();
    assert!(!set_back.observe(&with(120, 1_001_000 - 86_400_000, 501_000)).reset);
    // the numbers of the new start would fit a gap
    sequence.observe(&with(150, 1_001_000, 501_000));
    let outcome = sequence.observe(&with(120, 1_030_000, 9_000));
    assert!(outcome.reset && outcome.late == 0, "{outcome:?}");
}

#[test]
fn records_that_wait_settle_the_account_when_they_are_counted() {
    let waits = |sequence| Arrival { complete: false, ..arrival(sequence, 0) };
    let mut sequence = Sequence::new(SequenceUnit::Records);
    let mut set = 0;
    // of 100..110, 110..125 (lost), 125..130, 130..140, 140..150 (lost), then 150.. complete
    for number in [100, 125, 130] {
        let arrival = waits(number);
        assert_eq!(sequence.observe(&arrival), Outcome::default());
        sequence.sets_wait(&arrival, set..set + 2);
        set += 2;
    }
    assert_eq!(sequence.observe(&arrival(150, 10)), Outcome::default());
    let lost: Vec<_> = [4, 6, 2, 3, 9, 1]
        .into_iter()
        .enumerate()
        .map(|(set, n)| sequence.set_decoded(set as u64, Some(n)).lost)
        .collect();
    assert_eq!(lost, [0, 15, 0, 0, 0, 10]);
    let late = sequence.observe(&Arrival { export_ms: -1, ..arrival(110, 15) });
    assert_eq!((late.late, late.reordered), (15, true));
}

#[test]
fn a_unit_that_proves_wrong_is_given_up_and_its_loss_taken_back() {
    let mut sequence = Sequence::new(SequenceUnit::Datagrams);
    let (mut number, mut net) = (5, 0);
    for step in 0..40 {
        let outcome = sequence.observe(&arrival(number, 3 + step % 4));
        net += i64::from(outcome.lost) - i64::from(outcome.late) - outcome.taken_back as i64;
        number += 3 + step % 4;
    }
    assert_eq!((sequence.unit(), net), (SequenceUnit::Records, 0));
    assert_eq!(sequence.observe(&arrival(number + 7, 3)).lost, 7);
}

/// What a datagram adds to the loss that is counted.
fn net_loss(outcome: &Outcome) -> i64 {
    i64::from(outcome.lost) - i64::from(outcome.late) - outcome.taken_back as i64
}

#[test]
fn loss_that_was_certain_is_not_taken_back_when_another_unit_is_counted() {
    let mut sequence = Sequence::new(SequenceUnit::Records);
    let mut net = 0;
    let mut observe = |sequence: &mut Sequence, number: u32, records: u32| {
        net += net_loss(&sequence.observe(&arrival(number, records)));
        net
    };
    let records = |message: u32| 10 + message % 7;
    // every tenth of 200 messages is lost: 20 with 10 records and 0 to 6 more
    let (mut number, mut counted) = (0, 0);
    for message in 0..200 {
        if message % 10 != 5 {
            counted = observe(&mut sequence, number, records(message));
        }
        number += records(message);
    }
    assert_eq!((sequence.unit(), counted), (SequenceUnit::Records, 261));
    // numbers of messages from the same address and port, forged or after an upgrade: no rule is known for a while
    for message in 0..2_500 {
        counted = observe(&mut sequence, 5_000_000 + message, records(message));
        assert_eq!(counted, 261, "after {message} messages");
    }
    assert_eq!(sequence.unit(), SequenceUnit::Datagrams);
    // and those from before go on, of which none is lost
    for message in 0..100 {
        counted = observe(&mut sequence, number, records(message));
        number += records(message);
    }
    assert_eq!((sequence.unit(), counted), (SequenceUnit::Records, 261));
}

#[test]
fn what_was_counted_since_an_exporter_changed_its_unit_is_taken_back() {
    let mut sequence = Sequence::new(SequenceUnit::Datagrams);
    let mut net = 0;
    let mut observe = |sequence: &mut Sequence, number: u32, records: u32| {
        net += net_loss(&sequence.observe(&arrival(number, records)));
        net
    };
    let mut counted = 0;
    for number in (0..100_u32).filter(|number| number % 20 != 7) {
        counted = observe(&mut sequence, number, 3 + number % 4);
    }
    assert_eq!((sequence.unit(), counted), (SequenceUnit::Datagrams, 5));
    let mut number = 100;
    for message in 0..1_200 {
        counted = observe(&mut sequence, number, 3 + message % 4);
        number += 3 + message % 4;
    }
    assert_eq!((sequence.unit(), counted), (SequenceUnit::Records, 5));
}

/// Two steps are by chance as the standard would have them.
#[test]
fn a_unit_that_never_held_is_given_up_with_all_that_was_lost_by_it() {
    let mut sequence = Sequence::new(SequenceUnit::Datagrams);
    let (mut number, mut last, mut net, mut most) = (0, 0, 0_i64, 0);
    for message in 0..60 {
        let records = 3 + message % 4;
        last = if matches!(message, 4 | 9) { last + 1 } else { number };
        net += net_loss(&sequence.observe(&arrival(last, records)));
        most = most.max(net);
        number += records;
    }
    assert_eq!((sequence.unit(), net), (SequenceUnit::Records, 0));
    assert!(most > 20, "{most}");
}

#[test]
fn loss_never_looks_like_another_unit() {
    // every second datagram is lost, and each has two records
    let mut sequence = Sequence::new(SequenceUnit::Datagrams);
    let lost: u32 = (0..100).map(|number| sequence.observe(&arrival(number * 2, 2)).lost).sum();
    assert_eq!((sequence.unit(), lost), (SequenceUnit::Datagrams, 99));
}

#[test]
fn only_the_same_octets_are_duplicates() {
    let (hasher, mut last) = (DatagramHasher::default(), Duplicates::default());
    let (one, other) = (hasher.hash(b"one"), hasher.hash(b"other"));
    last.remember(10, one, 2);
    assert!(last.has(10, one) && !last.has(10, other) && !last.has(11, one));
    last.remember(12, one, 2);
    last.remember(11, other, 2);
    assert!(last.has(12, one) && last.has(11, other));
    assert!(!last.has(10, one), "forgotten");
    let mut off = Duplicates::default();
    off.remember(10, one, 0);
    assert!(!off.has(10, one));
}

#[test]
fn numbers_that_include_their_message_show_loss_as_exactly() {
    // softflowd 1.1.0 with IPFIX: 25, 54, 86 for messages of 25, 29 and 32 records
    let sizes = [25_u32, 29, 32, 30, 28, 31];
    let mut sequence = Sequence::new(SequenceUnit::Records);
    let (mut number, mut lost, mut back) = (0_u32, 0_u64, 0_u64);
    let mut observe = |message: usize, is_there: bool, sequence: &mut Sequence| {
        let records = sizes[message % sizes.len()];
        number += records;
        if is_there {
            let outcome = sequence.observe(&arrival(number, records));
            lost += u64::from(outcome.lost);
            back += u64::from(outcome.late) + outcome.taken_back;
        }
        lost.saturating_sub(back)
    };
    (0..40).for_each(|message| {
        observe(message, true, &mut sequence);
    });
    assert_eq!(sequence.unit(), SequenceUnit::RecordsThrough);
    assert_eq!(observe(40, true, &mut sequence), 0, "what seemed lost before the rule was known is taken back");
    // two messages do not come: 30 + 28 + 31 records are between those that do
    let missing: u64 = [41, 42].map(|message| u64::from(sizes[message % sizes.len()])).iter().sum();
    observe(41, false, &mut sequence);
    observe(42, false, &mut sequence);
    assert_eq!(observe(43, true, &mut sequence), missing);
    assert_eq!(observe(44, true, &mut sequence), missing);
}

/// softflowd sends a full message after the other, and now and then one that is not: most steps say nothing.
#[test]
fn a_few_messages_that_differ_show_that_numbers_include_their_message() {
    let sizes = |message: u32| if message % 7 == 5 { 29 - message % 3 } else { 32 };
    let follow = |messages: std::ops::Range<u32>, includes: bool, is_lost: fn(u32) -> bool| {
        let mut sequence = Sequence::new(SequenceUnit::Records);
        let (mut number, mut net) = (1_000, 0);
        for message in messages {
            let records = sizes(message);
            if !is_lost(message) {
                let outcome = sequence.observe(&arrival(if includes { number + records } else { number }, records));
                net += i64::from(outcome.lost) - i64::from(outcome.late) - outcome.taken_back as i64;
            }
            number += records;
        }
        (sequence.unit(), net)
    };
    let (through, records) = (SequenceUnit::RecordsThrough, SequenceUnit::Records);
    assert_eq!(follow(0..12, true, |_| false), (through, 0));
    assert_eq!(follow(0..200, true, |_| false), (through, 0));
    assert_eq!(follow(0..200, true, |message| message == 100), (through, 32));
    // a third of them does not come, once the rule is known
    let lossy = |message: u32| message > 50 && message % 3 == 1;
    let lost: i64 = (0..1_999).filter(|message| lossy(*message)).map(|message| i64::from(sizes(message))).sum();
    assert_eq!(follow(0..1_999, true, |message| message > 50 && message % 3 == 1), (through, lost));
    // an exporter that keeps to the standard, and loses some
    assert_eq!(follow(0..200, false, |_| false), (records, 0));
    let lost: i64 = (0..200).filter(|message| message % 20 == 3).map(|message| i64::from(sizes(message))).sum();
    assert_eq!(follow(0..200, false, |message| message % 20 == 3), (records, lost));
    let lost: i64 = (0..200).filter(|message| message % 7 == 4).map(|message| i64::from(sizes(message))).sum();
    assert_eq!(follow(0..200, false, |message| message % 7 == 4), (records, lost));
}
