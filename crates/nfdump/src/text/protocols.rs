//! Short names of protocols.

use weir_flow::nfdump_protocol_name;
use weir_print::digits::push_u64;

/// Appends nfdump's name of a protocol, or its number when it has no name.
pub(super) fn push_protocol(text: &mut Vec<u8>, number: u8) {
    match nfdump_protocol_name(number) {
        Some(name) => text.extend_from_slice(name.as_bytes()),
        None => push_u64(text, number.into()),
    }
}
