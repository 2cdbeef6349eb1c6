//! The `ClientHello` and the `ServerHello` of TLS, taken apart without a copy.

use super::details::TlsDetails;
use super::text::clean;
use weir_wire::Cursor;

/// Handshake types (RFC 8446 section 4).
pub(super) const CLIENT_HELLO: u8 = 1;
/// See [`CLIENT_HELLO`].
pub(super) const SERVER_HELLO: u8 = 2;

/// Extensions that are read (RFC 8446 section 4.2, RFC 8422 section 5.1).
const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
const EC_POINT_FORMATS: u16 = 11;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
/// Transport parameters of QUIC (RFC 9001 section 8.2), and their number in drafts up to 32.
const QUIC_PARAMETERS: u16 = 57;
const QUIC_PARAMETERS_DRAFT: u16 = 0xffa5;
/// The parameter in which clients of Google send their user agent.
const USER_AGENT: u64 = 0x3129;

/// A `ClientHello` (RFC 8446 section 4.1.2, RFC 5246 section 7.4.1.2, RFC 6347 section 4.2.1).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClientHello<'a> {
    /// The field that says 0x0303 since there is TLS 1.3.
    pub(super) legacy_version: u16,
    /// Cipher suites, 2 octets each.
    pub(super) ciphers: &'a [u8],
    /// Extensions as they came, or those that are there.
    extensions: &'a [u8],
    /// Whether all of it was there.
    pub(super) whole: bool,
    /// What is in the `server_name` extension (RFC 6066 section 3).
    pub(super) server_name: Option<&'a [u8]>,
    /// Whether there is a `server_name` extension, be it empty.
    pub(super) asks_for_name: bool,
    /// Names of protocols, each after its length (RFC 7301 section 3.1).
    pub(super) alpn: &'a [u8],
    /// The versions that `supported_versions` offers, 2 octets each.
    pub(super) versions: &'a [u8],
    /// Signature algorithms, 2 octets each.
    pub(super) signature_algorithms: &'a [u8],
    /// Groups, 2 octets each.
    pub(super) groups: &'a [u8],
    /// User agent among the transport parameters of QUIC.
    pub(super) user_agent: Option<&'a [u8]>,
    /// Point formats, 1 octet each.
    pub(super) point_formats: &'a [u8],
}

impl<'a> ClientHello<'a> {
    /// Reads what follows the header of the handshake message, of which `length` octets there should be. DTLS has a
    /// cookie that TLS has not.
    pub(super) fn parse(body: &'a [u8], length: usize, datagrams: bool) -> Option<Self> {
        let mut cursor = Cursor::new(body.get(..length).unwrap_or(body));
        let legacy_version = cursor.u16()?;
        cursor.take(32)?;
        cursor.list8()?;
        if datagrams {
            cursor.list8()?;
        }
        let ciphers = cursor.u16()?;
        let mut hello = Self { legacy_version, ciphers: cursor.take_up_to(ciphers.into()), ..Self::default() };
        if hello.ciphers.len() < usize::from(ciphers) || cursor.list8().is_none() {
            return Some(hello);
        }
        // Without extensions it ends here.
        let extensions = cursor.u16().unwrap_or_default();
        hello.extensions = cursor.take_up_to(extensions.into());
        hello.whole = body.len() >= length && hello.extensions.len() == usize::from(extensions);
        hello.read_extensions();
        Some(hello)
    }

    /// Types and contents of the extensions.
    pub(super) fn extensions(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut cursor = Cursor::new(self.extensions);
        std::iter::from_fn(move || Some((cursor.u16()?, cursor.list16()?)))
    }

