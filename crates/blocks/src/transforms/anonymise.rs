//! Replaces addresses, so that flows may be shown to others.
//!
//! An address is replaced where it lies: its length stays, so a column keeps its offsets and only octets are written.
//! Whatever cannot be replaced is taken out rather than let through: a value that is no address becomes null, and
//! columns in which addresses may hide are dropped. What speaks against that is that a new text column of another block
//! must be named in `drop` by whoever uses both.

mod crypto_pan;
mod key;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use weir_chain::{
    Built, ComponentContext, ComponentError, ComponentKind, Counter, ONE_INPUT, Opener, Outlet, ParameterError,
    ParameterSpec, ParameterType, Parameters, Role, State, Transform,
};
use weir_flow::schema::CONTENT_KEY;
use weir_flow::{Column, ColumnType};

use self::crypto_pan::CryptoPan;

/// Replaces addresses by images that share prefixes as they did.
pub const KIND: ComponentKind = ComponentKind {
    name: "anonymise",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Replaces the addresses of flows. With the method 'crypto-pan' (Xu, Fan, Ammar and Moon, 2002) every address \
          gets an image of its own under a secret key, and two addresses that share a prefix have images that share \
          one of exactly the same length, so that networks can still be told apart; whoever has the key can get the \
          same images again on another day. With the method 'truncate' the last bits become zero. All rows are handed \
          on, in their order. IPv4 and IPv6 addresses are replaced in all columns of addresses, that of the exporter \
          included, because it names a router of yours; lines of the books that go with the flows are not changed. \
          Unspecified, private and multicast addresses are replaced like any other, so 0.0.0.0 in 'next_hop' does not \
          stay 0.0.0.0. Octets of MAC addresses become zero. Nulls stay null. A value that is neither 4 nor 16 octets \
          long becomes null and is counted in 'addresses_unreadable'. Columns in which addresses or names may hide are \
          taken out, see 'drop'. Autonomous systems, lengths of prefixes, interfaces and times stay as they are. The \
          block looks nothing up, so 'enrich' belongs before it.",
    parameters: &[
        ParameterSpec {
            key: "method",
            parameter_type: ParameterType::Choice(&["crypto-pan", "truncate"]),
            default: Some("\"crypto-pan\""),
            doc: "How addresses are replaced.",
        },
        ParameterSpec {
            key: "key_file",
            parameter_type: ParameterType::Path,
            default: Some(""),
            doc: "File with the key of 'crypto-pan', which must be given with it: 32 octets, or 64 hexadecimal digits; \
                  the first half is the AES key, the second makes the pad.",
        },
        ParameterSpec {
            key: "columns",
            parameter_type: ParameterType::Texts,
            default: Some("[]"),
            doc: "The columns whose addresses are replaced; when none is named, all columns of addresses. A column \
                  that is no column of flows must be there, or the block ends with an error.",
        },
        ParameterSpec {
            key: "prefix_v4_bits",
            parameter_type: ParameterType::Integer(0, 32),
            default: Some("24"),
            doc: "How much of an IPv4 address 'truncate' keeps.",
        },
        ParameterSpec {
            key: "prefix_v6_bits",
            parameter_type: ParameterType::Integer(0, 128),
            default: Some("48"),
            doc: "How much of an IPv6 address 'truncate' keeps.",
        },
        ParameterSpec {
            key: "ports",
            parameter_type: ParameterType::Choice(&["keep", "drop"]),
            default: Some("\"keep\""),
            doc: "Whether the columns 'src_port', 'dst_port', 'nat_src_port' and 'nat_dst_port' are handed on.",
        },
        ParameterSpec {
            key: "macs",
            parameter_type: ParameterType::Choice(&["zero", "keep"]),
            default: Some("\"zero\""),
            doc: "Whether the octets of MAC addresses become zero.",
        },
        ParameterSpec {
            key: "drop",
            parameter_type: ParameterType::Texts,
            default: Some("[\"elements\", \"path\", \"src_name\", \"dst_name\"]"),
            doc: "Columns that are not handed on, because addresses or names of hosts stand in them where this block \
                  does not read them.",
        },
        ParameterSpec {
            key: "cache_entries",
            parameter_type: ParameterType::Integer(16, 1 << 28),
            default: Some("262144"),
            doc: "How many images of IPv4 addresses are kept for the next time, 8 octets each; of IPv6 addresses a \
                  quarter as many, 32 octets each. When there are more, a new one takes the place of another.",
        },
    ],
    configure,
};

