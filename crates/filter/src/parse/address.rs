//! What follows a phrase about addresses: an address, a host name, a network, a list, or a file of addresses.

use std::fs::File;
use std::io::BufReader;
use std::net::IpAddr;
use std::ops::Range;

use super::Parser;
use super::phrase::{column_of, join};
use crate::error::ParseError;
use crate::lex::Kind;
use crate::predicate::{Operand, Predicate, Test};
use crate::primitive::Phrase;
use crate::{AddressSet, Prefix};

impl Parser<'_> {
    pub(super) fn addresses(&mut self, phrase: &Phrase) -> Result<Predicate, ParseError> {
        if self.take_word("in") {
            let set = if self.is_file_name() { self.address_file()? } else { self.address_list()? };
            return Ok(join(phrase, |operand| address_test(operand, &set)));
        }
        let negated = self.equality()?;
        let set = AddressSet::from_iter(self.prefixes()?);
        let predicate = join(phrase, |operand| address_test(operand, &set));
        Ok(if negated { Predicate::not(predicate) } else { predicate })
    }

    fn address_list(&mut self) -> Result<AddressSet, ParseError> {
        Ok(self.list(Self::prefixes)?.into_iter().flatten().collect())
    }

    /// Whether the name of a file stands behind `in`; a bare address is a list without its brackets.
    fn is_file_name(&self) -> bool {
        match self.kind() {
            Kind::Quoted => true,
            Kind::Word => prefix_of(self.word()).is_none(),
            _ => false,
        }
    }

    fn address_file(&mut self) -> Result<AddressSet, ParseError> {
        let span = self.span();
        let name = self.text("in")?;
        let error = |message: String| ParseError::new(message, span.clone());
        let Some(folder) = &self.reader.folder else {
            return Err(
                error("files are not read here".to_owned()).with_hint("a list is written [ A, B, C ]".to_owned())
            );
        };
        let shown = name.escape_debug();
        let file = File::open(folder.join(&name)).map_err(|cause| error(format!("cannot read '{shown}': {cause}")))?;
        AddressSet::from_text_file(BufReader::with_capacity(1 << 18, file)).map_err(|cause| {
            let source = std::error::Error::source(&cause).map(|source| format!(": {source}")).unwrap_or_default();
            error(format!("'{shown}': {cause}{source}"))
        })
    }

    /// An address, a prefix, or every address of a host name.
    fn prefixes(&mut self) -> Result<Vec<Prefix>, ParseError> {
        let span = self.span();
        let word = match self.kind() {
            Kind::Word => self.word(),
            Kind::Quoted => &self.text[span.start + 1..span.end - 1],
            _ => "",
        };
        if let Some(prefix) = prefix_of(word) {
            self.advance();
            return Ok(vec![prefix]);
        }
        let Some(resolve) = self.reader.resolve.filter(|_| looks_like_name(word)) else {
            return Err(self.error_no_address(word));
        };
        let error = |cause: &dyn std::fmt::Display| {
            ParseError::new(format!("host name '{}' is not known: {cause}", word.escape_debug()), span.clone())
        };
        let addresses = resolve(word).map_err(|cause| error(&cause))?;
        if addresses.is_empty() {
            return Err(error(&"it has no address"));
        }
        self.advance();
        let host = |address: IpAddr| Prefix::new(address, if address.is_ipv4() { 32 } else { 128 });
        Ok(addresses.into_iter().filter_map(host).collect())
    }

    fn error_no_address(&self, word: &str) -> ParseError {
        let error = ParseError::new(format!("expected an address, found {}", self.found()), self.span());
        match word.split_once('/') {
            Some((address, length)) if address.parse::<IpAddr>().is_ok() => {
                let max = if address.contains(':') { 128 } else { 32 };
                error.with_hint(format!("'{length}' is not a prefix length from 0 to {max}"))
            }
            None if looks_like_name(word) => {
                error.with_hint("host names are not looked up here; write the address".to_owned())
            }
            _ => error.with_hint("an address is, for example, 192.0.2.1 or 2001:db8::1".to_owned()),
        }
    }

    pub(super) fn network(&mut self, phrase: &Phrase) -> Result<Predicate, ParseError> {
        if self.is_word("in") {
            return self.addresses(phrase);
        }
        let negated = self.equality()?;
        let span = self.span();
        let word = if self.kind() == Kind::Word { self.word() } else { "" };
        let prefix = if word.contains('/') {
            let prefix = prefix_of(word).ok_or_else(|| self.error_no_address(word))?;
            self.advance();
            prefix
        } else {
            let address = word.parse::<IpAddr>().map_err(|_| self.error_no_address(word))?;
            self.advance();
            self.dotted_mask(address, span)?
        };
        let set = AddressSet::from_iter([prefix]);
        let predicate = join(phrase, |operand| address_test(operand, &set));
        Ok(if negated { Predicate::not(predicate) } else { predicate })
    }

    fn dotted_mask(&mut self, address: IpAddr, span: Range<usize>) -> Result<Prefix, ParseError> {
        let mask = if self.kind() == Kind::Word { self.word().parse::<IpAddr>().ok() } else { None };
        let (IpAddr::V4(_), Some(IpAddr::V4(mask))) = (address, mask) else {
            return Err(ParseError::new("the network has no length", span)
                .with_hint(format!("write '{address}/LENGTH', or 'ip {address}' for a single address")));
        };
        let length = mask.to_bits().leading_ones();
        match Prefix::new(address, length as u8) {
            Some(prefix) if length == mask.to_bits().count_ones() => {
                self.advance();
                Ok(prefix)
            }
            _ => Err(ParseError::new(format!("the ones of mask {mask} are not at its front"), self.span())),
        }
    }
}

fn address_test(operand: Operand, set: &AddressSet) -> Test {
    Test::Address { column: column_of(operand), set: set.clone() }
}

/// Whether it may be the name of a host: letters, digits, dots and dashes, a letter among them.
fn looks_like_name(word: &str) -> bool {
    let fits = |octet: u8| octet.is_ascii_alphanumeric() || b".-_".contains(&octet);
    word.bytes().all(fits)
        && word.bytes().any(|octet| octet.is_ascii_alphabetic())
        && !["and", "or", "not"].contains(&word.to_ascii_lowercase().as_str())
}

fn prefix_of(word: &str) -> Option<Prefix> {
    Prefix::parse(word).or_else(|| short_prefix(word))
}

/// `172.16/12`: an IPv4 prefix whose last octets are left out.
fn short_prefix(word: &str) -> Option<Prefix> {
    let (address, length) = word.split_once('/')?;
    let missing = 4_usize.checked_sub(address.split('.').count())?;
    if address.contains(':') {
        return None;
    }
    Prefix::parse(&format!("{address}{}/{length}", ".0".repeat(missing)))
}
