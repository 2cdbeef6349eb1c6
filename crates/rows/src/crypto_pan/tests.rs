use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// The key of the sample that comes with the authors' implementation.
const SAMPLE_KEY: Key = Key([
    21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131, 121, 121, 101, 39, 98,
    87, 76, 45, 42, 132, 34, 2,
]);

/// The addresses of the authors' `sample_trace_raw.dat` and `sample_trace_sanitized.dat`.
const SAMPLE_TRACE: &str = "
128.11.68.132 135.242.180.132    129.118.74.4 134.136.186.123     130.132.252.244 133.68.164.234
141.223.7.43 141.167.8.160       141.233.145.108 141.129.237.235  152.163.225.39 151.140.114.167
156.29.3.236 147.225.12.42       165.247.96.84 162.9.99.234       166.107.77.190 160.132.178.185
192.102.249.13 252.138.62.131    192.215.32.125 252.43.47.189     192.233.80.103 252.25.108.8
192.41.57.43 252.222.221.184     193.150.244.223 253.169.52.216   195.205.63.100 255.186.223.5
198.200.171.101 249.199.68.213   198.26.132.101 249.36.123.202    198.36.213.5 249.7.21.132
198.51.77.238 249.18.186.254     199.217.79.101 248.38.184.213    202.49.198.20 245.206.7.234
203.12.160.252 244.248.163.4     204.184.162.189 243.192.77.90    204.202.136.230 243.178.4.198
204.29.20.4 243.33.20.123        205.178.38.67 242.108.198.51     205.188.147.153 242.96.16.101
205.188.248.25 242.96.88.27      205.245.121.43 242.21.121.163    207.105.49.5 241.118.205.138
207.135.65.238 241.202.129.222   207.155.9.214 241.220.250.22     207.188.7.45 241.255.249.220
207.25.71.27 241.33.119.156      207.33.151.131 241.1.233.131     208.147.89.59 227.237.98.191
208.234.120.210 227.154.67.17    208.28.185.184 227.39.94.90      208.52.56.122 227.8.63.165
209.12.231.7 226.243.167.8       209.238.72.3 226.6.119.243       209.246.74.109 226.22.124.76
209.68.60.238 226.184.220.233    209.85.249.6 226.170.70.6        212.120.124.31 228.135.163.231
212.146.8.236 228.19.4.234       212.186.227.154 228.59.98.98     212.204.172.118 228.71.195.169
212.206.130.201 228.69.242.193   216.148.237.145 235.84.194.111   216.157.30.252 235.89.31.26
216.184.159.48 235.96.225.78     216.227.10.221 235.28.253.36     216.254.18.172 235.7.16.162
216.32.132.250 235.192.139.38    216.35.217.178 235.195.157.81    24.0.250.221 100.15.198.226
24.13.62.231 100.2.192.247       24.14.213.138 100.1.42.141       24.5.0.80 100.9.15.210
24.7.198.88 100.10.6.25          24.94.26.44 100.88.228.35        38.15.67.68 64.3.66.187
4.3.88.225 124.60.155.63         63.14.55.111 95.9.215.7          63.195.241.44 95.179.238.44
63.97.7.140 95.97.9.123          64.14.118.196 0.255.183.58       64.34.154.117 0.221.154.117
64.39.15.238 0.219.7.41";

