//! TLS of the service.

use std::pin::Pin;

use tokio::net::TcpStream;
use tokio_openssl::SslStream;
use weir_chain::OptionError;
use weir_secure::{ClientAuth, TlsServer, TlsServerOptions};

use crate::config::HttpOptions;

/// The first octet of a session of TLS: a record of a handshake (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;
/// What a client that does not speak TLS is answered.
pub(crate) const PLAIN_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Connection: close\r\nContent-Length: 38\r\n\r\nthis service speaks TLS: use https://\n";

/// The files of the certificate; `None` where the service does not speak TLS.
pub(crate) fn options(http: &HttpOptions) -> Result<Option<TlsServerOptions>, OptionError> {
    match (&http.tls_cert, &http.tls_key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsServerOptions {
            certificate: certificate.clone(),
            key: key.clone(),
            authorities: None,
            revocations: None,
            client_auth: ClientAuth::None,
            peers: Vec::new(),
        })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(OptionError::new("tls_key", "there is 'tls_cert' and no 'tls_key'")),
        (None, Some(_)) => Err(OptionError::new("tls_cert", "there is 'tls_key' and no 'tls_cert'")),
    }
}

/// What becomes of a connection.
pub(crate) enum Accepted {
    /// A session of TLS.
    Session(SslStream<TcpStream>),
    /// The client does not speak TLS.
    Plain(TcpStream),
}

/// Does the handshake with a client. How long it may take is for the caller to decide.
pub(crate) async fn accept(server: &TlsServer, stream: TcpStream) -> Option<Accepted> {
    let mut first = [0];
    if stream.peek(&mut first).await.ok()? == 1 && first != [HANDSHAKE] {
        return Some(Accepted::Plain(stream));
    }
    let mut session = SslStream::new(server.session().ok()?, stream).ok()?;
    Pin::new(&mut session).accept().await.ok()?;
    Some(Accepted::Session(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_a_key() {
        let both = HttpOptions { tls_cert: Some("c".into()), tls_key: Some("k".into()), ..HttpOptions::default() };
        assert!(options(&both).expect("options").is_some());
        assert_eq!(options(&HttpOptions { tls_key: None, ..both.clone() }).expect_err("no key").key, "tls_key");
        assert_eq!(options(&HttpOptions { tls_cert: None, ..both }).expect_err("no certificate").key, "tls_cert");
        assert!(options(&HttpOptions::default()).expect("options").is_none());
    }

    #[test]
    fn the_plain_answer_is_as_long_as_it_says() {
        let text = std::str::from_utf8(PLAIN_ANSWER).expect("text");
        let (_, body) = text.split_once("\r\n\r\n").expect("a body");
        assert_eq!(body.len(), 38);
    }
}
