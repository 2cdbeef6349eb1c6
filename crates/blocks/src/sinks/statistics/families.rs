//! What statistics are kept of: the option `by`, as families of series.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, RecordBatch};
use arrow::datatypes::{Field, Schema};
use weir_chain::{ComponentError, OptionError, closest};
use weir_flow::address::{keep_prefix, to_ip};
use weir_flow::{Column, ColumnType, protocol_name};
use weir_rows::keys::KeyColumns;
use weir_series::{Coverage, Family, Metric, Sketch};

use super::SeriesOptions;

/// The key of rows that are not counted under their own.
pub(super) const OTHER: &str = "other";

/// A family of series and the columns that it counts by.
#[derive(Debug, Clone)]
pub(super) struct CountedFamily {
    pub(super) spec: Family,
    pub(super) keys: Vec<KeyColumn>,
    /// The column whose distinct values are counted.
    pub(super) peer: Option<Column>,
}

/// A column of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyColumn {
    column: Column,
    /// Lengths of prefixes of IPv4 and IPv6, for networks of addresses.
    network: Option<(u8, u8)>,
}

/// What words of the option `by` stand for.
const WORDS: &[(&str, &[&str])] = &[
    ("interface", &["exporter+in_if", "exporter+out_if"]),
    ("host", &["src_addr", "dst_addr"]),
    ("network", &["src_net", "dst_net"]),
    ("port", &["protocol+src_port", "protocol+dst_port"]),
    ("as", &["src_as", "dst_as"]),
];

/// The families that the options ask for, each once.
pub(super) fn counted_families(options: &SeriesOptions) -> Result<Vec<CountedFamily>, OptionError> {
    let mut names: Vec<&str> = Vec::new();
    for by in &options.by {
        let by = by.trim();
        let words = WORDS.iter().find(|(word, _)| *word == by).map(|(_, columns)| *columns);
        for name in words.unwrap_or(&[by]) {
            if !names.contains(name) {
                names.push(name);
            }
        }
    }
    if names.is_empty() {
        return Err(OptionError::new("by", "there is nothing to keep statistics of").with_hint("by = [\"total\"]"));
    }
    names.into_iter().map(|name| counted_family(name, options)).collect()
}

/// The error about a word that names no column, with the one that was probably meant.
fn no_column(word: &str) -> OptionError {
    let words = WORDS.iter().map(|(word, _)| *word).chain(["total", "src_net", "dst_net"]);
    let hint = closest(word, words.chain(Column::ALL.iter().map(|column| column.name())));
    // there are too many columns to list them
    let is_guess = hint.starts_with("did you mean ");
    let usual = "a column of flows, several joined by '+', or total, interface, host, network, port, as";
    OptionError::new("by", format!("'{word}' is no column to count by")).with_hint(if is_guess {
        hint
    } else {
        usual.to_owned()
    })
}

fn counted_family(name: &str, options: &SeriesOptions) -> Result<CountedFamily, OptionError> {
    let network = Some((options.network_bits, options.network_bits6));
    let key = |part: &str| match part {
        "src_net" => Ok(KeyColumn { column: Column::SrcAddr, network }),
        "dst_net" => Ok(KeyColumn { column: Column::DstAddr, network }),
        other => Column::by_name(other)
            .filter(|column| column.column_type() != ColumnType::Elements)
            .map(|column| KeyColumn { column, network: None })
            .ok_or_else(|| no_column(other)),
    };
    let keys: Vec<KeyColumn> =
        if name == "total" { Vec::new() } else { name.split('+').map(key).collect::<Result<_, _>>()? };
    if keys.iter().enumerate().any(|(at, key)| keys[..at].iter().any(|other| other.column == key.column)) {
        return Err(OptionError::new("by", format!("'{name}' has a column twice")));
    }
    let peer = match &keys[..] {
        [one] if options.peers && one.column == Column::SrcAddr => Some(Column::DstAddr),
        [one] if options.peers && one.column == Column::DstAddr => Some(Column::SrcAddr),
        _ => None,
    };
    let coverage = if keys.iter().all(|key| is_bounded(key.column)) { Coverage::Complete } else { Coverage::Largest };
    let has_quantiles = options.quantiles && coverage == Coverage::Complete;
    let sketch = if has_quantiles { Sketch::Quantiles } else { Sketch::None };
    let mut metrics: Vec<_> = ["flows", "packets", "bytes"].map(|name| Metric::counter(name).with(sketch)).to_vec();
    metrics.extend(peer.map(|_| Metric::gauge("peers").with(Sketch::Distinct)));
    Ok(CountedFamily { spec: Family { name: name.to_owned(), coverage, metrics }, keys, peer })
}

/// Whether a column has few distinct values in any network, so that every one of them is kept.
fn is_bounded(column: Column) -> bool {
    column.column_type() == ColumnType::U8
        || matches!(
            column,
            Column::Exporter | Column::InIf | Column::OutIf | Column::ObservationDomain | Column::SamplerId
        )
}

impl CountedFamily {
    /// Numbers for the keys of this family.
    pub(super) fn key_columns(&self) -> KeyColumns {
        KeyColumns::new(self.keys.iter().map(|key| key.name()))
    }

