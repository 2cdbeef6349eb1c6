//! What a collector gets: flows as maps from column to value, decoded with `weir-wire` and the column table alone.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::elements::elements_of_row;
use weir_flow::{Column, ColumnType, FlowBatch};
use weir_wire::fixed::FixedField;
use weir_wire::netflow5::field;
use weir_wire::{Set, Sets, Spans, Template, TemplateId, TemplateRecord, fixed, ipfix, netflow5, netflow9};

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Number(u64),
    Octets(Vec<u8>),
    Elements(Vec<(u32, u16, Vec<u8>)>),
}

impl Cell {
    pub(crate) fn octets(&self) -> usize {
        self.as_octets().len()
    }

    pub(crate) fn as_octets(&self) -> &[u8] {
        match self {
            Self::Octets(octets) => octets,
            _ => &[],
        }
    }

    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            _ => 0,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Octets(octets) => octets.iter().all(|octet| *octet == 0),
            Self::Elements(elements) => elements.is_empty(),
        }
    }
}

/// A flow.
pub(crate) type Row = BTreeMap<Column, Cell>;

/// The values of one row that are not null.
pub(crate) fn row_of(batch: &FlowBatch, row: usize) -> Row {
    let cell = |column: Column| {
        let array = batch.column(column)?;
        if array.is_null(row) {
            return None;
        }
        Some(match column.column_type() {
            ColumnType::U8 => Cell::Number(array.as_primitive::<UInt8Type>().value(row).into()),
            ColumnType::U16 => Cell::Number(array.as_primitive::<UInt16Type>().value(row).into()),
            ColumnType::U32 => Cell::Number(array.as_primitive::<UInt32Type>().value(row).into()),
            ColumnType::U64 => Cell::Number(array.as_primitive::<UInt64Type>().value(row)),
            ColumnType::Time => Cell::Number(array.as_primitive::<TimestampMillisecondType>().value(row) as u64),
            ColumnType::Elements => {
                let elements = elements_of_row(array, row);
                if elements.is_empty() {
                    return None;
                }
                Cell::Elements(elements.iter().map(|e| (e.enterprise, e.id, e.octets.to_vec())).collect())
            }
            ColumnType::Text => Cell::Octets(array.as_string::<i32>().value(row).into()),
            _ => Cell::Octets(array.as_binary::<i32>().value(row).to_vec()),
        })
    };
    Column::ALL.iter().filter_map(|&column| Some((column, cell(column)?))).collect()
}

/// Everything in some datagrams of one exporter.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) rows: Vec<Row>,
    /// Options data: number and octets of each field.
    pub(crate) options: Vec<Vec<(u16, Vec<u8>)>>,
    /// Sequence number of each datagram.
    pub(crate) sequences: Vec<u32>,
    /// Data records in each datagram, those without a template not counted.
    pub(crate) records: Vec<u32>,
    pub(crate) sets_before_template: usize,
    templates: HashMap<TemplateId, Template>,
}

/// Export time in milliseconds, and uptime if there is one.
type Times = (i64, Option<u32>);

impl Received {
    pub(crate) fn of(datagrams: &[Vec<u8>]) -> Self {
        let mut received = Self::default();
        for datagram in datagrams {
            let before = received.rows.len() + received.options.len();
            match datagram[..2] {
                [0, 5] => received.packet(&netflow5::FORMAT.decode(datagram).expect("a packet")),
                [0, 9] => {
                    let message = netflow9::decode(datagram).expect("a message");
                    received.sequences.push(message.header.sequence);
                    let secs = i64::from(message.header.unix_secs);
                    received.sets(message.sets, (secs * 1000, Some(message.header.sys_uptime_ms)));
                }
                _ => {
                    let message = ipfix::decode(datagram).expect("a message");
                    assert_eq!(message.problem, None);
                    received.sequences.push(message.header.sequence);
                    received.sets(message.sets, (0, None));
                }
            }
            let records = received.rows.len() + received.options.len() - before;
            received.records.push(records as u32);
        }
        received
    }

