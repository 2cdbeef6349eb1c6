//! What is known of a flow besides its protocol.

/// What was found, by the kind of protocol. Text is cut at 255 octets, and what is no UTF-8 or no printable character
/// is written as U+FFFD.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Details {
    /// Nothing.
    #[default]
    None,
    /// TLS, DTLS and QUIC.
    Tls(Box<TlsDetails>),
    /// Protocols of requests and responses with header fields: HTTP/1, RTSP, SIP, SSDP.
    Request(Box<RequestDetails>),
    /// DNS and what is like it.
    Dns(Box<DnsDetails>),
    /// The line that a server greets with, or a client of SSH.
    Banner(Box<str>),
}

/// What a TLS handshake shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsDetails {
    /// Name of the server that the client asks for (RFC 6066 section 3).
    pub server_name: Option<Box<str>>,
    /// Applications that the client offers (RFC 7301), separated by commas, the preferred one first.
    pub alpn_offered: Option<Box<str>>,
    /// The one that the server chose, where the handshake does not hide it.
    pub alpn_selected: Option<Box<str>>,
    /// The highest version that the client offers (RFC 8446 section 4.2.1), as it is written in messages: 0x0303 is
    /// TLS 1.2.
    pub client_version: Option<u16>,
    /// The version that the server chose.
    pub server_version: Option<u16>,
    /// Cipher suite that the server chose.
    pub cipher_suite: Option<u16>,
    /// JA4 of the `ClientHello`.
    pub ja4: Option<Box<str>>,
    /// JA3 of the `ClientHello`, as octets.
    pub ja3: Option<[u8; 16]>,
    /// What a client of QUIC says that it is, in Google's transport parameter.
    pub user_agent: Option<Box<str>>,
    /// Version of QUIC that the flow began with (RFC 9000 section 15).
    pub quic_version: Option<u32>,
}

/// What the first request and the first response show. The path of a request is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestDetails {
    /// Method.
    pub method: Option<Box<str>>,
    /// Host that the request is for, with the port where one is given.
    pub host: Option<Box<str>>,
    /// What the client says that it is.
    pub user_agent: Option<Box<str>>,
    /// What the server says that it is.
    pub server: Option<Box<str>>,
    /// Status of the first response that has one.
    pub status: Option<u16>,
}

/// What the first question and its answer show (RFC 1035 section 4.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DnsDetails {
    /// Name that the first question asks for, without the last dot, so that the root's is empty; of a `NetBIOS` name without the padding.
    pub name: Option<Box<str>>,
    /// QTYPE of the first question.
    pub query_type: Option<u16>,
    /// QCLASS of the first question, without the bit that `mDNS` keeps there.
    pub query_class: Option<u16>,
    /// Identifier of the first message.
    pub id: Option<u16>,
    /// RCODE of the first response.
    pub response_code: Option<u8>,
    /// Answers that the first response says it has.
    pub answers: Option<u16>,
}
