//! Keys of Initial packets, and how packets are opened with them (RFC 9001 section 5).

use openssl::sha::Sha256;
use openssl::symm::{Cipher, Crypter, Mode, decrypt_aead};

use super::versions::Suite;

/// Octets of the tag behind a packet (RFC 9001 section 5.3).
const TAG_OCTETS: usize = 16;
/// Octets of a block of SHA-256.
const BLOCK_OCTETS: usize = 64;

/// Keys of what a client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    key: [u8; 16],
    vector: [u8; 12],
    header: [u8; 16],
}

impl Keys {
    /// The keys that follow from a client's first Destination Connection ID (RFC 9001 section 5.2).
    pub(super) fn of_client(suite: &Suite, destination_id: &[u8]) -> Self {
        let initial = authenticate(&suite.salt, &[destination_id]);
        let client: [u8; 32] = expand(&initial, b"client in");
        let [key, vector, header] = suite.labels;
        Self { key: expand(&client, key), vector: expand(&client, vector), header: expand(&client, header) }
    }

    /// The frames of a packet whose number begins at this place; `None` when it is not of these keys.
    pub(super) fn decrypt(&self, (packet, number_at): (&[u8], usize)) -> Option<Vec<u8>> {
        let mask = self.mask(packet.get(number_at + 4..)?.first_chunk()?)?;
        let mut header = packet.get(..number_at + 4)?.to_vec();
        header[0] ^= mask[0] & 0x0f;
        let number_octets = usize::from(header[0] & 3) + 1;
        header.truncate(number_at + number_octets);
        let mut nonce = self.vector;
        let number = header[number_at..].iter_mut().zip(&mask[1..]);
        for (octet, mask) in number {
            *octet ^= mask;
        }
        // The first packets have small numbers, so that what is written of them is all there is.
        for (octet, number) in nonce.iter_mut().rev().zip(header[number_at..].iter().rev()) {
            *octet ^= number;
        }
        let sealed = packet.get(header.len()..)?;
        let (text, tag) = sealed.split_at_checked(sealed.len().checked_sub(TAG_OCTETS)?)?;
        decrypt_aead(Cipher::aes_128_gcm(), &self.key, Some(&nonce), &header, text, tag).ok()
    }

    /// The mask of the header (RFC 9001 section 5.4.3).
    fn mask(&self, sample: &[u8; 16]) -> Option<[u8; 32]> {
        let mut crypter = Crypter::new(Cipher::aes_128_ecb(), Mode::Encrypt, &self.header, None).ok()?;
        crypter.pad(false);
        // The library asks for room for a block more.
        let mut mask = [0; 32];
        crypter.update(sample, &mut mask).ok()?;
        Some(mask)
    }
}

/// HKDF-Expand-Label without a context (RFC 8446 section 7.1), of no more octets than the hash has: then the expansion
/// (RFC 5869 section 2.3) is one step.
fn expand<const N: usize>(secret: &[u8; 32], label: &[u8]) -> [u8; N] {
    const PREFIX: &[u8] = b"tls13 ";
    let label_octets = (PREFIX.len() + label.len()) as u8;
    let step = authenticate(secret, &[&(N as u16).to_be_bytes(), &[label_octets], PREFIX, label, &[0, 1]]);
    let mut key = [0; N];
    key.iter_mut().zip(step).for_each(|(to, from)| *to = from);
    key
}

/// HMAC with SHA-256 (RFC 2104), which is HKDF-Extract too; the key is no longer than a block.
fn authenticate(key: &[u8], message: &[&[u8]]) -> [u8; 32] {
    let pad = |with: u8| {
        let mut block = [with; BLOCK_OCTETS];
        block.iter_mut().zip(key).for_each(|(octet, key)| *octet ^= key);
        block
    };
    let mut inner = Sha256::new();
    inner.update(&pad(0x36));
    for part in message {
        inner.update(part);
    }
    let mut outer = Sha256::new();
    outer.update(&pad(0x5c));
    outer.update(&inner.finish());
    outer.finish()
}

#[cfg(test)]
mod tests {
    use super::super::versions::suite;
    use super::*;

    fn octets<const N: usize>(text: &str) -> [u8; N] {
        std::array::from_fn(|place| u8::from_str_radix(&text[2 * place..2 * place + 2], 16).expect("digits"))
    }

    /// RFC 9001 appendix A.1.
    #[test]
    fn keys_of_version_1() {
        let keys = Keys::of_client(suite(1).expect("a suite"), &octets::<8>("8394c8f03e515708"));
        let expected = Keys {
            key: octets("1f369613dd76d5467730efcbe3b1a22d"),
            vector: octets("fa044b2f42a3fd3b46fb255c"),
            header: octets("9f50449e04a0e810283a1e9933adedd2"),
        };
        assert_eq!(keys, expected);
    }

    /// RFC 9369 appendix A.1.
    #[test]
    fn keys_of_version_2() {
        let keys = Keys::of_client(suite(0x6b33_43cf).expect("a suite"), &octets::<8>("8394c8f03e515708"));
        let expected = Keys {
            key: octets("8b1a0bc121284290a29e0971b5cd045d"),
            vector: octets("91f73e2351d8fa91660e909f"),
            header: octets("45b95e15235d6f45a6b19cbcb0294ba9"),
        };
        assert_eq!(keys, expected);
    }
}
