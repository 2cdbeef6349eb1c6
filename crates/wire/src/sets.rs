//! The sets of a message: templates, options templates, data (RFC 7011 section 3.3, `FlowSet` in RFC 3954).

use crate::cursor::Cursor;
use crate::dialect::Dialect;
use crate::element::TemplateId;
use crate::error::{WireError, octets_of};
use crate::template_set::TemplateRecords;

/// Length of a set's header in octets.
pub const SET_HEADER_LEN: usize = 4;

/// One set of a message, borrowed from it.
#[derive(Debug, Clone)]
pub enum Set<'a> {
    /// Templates of data records.
    Templates(TemplateRecords<'a>),
    /// Templates of options data records.
    OptionsTemplates(TemplateRecords<'a>),
    /// Data records; only the template determines how many, and whether they are options data.
    Data {
        /// The template that describes the records.
        template: TemplateId,
        /// The records and perhaps padding.
        body: &'a [u8],
    },
    /// A set whose ID is neither of the above; a collecting process skips it (RFC 7011 section 3.3.2).
    Reserved {
        /// The set ID.
        id: u16,
        /// What is in it.
        body: &'a [u8],
    },
}

/// Iterates over the sets of a message.
///
/// A set's length is what leads to the next one. A data set that should reach past the message is yielded with what of
/// it is there, for its whole records are good; then comes [`WireError::SetLength`], and the iterator ends. Templates
/// of such a set are not taken, because all data after them would be read by what a spoiled message describes. A length
/// too short for a set's header is the same error at once. Up to three octets after the last set, too few for another,
/// are padding when they are zero and else [`WireError::TrailingOctets`].
#[derive(Debug, Clone)]
pub struct Sets<'a> {
    rest: &'a [u8],
    dialect: &'static Dialect,
    /// What was wrong with the set before.
    overrun: Option<WireError>,
}

impl<'a> Sets<'a> {
    pub(crate) fn new(octets: &'a [u8], dialect: &'static Dialect) -> Self {
        Self { rest: octets, dialect, overrun: None }
    }

    /// Octets not yet iterated over.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether the set yielded last should reach past the message, which the next item reports.
    pub fn overruns(&self) -> bool {
        self.overrun.is_some()
    }

    fn set(&self, id: u16, body: &'a [u8]) -> Set<'a> {
        if id == self.dialect.template_set {
            Set::Templates(TemplateRecords::new(body, id, self.dialect))
        } else if id == self.dialect.options_template_set {
            Set::OptionsTemplates(TemplateRecords::new(body, id, self.dialect))
        } else {
            match TemplateId::new(id) {
                Ok(template) => Set::Data { template, body },
                Err(_) => Set::Reserved { id, body },
            }
        }
    }
}

impl<'a> Iterator for Sets<'a> {
    type Item = Result<Set<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.overrun.take() {
            return Some(Err(error));
        }
        // Whatever goes wrong from here on loses the framing, so nothing is left to iterate over.
        let octets = std::mem::take(&mut self.rest);
        let mut cursor = Cursor::new(octets);
        let (Some(id), Some(length)) = (cursor.u16(), cursor.u16()) else {
            let padding = octets.iter().all(|&octet| octet == 0);
            return (!padding).then(|| Err(WireError::TrailingOctets { octets: octets_of(octets.len()) }));
        };
        let wrong = WireError::SetLength { set_id: id, stated: length, have: octets_of(octets.len()) };
        let Some(body_len) = usize::from(length).checked_sub(SET_HEADER_LEN) else { return Some(Err(wrong)) };
        if let Some(body) = cursor.take(body_len) {
            self.rest = cursor.rest;
            return Some(Ok(self.set(id, body)));
        }
        match self.set(id, cursor.rest) {
            set @ Set::Data { .. } if !cursor.rest.is_empty() => {
                self.overrun = Some(wrong);
                Some(Ok(set))
            }
            _ => Some(Err(wrong)),
        }
    }
}
