//! A client of the protocol of Postgres that says what tests want to say, and nothing for itself.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use openssl::base64::{decode_block, encode_block};
use openssl::hash::MessageDigest;
use openssl::pkcs5::pbkdf2_hmac;
use openssl::pkey::PKey;
use openssl::sha::sha256;
use openssl::sign::Signer;

use crate::service::PATIENCE;

/// A connection.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    /// Number and secret for requests to cancel.
    pub(crate) key: Vec<u8>,
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: char,
    pub(crate) octets: Vec<u8>,
}

impl Message {
    /// The fields of an error, by their letters.
    pub(crate) fn error(&self) -> BTreeMap<char, String> {
        let parts = self.octets.split(|octet| *octet == 0).filter(|part| !part.is_empty());
        parts.map(|part| (char::from(part[0]), String::from_utf8_lossy(&part[1..]).into_owned())).collect()
    }

    /// The types of the columns that a message describes, by their numbers in `pg_type`.
    pub(crate) fn types(&self) -> Vec<u32> {
        let count = u16::from_be_bytes([self.octets[0], self.octets[1]]);
        let mut rest = &self.octets[2..];
        let types = (0..count).map(|_| {
            let name = rest.iter().position(|octet| *octet == 0).expect("the end of a name");
            // table and position, then the type; its length, a modifier and the format come behind
            let (field, more) = rest[name + 1..].split_at(18);
            rest = more;
            u32::from_be_bytes(field[6..10].try_into().expect("4 octets"))
        });
        types.collect()
    }

    /// The values of a row.
    pub(crate) fn values(&self) -> Vec<Option<Vec<u8>>> {
        let count = u16::from_be_bytes([self.octets[0], self.octets[1]]);
        let mut rest = &self.octets[2..];
        let values = (0..count).map(|_| {
            let (length, more) = rest.split_at(4);
            let length = i32::from_be_bytes(length.try_into().expect("4 octets"));
            let (value, more) = more.split_at(usize::try_from(length).unwrap_or(0));
            rest = more;
            (length >= 0).then(|| value.to_vec())
        });
        values.collect()
    }
}

/// A message of the client.
pub(crate) fn message(kind: u8, fields: &[u8]) -> Vec<u8> {
    let length = (fields.len() as u32 + 4).to_be_bytes();
    [&[kind], length.as_slice(), fields].concat()
}

/// A message without a type.
pub(crate) fn startup(code: u32, fields: &[u8]) -> Vec<u8> {
    [&(fields.len() as u32 + 8).to_be_bytes(), code.to_be_bytes().as_slice(), fields].concat()
}

impl Raw {
    /// A connection over which nothing was said.
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self { stream, key: Vec::new() }
    }

    /// A client that has logged in, where there are no users.
    pub(crate) fn logged_in(address: SocketAddr) -> Self {
        let mut raw = Self::open(address);
        raw.say(&startup(3 << 16, b"user\0ann\0database\0flows\0\0"));
        let greeting = raw.until_ready();
        let key = greeting.iter().find(|message| message.kind == 'K').expect("a key");
        raw.key.clone_from(&key.octets);
        assert!(greeting.iter().all(|message| message.kind != 'E'), "{greeting:?}");
        raw
    }

    /// Begins a connection and proves to be a user by SCRAM-SHA-256 (RFC 5802 section 3, RFC 7677). What the service says to the
    /// proof is to be read.
    pub(crate) fn prove(&mut self, user: &str, password: &str) {
        self.say(&startup(3 << 16, format!("user\0{user}\0\0").as_bytes()));
        assert_eq!(self.next().expect("an offer").octets[..4], 10_u32.to_be_bytes());
        let first = "n=,r=rOprNGfwEbeRWgbNEkqO";
        let length = (first.len() as u32 + 3).to_be_bytes();
        self.say(&message(b'p', &[b"SCRAM-SHA-256\0", length.as_slice(), b"n,,", first.as_bytes()].concat()));
        let challenge = self.next().expect("a challenge").octets;
        assert_eq!(challenge[..4], 11_u32.to_be_bytes());
        let challenge = std::str::from_utf8(&challenge[4..]).expect("text");
        let of = |name: &str| challenge.split(',').find_map(|part| part.strip_prefix(name)).expect("a part");
        let (salt, times) = (decode_block(of("s=")).expect("a salt"), of("i=").parse().expect("a number"));
        let mut salted = [0; 32];
        pbkdf2_hmac(password.as_bytes(), &salt, times, MessageDigest::sha256(), &mut salted).expect("a key");
        let client_key = hmac(&salted, b"Client Key");
        let last = format!("c=biws,r={}", of("r="));
        let signature = hmac(&sha256(&client_key), format!("{first},{challenge},{last}").as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, signed)| key ^ signed).collect();
        self.say(&message(b'p', format!("{last},p={}", encode_block(&proof)).as_bytes()));
    }

    pub(crate) fn say(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).expect("it reads");
    }

    /// The next message; `None` at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().expect("4 octets")) as usize;
        let mut octets = vec![0; length - 4];
        self.stream.read_exact(&mut octets).ok()?;
        Some(Message { kind: char::from(head[0]), octets })
    }

    /// Messages up to the one that says that the next statement may come.
    pub(crate) fn until_ready(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let message = self.next().unwrap_or_else(|| panic!("the connection has ended: {messages:?}"));
            let is_last = message.kind == 'Z';
            messages.push(message);
            if is_last {
                return messages;
            }
        }
    }

    /// Asks a simple query.
    pub(crate) fn query(&mut self, text: &str) -> Vec<Message> {
        self.say(&message(b'Q', &[text.as_bytes(), b"\0"].concat()));
        self.until_ready()
    }

    /// The error of a simple query.
    pub(crate) fn refused(&mut self, text: &str) -> BTreeMap<char, String> {
        let messages = self.query(text);
        let error = messages.iter().find(|message| message.kind == 'E');
        error.unwrap_or_else(|| panic!("'{text}' is not refused: {messages:?}")).error()
    }

    /// The rows of a simple query, as texts.
    pub(crate) fn rows(&mut self, text: &str) -> Vec<Vec<Option<String>>> {
        let messages = self.query(text);
        if let Some(error) = messages.iter().find(|message| message.kind == 'E') {
            panic!("'{text}': {:?}", error.error());
        }
        let rows = messages.iter().filter(|message| message.kind == 'D').map(Message::values);
        let text = |value: Option<Vec<u8>>| value.map(|octets| String::from_utf8(octets).expect("text"));
        rows.map(|row| row.into_iter().map(text).collect()).collect()
    }

    /// The only value of a simple query.
    pub(crate) fn value(&mut self, text: &str) -> Option<String> {
        let mut rows = self.rows(text);
        assert_eq!((rows.len(), rows[0].len()), (1, 1), "{text}");
        rows.pop().and_then(|mut row| row.pop()).flatten()
    }
}

fn hmac(key: &[u8], octets: &[u8]) -> Vec<u8> {
    let key = PKey::hmac(key).expect("a key");
    Signer::new(MessageDigest::sha256(), &key)
        .and_then(|mut signer| signer.sign_oneshot_to_vec(octets))
        .expect("a signature")
}

/// Kinds of messages, in their order.
pub(crate) fn kinds(messages: &[Message]) -> String {
    messages.iter().map(|message| message.kind).collect()
}
