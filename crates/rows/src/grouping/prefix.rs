//! Columns that make a key, and addresses cut to a prefix before they do.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use weir_chain::{ComponentError, OptionError};
use weir_flow::{Column, ColumnType};

/// The columns of a key, as a user named them.
#[derive(Debug, Clone)]
pub struct KeyNames {
    names: Vec<String>,
    prefixes: Vec<Prefix>,
}

/// A column of addresses, and which of their bits count.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Prefix {
    name: String,
    v4_mask: u32,
    v6_mask: u128,
}

impl KeyNames {
    /// Reads `protocol`, `src_addr/24` (IPv4 addresses are cut, IPv6 addresses stay whole) or `src_addr/24/48`.
    pub fn parse(key: &str, texts: &[String]) -> Result<Self, OptionError> {
        let mut found = Self { names: Vec::new(), prefixes: Vec::new() };
        for text in texts {
            let mut parts = text.split('/');
            let name = parts.next().unwrap_or_default().trim();
            let lengths: Vec<&str> = parts.collect();
            if name.is_empty() {
                return Err(OptionError::new(key, format!("'{text}' names no column")));
            }
            if found.names.iter().any(|known| known == name) {
                return Err(OptionError::new(key, format!("'{name}' is there twice")));
            }
            if !lengths.is_empty() {
                found.prefixes.push(Prefix::parse(key, text, name, &lengths)?);
            }
            found.names.push(name.to_owned());
        }
        Ok(found)
    }

    /// Names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The rows, with addresses cut.
    pub fn cut(&self, rows: &RecordBatch) -> Result<RecordBatch, ComponentError> {
        if self.prefixes.is_empty() {
            return Ok(rows.clone());
        }
        let mut columns = rows.columns().to_vec();
        for prefix in &self.prefixes {
            // a column that is not there is null or an error, which whoever reads the key decides
            let Ok(at) = rows.schema_ref().index_of(&prefix.name) else { continue };
            columns[at] = prefix.cut(&columns[at])?;
        }
        RecordBatch::try_new(rows.schema(), columns)
            .map_err(|error| ComponentError::caused("addresses cannot be cut", error))
    }
}

impl Prefix {
    fn parse(key: &str, text: &str, name: &str, lengths: &[&str]) -> Result<Self, OptionError> {
        let wrong = |message: String| {
            let error = OptionError::new(key, message);
            error.with_hint(format!("prefixes are written {name}/24 for IPv4, or {name}/24/48 for IPv4 and IPv6"))
        };
        if Column::by_name(name).is_some_and(|column| column.column_type() != ColumnType::Address) {
            return Err(wrong(format!("'{name}' is no column of addresses, so '{text}' has no prefix")));
        }
        let length = |text: &str, max: u32| text.parse().ok().filter(|length: &u32| *length <= max);
        let (v4, v6) = match lengths {
            [v4] => (length(v4, 32), Some(128)),
            [v4, v6] => (length(v4, 32), length(v6, 128)),
            _ => (None, None),
        };
        let (Some(v4), Some(v6)) = (v4, v6) else { return Err(wrong(format!("'{text}' has no lengths of prefixes"))) };
        let v4_mask = u32::MAX.checked_shl(32 - v4).unwrap_or(0);
        let v6_mask = u128::MAX.checked_shl(128 - v6).unwrap_or(0);
        Ok(Self { name: name.to_owned(), v4_mask, v6_mask })
    }

    fn cut(&self, column: &ArrayRef) -> Result<ArrayRef, ComponentError> {
        let Some(addresses) = column.as_binary_opt::<i32>() else {
            let (name, found) = (&self.name, column.data_type());
            let message = format!("column '{name}' has type {found}, but {} is needed for a prefix", DataType::Binary);
            return Err(ComponentError::new(message));
        };
        let offsets = addresses.value_offsets();
        let (first, last) = (offsets[0] as usize, offsets[addresses.len()] as usize);
        let mut octets = addresses.value_data()[first..last].to_vec();
        for ends in offsets.windows(2) {
            let address = &mut octets[ends[0] as usize - first..ends[1] as usize - first];
            if let Ok(v4) = <&mut [u8; 4]>::try_from(&mut *address) {
                *v4 = (u32::from_be_bytes(*v4) & self.v4_mask).to_be_bytes();
            } else if let Ok(v6) = <&mut [u8; 16]>::try_from(address) {
                *v6 = (u128::from_be_bytes(*v6) & self.v6_mask).to_be_bytes();
            }
        }
        let offsets = OffsetBuffer::new(offsets.iter().map(|offset| offset - first as i32).collect());
        Ok(Arc::new(BinaryArray::new(offsets, octets.into(), addresses.nulls().cloned())))
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::{FlowBatchBuilder, parse_address};

    use super::*;

    fn cut(by: &str, addresses: &[Option<&str>]) -> Vec<Option<String>> {
        let mut builder = FlowBatchBuilder::new(4);
        for address in addresses {
            builder.begin_rows(1);
            let octets = address.map(|text| parse_address(text).expect("an address"));
            builder.address(Column::SrcAddr).push(octets.as_deref());
        }
        let rows = builder.finish().record_batch().clone();
        let names = KeyNames::parse("keys", &[by.to_owned()]).expect("a key");
        assert_eq!(names.names(), ["src_addr"]);
        let rows = names.cut(&rows.slice(1, rows.num_rows() - 1)).expect("addresses");
        let addresses = rows.column(0).as_binary::<i32>().iter();
        addresses.map(|octets| octets.map(|octets| weir_flow::AddressText(octets).to_string())).collect()
    }

    #[test]
    fn bits_behind_the_prefix_are_0() {
        let addresses =
            [Some("9.9.9.9"), Some("10.1.2.3"), None, Some("2001:db8:1:2:3:4:5:6"), Some("255.255.255.255")];
        let cut = |by| {
            let found = cut(by, &addresses);
            found.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(cut("src_addr/24"), "10.1.2.0  2001:db8:1:2:3:4:5:6 255.255.255.0");
        assert_eq!(cut("src_addr/24/48"), "10.1.2.0  2001:db8:1:: 255.255.255.0");
        assert_eq!(cut("src_addr/0/0"), "0.0.0.0  :: 0.0.0.0");
        assert_eq!(cut("src_addr/32/128"), "10.1.2.3  2001:db8:1:2:3:4:5:6 255.255.255.255");
        assert_eq!(cut("src_addr/9/33"), "10.0.0.0  2001:db8:: 255.128.0.0");
    }

    #[test]
    fn mistakes_are_told() {
        let refusal = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            KeyNames::parse("keys", &texts).expect_err("no key").message
        };
        assert_eq!(refusal(&["src_addr/33"]), "'src_addr/33' has no lengths of prefixes");
        assert_eq!(refusal(&["src_addr/24/129"]), "'src_addr/24/129' has no lengths of prefixes");
        assert_eq!(refusal(&["src_addr/1/2/3"]), "'src_addr/1/2/3' has no lengths of prefixes");
        assert_eq!(refusal(&["src_port/8"]), "'src_port' is no column of addresses, so 'src_port/8' has no prefix");
        assert_eq!(refusal(&["src_addr", "src_addr/24"]), "'src_addr' is there twice");
        assert_eq!(refusal(&["/24"]), "'/24' names no column");
    }
}