const PORTS: [Column; 4] = [Column::SrcPort, Column::DstPort, Column::NatSrcPort, Column::NatDstPort];

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let key_file = parameters.path("key_file");
    let is_crypto_pan = parameters.text("method") == "crypto-pan";
    if is_crypto_pan && key_file.is_none() {
        let error = ParameterError::new("key_file", "'key_file' must be given with method 'crypto-pan'");
        return Err(error.with_hint("32 octets of 'head -c 32 /dev/urandom' make a key"));
    }
    let columns = parameters.texts("columns");
    for name in &columns {
        if Column::by_name(name).is_some_and(|column| column.column_type() != ColumnType::Address) {
            return Err(ParameterError::new("columns", format!("column '{name}' has no addresses")));
        }
    }
    let mut dropped = parameters.texts("drop");
    if parameters.text("ports") == "drop" {
        dropped.extend(PORTS.map(|column| column.name().to_owned()));
    }
    let selection = Selection { columns, dropped, zero_macs: parameters.text("macs") == "zero" };
    let truncate = Method::truncate(parameters.integer("prefix_v4_bits"), parameters.integer("prefix_v6_bits"));
    let cache_entries = parameters.integer("cache_entries") as usize;
    Ok(Box::new(move |context: &ComponentContext| {
        let method = match key_file.filter(|_| is_crypto_pan) {
            Some(path) => crypto_pan(&path, cache_entries)?,
            None => truncate,
        };
        let addresses_unreadable = context.counters.counter("addresses_unreadable");
        Ok(Built::Transform(Box::new(Anonymise { method, selection, plan: None, addresses_unreadable })))
    }))
}

fn crypto_pan(path: &Path, cache_entries: usize) -> Result<Method, ComponentError> {
    Ok(Method::CryptoPan(Box::new(CryptoPan::new(&key::read(path)?, cache_entries))))
}

/// How an address is replaced.
enum Method {
    CryptoPan(Box<CryptoPan>),
    Truncate { v4: u32, v6: u128 },
}

impl Method {
    fn truncate(v4_bits: u64, v6_bits: u64) -> Self {
        let v4 = u32::MAX.checked_shl(32 - v4_bits as u32).unwrap_or(0);
        let v6 = u128::MAX.checked_shl(128 - v6_bits as u32).unwrap_or(0);
        Self::Truncate { v4, v6 }
    }

    fn v4(&mut self, address: u32) -> u32 {
        match self {
            Self::CryptoPan(pan) => pan.v4(address),
            Self::Truncate { v4, .. } => address & *v4,
        }
    }

    fn v6(&mut self, address: u128) -> u128 {
        match self {
            Self::CryptoPan(pan) => pan.v6(address),
            Self::Truncate { v6, .. } => address & *v6,
        }
    }
}

/// Which columns are replaced, and which are not handed on.
struct Selection {
    columns: Vec<String>,
    dropped: Vec<String>,
    zero_macs: bool,
}

/// What happens to a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Keep,
    Replace,
    Zero,
    Drop,
}

impl Selection {
    fn action(&self, field: &Field) -> Action {
        let name = field.name();
        let content = field.metadata().get(CONTENT_KEY).map(String::as_str);
        let flow_column = Column::by_name(name).map(Column::column_type);
        let is_address = content == Some("address") || flow_column == Some(ColumnType::Address);
        let is_mac = content == Some("mac") || flow_column == Some(ColumnType::Mac);
        if self.dropped.contains(name) {
            Action::Drop
        } else if self.columns.contains(name) || self.columns.is_empty() && is_address {
            Action::Replace
        } else if is_mac && self.zero_macs {
            Action::Zero
        } else {
            Action::Keep
        }
    }
}

/// What happens to the columns of a schema.
struct Plan {
    from: SchemaRef,
    to: SchemaRef,
    actions: Vec<Action>,
}

