//! Writing NetFlow v9 and IPFIX messages into a vector that the caller reuses.
//!
//! Whatever would make the message too long, or is not what its template describes, is taken back and reported, so
//! a message is well-formed at every moment and [`finish`](MessageBuilder::finish) cannot fail. To fill datagrams
//! up to an MTU: set [`within`](MessageBuilder::within), write records until [`WireError::MessageFull`], finish,
//! and begin the next message with the record that did not fit.

use std::marker::PhantomData;

use crate::dialect::{Dialect, ENTERPRISE_BIT};
use crate::element::{FieldSpecifier, TemplateId};
use crate::error::{WireError, octets_of};
use crate::sets::SET_HEADER_LEN;
use crate::template::Template;

/// Longest message: the length field of IPFIX has 16 bits, and no UDP datagram is longer either.
pub const MESSAGE_OCTETS_MAX: usize = 65535;

/// Most records in one message: the count field of NetFlow v9 has 16 bits.
pub const MESSAGE_RECORDS_MAX: u32 = 65535;

/// Which templates a withdrawal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateKind {
    /// Those of data records.
    Data,
    /// Those of options data records.
    Options,
}

/// What a finished message consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedMessage {
    /// Its length, header included.
    pub octets: usize,
    /// Templates, options templates and withdrawals.
    pub template_records: u32,
    /// Data records, options data included.
    pub data_records: u32,
}

/// A message being written; `P` is the protocol. Used by its names `netflow9::MessageBuilder` and
/// `ipfix::MessageBuilder`.
///
/// Consecutive records of one template share a set, and so do consecutive templates of one kind. Each set is padded
/// to a multiple of four octets, except where its records are so short that padding could pass for one
/// (RFC 7011 section 3.3.1).
#[derive(Debug)]
#[must_use = "an unfinished message has no valid length"]
pub struct MessageBuilder<'v, P> {
    out: &'v mut Vec<u8>,
    /// Where the message begins in `out`.
    start: usize,
    limit: usize,
    open: Option<OpenSet>,
    template_records: u32,
    data_records: u32,
    dialect: &'static Dialect,
    protocol: PhantomData<P>,
}

/// What the records of a set have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SetKind {
    id: u16,
    /// Withdrawals get sets of their own.
    withdrawals: bool,
    /// Octets of the shortest record; padding must be shorter.
    record_octets_min: usize,
}

/// The set that records are being added to.
#[derive(Debug, Clone, Copy)]
struct OpenSet {
    kind: SetKind,
    /// Where it begins in `out`.
    start: usize,
}

impl<'v, P> MessageBuilder<'v, P> {
    /// A builder for a message whose header has just been written at `start`.
    pub(crate) fn begun(out: &'v mut Vec<u8>, start: usize, dialect: &'static Dialect) -> Self {
        Self {
            out,
            start,
            limit: MESSAGE_OCTETS_MAX,
            open: None,
            template_records: 0,
            data_records: 0,
            dialect,
            protocol: PhantomData,
        }
    }

    /// Limits the message to `octets_max` octets, header included; never more than [`MESSAGE_OCTETS_MAX`].
    pub fn within(mut self, octets_max: usize) -> Self {
        self.limit = octets_max.min(MESSAGE_OCTETS_MAX);
        self
    }

    /// Length of the message if it were finished now.
    pub fn octets(&self) -> usize {
        self.out.len().saturating_sub(self.start) + self.padding()
    }

    /// Octets that can follow in a message of at most `datagram_octets_max`. A record of another template than the
    /// last also needs a set header of four octets, and up to three octets of padding.
    pub fn remaining(&self, datagram_octets_max: usize) -> usize {
        datagram_octets_max.min(self.limit).saturating_sub(self.octets())
    }

    /// Data records written so far.
    pub fn data_records(&self) -> u32 {
        self.data_records
    }

    /// Whether there is nothing in the message yet but its header.
    pub fn is_empty(&self) -> bool {
        self.data_records == 0 && self.template_records == 0
    }