    fn read_extensions(&mut self) {
        for (kind, content) in self.extensions() {
            let mut content = Cursor::new(content);
            match kind {
                SERVER_NAME => {
                    self.asks_for_name = true;
                    self.server_name = host_name(content.list16().unwrap_or_default());
                }
                SUPPORTED_GROUPS => self.groups = content.list16().unwrap_or_default(),
                EC_POINT_FORMATS => self.point_formats = content.list8().unwrap_or_default(),
                SIGNATURE_ALGORITHMS => self.signature_algorithms = content.list16().unwrap_or_default(),
                ALPN => self.alpn = content.list16().unwrap_or_default(),
                SUPPORTED_VERSIONS => self.versions = content.list8().unwrap_or_default(),
                QUIC_PARAMETERS | QUIC_PARAMETERS_DRAFT => self.user_agent = user_agent(content),
                _ => {}
            }
        }
    }

    /// The first protocol of the ALPN extension.
    pub(super) fn first_alpn(&self) -> Option<&'a [u8]> {
        Cursor::new(self.alpn).list8()
    }

    /// The highest version that is offered; in DTLS numbers fall from version to version.
    pub(super) fn version(&self, datagrams: bool) -> u16 {
        let offered = values(self.versions).filter(|version| !is_grease(*version));
        let highest = if datagrams { offered.min() } else { offered.max() };
        highest.unwrap_or(self.legacy_version)
    }

    /// Puts what it has, but for fingerprints, into the details; what they have is kept.
    pub(super) fn report(&self, datagrams: bool, details: &mut TlsDetails) {
        details.server_name = details.server_name.take().or_else(|| self.server_name.and_then(clean));
        details.alpn_offered = details.alpn_offered.take().or_else(|| names(self.alpn));
        details.user_agent = details.user_agent.take().or_else(|| self.user_agent.and_then(clean));
        details.client_version = details.client_version.or(Some(self.version(datagrams)));
    }
}

/// Reads a `ServerHello` (RFC 8446 section 4.1.3): what the server chose goes into the details.
pub(super) fn server_hello(body: &[u8], details: &mut TlsDetails) -> Option<()> {
    let mut cursor = Cursor::new(body);
    let legacy_version = cursor.u16()?;
    cursor.take(32)?;
    cursor.list8()?;
    let cipher_suite = cursor.u16()?;
    cursor.u8()?;
    (details.server_version, details.cipher_suite) = (Some(legacy_version), Some(cipher_suite));
    let length = cursor.u16()?;
    let mut extensions = Cursor::new(cursor.take_up_to(length.into()));
    while let (Some(kind), Some(content)) = (extensions.u16(), extensions.list16()) {
        let mut content = Cursor::new(content);
        match kind {
            SUPPORTED_VERSIONS => details.server_version = content.u16().or(details.server_version),
            ALPN => details.alpn_selected = content.list16().and_then(names),
            _ => {}
        }
    }
    Some(())
}

/// Numbers of two octets.
pub(super) fn values(octets: &[u8]) -> impl Iterator<Item = u16> {
    octets.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair))
}

/// Whether a value is there only to be ignored (RFC 8701 section 2).
pub(super) fn is_grease(value: u16) -> bool {
    value & 0x0f0f == 0x0a0a && value >> 8 == value & 0xff
}

/// The first name of the type `host_name`.
fn host_name(list: &[u8]) -> Option<&[u8]> {
    let mut cursor = Cursor::new(list);
    while let (Some(kind), Some(name)) = (cursor.u8(), cursor.list16()) {
        if kind == 0 {
            return Some(name);
        }
    }
    None
}

/// The user agent among transport parameters (RFC 9000 section 18).
fn user_agent(mut parameters: Cursor<'_>) -> Option<&[u8]> {
    loop {
        let (kind, length) = (parameters.variable()?, parameters.variable()?);
        let value = parameters.take(usize::try_from(length).ok()?)?;
        if kind == USER_AGENT {
            return Some(value);
        }
    }
}

/// Names of protocols, separated by commas.
fn names(list: &[u8]) -> Option<Box<str>> {
    let mut cursor = Cursor::new(list);
    let mut joined = Vec::new();
    while let Some(name) = cursor.list8() {
        if !joined.is_empty() {
            joined.push(b',');
        }
        joined.extend_from_slice(name);
    }
    clean(&joined)
}
