//! Structured data: lists as values of a field (RFC 6313).
//!
//! A list is walked once, depth first, and flattened into [`ListEntry`]s that borrow from the message: the list itself,
//! then everything in it, each with the position of the list that holds it. So nothing of the nesting is lost, and a
//! caller that only looks for a value need not know about lists. The price is that a list's octets are found twice, in
//! its own entry and in those of its contents; who keeps both can read the list again later, with a Template that came
//! too late.
//!
//! Sub-Templates are the caller's, as all templates are. Where one is not known, or where octets are not what they
//! should be, the list's own entry stays and the rest of that list is counted, not guessed.

use crate::cursor::Cursor;
use crate::dialect::ENTERPRISE_BIT;
use crate::element::{ElementId, TemplateId, VARIABLE_LENGTH};
use crate::template::Template;
use crate::value::variable_length;

/// Deepest nesting that is walked: lists in a record are 1 deep, lists in those 2. RFC 6313 section 4.1 allows any.
pub const LIST_DEPTH_MAX: usize = 8;

/// Most entries that all lists of one record may have. A list that would pass it stays as octets.
pub const LIST_ENTRIES_MAX: usize = 4_096;

/// The three abstract data types of RFC 6313 section 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// `basicList`: values of one element.
    Basic,
    /// `subTemplateList`: records of one Template.
    SubTemplate,
    /// `subTemplateMultiList`: records of several Templates.
    SubTemplateMulti,
}

/// How the entries of a list belong together (RFC 6313 section 4.4): the first octet of every list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Semantic {
    /// 0: none of the entries is a property of the record.
    NoneOf,
    /// 1: exactly one of them.
    ExactlyOneOf,
    /// 2: one or more of them.
    OneOrMoreOf,
    /// 3: all of them.
    AllOf,
    /// 4: all of them, in this order.
    Ordered,
    /// 255, and every number that has no meaning.
    Undefined,
}

impl Semantic {
    /// The semantic that this octet names.
    pub const fn from_octet(octet: u8) -> Self {
        match octet {
            0 => Self::NoneOf,
            1 => Self::ExactlyOneOf,
            2 => Self::OneOrMoreOf,
            3 => Self::AllOf,
            4 => Self::Ordered,
            _ => Self::Undefined,
        }
    }
}

/// A value found in a list, or a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListEntry<'a> {
    /// The element.
    pub element: ElementId,
    /// The value, without a length before it; of a list everything, semantic included.
    pub octets: &'a [u8],
    /// Position, among the entries, of the list that holds this one; `None` for a list of the record itself.
    pub parent: Option<u16>,
    /// Number of the value, or of the record that it is in, in that list; from 0.
    pub record: u16,
    /// What kind of list it is, if it is one.
    pub list: Option<ListKind>,
}

/// What a walk needs to know of its context.
pub trait ListContext {
    /// The Template with this ID in the Observation Domain of the message, scope fields included.
    fn template(&self, id: TemplateId) -> Option<&Template>;
    /// Whether the values of an element are lists, and of which kind.
    fn list_kind(&self, element: ElementId) -> Option<ListKind>;
}

/// Appends a list of a record, and everything in it, to `entries`. Yields how many lists, or parts of a
/// [`ListKind::SubTemplateMulti`], could not be walked to their end.
///
/// What of a list precedes its damage is among the entries, as records before a damaged one are of a Set. Positions in
/// [`ListEntry::parent`] count from the first of `entries`; callers begin each record with none.
pub fn walk<'a>(
    element: ElementId,
    kind: ListKind,
    octets: &'a [u8],
    context: &impl ListContext,
    entries: &mut Vec<ListEntry<'a>>,
) -> u32 {
    let mut walk = Walk { context, entries, undecodable: 0, last: (element, Some(kind)) };
    walk.entry(element, octets, None, 0, Some(kind), 1);
    walk.undecodable
}

/// Marks a list that cannot be walked on.
struct Spoiled;

struct Walk<'w, 'a, S> {
    context: &'w S,
    entries: &'w mut Vec<ListEntry<'a>>,
    undecodable: u32,
    /// The element that was asked about last, and what it is: values of one element come in a row.
    last: (ElementId, Option<ListKind>),
}

