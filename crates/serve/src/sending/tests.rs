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
    let untaken: Vec<Response> = (0..4).map(|_| sending.counted(response(MIB))).collect();
    assert!(untaken.iter().all(|response| response.status() == 200));
    assert_eq!((sending.octets(), sending.refused()), (4 * MIB as u64, 0));
    let refused = sending.counted(response(MIB));
    assert_eq!((refused.status().as_u16(), sending.refused()), (503, 1));
    assert!(refused.headers().contains_key("retry-after"));
    // what is small is answered all the same
    assert_eq!(sending.counted(response(1000)).status(), 200);
    drop(untaken);
    assert_eq!(sending.octets(), 0);
    assert_eq!(sending.counted(response(MIB)).status(), 200);
}

#[test]
fn a_body_counts_until_its_last_piece_is_gone() {
    let sending = Sending::new(4 * MIB as u64);
    let mut body = sending.counted(response(MIB)).into_body();
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
    let large = sending.counted(response(3 * MIB));
    assert_eq!((large.status().as_u16(), sending.octets()), (200, MIB as u64));
    assert_eq!(sending.counted(response(MIB)).status(), 503);
    drop(large);
    assert_eq!(sending.counted(response(MIB)).status(), 200);
}