impl Plan {
    fn new(selection: &Selection, rows: &RecordBatch) -> Result<Self, ComponentError> {
        let from = rows.schema();
        for name in &selection.columns {
            if Column::by_name(name).is_none() && from.index_of(name).is_err() {
                return Err(ComponentError::missing_column(name, rows));
            }
        }
        let actions: Vec<_> = from.fields().iter().map(|field| selection.action(field)).collect();
        let mut fields = Vec::new();
        for (field, action) in from.fields().iter().zip(&actions) {
            let found = field.data_type();
            if matches!(action, Action::Replace | Action::Zero) && *found != DataType::Binary {
                return Err(ComponentError::new(format!("column '{}' has type {found}, not addresses", field.name())));
            }
            if *action != Action::Drop {
                fields.push(Arc::clone(field));
            }
        }
        let to = Arc::new(Schema::new_with_metadata(fields, from.metadata().clone()));
        Ok(Self { from, to, actions })
    }
}

struct Anonymise {
    method: Method,
    selection: Selection,
    plan: Option<Plan>,
    addresses_unreadable: Counter,
}

impl Transform for Anonymise {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        let plan = match self.plan.take() {
            Some(plan) if Arc::ptr_eq(&plan.from, rows.schema_ref()) => plan,
            _ => Plan::new(&self.selection, &rows)?,
        };
        let mut columns = Vec::with_capacity(plan.actions.len());
        for (column, action) in rows.columns().iter().zip(&plan.actions) {
            match action {
                Action::Keep => columns.push(Arc::clone(column)),
                Action::Replace => columns.push(self.replaced(column.as_binary())),
                Action::Zero => columns.push(zeroed(column.as_binary())),
                Action::Drop => {}
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let replaced = RecordBatch::try_new_with_options(Arc::clone(&plan.to), columns, &options)
            .map_err(|error| ComponentError::caused("rows cannot be put together again", error))?;
        self.plan = Some(plan);
        out.rows(replaced);
        Ok(())
    }

    fn state(&self) -> State {
        let octets = match &self.method {
            Method::CryptoPan(pan) => pan.octets() as u64,
            Method::Truncate { .. } => 0,
        };
        State { octets, ..State::default() }
    }
}

impl Anonymise {
    fn replaced(&mut self, column: &BinaryArray) -> ArrayRef {
        let (offsets, mut octets) = own_octets(column);
        let mut unreadable = Vec::new();
        for (row, ends) in offsets.windows(2).enumerate() {
            let value = &mut octets[ends[0] as usize..ends[1] as usize];
            if let Ok(address) = <[u8; 4]>::try_from(&*value) {
                value.copy_from_slice(&self.method.v4(u32::from_be_bytes(address)).to_be_bytes());
            } else if let Ok(address) = <[u8; 16]>::try_from(&*value) {
                value.copy_from_slice(&self.method.v6(u128::from_be_bytes(address)).to_be_bytes());
            } else {
                value.fill(0);
                if column.is_valid(row) {
                    unreadable.push(row);
                }
            }
        }
        self.addresses_unreadable.add(unreadable.len() as u64);
        Arc::new(BinaryArray::new(offsets, octets.into(), with_nulls(column, &unreadable)))
    }
}

/// The offsets and octets of a column, without the octets of rows that it is only a part of.
fn own_octets(column: &BinaryArray) -> (OffsetBuffer<i32>, Vec<u8>) {
    let offsets = column.offsets();
    let (first, last) = (offsets[0], offsets[column.len()]);
    let octets = column.value_data()[first as usize..last as usize].to_vec();
    if first == 0 {
        return (offsets.clone(), octets);
    }
    let moved: ScalarBuffer<i32> = offsets.iter().map(|offset| offset - first).collect();
    (OffsetBuffer::new(moved), octets)
}

/// The nulls of a column, and some rows more.
fn with_nulls(column: &BinaryArray, rows: &[usize]) -> Option<NullBuffer> {
    if rows.is_empty() {
        return column.nulls().cloned();
    }
    let mut valid: Vec<bool> = (0..column.len()).map(|row| column.is_valid(row)).collect();
    for &row in rows {
        valid[row] = false;
    }
    Some(valid.into())
}

fn zeroed(column: &BinaryArray) -> ArrayRef {
    let (offsets, mut octets) = own_octets(column);
    octets.fill(0);
    Arc::new(BinaryArray::new(offsets, octets.into(), column.nulls().cloned()))
}