    /// Writes a template or, when it has scope fields, an options template.
    ///
    /// # Errors
    ///
    /// [`WireError::MessageFull`], [`WireError::CountFull`], and [`WireError::Inexpressible`] for an element with
    /// an enterprise number in NetFlow v9 or an ID over 15 bits in IPFIX. The message is then as before.
    pub fn template(&mut self, template: &Template) -> Result<(), WireError> {
        let dialect = self.dialect;
        let kind = SetKind {
            id: set_of(dialect, template.is_options()),
            withdrawals: false,
            record_octets_min: SET_HEADER_LEN,
        };
        self.template_records += self.append(kind, |out| {
            write_template(dialect, template, out)?;
            Ok(1)
        })?;
        Ok(())
    }

    pub(crate) fn withdrawal(
        &mut self,
        templates: TemplateKind,
        template: Option<TemplateId>,
    ) -> Result<(), WireError> {
        let id = set_of(self.dialect, templates == TemplateKind::Options);
        let kind = SetKind { id, withdrawals: true, record_octets_min: SET_HEADER_LEN };
        self.template_records += self.append(kind, |out| {
            // All templates of a kind are named by the ID of their set.
            out.extend(template.map_or(id, TemplateId::get).to_be_bytes());
            out.extend(0_u16.to_be_bytes());
            Ok(1)
        })?;
        Ok(())
    }

    /// Writes one data record of `template`, whose octets `write` appends. It must leave what is there alone.
    ///
    /// # Errors
    ///
    /// [`WireError::MessageFull`], [`WireError::CountFull`], and [`WireError::RecordMismatch`] when what was
    /// appended is not one record of the template. The message is then as before.
    pub fn record(&mut self, template: &Template, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), WireError> {
        self.data(template, Some(1), write).map(|_| ())
    }

    /// Writes as many data records of `template` as `write` appends the octets of, and yields how many.
    ///
    /// # Errors
    ///
    /// As [`MessageBuilder::record`]; all records are taken back together.
    pub fn records(&mut self, template: &Template, write: impl FnOnce(&mut Vec<u8>)) -> Result<u32, WireError> {
        self.data(template, None, write)
    }