    fn packet(&mut self, packet: &fixed::Packet<'_>) {
        assert_eq!(packet.problem, None);
        let header = packet.header;
        self.sequences.push(header.flow_sequence);
        let export_ms = i64::from(header.unix_secs) * 1000 + i64::from(header.unix_nsecs / 1_000_000);
        let time = |field: FixedField, record: &[u8]| {
            let age_ms = header.sys_uptime_ms.wrapping_sub(field.number(record) as u32) as i32;
            Cell::Number((export_ms - i64::from(age_ms)) as u64)
        };
        let octets = |field: FixedField, record: &[u8]| Cell::Octets(field.of(record).into());
        let number = |field: FixedField, record: &[u8]| Cell::Number(field.number(record));
        for record in packet.iter() {
            self.rows.push(BTreeMap::from([
                (Column::SrcAddr, octets(field::SRC_ADDR, record)),
                (Column::DstAddr, octets(field::DST_ADDR, record)),
                (Column::NextHop, octets(field::NEXT_HOP, record)),
                (Column::InIf, number(field::INPUT, record)),
                (Column::OutIf, number(field::OUTPUT, record)),
                (Column::Packets, number(field::PACKETS, record)),
                (Column::Bytes, number(field::OCTETS, record)),
                (Column::Start, time(field::FIRST, record)),
                (Column::End, time(field::LAST, record)),
                (Column::SrcPort, number(field::SRC_PORT, record)),
                (Column::DstPort, number(field::DST_PORT, record)),
                (Column::TcpFlags, number(field::TCP_FLAGS, record)),
                (Column::Protocol, number(field::PROTOCOL, record)),
                (Column::Tos, number(field::TOS, record)),
                (Column::SrcAs, number(field::SRC_AS, record)),
                (Column::DstAs, number(field::DST_AS, record)),
                (Column::SrcMask, number(field::SRC_MASK, record)),
                (Column::DstMask, number(field::DST_MASK, record)),
            ]));
        }
    }

    fn sets(&mut self, sets: Sets<'_>, times: Times) {
        for set in sets {
            match set.expect("a set") {
                Set::Templates(records) | Set::OptionsTemplates(records) => {
                    for record in records {
                        let TemplateRecord::Define(template) = record.expect("a template") else { continue };
                        self.templates.insert(template.id(), template);
                    }
                }
                Set::Data { template, body } => match self.templates.get(&template).cloned() {
                    Some(template) => self.data(&template, body, times),
                    None => self.sets_before_template += 1,
                },
                Set::Reserved { id, .. } => panic!("set {id}"),
            }
        }
    }

    fn data(&mut self, template: &Template, body: &[u8], times: Times) {
        let mut spans = Spans::default();
        let located = template.layout().locate(body, &mut spans);
        assert_eq!(located.problem, None);
        assert!(located.unread < 4);
        for record in 0..located.records {
            let fields = template.fields().iter().enumerate();
            let fields = fields.map(|(field, specifier)| {
                (specifier.element, located.field(field).octets(body, record).expect("octets").to_vec())
            });
            if template.is_options() {
                self.options.push(fields.map(|(element, octets)| (element.id, octets)).collect());
                continue;
            }
            let (mut row, mut elements) = (Row::new(), Vec::new());
            for (element, octets) in fields {
                match Column::of_element(element.enterprise, element.id) {
                    Some((column, _)) => {
                        assert_eq!(row.insert(column, cell(column, element.id, octets, times)), None);
                    }
                    None => elements.push((element.enterprise, element.id, octets)),
                }
            }
            if !elements.is_empty() {
                row.insert(Column::Elements, Cell::Elements(elements));
            }
            self.rows.push(row);
        }
    }
}

fn cell(column: Column, id: u16, octets: Vec<u8>, (export_ms, uptime_ms): Times) -> Cell {
    let number = |octets: &[u8]| octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet));
    match column.column_type() {
        ColumnType::Address | ColumnType::Mac | ColumnType::Octets | ColumnType::Text => Cell::Octets(octets),
        ColumnType::Time if id == 21 || id == 22 => {
            let age_ms = uptime_ms.expect("uptime").wrapping_sub(number(&octets) as u32) as i32;
            Cell::Number((export_ms - i64::from(age_ms)) as u64)
        }
        _ => Cell::Number(number(&octets)),
    }
}
