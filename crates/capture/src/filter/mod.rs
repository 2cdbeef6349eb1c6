//! Packet filters in libpcap's language (`pcap-filter(7)`), as tcpdump has them.
//!
//! An expression means different octets on different links, so it is compiled for each link type that is met.

mod libpcap;
mod program;

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

pub(crate) use self::program::Program;
use crate::files::FRAME_OCTETS_MAX;
use crate::source::SourceError;

/// Link types (`LINKTYPE_`) an expression is tried on before any frame is there: Ethernet, bare IP, PPP, 802.11,
/// cooked Linux frames.
const TRIED: [u16; 5] = [1, 101, 9, 105, 113];

/// An expression, and its programs.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    expression: String,
    /// What came of compiling it for each link and order of octets.
    programs: HashMap<(u16, bool), Result<Arc<Program>, FilterError>, RandomState>,
}

/// Why a filter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FilterError {
    /// There is no libpcap.
    #[error("packet filters need libpcap, which cannot be loaded: {0}")]
    NoLibrary(String),
    /// It is wrong, or means nothing on a link of that type.
    #[error("the packet filter '{expression}' is not valid: {reason}")]
    Expression {
        /// The expression.
        expression: String,
        /// What libpcap says.
        reason: String,
    },
    /// What libpcap made of it cannot be run.
    #[error(transparent)]
    Program(#[from] program::BadProgram),
}

impl Filter {
    /// A filter that is valid on some link.
    pub(crate) fn new(expression: &str) -> Result<Self, FilterError> {
        let mut filter = Self { expression: expression.to_owned(), programs: HashMap::default() };
        let mut failed = None;
        for link in TRIED {
            match filter.program(link, false) {
                Ok(_) => return Ok(filter),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(filter), Err)
    }

    /// Whether tags matter to it, which the kernel takes out of frames before filters see them.
    pub(crate) fn speaks_of_vlans(&self) -> bool {
        self.expression.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| word == "vlan")
    }

    /// The program for frames of a link type (`LINKTYPE_`) in a file of that order of octets.
    pub(crate) fn program(&mut self, link: u16, big_endian: bool) -> Result<Arc<Program>, FilterError> {
        let compiled = self.programs.entry((link, big_endian)).or_insert_with(|| {
            // What a program returns is how much to keep; only whether that is 0 matters here.
            let instructions = libpcap::compile(&self.expression, link, big_endian, FRAME_OCTETS_MAX)?;
            Ok(Arc::new(Program::new(instructions)?))
        });
        compiled.clone()
    }
}

impl FilterError {
    /// What is wrong, without the expression.
    pub(crate) fn reason(self) -> String {
        match self {
            Self::Expression { reason, .. } => reason,
            other => other.to_string(),
        }
    }
}

impl From<FilterError> for SourceError {
    fn from(error: FilterError) -> Self {
        let hint = match &error {
            FilterError::NoLibrary(_) => {
                Some("install libpcap (Debian, Ubuntu: apt-get install libpcap0.8)".to_owned())
            }
            FilterError::Expression { .. } => Some("the language is that of tcpdump, see pcap-filter(7)".to_owned()),
            FilterError::Program(_) => None,
        };
        Self::Unusable { what: error.to_string(), hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_are_wrong_are_reported() {
        let error = SourceError::from(Filter::new("tcp prot 80").unwrap_err());
        let SourceError::Unusable { what, hint } = error else { panic!("{error}") };
        assert!(what.starts_with("the packet filter 'tcp prot 80' is not valid: "), "{what}");
        assert!(hint.is_some());
        assert!(matches!(Filter::new("tcp\0"), Err(FilterError::Expression { .. })));
    }

    #[test]
    fn a_program_is_made_for_each_link() {
        let mut filter = Filter::new("ip6").expect("a filter");
        let ethernet = [&[0; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
        assert!(filter.program(1, false).expect("a program").takes(&ethernet, 18));
        assert!(!filter.program(101, false).expect("a program").takes(&ethernet, 18));
        assert!(filter.program(101, false).expect("a program").takes(&ethernet[14..], 4));
        assert!(!filter.program(1, false).expect("a program").takes(&ethernet[14..], 4));
        assert_eq!(filter.programs.len(), 2);
        // BSD's loopback has the family in the order of the machine that captured, and IPv6 has three numbers
        for (big_endian, family) in [(false, [30, 0, 0, 0]), (true, [0, 0, 0, 24])] {
            let loopback = [&family[..], &ethernet[14..]].concat();
            assert!(filter.program(0, big_endian).expect("a program").takes(&loopback, 8));
            assert!(!filter.program(0, !big_endian).expect("a program").takes(&loopback, 8));
        }
        // valid, but not on Ethernet
        assert!(Filter::new("type mgt").is_ok());
    }
}
