use super::*;

#[test]
fn crypto_frames_are_found_among_others() {
    let frames = [
        &[0, 0, 1][..],
        // An acknowledgement with one further range and with counts of ECN.
        &[3, 5, 0, 1, 0, 1, 1, 7, 7, 7],
        &[6, 0x40, 0x10, 3, b'a', b'b', b'c'],
        &[0, 6, 0, 1, b'd'],
        // A connection that is closed has nothing more to show.
        &[0x1c, 6, 0, 1, b'e'],
    ]
    .concat();
    let found: Vec<_> = crypto_frames(&frames).collect();
    assert_eq!(found, [(16, &b"abc"[..]), (0, &b"d"[..])]);
}

#[test]
fn frames_that_end_too_early_are_not_believed() {
    assert_eq!(crypto_frames(&[6, 0, 5, 1, 2, 3, 4]).count(), 0);
    assert_eq!(crypto_frames(&[2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).count(), 0);
}

#[test]
fn lengths_of_headers_are_not_believed() {
    let header = [&[0xc0, 0, 0, 0, 1, 8][..], &[7; 8], &[0, 0, 0x7f, 0xff], &[9; 30]].concat();
    assert!(long_header(&header).is_none());
    for end in 0..header.len() {
        assert!(long_header(&header[..end]).is_none(), "{end} octets");
    }
}