/// IPv6 under the same key, where two independent implementations agree: the Go package `cryptopan` of Y. Angel (its
/// tests) and the Python package `yacryptopan` 1.0.2 (computed).
const SAMPLE_V6: &[(&str, &str)] = &[
    ("::1", "78ff:f001:9fc0:20df:8380:b1f1:704:ed"),
    ("::2", "78ff:f001:9fc0:20df:8380:b1f1:704:ef"),
    ("2001:db8::1", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e"),
    ("2001:db8::2", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1c"),
    ("fe80::1", "cf7f:c0e:1fc3:da1c:70:b18e:f7f3:2101"),
    ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "4401:2bc:c696:f07f:cf1b:fbc0:7c00:77be"),
    ("ff02::fb", "cef2:fc0c:1fff:dffe:ff8f:de7f:10f9:3fb8"),
];

fn v4(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().expect("an IPv4 address").into()
}

#[test]
fn the_authors_sample_comes_out_as_they_published_it() {
    let words: Vec<&str> = SAMPLE_TRACE.split_whitespace().collect();
    assert_eq!(words.len(), 2 * 70);
    for entries in [1, 1 << 12] {
        let mut pan = CryptoPan::new(&SAMPLE_KEY, entries);
        for _ in 0..2 {
            for pair in words.chunks(2) {
                assert_eq!(Ipv4Addr::from(pan.v4(v4(pair[0]))).to_string(), pair[1], "image of {}", pair[0]);
            }
        }
    }
}

#[test]
fn ipv6_comes_out_as_from_other_implementations() {
    let mut pan = CryptoPan::new(&SAMPLE_KEY, 1 << 12);
    for (raw, image) in SAMPLE_V6.iter().chain(SAMPLE_V6) {
        let raw: Ipv6Addr = raw.parse().expect("an IPv6 address");
        assert_eq!(Ipv6Addr::from(pan.v6(raw.into())).to_string(), *image, "image of {raw}");
    }
}

/// The definition, bit by bit, with one block at a time and no table.
fn by_definition(key: &[u8; 32], address: &[bool]) -> Vec<bool> {
    let cipher = Aes128::new_from_slice(&key[..16]).expect("a key of 16 octets");
    let encrypt = |octets: [u8; 16]| {
        let mut block = Array::from(octets);
        cipher.encrypt_block(&mut block);
        <[u8; 16]>::from(block)
    };
    let pad = encrypt(key[16..].try_into().expect("16 octets"));
    let image = (0..address.len()).map(|bit| {
        let mut input = pad;
        for (place, &set) in address[..bit].iter().enumerate() {
            let mask = 0x80 >> (place % 8);
            input[place / 8] = if set { input[place / 8] | mask } else { input[place / 8] & !mask };
        }
        address[bit] != (encrypt(input)[0] & 0x80 != 0)
    });
    image.collect()
}

fn bits(address: u128, width: u32) -> Vec<bool> {
    (0..width).rev().map(|bit| address >> bit & 1 == 1).collect()
}

/// Two numbers of `width` bits that share exactly `shared` bits at the front.
fn sharing(first: u128, second: u128, shared: u32, width: u32) -> (u128, u128) {
    let first = first & (u128::MAX >> (128 - width));
    if shared == width {
        return (first, first);
    }
    let from = width - shared;
    let below = (1 << (from - 1)) - 1;
    (first, first & !below & !(1 << (from - 1)) | !first & 1 << (from - 1) | second & below)
}

proptest! {
    #[test]
    fn images_are_those_of_the_definition(key: [u8; 32], address: u128, near: Vec<u8>) {
        let mut pan = CryptoPan::new(&Key(key), 4);
        for offset in near.into_iter().map(u128::from).chain([0, 0]) {
            let address = address.wrapping_add(offset << 60).wrapping_add(offset);
            prop_assert_eq!(bits(pan.v6(address), 128), by_definition(&key, &bits(address, 128)));
            let short = address as u32;
            prop_assert_eq!(bits(pan.v4(short).into(), 32), by_definition(&key, &bits(short.into(), 32)));
        }
    }

    #[test]
    fn what_shares_a_prefix_shares_as_much_of_it_afterwards(key: [u8; 32], a: u128, b: u128, v4: u32, v6: u32) {
        let mut pan = CryptoPan::new(&Key(key), 16);
        let (shared, (first, second)) = (v4 % 33, sharing(a, b, v4 % 33, 32));
        prop_assert_eq!((first as u32 ^ second as u32).leading_zeros(), shared);
        prop_assert_eq!((pan.v4(first as u32) ^ pan.v4(second as u32)).leading_zeros(), shared);
        let (shared, (first, second)) = (v6 % 129, sharing(a, b, v6 % 129, 128));
        prop_assert_eq!((first ^ second).leading_zeros(), shared);
        prop_assert_eq!((pan.v6(first) ^ pan.v6(second)).leading_zeros(), shared);
    }
}

#[test]
fn an_image_leads_back_to_its_address() {
    let words: Vec<&str> = SAMPLE_TRACE.split_whitespace().collect();
    let pan = CryptoPan::new(&SAMPLE_KEY, 1);
    for pair in words.chunks(2) {
        assert_eq!(Ipv4Addr::from(pan.original_v4(v4(pair[1]))).to_string(), pair[0], "original of {}", pair[1]);
    }
    for (raw, image) in SAMPLE_V6 {
        let image: Ipv6Addr = image.parse().expect("an IPv6 address");
        assert_eq!(Ipv6Addr::from(pan.original_v6(image.into())).to_string(), *raw, "original of {image}");
    }
}

#[test]
fn no_two_addresses_have_the_same_image() {
    let mut pan = CryptoPan::new(&SAMPLE_KEY, 1 << 10);
    let v4: HashSet<u32> = (0..1 << 16).map(|low| pan.v4(0x0a01_0000 | low)).collect();
    assert_eq!(v4.len(), 1 << 16);
    let v6: HashSet<u128> = (0..1 << 12).map(|low: u128| pan.v6(0x2001_0db8 << 96 | low << 58 | low)).collect();
    assert_eq!(v6.len(), 1 << 12);
}
