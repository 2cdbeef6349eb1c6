//! Domain names and what is like them: DNS, `mDNS`, LLMNR, the name service of `NetBIOS` (RFC 1035, RFC 1002).

use super::Protocol;
use super::details::DnsDetails;
use super::inspection::Verdict;
use super::text::{TEXT_OCTETS_MAX, clean};
use weir_wire::Cursor;

/// Most pointers that are followed in a name (RFC 1035 section 4.1.4).
const POINTERS_MAX: usize = 8;

/// Takes in a message, which TCP puts behind its length (RFC 1035 section 4.2.2); `None` when it is malformed. A
/// conversation is complete when a response was seen; `mDNS` has no more than its first message.
pub(super) fn inspect(protocol: Protocol, stream: bool, payload: &[u8], details: &mut DnsDetails) -> Option<Verdict> {
    let message = if stream { payload.get(2..)? } else { payload };
    let mut cursor = Cursor::new(message);
    let (id, flags) = (cursor.u16()?, cursor.u16()?);
    let (questions, answers) = (cursor.u16()?, cursor.u16()?);
    cursor.u32()?;
    details.id = details.id.or(Some(id));
    let response = flags & 0x8000 != 0;
    if response && details.response_code.is_none() {
        details.response_code = Some((flags & 0xf) as u8);
        details.answers = Some(answers);
    }
    // Without a question a record shows what it is about: both begin with a name, a type and a class.
    let named = questions > 0 || matches!(protocol, Protocol::Mdns | Protocol::NetbiosNs);
    if details.query_type.is_none() && named {
        details.name = Some(match protocol {
            Protocol::NetbiosNs => netbios_name(message, &mut cursor)?,
            _ => name(message, &mut cursor)?,
        });
        details.query_type = Some(cursor.u16()?);
        details.query_class = Some(cursor.u16()? & if protocol == Protocol::Mdns { 0x7fff } else { 0xffff });
    }
    Some(if response || protocol == Protocol::Mdns { Verdict::Done } else { Verdict::More })
}

/// The name at the cursor, its labels joined by dots; that of the root is empty.
fn name<'a>(message: &'a [u8], cursor: &mut Cursor<'a>) -> Option<Box<str>> {
    let mut text = [0; TEXT_OCTETS_MAX];
    let mut length = 0;
    let mut pointers = 0;
    let mut at = *cursor;
    loop {
        let label = at.u8()?;
        if label >= 0xc0 {
            let offset = usize::from(label & 0x3f) << 8 | usize::from(at.u8()?);
            if pointers == 0 {
                *cursor = at;
            }
            pointers += 1;
            at = Cursor::new(message.get(offset..).filter(|_| pointers <= POINTERS_MAX)?);
            continue;
        }
        if label == 0 {
            break;
        }
        let label = at.take(label.into()).filter(|label| label.len() < 64)?;
        let dot = usize::from(length > 0);
        let place = text.get_mut(length..length + dot + label.len())?;
        place[..dot].fill(b'.');
        place[dot..].copy_from_slice(label);
        length += dot + label.len();
    }
    if pointers == 0 {
        *cursor = at;
    }
    Some(clean(&text[..length]).unwrap_or_default())
}

/// A name of `NetBIOS`: 16 octets in 32 letters, of which the last one is the kind of name (RFC 1001 section 14.1).
fn netbios_name<'a>(message: &'a [u8], cursor: &mut Cursor<'a>) -> Option<Box<str>> {
    let encoded = name(message, cursor)?;
    let pairs = encoded.as_bytes().as_chunks::<2>().0.iter().take(15);
    let nibble = |letter: u8| letter.wrapping_sub(b'A') & 0xf;
    let decoded: Vec<u8> = pairs.map(|[high, low]| nibble(*high) << 4 | nibble(*low)).collect();
    clean(decoded.split(|octet| *octet == 0).next().unwrap_or_default()).or(Some(encoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspected(protocol: Protocol, message: &[u8]) -> Option<DnsDetails> {
        let mut details = DnsDetails::default();
        inspect(protocol, false, message, &mut details).map(|_| details)
    }

    const QUESTION: &[u8] = b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x03www\x07example\x03org\0\0\x1c\0\x01";

    #[test]
    fn a_question_is_told() {
        let details = inspected(Protocol::Dns, QUESTION).expect("details");
        assert_eq!(details.name.as_deref(), Some("www.example.org"));
        assert_eq!((details.query_type, details.query_class, details.id), (Some(28), Some(1), Some(0x1234)));
        assert_eq!(details.response_code, None);
    }

    #[test]
    fn a_question_may_end_anywhere() {
        for end in 0..QUESTION.len() {
            assert_eq!(inspected(Protocol::Dns, &QUESTION[..end]), None, "{end} octets");
        }
    }

    #[test]
    fn pointers_that_point_at_themselves_end() {
        assert_eq!(inspected(Protocol::Dns, b"\0\0\x01\0\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01"), None);
    }

    #[test]
    fn names_that_are_too_long_are_not_told() {
        let mut message = b"\0\0\x01\0\0\x01\0\0\0\0\0\0".to_vec();
        for _ in 0..5 {
            message.push(63);
            message.extend([b'x'; 63]);
        }
        message.extend(b"\0\0\x01\0\x01");
        assert_eq!(inspected(Protocol::Dns, &message), None);
    }

    /// RFC 1001 section 14.1, whose example has one letter wrong: "The `NetBIOS` name" encoded.
    #[test]
    fn a_name_of_netbios_is_decoded() {
        let mut message = b"\0\x01\x01\x10\0\x01\0\0\0\0\0\0\x20".to_vec();
        message.extend(b"FEGIGFCAEOGFHEECEJEPFDCAGOGBGNGF");
        message.extend(b"\0\0\x20\0\x01");
        let details = inspected(Protocol::NetbiosNs, &message).expect("details");
        assert_eq!(details.name.as_deref(), Some("The NetBIOS nam"));
        assert_eq!(details.query_type, Some(0x20));
    }
}
