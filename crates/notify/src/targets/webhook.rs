//! Webhooks: reports as JSON, by POST.
//!
//! Requests have the headers of Standard Webhooks: `webhook-id`, which is the same when a request is sent again,
//! `webhook-timestamp`, and `webhook-signature`, an HMAC-SHA256 over both and the body, so a receiver checks them with a
//! library that exists for its language. A redirect is not followed: whoever it leads to was not meant.

use std::io;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use serde_json::json;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

use crate::action::Webhook;
use crate::target::{Message, SEND_MAX, SendError, Target};

/// What the text of a secret begins with when the rest is base64.
const SECRET_PREFIX: &str = "whsec_";
/// Answers that say that this request will never be taken: a body that is wrong, too large, or of the wrong kind. All others may be
/// over after a while, or after somebody has mended the configuration.
const REFUSALS: [u16; 4] = [400, 413, 415, 422];
/// The longest time that a server may ask to be left alone.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// An address that reports are posted to.
pub(crate) struct WebhookTarget {
    hook: Webhook,
    agent: Option<Agent>,
}

impl WebhookTarget {
    pub(crate) fn new(hook: Webhook) -> Self {
        Self { hook, agent: None }
    }

    fn agent(&mut self) -> Result<Agent, SendError> {
        if let Some(agent) = &self.agent {
            return Ok(agent.clone());
        }
        let roots = match &self.hook.ca {
            None => RootCerts::PlatformVerifier,
            Some(path) => RootCerts::from(certificates(path)?),
        };
        let tls = TlsConfig::builder().provider(TlsProvider::NativeTls).root_certs(roots).build();
        let config = Agent::config_builder()
            .timeout_global(Some(SEND_MAX))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        Ok(self.agent.insert(config.into()).clone())
    }

    fn post(&mut self, message: &Message<'_>, now_ms: i64) -> Result<(), SendError> {
        let agent = self.agent()?;
        let id = message.id();
        let body = json!({
            "type": "weir.reports",
            "timestamp": message.reported(),
            "id": id,
            "data": { "reports": message.values() },
        });
        let (body, seconds) = (body.to_string(), now_ms.div_euclid(1_000));
        let mut request = agent
            .post(self.hook.url.read()?)
            .content_type("application/json")
            .header("webhook-id", &id)
            .header("idempotency-key", &id)
            .header("webhook-timestamp", seconds.to_string());
        if let Some(secret) = &self.hook.signing_secret {
            request = request.header("webhook-signature", signature(&secret.read()?, &id, seconds, &body)?);
        }
        for header in &self.hook.headers {
            let header = header.read()?;
            let (name, value) = header.split_once(':').unwrap_or((&header, ""));
            request = request.header(name.trim(), value.trim());
        }
        // the text of an error may have the address, and that may be a secret
        let answer = request.send(&body).map_err(|error| SendError::again(reason(&error)))?;
        let status = answer.status().as_u16();
        match status {
            200..=299 => Ok(()),
            status if REFUSALS.contains(&status) => Err(SendError::Refused(format!("the server answers {status}"))),
            status => {
                let seconds = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
                let after = seconds.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
                Err(SendError::Again { reason: format!("the server answers {status}"), after })
            }
        }
    }
}

impl Target for WebhookTarget {
    fn takes_several(&self) -> bool {
        true
    }

    fn send(&mut self, message: &Message<'_>, now_ms: i64) -> Result<(), SendError> {
        let sent = self.post(message, now_ms);
        if sent.is_err() {
            // files of authorities may be mended before the next try
            self.agent = None;
        }
        sent
    }
}

/// Why a request got no answer, without its address.
fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::RequireHttpsOnly(_) => {
            "the address or a header cannot be used".to_owned()
        }
        ureq::Error::Protocol(_) => "what came back is no answer of HTTP".to_owned(),
        error => error.to_string(),
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, SendError> {
    let cannot = |reason: String| SendError::again(format!("cannot use the authorities {}: {reason}", path.display()));
    let text = std::fs::read(path).map_err(|error| cannot(error.to_string()))?;
    let mut found = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| cannot(error.to_string()))? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err(cannot("there is no certificate".to_owned())) } else { Ok(found) }
}

/// The signature of a request.
fn signature(secret: &str, id: &str, seconds: i64, body: &str) -> io::Result<String> {
    let no_base64 = |_| io::Error::new(io::ErrorKind::InvalidData, "the signing secret is no base64 after whsec_");
    let key = match secret.strip_prefix(SECRET_PREFIX) {
        Some(text) => STANDARD.decode(text).map_err(no_base64)?,
        None => secret.as_bytes().to_vec(),
    };
    let sign = || {
        let key = PKey::hmac(&key)?;
        let mut signer = Signer::new(MessageDigest::sha256(), &key)?;
        signer.sign_oneshot_to_vec(format!("{id}.{seconds}.{body}").as_bytes())
    };
    let octets = sign().map_err(|_| io::Error::other("the signing secret cannot be used"))?;
    Ok(format!("v1,{}", STANDARD.encode(octets)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the reference implementations of Standard Webhooks.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let made = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(made.expect("a signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let error = signature("whsec_%%%", "a", 1, "b").expect_err("no base64").to_string();
        assert!(error.contains("whsec_") && !error.contains("%%%"), "{error}");
    }
}
