//! Names of applications of which records have the number alone.
//!
//! Exporters of Cisco's kind number their applications (`applicationId`, RFC 6759) and name them in Options Data Records; the
//! numbers of engines 1 and 3 are IANA's protocols and ports, and so is the label of yaf, which is the port that an
//! application is known by. Names are remembered per transport session and version, whichever Observation Domain reported
//! them, because exporters send options in a domain of their own. Names are in two generations: when the newer one is full
//! the older one is dropped, so that sessions that are long over, or never were, make room, and whoever repeats its options
//! keeps its names. What speaks against naming records as they come is
//! that those before the first Options Data Record have no name; at query time names of years ago would have to be searched.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

use weir_flow::{protocol_name, service_name, text};
use weir_wire::value::be_uint;

use crate::domain_key::DomainKey;

/// Names in each of the two generations.
const NAMES_MAX: usize = 1 << 15;
/// Most names of one exporter in a generation; more are counted under `applications_refused`.
const NAMES_OF_EXPORTER_MAX: u32 = 1 << 13;
/// Octets of a name that are kept.
const NAME_OCTETS_MAX: usize = 64;

/// Engines of application identifiers whose selectors are IANA's (RFC 6759 section 4.1).
const ENGINE_IANA_PROTOCOL: u8 = 1;
const ENGINE_IANA_PORT: u8 = 3;

/// What a record has in place of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApplicationNumber {
    /// An application identifier: octet of the engine, and selector.
    Identifier,
    /// The application label of yaf: a port.
    Label,
}

/// The names that exporters reported.
#[derive(Debug, Default)]
pub(crate) struct ApplicationNames {
    /// By a hash of exporter and identifier; two that collide share a name, once in 2^64.
    recent: Names,
    older: Names,
    /// How many of the newer generation are of an exporter, by its hash.
    shares: HashMap<u64, u32, foldhash::fast::RandomState>,
    hashes: foldhash::fast::RandomState,
}

type Names = HashMap<u64, Box<str>, foldhash::fast::RandomState>;

impl ApplicationNames {
    /// Remembers a name. False when its exporter has too many already.
    pub(crate) fn learn(&mut self, exporter: DomainKey, identifier: &[u8], name: &str) -> bool {
        let hash = self.hash(exporter, identifier);
        let mut kept = String::new();
        text::push_clean(&name.as_bytes()[..name.floor_char_boundary(NAME_OCTETS_MAX)], &mut kept);
        // what stands for a control octet is longer than it
        kept.truncate(kept.floor_char_boundary(NAME_OCTETS_MAX));
        if let Some(known) = self.recent.get_mut(&hash) {
            if **known != *kept {
                *known = kept.into();
            }
            return true;
        }
        if self.recent.len() >= NAMES_MAX {
            self.older = std::mem::take(&mut self.recent);
            self.shares.clear();
        }
        let of_exporter = self.hash(exporter, &[]);
        let share = self.shares.entry(of_exporter).or_default();
        if *share >= NAMES_OF_EXPORTER_MAX {
            return false;
        }
        *share += 1;
        self.older.remove(&hash);
        self.recent.insert(hash, kept.into());
        true
    }

    /// The name of what the octets stand for: that which the exporter reported, or IANA's.
    pub(crate) fn name(&self, exporter: DomainKey, number: ApplicationNumber, octets: &[u8]) -> Option<&str> {
        match number {
            ApplicationNumber::Label => service_name(u16::try_from(be_uint(octets)?).ok()?),
            ApplicationNumber::Identifier => self.reported(exporter, octets).or_else(|| of_iana(octets)),
        }
    }

    fn reported(&self, exporter: DomainKey, identifier: &[u8]) -> Option<&str> {
        if self.recent.is_empty() {
            return None;
        }
        let hash = self.hash(exporter, identifier);
        self.recent.get(&hash).or_else(|| self.older.get(&hash)).map(|name| &**name)
    }

    fn hash(&self, exporter: DomainKey, identifier: &[u8]) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        exporter.session.hash(&mut hasher);
        hasher.write_u8(exporter.version);
        hasher.write(identifier);
        hasher.finish()
    }
}

