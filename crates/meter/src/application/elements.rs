//! What flows have of an application besides their columns, as Information Elements under published numbers.
//!
//! IANA has elements for HTTP. For the rest these numbers are of the enterprises whose probes others read too: CESNET
//! (8057) and Flowmon (39499) as `ipfixprobe` exports them, Masaryk University (16982) for RTSP.

use std::ops::Deref;

use super::details::{Details, DnsDetails, RequestDetails, TlsDetails};
use super::{Application, Protocol};

/// Makes the enumeration of elements from one table.
macro_rules! elements {
    ($($(#[doc = $doc:literal])+ $variant:ident = $enterprise:literal / $id:literal),+ $(,)?) => {
        /// An Information Element about an application.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Element {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Element {
            /// All of them, in the order in which they are exported.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Private Enterprise Number, 0 for IANA's own, and number of the element.
            pub const fn number(self) -> (u32, u16) {
                match self {
                    $(Self::$variant => ($enterprise, $id),)+
                }
            }

            /// What it has.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

elements! {
    /// httpRequestMethod; text.
    HttpRequestMethod = 0 / 459,
    /// httpStatusCode; 2 octets.
    HttpStatusCode = 0 / 457,
    /// Version that a TLS server chose (Flowmon); 2 octets.
    TlsServerVersion = 39499 / 333,
    /// The highest version that a TLS client offers (Flowmon); 2 octets.
    TlsClientVersion = 39499 / 340,
    /// Cipher suite that a TLS server chose (Flowmon); 2 octets.
    TlsCipherSuite = 39499 / 336,
    /// QUIC version (CESNET); 4 octets.
    QuicVersion = 8057 / 892,
    /// Identifier of a DNS message (CESNET); 2 octets.
    DnsId = 8057 / 10,
    /// QTYPE (CESNET); 2 octets.
    DnsQueryType = 8057 / 3,
    /// QCLASS (CESNET); 2 octets.
    DnsClass = 8057 / 4,
    /// RCODE (CESNET); 1 octet.
    DnsResponseCode = 8057 / 1,
    /// Answers of the response (CESNET); 2 octets.
    DnsAnswers = 8057 / 14,
    /// Name of `NetBIOS` (CESNET); text.
    NetbiosName = 8057 / 831,
    /// Status of SIP (CESNET); 2 octets.
    SipStatusCode = 8057 / 101,
    /// Method of RTSP (Masaryk University); text.
    RtspMethod = 16982 / 600,
    /// Status of RTSP (Masaryk University); 2 octets.
    RtspStatusCode = 16982 / 603,
    /// Server of RTSP (Masaryk University); text.
    RtspServer = 16982 / 605,
    /// Server of SSDP (CESNET); text.
    SsdpServer = 8057 / 822,
}

/// The value of an element, encoded as in IPFIX: text that is elsewhere, or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementValue<'a> {
    /// Octets as they are.
    Text(&'a [u8]),
    /// The octets of a number, of which the first ones count.
    Number([u8; 4], u8),
}

impl Deref for ElementValue<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Text(octets) => octets,
            Self::Number(octets, length) => octets.get(..usize::from(*length)).unwrap_or(octets),
        }
    }
}

/// The elements of an application that have a value: enterprise, number, octets as they are encoded in IPFIX.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    application: &'a Application,
    next: usize,
}

impl<'a> Elements<'a> {
    pub(super) fn of(application: &'a Application) -> Self {
        Self { application, next: 0 }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u32, u16, ElementValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(&element) = Element::ALL.get(self.next) {
            self.next += 1;
            if let Some(octets) = value(self.application, element) {
                let (enterprise, id) = element.number();
                return Some((enterprise, id, octets));
            }
        }
        None
    }
}

/// The value of an element, if there is one.
fn value(application: &Application, element: Element) -> Option<ElementValue<'_>> {
    match (element, &application.details) {
        (element, Details::Tls(details)) => tls(details, element),
        (element, Details::Dns(details)) => dns(details, application.protocol, element),
        (element, Details::Request(details)) => request(details, application.protocol?, element),
        (_, Details::None | Details::Banner(_)) => None,
    }
}

fn text(text: Option<&str>) -> Option<ElementValue<'_>> {
    text.map(|text| ElementValue::Text(text.as_bytes()))
}

fn number<'a, const N: usize>(octets: Option<[u8; N]>) -> Option<ElementValue<'a>> {
    let octets = octets?;
    let mut padded = [0; 4];
    padded.iter_mut().zip(octets).for_each(|(to, from)| *to = from);
    Some(ElementValue::Number(padded, N as u8))
}

fn tls(details: &TlsDetails, element: Element) -> Option<ElementValue<'_>> {
    match element {
        Element::TlsServerVersion => number(details.server_version.map(u16::to_be_bytes)),
        Element::TlsClientVersion => number(details.client_version.map(u16::to_be_bytes)),
        Element::TlsCipherSuite => number(details.cipher_suite.map(u16::to_be_bytes)),
        Element::QuicVersion => number(details.quic_version.map(u32::to_be_bytes)),
        _ => None,
    }
}

fn dns(details: &DnsDetails, protocol: Option<Protocol>, element: Element) -> Option<ElementValue<'_>> {
    let netbios = protocol == Some(Protocol::NetbiosNs);
    match element {
        Element::NetbiosName if netbios => text(details.name.as_deref()),
        Element::DnsId => number(details.id.map(u16::to_be_bytes)),
        Element::DnsQueryType => number(details.query_type.map(u16::to_be_bytes)),
        Element::DnsClass => number(details.query_class.map(u16::to_be_bytes)),
        Element::DnsResponseCode => number(details.response_code.map(|code| [code])),
        Element::DnsAnswers => number(details.answers.map(u16::to_be_bytes)),
        _ => None,
    }
}

fn request(details: &RequestDetails, protocol: Protocol, element: Element) -> Option<ElementValue<'_>> {
    match (protocol, element) {
        (Protocol::Http, Element::HttpRequestMethod) | (Protocol::Rtsp, Element::RtspMethod) => {
            text(details.method.as_deref())
        }
        (Protocol::Rtsp, Element::RtspServer) | (Protocol::Ssdp, Element::SsdpServer) => {
            text(details.server.as_deref())
        }
        (Protocol::Http, Element::HttpStatusCode)
        | (Protocol::Sip, Element::SipStatusCode)
        | (Protocol::Rtsp, Element::RtspStatusCode) => number(details.status.map(u16::to_be_bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::{Column, registry};

    use super::*;

    #[test]
    fn elements_are_registered() {
        for element in Element::ALL {
            let (enterprise, id) = element.number();
            assert!(registry::element(enterprise, id).is_some(), "{element:?} is {enterprise}/{id}");
            assert_eq!(Column::of_element(enterprise, id), None, "{element:?} has a column");
        }
    }

    #[test]
    fn numbers_and_text_are_encoded() {
        let details = DnsDetails { name: Some("a.example".into()), query_type: Some(1), ..DnsDetails::default() };
        let application = Application {
            protocol: Some(Protocol::Dns),
            details: Details::Dns(Box::new(details)),
            ..Application::default()
        };
        let elements: Vec<_> = application.elements().map(|(_, id, value)| (id, value.to_vec())).collect();
        assert_eq!(elements, [(3, vec![0, 1])]);
    }
}
