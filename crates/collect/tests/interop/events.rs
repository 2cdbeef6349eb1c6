//! Records in the order in which other programs print them as events.

use weir_wire::ElementId;

use crate::expected::{Expected, ExpectedField};
use crate::rows::{Decoded, Row};
use crate::walk::{HeaderSeen, Message, Record};

/// A record with the header of its message, and the flow that it became where that is certain.
pub(crate) struct Event<'a> {
    pub header: HeaderSeen,
    pub record: &'a Record,
    pub row: Option<&'a Row>,
}

/// All records, flows and options.
pub(crate) fn events<'a>(messages: &'a [Message], decoded: &'a Decoded) -> Vec<Event<'a>> {
    let mut events = Vec::new();
    for (message, rows) in messages.iter().zip(&decoded.rows) {
        // With sets that had waited there are more flows than records, and no telling which is whose.
        let certain = message.flows().count() == rows.len();
        let mut rows = rows.iter();
        for record in message.records() {
            let row = if certain && record.scopes == 0 { rows.next() } else { None };
            events.push(Event { header: message.header, record, row });
        }
    }
    events
}

/// The field that a name stands for: the first of these elements that the record has.
pub(crate) fn field_named(
    record: &Record,
    name: &str,
    candidates: &[(u32, u16)],
    value: Expected,
) -> Option<ExpectedField> {
    let element = candidates
        .iter()
        .map(|&(enterprise, id)| ElementId { enterprise, id })
        .find(|element| record.fields.iter().any(|field| field.element == *element && !field.scope_type))?;
    Some(ExpectedField { name: name.to_owned(), element, value })
}
