//! The Community ID of flows.

use std::net::IpAddr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::Int64Type;
use datafusion::common::Result;
use weir_flow::CommunityId;

use super::addresses::octets_of;

// Protocols that have ports, or something in their place.
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;

/// The Community ID (version 1, seed 0) of addresses, protocol, ports, and, when they are given, type and code of ICMP.
/// Without these they are taken from the destination port, where exporters of `NetFlow` put them as type * 256 + code.
/// Null where it takes something that is null or no such number.
pub(super) fn community_id(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [sources, destinations] = [octets_of(&arguments[0])?, octets_of(&arguments[1])?];
    let numbers: Vec<_> = arguments[2..].iter().map(AsArray::as_primitive::<Int64Type>).collect();
    let number = |argument: usize, row: usize| {
        let numbers = numbers.get(argument).filter(|numbers| numbers.is_valid(row))?;
        u16::try_from(numbers.value(row)).ok()
    };
    let id = |row: usize| {
        let source = sources.is_valid(row).then(|| ip_address(sources.value(row)))??;
        let destination = destinations.is_valid(row).then(|| ip_address(destinations.value(row)))??;
        let protocol = u8::try_from(number(0, row)?).ok()?;
        let ports = match protocol {
            ICMP | ICMPV6 => match number(3, row).zip(number(4, row)) {
                Some(type_and_code) => type_and_code,
                None => number(2, row).map(|port| (port >> 8, port & 0xff))?,
            },
            TCP | UDP | SCTP => (number(1, row)?, number(2, row)?),
            _ => (0, 0),
        };
        Some(CommunityId::of(0, source, destination, protocol, ports).to_string())
    };
    Ok(Arc::new((0..sources.len()).map(id).collect::<StringArray>()))
}

fn ip_address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(octets).ok().map(IpAddr::from))
}
