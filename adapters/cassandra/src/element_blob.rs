//! The elements of a row as octets.
//!
//! A version octet, 1, then each element: a flags octet (1: it is in a list, 2: it has an enterprise, 4: its length is in
//! four octets), its number in two octets, the enterprise in four, the position of its list and the number of its record in
//! two each, the length in two, and the octets. All in network order; what the flags leave out is not there.

use weir_flow::elements::ElementValue;

const VERSION: u8 = 1;
const IN_LIST: u8 = 1;
const HAS_ENTERPRISE: u8 = 2;
const LONG: u8 = 4;

/// Appends the elements of a row to a buffer.
pub(crate) fn encode(elements: &[ElementValue<'_>], blob: &mut Vec<u8>) {
    blob.push(VERSION);
    for element in elements {
        let is_long = element.octets.len() > usize::from(u16::MAX);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(element.place.is_some(), IN_LIST)
            | flag(element.enterprise != 0, HAS_ENTERPRISE)
            | flag(is_long, LONG);
        blob.push(flags);
        blob.extend_from_slice(&element.id.to_be_bytes());
        if element.enterprise != 0 {
            blob.extend_from_slice(&element.enterprise.to_be_bytes());
        }
        if let Some((parent, record)) = element.place {
            blob.extend_from_slice(&parent.to_be_bytes());
            blob.extend_from_slice(&record.to_be_bytes());
        }
        if is_long {
            blob.extend_from_slice(&(element.octets.len() as u32).to_be_bytes());
        } else {
            blob.extend_from_slice(&(element.octets.len() as u16).to_be_bytes());
        }
        blob.extend_from_slice(element.octets);
    }
}

/// Reads elements back. `None` when the octets are no such list.
pub(crate) fn decode(blob: &[u8]) -> Option<Vec<ElementValue<'_>>> {
    let (version, mut rest) = blob.split_first()?;
    if *version != VERSION {
        return None;
    }
    let mut elements = Vec::new();
    while let Some((flags, after)) = rest.split_first() {
        rest = after;
        let id = take_u16(&mut rest)?;
        let enterprise = if flags & HAS_ENTERPRISE == 0 { 0 } else { take_u32(&mut rest)? };
        let place = match flags & IN_LIST {
            0 => None,
            _ => Some((take_u16(&mut rest)?, take_u16(&mut rest)?)),
        };
        let length = if flags & LONG == 0 { u32::from(take_u16(&mut rest)?) } else { take_u32(&mut rest)? };
        let (octets, after) = rest.split_at_checked(length as usize)?;
        rest = after;
        elements.push(ElementValue { enterprise, id, octets, place });
    }
    Some(elements)
}

fn take_u16(rest: &mut &[u8]) -> Option<u16> {
    let (octets, after) = rest.split_first_chunk::<2>()?;
    *rest = after;
    Some(u16::from_be_bytes(*octets))
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (octets, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_be_bytes(*octets))
}
