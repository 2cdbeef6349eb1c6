//! What users can set of agents and how they are asked.

use std::net::{IpAddr, SocketAddr};

use async_snmp::{Auth, AuthProtocol, PrivProtocol, UsmConfig};
use weir_chain::{OptionError, OptionText, Problem, Secret, TimeSpan, ValueType, choices, options};

use crate::error::PollError;

/// The port of agents (RFC 3417, section 3.1).
const AGENT_PORT: u16 = 161;
/// Octets of a password at least (RFC 3414, section 11.2).
const PASSWORD_OCTETS_MIN: usize = 8;

choices! {
    /// How messages of a user are authenticated.
    pub enum Authentication {
        /// HMAC-SHA-96 (RFC 3414).
        Sha1 = "sha1",
        /// HMAC-128-SHA-224 (RFC 7860).
        Sha224 = "sha224",
        /// HMAC-192-SHA-256 (RFC 7860).
        Sha256 = "sha256",
        /// HMAC-256-SHA-384 (RFC 7860).
        Sha384 = "sha384",
        /// HMAC-384-SHA-512 (RFC 7860).
        Sha512 = "sha512",
    }
}

choices! {
    /// How messages of a user are encrypted.
    pub enum Privacy {
        /// AES with 128 bits (RFC 3826).
        Aes128 = "aes128",
        /// AES with 192 bits, whose key is extended as draft-blumenthal-aes-usm-04 says.
        Aes192 = "aes192",
        /// AES with 256 bits, whose key is extended in the same way.
        Aes256 = "aes256",
        /// AES with 192 bits, whose key is extended as draft-reeder-snmpv3-usm-3desede-00 says, as devices of Cisco do.
        Aes192Reeder = "aes192-reeder",
        /// AES with 256 bits, whose key is extended in that way.
        Aes256Reeder = "aes256-reeder",
    }
}

options! {
    /// Agents that are asked, and what for.
    pub struct SnmpOptions {
        /// Ask the agents of these exporters. Each is the address that its flows have, as 192.0.2.1; where its agent answers elsewhere that
        /// address follows, as 192.0.2.1=10.0.0.1, 192.0.2.1=10.0.0.1:1161 or 192.0.2.1=[2001:db8::1]:1161.
        exporters: Vec<PolledExporter>,
        /// Ask each agent this often.
        interval: TimeSpan = TimeSpan::from_secs(300),
        /// Wait this long for an answer before the same is asked again.
        timeout: TimeSpan = TimeSpan::from_secs(2),
        /// Ask the same so many times more before the agent is given up until the next interval.
        retries: u32 = 2 => 0..=10,
        /// Take so many interfaces of an agent at most; others are left out, and polls_cut counts polls with such.
        interfaces_max: usize = 10_000 => 1..=1_000_000,
        /// Keep counters of octets beside speeds.
        counters: bool = true,
    }
    includes {
        /// Who asks.
        security: SecurityOptions,
    }
}

options! {
    /// Who agents are asked by: a community (SNMP v2c) or a user (SNMP v3).
    pub struct SecurityOptions {
        /// Ask by SNMP v2c, with the community in this file or environment variable: file:PATH or env:NAME.
        community: Option<Secret>,
        /// Ask by SNMP v3, as this user.
        user: Option<String>,
        /// Authenticate messages in this way.
        authentication: Authentication = Authentication::Sha256,
        /// The password of authentication, of 8 octets at least: file:PATH or env:NAME.
        authentication_password: Option<Secret>,
        /// Encrypt messages in this way, when there is a password for it.
        privacy: Privacy = Privacy::Aes128,
        /// The password of encryption, of 8 octets at least: file:PATH or env:NAME. Without it messages are authenticated only.
        privacy_password: Option<Secret>,
    }
}

/// An exporter, and where its agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolledExporter {
    /// The address that its flows have.
    pub exporter: IpAddr,
    /// The address and port of its agent.
    pub agent: SocketAddr,
}

impl PolledExporter {
    /// The address of the agent when it is not that of the exporter.
    pub fn other_address(&self) -> Option<IpAddr> {
        Some(self.agent.ip()).filter(|agent| *agent != self.exporter)
    }
}

impl OptionText for PolledExporter {
    fn value_type() -> ValueType {
        ValueType::Text("ADDRESS or ADDRESS=AGENT")
    }

