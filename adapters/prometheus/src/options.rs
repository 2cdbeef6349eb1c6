//! What users can set of a receiver of remote write.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// The path that Prometheus, and most others, take remote write at.
const PATH: &str = "/api/v1/write";

/// Where a receiver is, and how it is reached.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteWriteOptions {
    /// Its address: `http://host:9090`, or `https://host/path`.
    pub url: String,
    /// Name and password.
    pub user: Option<(String, String)>,
    /// A file whose first line is a bearer token.
    pub token_file: Option<PathBuf>,
    /// A PEM file of the authorities that are trusted; those of the system without it.
    pub tls_ca: Option<PathBuf>,
    /// Labels that every series gets.
    pub labels: Vec<(String, String)>,
    /// Most samples of a request.
    pub samples_max: usize,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// Why there can be no store of these options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteWriteError {
    /// The address is none.
    #[error("'{url}' is no address of a receiver: {why}")]
    Url {
        /// The address, without a password.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A label cannot be one.
    #[error(
        "'{0}' is no label: it must be name=value, the name of letters, digits and '_', and none of by, key and step"
    )]
    Label(String),
    /// A file cannot be used.
    #[error("cannot use {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// A password is not shown.
impl std::fmt::Debug for RemoteWriteOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteWriteOptions")
            .field("url", &self.url)
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}

impl RemoteWriteOptions {
    /// Options of the receiver at an address, which may have `user:password@`. Without a path it gets that of Prometheus.
    pub fn new(text: &str) -> Result<Self, RemoteWriteError> {
        let wrong = |why| {
            let shown = text.rsplit_once('@').map_or(text, |(_, host)| host);
            Err(RemoteWriteError::Url { url: shown.to_owned(), why })
        };
        let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme))
        else {
            return wrong("it begins with http:// or https://");
        };
        let (place, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (user, host) = match place.rsplit_once('@') {
            None => (None, place),
            Some((user, host)) => match user.split_once(':') {
                Some((name, password)) => (Some((name.to_owned(), password.to_owned())), host),
                None => return wrong("it has a user without a password"),
            },
        };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return wrong("it names no host");
        }
        let path = if ["", "/"].contains(&path) { PATH } else { path };
        Ok(Self {
            url: format!("{scheme}://{host}{path}"),
            user,
            token_file: None,
            tls_ca: None,
            labels: Vec::new(),
            samples_max: 10_000,
            timeout: Duration::from_secs(30),
        })
    }

    /// Adds a label, `name=value`.
    pub fn label(&mut self, text: &str) -> Result<(), RemoteWriteError> {
        let wrong = || RemoteWriteError::Label(text.to_owned());
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
        let is_name = name.starts_with(is_letter) && name.chars().all(|l| is_letter(l) || l.is_ascii_digit());
        let is_own = ["by", "key", "step"].contains(&name) || name.starts_with("__");
        if !is_name || is_own || self.labels.iter().any(|(known, _)| known == name) {
            return Err(wrong());
        }
        self.labels.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// The value of the header that says who we are.
    pub(crate) fn authorization(&self) -> Result<Option<String>, RemoteWriteError> {
        if let Some(path) = &self.token_file {
            let wrong = |why: String| RemoteWriteError::File { path: path.clone(), why };
            let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            let token = text.lines().next().map(str::trim).filter(|token| !token.is_empty());
            let token = token.ok_or_else(|| wrong("its first line is empty".to_owned()))?;
            return Ok(Some(format!("Bearer {token}")));
        }
        let basic =
            |(name, password): &(String, String)| format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
        Ok(self.user.as_ref().map(basic))
    }

    /// TLS by the library of the system, which the rest of weir uses too.
    pub(crate) fn tls(&self) -> Result<TlsConfig, RemoteWriteError> {
        let builder = TlsConfig::builder().provider(TlsProvider::NativeTls);
        let Some(path) = &self.tls_ca else { return Ok(builder.root_certs(RootCerts::PlatformVerifier).build()) };
        let wrong = |why: String| RemoteWriteError::File { path: path.clone(), why };
        let octets = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let mut certificates = Vec::new();
        for item in parse_pem(&octets) {
            if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(error.to_string()))? {
                certificates.push(certificate);
            }
        }
        if certificates.is_empty() {
            return Err(wrong("it has no certificate in PEM".to_owned()));
        }
        Ok(builder.root_certs(RootCerts::new_with_certs(&certificates)).build())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_the_usual_path_and_keep_their_own() {
        let url = |text: &str| RemoteWriteOptions::new(text).map(|options| (options.url, options.user));
        assert_eq!(url("http://host:9090"), Ok(("http://host:9090/api/v1/write".to_owned(), None)));
        assert_eq!(url("http://host/"), Ok(("http://host/api/v1/write".to_owned(), None)));
        let user = Some(("me".to_owned(), "pass".to_owned()));
        assert_eq!(url("https://me:pass@host/api/v1/push"), Ok(("https://host/api/v1/push".to_owned(), user)));
        for (text, wanted) in [
            ("host:9090", "'host:9090' is no address of a receiver: it begins with http:// or https://"),
            ("http:///x", "'http:///x' is no address of a receiver: it names no host"),
            ("http://me@host", "'host' is no address of a receiver: it has a user without a password"),
        ] {
            assert_eq!(url(text).expect_err("an error").to_string(), wanted);
        }
    }

    #[test]
    fn labels_have_names_that_prometheus_takes() {
        let mut options = RemoteWriteOptions::new("http://host").expect("an address");
        options.label("site=a=b").expect("a label");
        assert_eq!(options.labels, [("site".to_owned(), "a=b".to_owned())]);
        for text in ["site=again", "by=x", "__name__=x", "9=x", "x", "ä=x", "=x"] {
            assert!(options.label(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_or_a_user_is_who_we_are() {
        // the example of RFC 7617
        let mut options = RemoteWriteOptions::new("http://Aladdin:open sesame@host").expect("an address");
        let basic = Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned());
        assert_eq!(options.authorization(), Ok(basic));
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("token");
        std::fs::write(&file, "secret\n").expect("written");
        options.token_file = Some(file);
        assert_eq!(options.authorization(), Ok(Some("Bearer secret".to_owned())));
        options.tls_ca = Some(dir.path().join("none.pem"));
        assert!(options.tls().is_err());
        assert!(!format!("{options:?}").contains("sesame"));
    }
}