    fn data(
        &mut self,
        template: &Template,
        expected: Option<u32>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<u32, WireError> {
        let layout = template.layout();
        let kind = SetKind { id: template.id().get(), withdrawals: false, record_octets_min: layout.min_record_len() };
        let records = self.append(kind, |out| {
            let from = out.len();
            write(out);
            // `write` is only to append. If it shortens the vector instead, what is gone stays gone.
            let octets = out.get(from..).unwrap_or_default();
            let records = layout.whole_records(octets).map(octets_of);
            records.filter(|&records| expected.is_none_or(|expected| records == expected)).ok_or(
                WireError::RecordMismatch { written: octets_of(octets.len()), expected: expected.unwrap_or_default() },
            )
        })?;
        self.data_records += records;
        Ok(records)
    }

    /// Lets `write` append records to a set of this kind, and yields how many it did; takes everything back when
    /// that fails or the message would be too long.
    fn append(
        &mut self,
        kind: SetKind,
        write: impl FnOnce(&mut Vec<u8>) -> Result<u32, WireError>,
    ) -> Result<u32, WireError> {
        let (len_before, open_before) = (self.out.len(), self.open);
        self.enter(kind);
        let records = write(self.out).and_then(|records| {
            let need = self.octets();
            if need > self.limit {
                let limit = octets_of(self.limit);
                return Err(WireError::MessageFull { need: octets_of(need), limit });
            }
            // Within the limit of octets, these sums cannot overflow 32 bits.
            if self.template_records + self.data_records + records > MESSAGE_RECORDS_MAX {
                return Err(WireError::CountFull { limit: MESSAGE_RECORDS_MAX });
            }
            Ok(records)
        });
        if records.is_err() {
            self.out.truncate(len_before);
            self.open = open_before;
        }
        records
    }

    /// Makes the open set one of this kind.
    fn enter(&mut self, kind: SetKind) {
        if self.open.is_some_and(|open| open.kind == kind) {
            return;
        }
        self.close();
        self.open = Some(OpenSet { kind, start: self.out.len() });
        self.out.extend(kind.id.to_be_bytes());
        self.out.extend(0_u16.to_be_bytes());
    }

    /// Octets of padding that the open set needs.
    fn padding(&self) -> usize {
        let Some(open) = self.open else { return 0 };
        let padding = self.out.len().wrapping_sub(self.start).wrapping_neg() % 4;
        if padding < open.kind.record_octets_min { padding } else { 0 }
    }

    /// Pads the open set and patches its length. It stays well-formed if it is taken back and continued.
    fn close(&mut self) {
        let Some(open) = self.open else { return };
        self.out.resize(self.out.len() + self.padding(), 0);
        let length = self.out.len().saturating_sub(open.start) as u16;
        patch(self.out, open.start + 2, length);
        self.open = None;
    }

    /// Closes the last set and patches one field of the header.
    pub(crate) fn complete(mut self, offset: usize, value: impl FnOnce(&FinishedMessage) -> u16) -> FinishedMessage {
        self.close();
        let finished = FinishedMessage {
            octets: self.out.len().saturating_sub(self.start),
            template_records: self.template_records,
            data_records: self.data_records,
        };
        patch(self.out, self.start + offset, value(&finished));
        finished
    }
}

/// Appends a value of variable length with its length before it: one octet up to 254, else 255 and two octets
/// (RFC 7011 section 7, figures R and S).
///
/// # Errors
///
/// [`WireError::ValueTooLong`] over 65535 octets; nothing is appended then.
pub fn push_variable(out: &mut Vec<u8>, value: &[u8]) -> Result<(), WireError> {
    let Ok(length) = u16::try_from(value.len()) else {
        let limit = u32::from(u16::MAX);
        return Err(WireError::ValueTooLong { octets: octets_of(value.len()), limit });
    };
    match u8::try_from(length) {
        Ok(length) if length < u8::MAX => out.push(length),
        _ => {
            out.push(u8::MAX);
            out.extend(length.to_be_bytes());
        }
    }
    out.extend_from_slice(value);
    Ok(())
}

fn set_of(dialect: &Dialect, options: bool) -> u16 {
    if options { dialect.options_template_set } else { dialect.template_set }
}

fn patch(out: &mut [u8], offset: usize, value: u16) {
    if let Some(field) = out.get_mut(offset..).and_then(|rest| rest.get_mut(..2)) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

fn write_template(dialect: &Dialect, template: &Template, out: &mut Vec<u8>) -> Result<(), WireError> {
    // A template has at most 1024 fields, so all of these fit.
    let (fields, scopes) = (template.fields().len() as u16, template.scope_count() as u16);
    out.extend(template.id().get().to_be_bytes());
    if !template.is_options() {
        out.extend(fields.to_be_bytes());
    } else if dialect.options_lengths_in_octets {
        out.extend((4 * scopes).to_be_bytes());
        out.extend((4 * (fields - scopes)).to_be_bytes());
    } else {
        out.extend(fields.to_be_bytes());
        out.extend(scopes.to_be_bytes());
    }
    template.fields().iter().try_for_each(|&field| write_field(dialect, field, out))
}

fn write_field(
    dialect: &Dialect,
    FieldSpecifier { element, length }: FieldSpecifier,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let inexpressible = if dialect.enterprise_bit { element.id & ENTERPRISE_BIT != 0 } else { element.enterprise != 0 };
    if inexpressible {
        return Err(WireError::Inexpressible { enterprise: element.enterprise, id: element.id });
    }
    let bit = if element.enterprise == 0 { 0 } else { ENTERPRISE_BIT };
    out.extend((element.id | bit).to_be_bytes());
    out.extend(length.to_be_bytes());
    if element.enterprise != 0 {
        out.extend(element.enterprise.to_be_bytes());
    }
    Ok(())
}
