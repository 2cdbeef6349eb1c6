//! The key of Crypto-PAn, read from a file.
//!
//! The key never leaves this module and the cipher made of it: its `Debug` is a word, and errors name lengths and places,
//! never octets.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// 16 octets of AES key, then 16 octets that the pad is made of.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub(super) [u8; 32]);

/// Why a file holds no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("key file {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What it holds is none.
    #[error("key file {} {problem}", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// Lengths and places, no octets.
        problem: String,
    },
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Reads a key file: 32 octets, or 64 hexadecimal digits with or without `0x` before and white space around them.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let content = std::fs::read(path).map_err(|source| KeyError::Read { path: path.to_owned(), source })?;
        parse(&content).map(Self).map_err(|problem| KeyError::NoKey { path: path.to_owned(), problem })
    }
}

/// 32 octets are a key whatever they are, so that a key of random octets is never taken for text.
fn parse(content: &[u8]) -> Result<[u8; 32], String> {
    if let Ok(key) = <[u8; 32]>::try_from(content) {
        return Ok(key);
    }
    let digits = content.trim_ascii();
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    if digits.len() != 64 {
        let octets = content.len();
        return Err(format!("has {octets} octets, but 32 octets or 64 hexadecimal digits are needed"));
    }
    let mut key = [0; 32];
    for (place, &digit) in digits.iter().enumerate() {
        let Some(value) = char::from(digit).to_digit(16) else {
            return Err(format!("has 64 letters, but that at place {} is no hexadecimal digit", place + 1));
        };
        key[place / 2] = key[place / 2] << 4 | value as u8;
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "1522178d33a4cf80130a5b1649907d10d8988f837979652762574c2d2a842202";
    const RAW: [u8; 32] = [
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131, 121, 121, 101, 39,
        98, 87, 76, 45, 42, 132, 34, 2,
    ];

    #[test]
    fn octets_and_digits_give_the_same_key() {
        let texts = [HEX.to_owned(), format!("0x{HEX}\n"), format!("  {}\r\n", HEX.to_uppercase())];
        for text in texts {
            assert_eq!(parse(text.as_bytes()), Ok(RAW), "{text:?}");
        }
        assert_eq!(parse(&RAW), Ok(RAW));
        assert_eq!(parse(b"abcdefghijklmnopqrstuvwxyz012345"), Ok(*b"abcdefghijklmnopqrstuvwxyz012345"));
    }

    #[test]
    fn a_wrong_length_is_told_and_the_key_is_not() {
        let too_long = [&RAW[..], b"\n"].concat();
        assert_eq!(parse(&too_long).unwrap_err(), "has 33 octets, but 32 octets or 64 hexadecimal digits are needed");
        assert!(parse(b"").unwrap_err().contains("has 0 octets"));
        assert!(parse(&HEX.as_bytes()[..63]).unwrap_err().contains("has 63 octets"));
        let wrong = format!("{}g{}", &HEX[..10], &HEX[11..]);
        let error = parse(wrong.as_bytes()).unwrap_err();
        assert_eq!(error, "has 64 letters, but that at place 11 is no hexadecimal digit");
        assert!(!error.contains(&HEX[..6]));
    }
}