    fn parse_text(text: &str) -> Result<Self, Problem> {
        let (exporter, agent) = text.split_once('=').unwrap_or((text, text));
        let wrong = |what: &str| {
            let hint = "write 192.0.2.1, or 192.0.2.1=10.0.0.1:161 where the agent answers elsewhere".to_owned();
            Problem::Because(format!("'{}' is no address", what.escape_debug()), Some(hint))
        };
        let exporter: IpAddr = exporter.trim().parse().map_err(|_| wrong(exporter))?;
        let agent = agent.trim();
        let agent = agent.parse().or_else(|_| agent.parse().map(|address: IpAddr| (address, AGENT_PORT).into()));
        Ok(Self { exporter: exporter.to_canonical(), agent: agent.map_err(|_| wrong(text))? })
    }

    fn text(&self) -> String {
        let Self { exporter, agent } = self;
        if (agent.ip(), agent.port()) == (*exporter, AGENT_PORT) {
            return exporter.to_string();
        }
        format!("{exporter}={agent}")
    }

    fn unset() -> Self {
        Self { exporter: IpAddr::from([0, 0, 0, 0]), agent: SocketAddr::from(([0, 0, 0, 0], 0)) }
    }
}

impl SnmpOptions {
    /// Finds out what is wrong with the options beyond each alone.
    ///
    /// # Errors
    ///
    /// The key and what is wrong with it.
    pub fn check(&self) -> Result<(), OptionError> {
        if self.exporters.is_empty() {
            return Err(OptionError::new("exporters", "no exporter is named"));
        }
        for (number, one) in self.exporters.iter().enumerate() {
            if self.exporters[..number].iter().any(|other| other.exporter == one.exporter) {
                return Err(OptionError::new("exporters", format!("{} is named twice", one.exporter)));
            }
        }
        if self.interval < TimeSpan::from_secs(1) {
            return Err(OptionError::new("interval", "it is at least 1s"));
        }
        if self.timeout.is_zero() {
            return Err(OptionError::new("timeout", "it is more than 0s"));
        }
        self.security.check()
    }
}

impl SecurityOptions {
    fn check(&self) -> Result<(), OptionError> {
        match (&self.community, &self.user, &self.authentication_password) {
            (Some(_), Some(_), _) => Err(OptionError::new("community", "there is a user too")
                .with_hint("a section has agents of one community or of one user")),
            (None, None, _) => Err(OptionError::new("community", "there is neither a community nor a user")
                .with_hint("community = \"file:PATH\" for SNMP v2c; user and authentication_password for v3")),
            (None, Some(_), None) => Err(OptionError::new("user", "the user has no authentication_password")
                .with_hint("answers without authentication are those of anybody, and are not asked for")),
            _ => Ok(()),
        }
    }

    /// Reads the secrets.
    pub(crate) fn auth(&self) -> Result<Auth, PollError> {
        let read = |secret: &Secret| secret.read().map_err(PollError::Secret);
        if let Some(community) = &self.community {
            return Ok(Auth::v2c(read(community)?));
        }
        let (Some(user), Some(password)) = (&self.user, &self.authentication_password) else {
            return Err(PollError::Security("there is neither a community nor a user".to_owned()));
        };
        let long_enough = |secret: &Secret| {
            let password = read(secret)?;
            if password.len() < PASSWORD_OCTETS_MIN {
                let why = format!("the password of {} has less than {PASSWORD_OCTETS_MIN} octets", secret.place());
                return Err(PollError::Security(why));
            }
            Ok(password)
        };
        let authentication = match self.authentication {
            Authentication::Sha1 => AuthProtocol::Sha1,
            Authentication::Sha224 => AuthProtocol::Sha224,
            Authentication::Sha256 => AuthProtocol::Sha256,
            Authentication::Sha384 => AuthProtocol::Sha384,
            Authentication::Sha512 => AuthProtocol::Sha512,
        };
        let privacy = match self.privacy {
            Privacy::Aes128 => PrivProtocol::Aes128,
            Privacy::Aes192 => PrivProtocol::Aes192Blumenthal,
            Privacy::Aes256 => PrivProtocol::Aes256Blumenthal,
            Privacy::Aes192Reeder => PrivProtocol::Aes192Reeder,
            Privacy::Aes256Reeder => PrivProtocol::Aes256Reeder,
        };
        let (config, password) = (UsmConfig::new(user.clone()), long_enough(password)?);
        let config = match &self.privacy_password {
            None => config.auth(authentication, password),
            Some(secret) => config.auth_priv(authentication, password, privacy, long_enough(secret)?),
        };
        config.map(Auth::from).map_err(|error| PollError::Security(error.to_string()))
    }
}

#[cfg(test)]
mod tests;
