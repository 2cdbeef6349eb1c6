//! Interfaces into rows of the tables that have what exporters report.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, RecordBatch, TimestampMillisecondArray, UInt32Array, UInt64Array, new_null_array,
};
use weir_flow::address::with_octets;
use weir_flow::{OptionsKind, OptionsRow, OptionsRows, SideTables, Table, TableBatch};

use crate::interfaces::{Interface, Polled, Unread};
use crate::options::PolledExporter;
use crate::texts::{Text, UnreadTexts};

/// A name that has not changed is written again after this time, as those of options data are.
const AGAIN_AFTER_MS: i64 = 3_600_000;
/// Rows that were in no export datagram are written under the version that has all of their fields, as those of meters are.
const IPFIX: u8 = 10;
// Information Elements of the rows (IANA registry of IPFIX).
const INGRESS_INTERFACE: u16 = 10;
const INTERFACE_NAME: u16 = 82;
const INTERFACE_DESCRIPTION: u16 = 83;
/// The source class of an interface in sFlow.
const CLASS_INTERFACE: u32 = 0;

/// Makes rows of what an agent says, and remembers which names were written.
#[derive(Debug)]
pub(crate) struct RowMaker {
    exporter: Vec<u8>,
    /// The address that was asked, when that is another.
    sender: Option<Vec<u8>>,
    written: HashMap<u32, WrittenName>,
}

#[derive(Debug)]
struct WrittenName {
    name: Option<String>,
    description: Option<String>,
    at_ms: i64,
}

impl RowMaker {
    /// For the agent of an exporter, of which nothing was written.
    pub(crate) fn new(polled: &PolledExporter) -> Self {
        let octets = |address: IpAddr| with_octets(address, <[u8]>::to_vec);
        let sender = polled.other_address().map(octets);
        Self { exporter: octets(polled.exporter), sender, written: HashMap::new() }
    }

    /// Writes all names again with the next poll.
    pub(crate) fn forget_written(&mut self) {
        self.written.clear();
    }

    /// The rows of a poll, and how many of them are names. Texts that were not read stay as they were written.
    pub(crate) fn rows(&mut self, polled: &Polled, unread: UnreadTexts, received_ms: i64) -> (SideTables, u64) {
        let mut names = OptionsRows::default();
        // names are written in polls that have read `ifName` only, so an agent with ever new interfaces is not remembered without end
        if !unread.has(Text::Name) {
            self.written.retain(|index, _| polled.interfaces.contains_key(index));
        }
        for (index, interface) in &polled.interfaces {
            self.name(&mut names, *index, interface, unread, received_ms);
        }
        let count = names.len() as u64;
        let others = names.take().into_iter().chain(self.counters(polled, received_ms)).collect();
        (SideTables { others, ..SideTables::default() }, count)
    }

    fn name(
        &mut self,
        rows: &mut OptionsRows,
        index: u32,
        interface: &Interface,
        unread: UnreadTexts,
        received_ms: i64,
    ) {
        let before = self.written.get(&index);
        let Ok(name) = interface.name(unread) else { return };
        let description = interface
            .description(unread)
            .unwrap_or_else(|Unread| before.and_then(|written| written.description.as_deref()));
        let is_known = before.is_some_and(|written| {
            let is_same = written.name.as_deref() == name && written.description.as_deref() == description;
            // a clock that was set back does not silence names
            is_same && (written.at_ms..written.at_ms + AGAIN_AFTER_MS).contains(&received_ms)
        });
        if is_known || name.is_none() && description.is_none() {
            return;
        }
        let scope = format!("snmp interface {index}");
        let row = OptionsRow {
            kind: OptionsKind::Interface,
            scope: &scope,
            key: Some(index.into()),
            name,
            description,
            ..OptionsRow::blank(received_ms, &self.exporter, 0, IPFIX)
        };
        let octets = index.to_be_bytes();
        let elements = [
            (INGRESS_INTERFACE, Some(&octets[..])),
            (INTERFACE_NAME, name.map(str::as_bytes)),
            (INTERFACE_DESCRIPTION, description.map(str::as_bytes)),
        ];
        rows.push(&row, elements.into_iter().filter_map(|(id, octets)| Some((0, id, octets?))));
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let written = WrittenName { name: owned(name), description: owned(description), at_ms: received_ms };
        self.written.insert(index, written);
    }

    /// Rows of `interface_counters`; columns that SNMP was not asked for are null.
    fn counters(&self, polled: &Polled, received_ms: i64) -> Option<TableBatch> {
        let rows = polled.interfaces.len();
        if rows == 0 {
            return None;
        }
        let schema = Table::InterfaceCounters.schema();
        let narrow = |value: &dyn Fn(u32, &Interface) -> Option<u32>| -> ArrayRef {
            Arc::new(polled.interfaces.iter().map(|(index, one)| value(*index, one)).collect::<UInt32Array>())
        };
        let wide = |value: fn(&Interface) -> Option<u64>| -> ArrayRef {
            Arc::new(polled.interfaces.values().map(value).collect::<UInt64Array>())
        };
        let same = |octets: Option<&[u8]>| -> ArrayRef { Arc::new((0..rows).map(|_| octets).collect::<BinaryArray>()) };
        let columns = schema.fields().iter().map(|field| match field.name().as_str() {
            "received" => {
                let times = TimestampMillisecondArray::from_value(received_ms, rows).with_timezone("UTC");
                Arc::new(times) as ArrayRef
            }
            "exporter" => same(Some(&self.exporter)),
            "sender" => same(self.sender.as_deref()),
            "observation_domain" => narrow(&|_, _| Some(0)),
            "source_class" => narrow(&|_, _| Some(CLASS_INTERFACE)),
            "source_index" | "if_index" => narrow(&|index, _| Some(index)),
            "uptime_ms" => narrow(&|_, _| polled.uptime_ms),
            "if_type" => narrow(&|_, interface| interface.kind),
            "if_status" => narrow(&|_, interface| interface.status()),
            "if_speed" => wide(Interface::speed_bps),
            "in_octets" => wide(|interface| interface.in_octets),
            "out_octets" => wide(|interface| interface.out_octets),
            _ => new_null_array(field.data_type(), rows),
        });
        let columns = columns.collect();
        // columns are made by the schema, so they fit it
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).ok()?;
        TableBatch::try_new(Table::InterfaceCounters, batch)
    }
}

#[cfg(test)]
mod tests;