impl<'a, S: ListContext> Walk<'_, 'a, S> {
    /// Appends an entry and, when it is a list, what is in it.
    fn entry(
        &mut self,
        element: ElementId,
        octets: &'a [u8],
        parent: Option<u16>,
        record: u16,
        list: Option<ListKind>,
        depth: usize,
    ) {
        let position = self.entries.len() as u16;
        self.entries.push(ListEntry { element, octets, parent, record, list });
        let Some(kind) = list else { return };
        let walked = match kind {
            // a list of variable length without even a semantic: nothing is listed, so nothing is missing
            _ if octets.is_empty() => Ok(()),
            _ if depth > LIST_DEPTH_MAX => Err(Spoiled),
            ListKind::Basic => self.basic(octets, position, depth),
            ListKind::SubTemplate => self.sub_template(octets, position, depth),
            ListKind::SubTemplateMulti => self.sub_template_multi(octets, position, depth),
        };
        self.undecodable += u32::from(walked.is_err());
    }

    /// Appends what a list holds, unless the record has too many entries already.
    #[inline]
    fn hold(
        &mut self,
        element: ElementId,
        octets: &'a [u8],
        (parent, record): (u16, u16),
        depth: usize,
    ) -> Result<(), Spoiled> {
        if self.entries.len() >= LIST_ENTRIES_MAX {
            return Err(Spoiled);
        }
        if self.last.0 != element {
            self.last = (element, self.context.list_kind(element));
        }
        match self.last.1 {
            None => self.entries.push(ListEntry { element, octets, parent: Some(parent), record, list: None }),
            list => self.entry(element, octets, Some(parent), record, list, depth + 1),
        }
        Ok(())
    }

    /// RFC 6313 section 4.5.1: semantic, element, length, values.
    fn basic(&mut self, octets: &'a [u8], position: u16, depth: usize) -> Result<(), Spoiled> {
        let mut cursor = Cursor::new(octets);
        let header = |cursor: &mut Cursor<'a>| {
            cursor.u8()?;
            let (field, length) = (cursor.u16()?, cursor.u16()?);
            let enterprise = if field & ENTERPRISE_BIT == 0 { 0 } else { cursor.u32()? };
            Some((ElementId { enterprise, id: field & !ENTERPRISE_BIT }, length))
        };
        let (element, length) = header(&mut cursor).ok_or(Spoiled)?;
        let mut record = 0_u16;
        while !cursor.rest.is_empty() {
            // any number of values without octets would fit into nothing
            let value = if length == 0 { None } else { take(&mut cursor, length) };
            self.hold(element, value.ok_or(Spoiled)?, (position, record), depth)?;
            record = record.saturating_add(1);
        }
        Ok(())
    }

    /// RFC 6313 section 4.5.2: semantic, Template ID, records.
    fn sub_template(&mut self, octets: &'a [u8], position: u16, depth: usize) -> Result<(), Spoiled> {
        let mut cursor = Cursor::new(octets);
        let id = cursor.u8().and_then(|_| cursor.u16()).ok_or(Spoiled)?;
        self.records(id, cursor, (position, &mut 0), depth)
    }

    /// RFC 6313 section 4.5.3: semantic, then for each Template its ID, the length of ID, length and records, records.
    fn sub_template_multi(&mut self, octets: &'a [u8], position: u16, depth: usize) -> Result<(), Spoiled> {
        let mut cursor = Cursor::new(octets);
        cursor.u8().ok_or(Spoiled)?;
        let mut record = 0;
        while !cursor.rest.is_empty() {
            let (id, length) = cursor.u16().zip(cursor.u16()).ok_or(Spoiled)?;
            let body = usize::from(length).checked_sub(4).and_then(|length| cursor.take(length)).ok_or(Spoiled)?;
            // records of one Template that cannot be read do not hide those of the next
            if self.records(id, Cursor::new(body), (position, &mut record), depth).is_err() {
                self.undecodable += 1;
            }
        }
        Ok(())
    }

    /// Records of one Template, one after the other to the end.
    fn records(
        &mut self,
        id: u16,
        mut cursor: Cursor<'a>,
        (position, record): (u16, &mut u16),
        depth: usize,
    ) -> Result<(), Spoiled> {
        if cursor.rest.is_empty() {
            return Ok(());
        }
        let context = self.context;
        let template = TemplateId::new(id).ok().and_then(|id| context.template(id)).ok_or(Spoiled)?;
        while !cursor.rest.is_empty() {
            // `Template::new` refuses records without octets; without one this would not end
            if template.layout().min_record_len() == 0 || cursor.rest.len() < template.layout().min_record_len() {
                return Err(Spoiled);
            }
            for (_, field) in template.filled_fields() {
                let value = take(&mut cursor, field.length).ok_or(Spoiled)?;
                self.hold(field.element, value, (position, *record), depth)?;
            }
            *record = record.saturating_add(1);
        }
        Ok(())
    }
}

/// A value of this length, or of the length before it.
#[inline]
fn take<'a>(cursor: &mut Cursor<'a>, length: u16) -> Option<&'a [u8]> {
    if length != VARIABLE_LENGTH {
        return cursor.take(usize::from(length));
    }
    let (prefix, length) = variable_length(cursor.rest)?;
    cursor.take(prefix)?;
    cursor.take(usize::from(length))
}
