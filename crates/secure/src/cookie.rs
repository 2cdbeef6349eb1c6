//! The cookie exchange of DTLS (RFC 6347 section 4.2.1), without memory for clients that have not done it.
//!
//! A `ClientHello` may come from a forged address. It is answered with a cookie that only its sender can return,
//! and forgotten; the cookie is made of the address, the time and a secret, so that it needs no memory. Only then
//! does a session begin.
//!
//! OpenSSL does this per session, so one has to exist. [`ClientHello::without_cookie`] makes the first message again
//! out of the second: a session is given both when the cookie is right, and its answer to the first, which the client
//! has had from us, is not sent. What speaks against it is that we read and write a little of DTLS ourselves; the call
//! that would do it for us is not among those that can be used without unsafe code.

use std::net::{IpAddr, SocketAddr};

use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::sign::Signer;
use openssl::ssl::{SslContextBuilder, SslOptions};

/// Octets of a record's header: type, version, epoch, sequence number, length.
const RECORD_HEADER: usize = 13;
/// Octets of a handshake message's header: type, length, message number, offset and length of the fragment.
const HANDSHAKE_HEADER: usize = 12;
/// Octets of a `ClientHello` before the session ID: version and random.
const VERSION_AND_RANDOM: usize = 34;
/// Octets of a cookie.
const COOKIE: usize = 32;
/// How long a cookie is valid at least, in seconds; at most twice as long.
const COOKIE_SECS: i64 = 60;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const HELLO_VERIFY_REQUEST: u8 = 3;
/// RFC 6347 section 4.2.1: this message has the version DTLS 1.0 whatever is agreed on later.
const DTLS_1_0: [u8; 2] = [0xfe, 0xff];

/// Makes sessions ask for a cookie. Which one does not matter: that it was returned is checked before.
pub(crate) fn require(context: &mut SslContextBuilder) {
    context.set_options(SslOptions::COOKIE_EXCHANGE);
    context.set_cookie_generate_cb(|_, cookie| {
        let length = COOKIE.min(cookie.len());
        cookie[..length].fill(0);
        Ok(length)
    });
    context.set_cookie_verify_cb(|_, _| true);
}

/// A `ClientHello` in a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientHello<'a> {
    datagram: &'a [u8],
    /// Epoch and sequence number of the record.
    number: &'a [u8],
    /// Distinguishes handshakes.
    pub(crate) random: &'a [u8],
    /// Empty in the first message.
    pub(crate) cookie: &'a [u8],
    /// Where the length of the cookie is in the datagram.
    cookie_at: usize,
    /// The end of the message; other records may follow.
    end: usize,
}

