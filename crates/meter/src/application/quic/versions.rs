//! Versions of QUIC: what the protection of their Initial packets differs in.

/// What differs from version to version.
#[derive(Debug)]
pub(super) struct Suite {
    /// Salt of the initial secret (RFC 9001 section 5.2).
    pub(super) salt: [u8; 20],
    /// Labels of key, initialization vector and header protection (RFC 9001 section 5.1).
    pub(super) labels: [&'static [u8]; 3],
    /// The type of Initial and of Retry packets (RFC 9000 section 17.2, RFC 9369 section 3.2).
    pub(super) initial: u8,
    pub(super) retry: u8,
}

const VERSION_1: u32 = 1;
const VERSION_2: u32 = 0x6b33_43cf;

/// RFC 9001 section 5.2.
const SUITE_1: Suite = Suite::of_version_1([
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f,
    0x0a,
]);
/// draft-ietf-quic-tls-29 section 5.2; since draft 29.
const SUITE_29: Suite = Suite::of_version_1([
    0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0, 0x43, 0x90, 0xa8,
    0x99,
]);
/// draft-ietf-quic-tls-23 section 5.2; since draft 23.
const SUITE_23: Suite = Suite::of_version_1([
    0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4, 0x63, 0x65, 0xbe, 0xf9, 0xf5,
    0x02,
]);
/// RFC 9369 section 3.3.
const SUITE_2: Suite = Suite {
    salt: [
        0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9, 0xbd,
        0x2e, 0xd9,
    ],
    labels: [b"quicv2 key", b"quicv2 iv", b"quicv2 hp"],
    initial: 1,
    retry: 0,
};

impl Suite {
    const fn of_version_1(salt: [u8; 20]) -> Self {
        Self { salt, labels: [b"quic key", b"quic iv", b"quic hp"], initial: 0, retry: 3 }
    }
}

/// How Initial packets of a version are protected; `None` of versions that are not known so well.
pub(super) fn suite(version: u32) -> Option<&'static Suite> {
    match version {
        VERSION_1 | 0xff00_0021..=0xff00_0022 => Some(&SUITE_1),
        VERSION_2 => Some(&SUITE_2),
        // Drafts 29 to 32, and Facebook's name of draft 29.
        0xff00_001d..=0xff00_0020 | 0xface_b00d..=0xface_b00f => Some(&SUITE_29),
        // Drafts 23 to 28, and Facebook's name of draft 27.
        0xff00_0017..=0xff00_001c | 0xface_b002 => Some(&SUITE_23),
        _ => None,
    }
}

/// Whether the number is that of a version (RFC 9000 section 15): of the standards, of a draft, or of Facebook.
pub(in super::super) fn is_version(version: u32) -> bool {
    suite(version).is_some() || version >> 8 == 0xff_0000 && version & 0xff <= 34 || version >> 8 == 0xfa_ceb0
}
