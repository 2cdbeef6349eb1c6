use futures::FutureExt;
use futures::future::poll_fn;

use super::*;

const MIB: usize = 1 << 20;

fn response(octets: usize) -> Response {
    vec![7_u8; octets].into_response()
}

/// The next piece of a body that is there.
fn next(body: &mut Body) -> Option<Bytes> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).now_or_never().expect("it is there")?;
    Some(frame.expect("no error").into_data().expect("octets"))
}

#[test]
fn answers_that_nobody_takes_are_refused_over_their_limit() {
    let sending = Sending::new(4 * MIB as u64);
    let untaken: Vec<Response> = (0..4).map(|_| sending.counted(response(MIB), None)).collect();
    assert!(untaken.iter().all(|response| response.status() == 200));
    assert_eq!((sending.octets(), sending.refused()), (4 * MIB as u64, 0));
    let refused = sending.counted(response(MIB), None);
    assert_eq!((refused.status().as_u16(), sending.refused()), (503, 1));
    assert!(refused.headers().contains_key("retry-after"));
    // what is small is answered all the same
    assert_eq!(sending.counted(response(1000), None).status(), 200);
    drop(untaken);
    assert_eq!(sending.octets(), 0);
    assert_eq!(sending.counted(response(MIB), None).status(), 200);
}

#[test]
fn a_body_counts_until_its_last_piece_is_gone() {
    let sending = Sending::new(4 * MIB as u64);
    let mut body = sending.counted(response(MIB), None).into_body();
    assert_eq!(body.size_hint().exact(), Some(MIB as u64));
    let first = next(&mut body).expect("a piece");
    assert_eq!((first.len(), body.size_hint().exact()), (PIECE_OCTETS, Some((MIB - PIECE_OCTETS) as u64)));
    let mut octets = first.len();
    while let Some(piece) = next(&mut body) {
        assert!(piece.len() <= PIECE_OCTETS && piece.iter().all(|octet| *octet == 7));
        octets += piece.len();
    }
    assert_eq!(octets, MIB);
    drop(body);
    // a connection that has not written a piece has all of the octets still
    assert_eq!(sending.octets(), MIB as u64);
    drop(first);
    assert_eq!(sending.octets(), 0);
}

#[test]
fn an_answer_that_is_larger_than_all_that_may_wait_waits_alone() {
    let sending = Sending::new(MIB as u64);
    let large = sending.counted(response(3 * MIB), None);
    assert_eq!((large.status().as_u16(), sending.octets()), (200, MIB as u64));
    assert_eq!(sending.counted(response(MIB), None).status(), 503);
    drop(large);
    assert_eq!(sending.counted(response(MIB), None).status(), 200);
}

fn user(name: &str) -> Recipient {
    Recipient::User(name.to_owned())
}

#[test]
fn one_user_does_not_use_the_memory_of_all() {
    let sending = Sending::new(8 * MIB as u64);
    let untaken: Vec<Response> = (0..2).map(|_| sending.counted(response(MIB), Some(user("ann")))).collect();
    assert!(untaken.iter().all(|response| response.status() == 200));
    let refused = sending.counted(response(MIB), Some(user("ann")));
    assert_eq!((refused.status().as_u16(), sending.refused()), (503, 1));
    assert_eq!(sending.octets(), 2 * MIB as u64, "what is refused takes nothing");
    // others have shares of their own, and so have clients without a user by their network
    let bob = sending.counted(response(2 * MIB), Some(user("bob")));
    let stranger = |address: &str| Recipient::of(None, address.parse().expect("an address"));
    let from_network = sending.counted(response(2 * MIB), stranger("2001:db8::1"));
    assert_eq!((bob.status().as_u16(), from_network.status().as_u16()), (200, 200));
    assert_eq!(sending.counted(response(MIB), stranger("2001:db8::2")).status(), 503);
    drop(untaken);
    let again = sending.counted(response(2 * MIB), Some(user("ann")));
    assert_eq!(again.status(), 200, "the share came back");
    drop((bob, from_network, again));
    assert!(sending.shares.lock().is_empty(), "nothing is kept of who has no answer on its way");
}

#[test]
fn one_answer_may_be_larger_than_a_share() {
    let sending = Sending::new(8 * MIB as u64);
    let large = sending.counted(response(5 * MIB), Some(user("ann")));
    assert_eq!(large.status(), 200);
    assert_eq!(sending.counted(response(MIB), Some(user("ann"))).status(), 503);
    // what does not find room in all takes nothing of a share
    assert_eq!(sending.counted(response(4 * MIB), Some(user("bob"))).status(), 503);
    assert_eq!(sending.counted(response(3 * MIB), Some(user("bob"))).status(), 200);
    drop(large);
    assert_eq!(sending.counted(response(5 * MIB), Some(user("ann"))).status(), 200);
}

#[test]
fn without_users_there_are_no_shares() {
    let from = std::net::Ipv4Addr::LOCALHOST.into();
    assert_eq!(Recipient::of(Some(&Asker::local(from)), from), None);
    let ann = Asker { name: "ann".to_owned(), ..Asker::local(from) };
    assert_eq!(Recipient::of(Some(&ann), from), Some(user("ann")));
}