impl<'a> ClientHello<'a> {
    /// Reads a datagram that begins with a whole `ClientHello`. One in several fragments is not read:
    /// nothing is kept to reassemble them with.
    pub fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (record, rest) = datagram.split_at_checked(RECORD_HEADER)?;
        let (&[kind, major, _], number) = record.split_first_chunk::<3>()?;
        let (number, length) = number.split_at_checked(8)?;
        let body = rest.get(..usize::from(u16::from_be_bytes(length.try_into().ok()?)))?;
        let (header, hello) = body.split_at_checked(HANDSHAKE_HEADER)?;
        let (length, fragment) = (header.get(1..4)?, header.get(6..12)?);
        let is_whole = fragment.get(..3)? == [0; 3] && fragment.get(3..)? == length && be24(length)? == hello.len();
        if kind != HANDSHAKE || major != 0xfe || number.get(..2)? != [0; 2] || header.first() != Some(&CLIENT_HELLO) {
            return None;
        }
        if !is_whole {
            return None;
        }
        let (fixed, rest) = hello.split_at_checked(VERSION_AND_RANDOM)?;
        let (&session_id, rest) = rest.split_first()?;
        let (&cookie_len, rest) = rest.get(usize::from(session_id)..)?.split_first()?;
        let cookie = rest.get(..usize::from(cookie_len))?;
        let cookie_at = RECORD_HEADER + HANDSHAKE_HEADER + VERSION_AND_RANDOM + 1 + usize::from(session_id);
        let end = RECORD_HEADER + body.len();
        Some(Self { datagram, number, random: fixed.get(2..)?, cookie, cookie_at, end })
    }

    /// The message that the client sent before it had a cookie.
    pub(crate) fn without_cookie(&self) -> Vec<u8> {
        let mut first = self.datagram.get(..self.end).unwrap_or_default().to_vec();
        first.drain(self.cookie_at + 1..self.cookie_at + 1 + self.cookie.len());
        first[self.cookie_at] = 0;
        let body = first.len() - RECORD_HEADER;
        let hello = ((body - HANDSHAKE_HEADER) as u32).to_be_bytes();
        // the number of the record: the first of its epoch
        first[3..11].fill(0);
        first[11..13].copy_from_slice(&(body as u16).to_be_bytes());
        first[14..17].copy_from_slice(&hello[1..]);
        // the number of the message
        first[17..19].fill(0);
        first[22..25].copy_from_slice(&hello[1..]);
        first
    }

    /// The `HelloVerifyRequest` that asks for this cookie. It is shorter than the hello, so it cannot amplify a flood.
    pub(crate) fn verify_request(&self, cookie: &[u8; COOKIE]) -> Vec<u8> {
        let hello_len = (2 + 1 + COOKIE) as u8;
        let length = [0, 0, hello_len];
        let mut answer = vec![HANDSHAKE];
        answer.extend(DTLS_1_0);
        // RFC 6347 section 4.2.1: the record has the number of the one it answers
        answer.extend(self.number);
        answer.extend([0, HANDSHAKE_HEADER as u8 + hello_len, HELLO_VERIFY_REQUEST]);
        answer.extend(length);
        answer.extend([0; 5]);
        answer.extend(length);
        answer.extend(DTLS_1_0);
        answer.push(COOKIE as u8);
        answer.extend(cookie);
        answer
    }
}

fn be24(octets: &[u8]) -> Option<usize> {
    match octets {
        &[high, middle, low] => Some(usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)),
        _ => None,
    }
}

/// Makes cookies and recognises its own.
pub(crate) struct Cookies {
    secret: PKey<Private>,
}

impl Cookies {
    pub(crate) fn new() -> Result<Self, ErrorStack> {
        let mut secret = [0; 32];
        openssl::rand::rand_bytes(&mut secret)?;
        Ok(Self { secret: PKey::hmac(&secret)? })
    }

    /// The cookie of a handshake.
    pub(crate) fn of(
        &self,
        source: SocketAddr,
        hello: &ClientHello<'_>,
        now_ms: i64,
    ) -> Result<[u8; COOKIE], ErrorStack> {
        let mut signer = Signer::new(MessageDigest::sha256(), &self.secret)?;
        match source.ip() {
            IpAddr::V4(address) => signer.update(&address.octets())?,
            IpAddr::V6(address) => signer.update(&address.octets())?,
        }
        signer.update(&source.port().to_be_bytes())?;
        signer.update(hello.random)?;
        signer.update(&now_ms.div_euclid(COOKIE_SECS * 1000).to_be_bytes())?;
        let mut cookie = [0; COOKIE];
        signer.sign(&mut cookie)?;
        Ok(cookie)
    }

    /// Whether the cookie that was returned is the one of this handshake.
    pub(crate) fn is_right(&self, source: SocketAddr, hello: &ClientHello<'_>, now_ms: i64) -> bool {
        hello.cookie.len() == COOKIE
            && [now_ms, now_ms - COOKIE_SECS * 1000]
                .into_iter()
                .any(|at| self.of(source, hello, at).is_ok_and(|right| openssl::memcmp::eq(&right, hello.cookie)))
    }
}
