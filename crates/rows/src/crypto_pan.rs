//! Crypto-PAn: addresses replaced so that what shared a prefix still shares one of the same length.
//!
//! After Xu, Fan, Ammar and Moon, "Prefix-Preserving IP Address Anonymization" (2002): bit *n* of an address is
//! exclusive-ored with the first bit of the AES encryption of the address's first *n* bits, filled up with a secret
//! pad. Nothing in it depends on 32 bits, so an IPv6 address takes 128 steps of the same; an IPv4 address comes out as
//! the first 32 bits of an IPv6 address that begins with it.
//!
//! Flows name few addresses many times, so images are kept in tables of fixed size whose slot follows from the address:
//! a newcomer takes the slot. What speaks against that is that two busy addresses may share a slot and push each other
//! out; it costs time and never an answer.

use std::fmt;

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};

mod key;

pub use key::{Key, KeyError};

/// Most blocks encrypted at once.
const BLOCKS_MAX: u32 = 64;
/// Bits of an address whose image is kept in a table without a slot to share.
const PREFIX_BITS: u32 = 16;
/// Marks an entry of the table of prefixes as known.
const KNOWN: u32 = 1 << 31;

/// Replaces addresses by their images under a key.
pub struct CryptoPan {
    cipher: Aes128,
    pad: u128,
    /// The pad's bits for each of the prefixes of 16 bits.
    prefixes: Vec<u32>,
    v4: Slots<u32>,
    /// The pad's bits for the upper half of IPv6 addresses.
    v6_upper: Slots<u64>,
    v6: Slots<u128>,
}

impl fmt::Debug for CryptoPan {
    /// Without the key: a log is no place for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CryptoPan").finish_non_exhaustive()
    }
}

impl CryptoPan {
    /// A cipher that keeps the images of `cache_entries` IPv4 addresses, and a quarter as many of IPv6.
    pub fn new(key: &Key, cache_entries: usize) -> Self {
        let (secret, pad) = key.0.split_at(16);
        let cipher = Aes128::new(&octets_of(secret).into());
        let mut pad: aes::Block = octets_of(pad).into();
        cipher.encrypt_block(&mut pad);
        let pad = u128::from_be_bytes(pad.into());
        let of_zero = pad_bits(&cipher, pad, 0, 0, 64) | pad_bits(&cipher, pad, 0, 64, 128);
        Self {
            cipher,
            pad,
            prefixes: vec![0; 1 << PREFIX_BITS],
            v4: Slots::new(cache_entries, (of_zero >> 96) as u32),
            v6_upper: Slots::new(cache_entries / 16, (of_zero >> 64) as u64),
            v6: Slots::new(cache_entries / 4, of_zero),
        }
    }

    /// Octets of memory that the tables take.
    pub fn octets(&self) -> usize {
        size_of_val(&self.prefixes[..]) + self.v4.octets() + self.v6_upper.octets() + self.v6.octets()
    }

    /// The image of an IPv4 address.
    #[inline]
    pub fn v4(&mut self, address: u32) -> u32 {
        let slot = self.v4.slot(u64::from(address));
        match self.v4.entries[slot] {
            (known, image) if known == address => image,
            _ => {
                let image = self.v4_anew(address);
                self.v4.entries[slot] = (address, image);
                image
            }
        }
    }

    /// The image of an IPv6 address.
    #[inline]
    pub fn v6(&mut self, address: u128) -> u128 {
        let slot = self.v6.slot((address >> 64) as u64 ^ (address as u64).rotate_left(32));
        match self.v6.entries[slot] {
            (known, image) if known == address => image,
            _ => {
                let image = self.v6_anew(address);
                self.v6.entries[slot] = (address, image);
                image
            }
        }
    }

    /// Replaces an address, 4 or 16 octets in network order, by its image; false for octets of another number.
    #[inline]
    pub fn replace(&mut self, octets: &mut [u8]) -> bool {
        if let Ok(address) = <[u8; 4]>::try_from(&*octets) {
            octets.copy_from_slice(&self.v4(u32::from_be_bytes(address)).to_be_bytes());
        } else if let Ok(address) = <[u8; 16]>::try_from(&*octets) {
            octets.copy_from_slice(&self.v6(u128::from_be_bytes(address)).to_be_bytes());
        } else {
            return false;
        }
        true
    }