/// The name that IANA has for an application identifier.
fn of_iana(octets: &[u8]) -> Option<&'static str> {
    let (engine, selector) = octets.split_first()?;
    let selector = be_uint(selector)?;
    match *engine {
        ENGINE_IANA_PROTOCOL => protocol_name(u8::try_from(selector).ok()?),
        ENGINE_IANA_PORT => service_name(u16::try_from(selector).ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::session::Session;

    fn exporter(last: u8, domain: u32) -> DomainKey {
        let session = Session::udp(SocketAddr::from(([192, 0, 2, last], 4739)));
        DomainKey { session, version: 9, domain }
    }

    #[test]
    fn names_are_of_the_exporter_whichever_domain_reported_them() {
        let mut names = ApplicationNames::default();
        let netflix = [13, 0, 1, 253];
        let name = |names: &ApplicationNames, from, octets: &[u8]| {
            names.name(from, ApplicationNumber::Identifier, octets).map(str::to_owned)
        };
        assert_eq!(name(&names, exporter(1, 0), &netflix), None);
        assert!(names.learn(exporter(1, 256), &netflix, "net\u{1b}flix"));
        assert_eq!(name(&names, exporter(1, 0), &netflix).as_deref(), Some("net\u{fffd}flix"));
        assert_eq!(name(&names, exporter(2, 0), &netflix), None);
        // port 443 of IANA, protocol 1, and what an exporter calls them itself
        assert_eq!(name(&names, exporter(2, 0), &[3, 0, 1, 187]).as_deref(), Some("https"));
        assert_eq!(name(&names, exporter(2, 0), &[1, 0, 0, 1]).as_deref(), Some("ICMP"));
        names.learn(exporter(2, 0), &[3, 0, 1, 187], "secure-http");
        assert_eq!(name(&names, exporter(2, 0), &[3, 0, 1, 187]).as_deref(), Some("secure-http"));
        assert_eq!([name(&names, exporter(2, 0), &[]), name(&names, exporter(2, 0), &[3])], [None, None]);
    }

    #[test]
    fn the_label_of_yaf_is_a_port() {
        let names = ApplicationNames::default();
        let name = |label: u16| names.name(exporter(1, 0), ApplicationNumber::Label, &label.to_be_bytes());
        assert_eq!([name(53), name(443), name(0)], [Some("domain"), Some("https"), None]);
    }

    #[test]
    fn an_exporter_has_a_share_of_the_names() {
        let mut names = ApplicationNames::default();
        for number in 0..NAMES_OF_EXPORTER_MAX {
            assert!(names.learn(exporter(1, 0), &number.to_be_bytes(), "x"));
        }
        assert!(!names.learn(exporter(1, 0), &u32::MAX.to_be_bytes(), "x"));
        assert!(names.learn(exporter(1, 0), &0u32.to_be_bytes(), &"y".repeat(1000)));
        let kept = names.name(exporter(1, 0), ApplicationNumber::Identifier, &[0; 4]).expect("a name");
        assert_eq!(kept.len(), NAME_OCTETS_MAX);
        assert!(names.learn(exporter(1, 0), &1u32.to_be_bytes(), &"\u{1}".repeat(64)));
        let kept = names.name(exporter(1, 0), ApplicationNumber::Identifier, &[0, 0, 0, 1]).expect("a name");
        assert!(kept.len() <= NAME_OCTETS_MAX, "{}", kept.len());
        assert!(names.learn(exporter(2, 0), &[9; 4], "x"), "another exporter has its own share");
    }

    #[test]
    fn made_up_exporters_take_no_names_from_who_repeats_them() {
        let mut names = ApplicationNames::default();
        let real = (exporter(200, 0), [13, 0, 1, 253]);
        for other in 0..100 {
            assert!(names.learn(real.0, &real.1, "netflix"));
            for number in 0..NAMES_OF_EXPORTER_MAX / 2 {
                assert!(names.learn(exporter(other, 0), &number.to_be_bytes(), "made up"));
            }
            assert_eq!(names.name(real.0, ApplicationNumber::Identifier, &real.1), Some("netflix"));
            assert!(names.recent.len() + names.older.len() <= 2 * NAMES_MAX && names.shares.len() <= NAMES_MAX);
        }
        // one that is long over has made room
        assert_eq!(names.name(exporter(0, 0), ApplicationNumber::Identifier, &[0; 4]), None);
    }
}
