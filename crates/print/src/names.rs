//! Letters of TCP flags.

/// Letters of the TCP control bits from the highest, `CEUAPRSF`, a dot for each bit that is not set. Bits above the
/// eighth have no letters.
pub fn tcp_flags_text(flags: u16) -> [u8; 8] {
    let mut letters = *b"CEUAPRSF";
    for (position, letter) in letters.iter_mut().enumerate() {
        if flags & (0x80 >> position) == 0 {
            *letter = b'.';
        }
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_their_places() {
        assert_eq!(&tcp_flags_text(0x12), b"...A..S.");
        assert_eq!(&tcp_flags_text(0xff), b"CEUAPRSF");
        assert_eq!(&tcp_flags_text(0x100), b"........");
    }
}
