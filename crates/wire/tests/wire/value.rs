//! Octets as values (RFC 7011 section 6).

use proptest::prelude::*;
use weir_wire::value::{
    be_int, be_uint, boolean, date_time_micros, date_time_millis, date_time_nanos, date_time_secs, float32, float64,
    ipv4_address, ipv6_address, mac_address, ntp_timestamp, push_uint,
};

#[test]
fn unsigned_integers_of_any_size() {
    let check = |octets: &[u8], expected| assert_eq!(be_uint(octets), expected, "{octets:?}");
    check(&[], Some(0));
    check(&[0xff], Some(255));
    check(&[1, 0], Some(256));
    check(&[1, 0, 0], Some(65536));
    check(&[1, 2, 3, 4], Some(0x0102_0304));
    check(&[1, 2, 3, 4, 5], Some(0x01_0203_0405));
    check(&[0xff; 7], Some((1 << 56) - 1));
    check(&[0xff; 8], Some(u64::MAX));
    check(&[0; 9], None);
}

#[test]
fn signed_integers_extend_the_sign() {
    let check = |octets: &[u8], expected| assert_eq!(be_int(octets), expected, "{octets:?}");
    check(&[], Some(0));
    check(&[0x80], Some(-128));
    check(&[0x7f, 0xff], Some(32767));
    check(&[0xff, 0xff, 0xfe], Some(-2));
    check(&[0x80, 0, 0, 0, 0, 0, 0, 0], Some(i64::MIN));
    check(&[0; 9], None);
}

#[test]
fn floats_booleans_addresses() {
    assert_eq!(float32(&[0x3f, 0x80, 0, 0]), Some(1.0));
    assert_eq!(float32(&[0; 8]), None);
    assert_eq!(float64(&[0x3f, 0xf0, 0, 0, 0, 0, 0, 0]), Some(1.0));
    assert_eq!(float64(&[0xbf, 0x80, 0, 0]), Some(-1.0));
    assert_eq!(float64(&[0; 5]), None);
    assert_eq!(
        [&[1][..], &[2], &[0], &[3], &[], &[0, 1]].map(boolean),
        [Some(true), Some(false), None, None, None, None]
    );
    assert_eq!(mac_address(&[1, 2, 3, 4, 5, 6]), Some([1, 2, 3, 4, 5, 6]));
    assert_eq!(mac_address(&[0; 8]), None);
    assert_eq!(ipv4_address(&[192, 0, 2, 1]), Some([192, 0, 2, 1]));
    assert_eq!(ipv6_address(&[192, 0, 2, 1]), None);
}

#[test]
fn times() {
    assert_eq!(date_time_secs(&[0xff; 4]), Some(u32::MAX));
    assert_eq!(date_time_millis(&1_000_u64.to_be_bytes()), Some(1000));
    // RFC 5905 figure 4: 1 January 1970 is 2208988800 seconds of NTP's era 0, the era 1 begins 7 February 2036.
    let ntp = |secs: u32, fraction: u32| [secs.to_be_bytes(), fraction.to_be_bytes()].concat();
    assert_eq!(date_time_nanos(&ntp(2_208_988_800, 0)), Some((0, 0)));
    assert_eq!(date_time_nanos(&ntp(2_208_988_800, 1 << 31)), Some((0, 500_000_000)));
    assert_eq!(date_time_nanos(&ntp(0, 0)), Some((2_085_978_496, 0)));
    // The lowest 11 bits are about 477 ns; a time in microseconds does not have them.
    assert_eq!(date_time_micros(&ntp(2_208_988_801, 0x7ff)), Some((1, 0)));
    assert_eq!(date_time_nanos(&ntp(2_208_988_801, 0x7ff)), Some((1, 476)));
    assert_eq!(date_time_micros(&ntp(2_208_988_801, 1 << 31 | 0x7ff)), Some((1, 500_000_000)));
    assert_eq!(date_time_nanos(&[0; 4]), None);
    assert_eq!(ntp_timestamp(0, 1_000_000_000), None);
    assert_eq!(ntp_timestamp(i64::MAX, 0), None);
    assert_eq!(ntp_timestamp(-2_208_988_800, 0), None);
}

proptest! {
    #[test]
    fn written_integers_are_read(value: u64, octets in 0_usize..=8) {
        let mut out = vec![9];
        push_uint(&mut out, value, octets);
        let kept = if octets == 8 { value } else { value & ((1 << (8 * octets)) - 1) };
        prop_assert_eq!(out.len(), 1 + octets);
        prop_assert_eq!(be_uint(&out[1..]), Some(kept));
    }

    #[test]
    fn written_times_are_read(secs in -61_505_152_i64..=4_233_462_143, nanos in 0_u32..1_000_000_000) {
        let octets = ntp_timestamp(secs, nanos).expect("within the eras");
        prop_assert_eq!(date_time_nanos(&octets), Some((secs, nanos)));
    }
}