    /// The same for its keys together with peers.
    pub(super) fn pair_columns(&self) -> Option<KeyColumns> {
        let peer = self.peer?;
        Some(KeyColumns::new(self.keys.iter().map(|key| key.name()).chain([peer.name()])))
    }

    /// The columns that [`key_columns`](Self::key_columns) and [`pair_columns`](Self::pair_columns) are about.
    pub(super) fn columns(&self, rows: &RecordBatch) -> Result<RecordBatch, ComponentError> {
        let keys = self.keys.iter().map(|key| (key.name(), key.column, key.network));
        let peer = self.peer.map(|peer| (peer.name(), peer, None));
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (name, column, network) in keys.chain(peer) {
            let Some(values) = rows.column_by_name(column.name()) else { continue };
            let values = match network {
                Some(bits) => Arc::new(networks(values.as_binary_opt().ok_or_else(|| no_addresses(column))?, bits)),
                None => Arc::clone(values),
            };
            fields.push(Field::new(name, values.data_type().clone(), true));
            columns.push(values);
        }
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
            .map_err(|error| ComponentError::caused("the columns of keys", error))
    }

    /// The keys of these numbers, as text.
    pub(super) fn texts(&self, keys: &KeyColumns, ids: &[u32]) -> Result<Vec<String>, ComponentError> {
        let mut texts = vec![String::new(); ids.len()];
        if self.keys.is_empty() {
            texts.fill("total".to_owned());
        }
        for (key, (_, values)) in self.keys.iter().zip(keys.columns(ids)?) {
            for (row, text) in texts.iter_mut().enumerate() {
                if !text.is_empty() {
                    text.push(' ');
                }
                key.push_text(&values, row, text);
            }
        }
        // a host of that name is not the sum of the others
        texts.iter_mut().filter(|text| *text == OTHER).for_each(|text| text.push_str(" (a key)"));
        Ok(texts)
    }
}

fn no_addresses(column: Column) -> ComponentError {
    ComponentError::new(format!("column '{column}' has no addresses"))
}

impl KeyColumn {
    fn name(self) -> &'static str {
        // the name of a column of flows: when it is absent, every key is null
        self.column.name()
    }

    /// Appends a value as people write it; `-` for null.
    fn push_text(self, values: &ArrayRef, row: usize, text: &mut String) {
        if values.is_null(row) {
            text.push('-');
            return;
        }
        if let Some(texts) = values.as_string_opt::<i32>() {
            text.push_str(texts.value(row));
            return;
        }
        let Some(octets) = values.as_binary_opt::<i32>() else {
            match (self.column, number(values, row)) {
                (Column::Protocol, Some(value)) => match protocol_name(value as u8) {
                    Some(name) => text.push_str(name),
                    None => push_number(text, value),
                },
                (_, Some(value)) => push_number(text, value),
                (_, None) => text.push('?'),
            }
            return;
        };
        match to_ip(octets.value(row)) {
            Some(address) if self.column.column_type() == ColumnType::Address => {
                let _ = write!(text, "{address}");
                if let Some((v4, v6)) = self.network {
                    let _ = write!(text, "/{}", if address.is_ipv4() { v4 } else { v6 });
                }
            }
            _ => octets.value(row).iter().for_each(|octet| push_hex(text, *octet)),
        }
    }
}

fn push_hex(text: &mut String, octet: u8) {
    let _ = write!(text, "{octet:02x}");
}

fn push_number(text: &mut String, value: u64) {
    let _ = write!(text, "{value}");
}

/// A number of any unsigned type, or a time.
fn number(values: &ArrayRef, row: usize) -> Option<u64> {
    use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
    let u8 = values.as_primitive_opt::<UInt8Type>().map(|values| u64::from(values.value(row)));
    let u16 = || values.as_primitive_opt::<UInt16Type>().map(|values| u64::from(values.value(row)));
    let u32 = || values.as_primitive_opt::<UInt32Type>().map(|values| u64::from(values.value(row)));
    let u64 = || values.as_primitive_opt::<UInt64Type>().map(|values| values.value(row));
    let time = || values.as_primitive_opt::<TimestampMillisecondType>().map(|values| values.value(row) as u64);
    u8.or_else(u16).or_else(u32).or_else(u64).or_else(time)
}

/// Addresses without the bits behind the prefix.
fn networks(addresses: &BinaryArray, (v4, v6): (u8, u8)) -> BinaryArray {
    let mut networks = BinaryBuilder::with_capacity(addresses.len(), addresses.value_data().len());
    for address in addresses {
        networks.append_option(address.map(|address| {
            let bits = usize::from(if address.len() == 4 { v4 } else { v6 });
            let mut network = address.to_vec();
            keep_prefix(&mut network, bits);
            network
        }));
    }
    networks.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_no_bits_behind_the_prefix() {
        let of = |bits| {
            let addresses = BinaryArray::from_opt_vec(vec![Some(&[203, 0, 113, 255]), None]);
            networks(&addresses, (bits, 48)).iter().map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>()
        };
        assert_eq!(of(24), [Some(vec![203, 0, 113, 0]), None]);
        assert_eq!(of(27), [Some(vec![203, 0, 113, 224]), None]);
        assert_eq!(of(1), [Some(vec![128, 0, 0, 0]), None]);
        assert_eq!(of(32), [Some(vec![203, 0, 113, 255]), None]);
    }
}
