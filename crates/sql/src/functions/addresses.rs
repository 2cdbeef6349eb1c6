//! Functions of addresses.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use datafusion::common::{Result, exec_err};
use weir_filter::Prefix;
use weir_flow::address::with_octets;
use weir_flow::{AddressText, keep_prefix, parse_address};

/// The octets of addresses that may also be text.
pub(super) fn octets_of(values: &ArrayRef) -> Result<BinaryArray> {
    if let Some(octets) = values.as_binary_opt() {
        return Ok(octets.clone());
    }
    let texts: &StringArray = values.as_string();
    let octets = texts.iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        let Some(octets) = parse_address(text) else {
            return exec_err!(
                "'{}' is no address\nhint: addresses are columns such as src_addr, or written as '192.0.2.1'",
                text.escape_debug()
            );
        };
        Ok(Some(octets))
    });
    octets.collect()
}

/// The address that a text names; null for text that names none.
#[expect(clippy::unnecessary_wraps, reason = "functions of the table have one type")]
pub(super) fn address(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let texts: &StringArray = arguments[0].as_string();
    let addresses: BinaryArray = texts.iter().map(|text| text.and_then(parse_address)).collect();
    Ok(Arc::new(addresses))
}

/// 4 or 6; null for octets that are no IP address.
pub(super) fn family(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let addresses = octets_of(&arguments[0])?;
    let families = addresses.offsets().windows(2).map(|ends| match ends[1] - ends[0] {
        4 => Some(4),
        16 => Some(6),
        _ => None,
    });
    let families: UInt8Array = families.collect();
    let nulls = arrow::buffer::NullBuffer::union(families.nulls(), addresses.nulls());
    Ok(Arc::new(UInt8Array::new(families.values().clone(), nulls)))
}

fn is_of_family(arguments: &[ArrayRef], octets: i32) -> Result<ArrayRef> {
    let addresses = octets_of(&arguments[0])?;
    let lengths = addresses.offsets().windows(2).map(|ends| ends[1] - ends[0] == octets);
    Ok(Arc::new(BooleanArray::new(lengths.collect(), addresses.nulls().cloned())))
}

/// Whether it is an IPv4 address.
pub(super) fn is_ipv4(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    is_of_family(arguments, 4)
}

/// Whether it is an IPv6 address.
pub(super) fn is_ipv6(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    is_of_family(arguments, 16)
}

/// The prefix of this many bits that the address is in, as text. A length that is longer than the address is that of the
/// address.
pub(super) fn network(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let firsts = prefix(arguments)?;
    let lengths = arguments[1].as_primitive::<Int64Type>();
    let texts = firsts.as_binary::<i32>().iter().zip(lengths).map(|(octets, length)| {
        let octets = octets?;
        Some(format!("{}/{}", AddressText(octets), length?.clamp(0, octets.len() as i64 * 8)))
    });
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// The address as text.
pub(super) fn host(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let addresses = octets_of(&arguments[0])?;
    let texts: StringArray =
        addresses.iter().map(|octets| octets.map(|octets| AddressText(octets).to_string())).collect();
    Ok(Arc::new(texts))
}

/// Whether the address is in a prefix that another column holds. A literal prefix never comes here, it is a range.
pub(super) fn cidr(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let addresses = octets_of(&arguments[0])?;
    let prefixes: &StringArray = arguments[1].as_string();
    let mut found = Vec::with_capacity(addresses.len());
    for (octets, text) in addresses.iter().zip(prefixes) {
        let (Some(octets), Some(text)) = (octets, text) else {
            found.push(None);
            continue;
        };
        let Some(prefix) = Prefix::parse(text) else {
            return exec_err!("'{}' is no prefix, but cidr is asked about it", text.escape_debug());
        };
        let (first, last) = prefix_bounds(prefix);
        found.push(Some(octets.len() == first.len() && *octets >= *first && *octets <= *last));
    }
    Ok(Arc::new(BooleanArray::from(found)))
}

/// The first address of the prefix of this many bits that the address is in. A length that is longer than the address
/// leaves it as it is.
pub(super) fn prefix(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let addresses = octets_of(&arguments[0])?;
    let lengths = arguments[1].as_primitive::<Int64Type>();
    let mut masked = BinaryBuilder::with_capacity(addresses.len(), addresses.value_data().len());
    let mut octets = [0; 16];
    for (address, length) in addresses.iter().zip(lengths) {
        let (Some(address), Some(length)) = (address, length) else {
            masked.append_null();
            continue;
        };
        let Some(octets) = octets.get_mut(..address.len()) else {
            masked.append_null();
            continue;
        };
        octets.copy_from_slice(address);
        keep_prefix(octets, length.clamp(0, 128) as usize);
        masked.append_value(octets);
    }
    Ok(Arc::new(masked.finish()))
}

/// Octets of the first and the last address of a prefix.
pub(crate) fn prefix_bounds(prefix: Prefix) -> (Vec<u8>, Vec<u8>) {
    let first = with_octets(prefix.address(), <[u8]>::to_vec);
    let mut host_bits = vec![!0; first.len()];
    keep_prefix(&mut host_bits, prefix.length().into());
    let last = first.iter().zip(&host_bits).map(|(octet, mask)| octet | !mask).collect();
    (first, last)
}