    /// The IPv4 address whose image is this.
    pub fn original_v4(&self, image: u32) -> u32 {
        (self.original(u128::from(image) << 96, 32) >> 96) as u32
    }

    /// The IPv6 address whose image is this.
    pub fn original_v6(&self, image: u128) -> u128 {
        self.original(image, 128)
    }

    /// The first bits of the address whose image has these, one after the other: what a bit is exclusive-ored with follows
    /// from those before it.
    fn original(&self, image: u128, bits: u32) -> u128 {
        (0..bits).fold(0, |address, bit| {
            let of_image = image & 1 << (127 - bit);
            address | of_image ^ self.pad_bits(address, bit, bit + 1)
        })
    }

    fn v4_anew(&mut self, address: u32) -> u32 {
        let wide = u128::from(address) << 96;
        let prefix = (address >> PREFIX_BITS) as usize;
        if self.prefixes[prefix] == 0 {
            self.prefixes[prefix] = KNOWN | (self.pad_bits(wide, 0, PREFIX_BITS) >> (128 - PREFIX_BITS)) as u32;
        }
        let upper = (self.prefixes[prefix] & !KNOWN) << PREFIX_BITS;
        address ^ upper ^ (self.pad_bits(wide, PREFIX_BITS, 32) >> 96) as u32
    }

    fn v6_anew(&mut self, address: u128) -> u128 {
        let half = (address >> 64) as u64;
        let slot = self.v6_upper.slot(half);
        let upper = match self.v6_upper.entries[slot] {
            (known, bits) if known == half => bits,
            _ => {
                let bits = (self.pad_bits(address, 0, 64) >> 64) as u64;
                self.v6_upper.entries[slot] = (half, bits);
                bits
            }
        };
        address ^ u128::from(upper) << 64 ^ self.pad_bits(address, 64, 128)
    }

    fn pad_bits(&self, address: u128, from: u32, to: u32) -> u128 {
        pad_bits(&self.cipher, self.pad, address, from, to)
    }
}

/// What the bits `from..to` of an address are exclusive-ored with, in their places.
fn pad_bits(cipher: &Aes128, pad: u128, address: u128, from: u32, to: u32) -> u128 {
    let mut blocks = [aes::Block::default(); BLOCKS_MAX as usize];
    let blocks = &mut blocks[..(to - from) as usize];
    for (block, kept) in blocks.iter_mut().zip(from..to) {
        // the first `kept` bits of the address, the rest of the pad
        let rest = u128::MAX >> kept;
        *block = Array::from((address & !rest | pad & rest).to_be_bytes());
    }
    cipher.encrypt_blocks(blocks);
    let bits = blocks.iter().fold(0, |bits, block| bits << 1 | u128::from(block[0] >> 7));
    bits << (128 - to)
}

fn octets_of(half: &[u8]) -> [u8; 16] {
    let mut octets = [0; 16];
    octets.copy_from_slice(half);
    octets
}

/// A table of fixed size from addresses to something about them, in which each address has one slot.
struct Slots<T> {
    entries: Vec<(T, T)>,
}

impl<T: Copy + Default> Slots<T> {
    /// `of_zero` belongs to the address of zeros. Every slot begins with it, which is true in each of them, so that no
    /// slot is empty and finding needs no mark for that.
    fn new(entries: usize, of_zero: T) -> Self {
        Self { entries: vec![(T::default(), of_zero); entries.next_power_of_two().max(2)] }
    }

    fn octets(&self) -> usize {
        size_of_val(&self.entries[..])
    }

    #[inline]
    fn slot(&self, address: u64) -> usize {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the address
        let product = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (product >> (64 - self.entries.len().trailing_zeros())) as usize
    }
}

#[cfg(test)]
mod tests;
