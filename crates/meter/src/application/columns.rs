//! What flows have of an application in columns.
//!
//! That a name is a guess is expressed in the way of RFC 6759: by an applicationId of the classification engine IANA-L4,
//! whose selector is the port; a name that octets bear out has none.

use std::borrow::Cow;
use std::fmt::Write as _;

use weir_flow::Column;

use super::details::{Details, RequestDetails, TlsDetails};
use super::{Application, Protocol};

/// Number of the classification engine IANA-L4 (RFC 6759 section 4.1).
const ENGINE_IANA_L4: u8 = 3;

/// The columns of text that an application fills.
pub const TEXT_COLUMNS: [Column; 8] = [
    Column::Application,
    Column::ServerName,
    Column::Ja4,
    Column::Ja3,
    Column::Alpn,
    Column::DnsName,
    Column::HttpHost,
    Column::UserAgent,
];

impl Application {
    /// What a column of text has of it.
    pub fn text(&self, column: Column) -> Option<Cow<'_, str>> {
        if column == Column::Application {
            return self.name().map(Cow::Borrowed);
        }
        match &self.details {
            Details::Tls(details) => tls(details, column),
            Details::Dns(details) if column == Column::DnsName && self.protocol != Some(Protocol::NetbiosNs) => {
                // an empty name is that of the root
                details.name.as_deref().map(|name| Cow::Borrowed(if name.is_empty() { "." } else { name }))
            }
            Details::Request(details) => request(details, self.protocol?, column),
            Details::Dns(_) | Details::None | Details::Banner(_) => None,
        }
    }

    /// The applicationId of a name that is guessed: the port.
    pub fn id(&self) -> Option<[u8; 3]> {
        let port = self.service.filter(|_| self.guessed())?.port;
        let [high, low] = port.to_be_bytes();
        Some([ENGINE_IANA_L4, high, low])
    }
}

fn tls(details: &TlsDetails, column: Column) -> Option<Cow<'_, str>> {
    let text = match column {
        Column::ServerName => &details.server_name,
        Column::Ja4 => &details.ja4,
        Column::Alpn if details.alpn_selected.is_some() => &details.alpn_selected,
        Column::Alpn => &details.alpn_offered,
        Column::UserAgent => &details.user_agent,
        Column::Ja3 => return details.ja3.as_ref().map(|ja3| Cow::Owned(digits(ja3))),
        _ => return None,
    };
    text.as_deref().map(Cow::Borrowed)
}

fn request(details: &RequestDetails, protocol: Protocol, column: Column) -> Option<Cow<'_, str>> {
    let text = match column {
        Column::HttpHost if protocol == Protocol::Http => &details.host,
        Column::UserAgent => &details.user_agent,
        _ => return None,
    };
    text.as_deref().map(Cow::Borrowed)
}

fn digits(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut digits, octet| {
        let _ = write!(digits, "{octet:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::super::details::DnsDetails;
    use super::*;

    fn texts(application: &Application) -> Vec<(Column, String)> {
        let text = |column: &Column| Some((*column, application.text(*column)?.into_owned()));
        TEXT_COLUMNS.iter().filter_map(text).collect()
    }

    #[test]
    fn a_guess_is_told_by_the_port() {
        let guessed = Application::of_ports(6, 50_000, 443);
        assert_eq!(texts(&guessed), [(Column::Application, "https".to_owned())]);
        assert_eq!(guessed.id(), Some([3, 0x01, 0xbb]));
        let known = Application { protocol: Some(Protocol::Tls), ..guessed };
        assert_eq!((known.name(), known.id()), (Some("tls"), None));
    }

    #[test]
    fn details_go_to_their_columns() {
        let details = TlsDetails {
            server_name: Some("a.example".into()),
            alpn_offered: Some("h2,http/1.1".into()),
            // RFC 1321, appendix A.5: the digest of nothing
            ja3: Some(0xd41d_8cd9_8f00_b204_e980_0998_ecf8_427e_u128.to_be_bytes()),
            ..TlsDetails::default()
        };
        let mut application = Application {
            protocol: Some(Protocol::Quic),
            details: Details::Tls(Box::new(details.clone())),
            ..Application::default()
        };
        let expected = [
            (Column::Application, "quic"),
            (Column::ServerName, "a.example"),
            (Column::Ja3, "d41d8cd98f00b204e9800998ecf8427e"),
            (Column::Alpn, "h2,http/1.1"),
        ];
        assert_eq!(texts(&application), expected.map(|(column, text)| (column, text.to_owned())));
        let selected = TlsDetails { alpn_selected: Some("h2".into()), ..details };
        application.details = Details::Tls(Box::new(selected));
        assert_eq!(application.text(Column::Alpn).as_deref(), Some("h2"));
    }

    #[test]
    fn names_of_netbios_are_none_of_dns() {
        let named = |protocol, name: &str| Application {
            protocol: Some(protocol),
            details: Details::Dns(Box::new(DnsDetails { name: Some(name.into()), ..DnsDetails::default() })),
            ..Application::default()
        };
        assert_eq!(named(Protocol::Dns, "a.example").text(Column::DnsName).as_deref(), Some("a.example"));
        assert_eq!(named(Protocol::Dns, "").text(Column::DnsName).as_deref(), Some("."));
        assert_eq!(named(Protocol::NetbiosNs, "FILES").text(Column::DnsName), None);
    }
}
