//! What the fuzz targets have in common: the walk over a datagram with its assertions, which the tests of
//! `weir-wire` use too, and the canary.

#[allow(dead_code, reason = "each test looks at other results of the walk; here only its assertions matter")]
#[path = "../../crates/wire/tests/wire/walk.rs"]
mod walk;

use walk::Walk;

/// Reads a NetFlow v5 datagram to the last octet.
pub fn netflow5(datagram: &[u8]) {
    let mut walk = Walk::default();
    walk.netflow5(datagram);
    canary(&walk);
}

/// Reads a NetFlow v9 datagram, and then again with the templates that were in it, so that data before its template
/// is read as well.
pub fn netflow9(datagram: &[u8]) {
    let mut walk = Walk::default();
    walk.netflow9(datagram);
    walk.netflow9(datagram);
    canary(&walk);
}

/// Reads IPFIX messages, one after the other as in a file, with the templates of the ones before.
pub fn ipfix(messages: &[u8]) {
    let mut walk = Walk::default();
    let mut rest = messages;
    while let Some(length) = weir_wire::ipfix::message_length(rest) {
        let (message, after) = rest.split_at(length.min(rest.len()));
        walk.ipfix(message);
        rest = after;
    }
    // What is left has no valid header, or none at all.
    walk.ipfix(rest);
    canary(&walk);
}

/// Panics once two records have been decoded. The way there is a valid header, and for v9 and IPFIX a template and
/// data that fits it.
#[cfg(feature = "canary")]
fn canary(walk: &Walk) {
    assert!(walk.data_records < 2, "the canary was found");
}

#[cfg(not(feature = "canary"))]
fn canary(_: &Walk) {}
