//! Replaces addresses, so that flows may be shown to others.
//!
//! What cannot be replaced is taken out rather than let through: a value that is no address becomes null, and columns in
//! which addresses may hide are dropped. What speaks against that is that a user of another component with a new text
//! column must name that column in `drop`.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use weir_chain::{
    Built, ComponentContext, ComponentError, ComponentKind, Counter, ONE_INPUT, Opener, OptionError, Outlet, Role,
    State, Transform, choices, options,
};
use weir_flow::schema::CONTENT_KEY;
use weir_flow::{Column, ColumnType};
use weir_rows::addresses::rewritten;
use weir_rows::crypto_pan::{CryptoPan, Key, KeyError};

/// Replaces addresses by images that share prefixes as they did.
pub const KIND: ComponentKind<AnonymiseOptions> = ComponentKind {
    name: "anonymise",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Replaces the addresses of flows. With the method `crypto-pan` (Xu, Fan, Ammar and Moon, 2002) every address \
          gets an image of its own under a secret key, and two addresses that share a prefix have images that share \
          one of exactly the same length, so networks can still be distinguished; anyone who has the key can compute \
          the same images again on another day. With the method `truncate` the last bits become zero. All rows are \
          handed on, in their order. IPv4 and IPv6 addresses are replaced in all columns of addresses, that of the \
          exporter included, because it names a router of yours; lines of the books that go with the flows are not \
          changed. Unspecified, private and multicast addresses are replaced like any other, so 0.0.0.0 in `next_hop` \
          does not stay 0.0.0.0. Nulls stay null. A value that is neither 4 nor 16 bytes long becomes null and is \
          counted in `addresses_unreadable`. Columns in which addresses or names may hide are dropped, see `drop`. \
          Autonomous systems, lengths of prefixes, interfaces and times stay as they are. The component looks nothing \
          up, so `enrich` belongs before it.",
    configure,
};

options! {
    /// Options of `anonymise`.
    pub struct AnonymiseOptions {
        /// How addresses are replaced.
        method: AnonymiseMethod = AnonymiseMethod::CryptoPan,
        /// Read the key of the method crypto-pan, which needs one, from this file: 32 bytes, or 64 hexadecimal digits;
        /// the first half is the AES key, the second makes the pad.
        key_file: Option<PathBuf>,
        /// Replace the addresses of these columns only; without it, those of all columns of addresses. A column that is
        /// not a column of flows must be there, or the component ends with an error.
        columns: Option<Vec<String>>,
        /// Keep this many bits of an IPv4 address with the method truncate.
        prefix_v4_bits: u32 = 24 => 0..=32,
        /// Keep this many bits of an IPv6 address with the method truncate.
        prefix_v6_bits: u32 = 48 => 0..=128,
        /// What happens to the columns src_port, dst_port, nat_src_port and nat_dst_port.
        ports: Ports = Ports::Keep,
        /// What happens to MAC addresses.
        macs: Macs = Macs::Zero,
        /// Drop these columns, because they may have addresses or names of hosts in them where this component does not
        /// read them.
        drop: Vec<String> =
            ["elements", "path", "src_name", "dst_name", "exporter_name", "src_label", "dst_label"].map(str::to_owned).to_vec(),
        /// Keep this many images of IPv4 addresses for the next time, 8 bytes each, and a quarter as many of IPv6
        /// addresses, 32 bytes each. When there are more, a new one replaces another.
        cache_entries: usize = 262_144 => 16..=1 << 28,
    }
}

choices! {
    /// How addresses are replaced.
    pub enum AnonymiseMethod {
        /// By an image under a secret key that keeps which addresses share a prefix.
        CryptoPan = "crypto-pan",
        /// By their first bits; the others become zero.
        Truncate = "truncate",
    }
}

choices! {
    /// What happens to the columns of ports.
    pub enum Ports {
        /// They are handed on.
        Keep = "keep",
        /// They are dropped.
        Drop = "drop",
    }
}

choices! {
    /// What happens to MAC addresses.
    pub enum Macs {
        /// Their bytes become zero.
        Zero = "zero",
        /// They are handed on as they are.
        Keep = "keep",
    }
}

const PORTS: [Column; 4] = [Column::SrcPort, Column::DstPort, Column::NatSrcPort, Column::NatDstPort];

fn configure(options: AnonymiseOptions) -> Result<Opener, OptionError> {
    let is_crypto_pan = options.method == AnonymiseMethod::CryptoPan;
    if is_crypto_pan && options.key_file.is_none() {
        let error = OptionError::new("key_file", "'key_file' must be given with method 'crypto-pan'");
        return Err(error.with_hint("32 octets of 'head -c 32 /dev/urandom' make a key"));
    }
    if options.columns.as_ref().is_some_and(Vec::is_empty) {
        let error = OptionError::new("columns", "'columns' names no column");
        return Err(error.with_hint("without 'columns', all columns of addresses are replaced"));
    }
    let columns = options.columns.unwrap_or_default();
    for name in &columns {
        if Column::by_name(name).is_some_and(|column| column.column_type() != ColumnType::Address) {
            return Err(OptionError::new("columns", format!("column '{name}' has no addresses")));
        }
    }
    let mut dropped = options.drop;
    if options.ports == Ports::Drop {
        dropped.extend(PORTS.map(|column| column.name().to_owned()));
    }
    let selection = Selection { columns, dropped, zero_macs: options.macs == Macs::Zero };
    let truncate = Method::truncate(options.prefix_v4_bits, options.prefix_v6_bits);
    let (key_file, cache_entries) = (options.key_file, options.cache_entries);
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
    let key = Key::read(path).map_err(|error| match error {
        KeyError::Read { source, .. } => {
            ComponentError::caused(format!("key file {} cannot be read", path.display()), source)
        }
        error @ KeyError::NoKey { .. } => ComponentError::new(error.to_string()),
    })?;
    Ok(Method::CryptoPan(Box::new(CryptoPan::new(&key, cache_entries))))
}

/// How an address is replaced.
enum Method {
    CryptoPan(Box<CryptoPan>),
    Truncate { v4: u32, v6: u128 },
}

impl Method {
    fn truncate(v4_bits: u32, v6_bits: u32) -> Self {
        let v4 = u32::MAX.checked_shl(32 - v4_bits).unwrap_or(0);
        let v6 = u128::MAX.checked_shl(128 - v6_bits).unwrap_or(0);
        Self::Truncate { v4, v6 }
    }

    /// Replaces an address; false for octets that are none.
    fn replace(&mut self, octets: &mut [u8]) -> bool {
        let (v4, v6) = match self {
            Self::CryptoPan(pan) => return pan.replace(octets),
            Self::Truncate { v4, v6 } => (v4.to_be_bytes(), v6.to_be_bytes()),
        };
        let mask: &[u8] = match octets.len() {
            4 => &v4,
            16 => &v6,
            _ => return false,
        };
        octets.iter_mut().zip(mask).for_each(|(octet, mask)| *octet &= mask);
        true
    }
}

/// Which columns are replaced, and which are not handed on.
struct Selection {
    /// All columns of addresses when it is empty.
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

    fn keeps_bursts(&self) -> bool {
        true
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
        let (replaced, unreadable) = rewritten(column, |octets| self.method.replace(octets));
        self.addresses_unreadable.add(unreadable as u64);
        replaced
    }
}

fn zeroed(column: &BinaryArray) -> ArrayRef {
    rewritten(column, |octets| {
        octets.fill(0);
        true
    })
    .0
}
