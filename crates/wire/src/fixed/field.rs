//! The fields of a record, and how a version writes them down as a table.

/// A field that every record of a version has at the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedField {
    /// The name of its constant.
    pub name: &'static str,
    /// Where it begins in the record.
    pub offset: usize,
    /// How many octets it has.
    pub length: usize,
    /// The Information Element with the same meaning; `None` when there is none.
    pub element: Option<u16>,
}

impl FixedField {
    /// The octets of the field in a record; none in octets that are too few for a record.
    pub fn of<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        record.get(self.offset..self.offset + self.length).unwrap_or_default()
    }

    /// The number in the field; of an address its bits.
    pub fn number(&self, record: &[u8]) -> u64 {
        self.of(record).iter().fold(0, |number, octet| number << 8 | u64::from(*octet))
    }

    /// Writes a number into the field: as many of its lowest octets as the field has.
    pub fn put(&self, record: &mut [u8], number: u64) {
        let field = record.get_mut(self.offset..self.offset + self.length).unwrap_or_default();
        for (octet, byte) in field.iter_mut().rev().zip(number.to_le_bytes()) {
            *octet = byte;
        }
    }
}

/// Writes the table of a version's fields: name, offset, length, Information Element, meaning. Each field becomes a
/// constant, and all together are `ALL`.
macro_rules! fields {
    ($($name:ident: $offset:literal, $length:literal, $element:expr, $meaning:literal;)*) => {
        /// The fields of a record.
        pub mod field {
            use crate::fixed::FixedField;

            $(
                #[doc = $meaning]
                pub const $name: FixedField =
                    FixedField { name: stringify!($name), offset: $offset, length: $length, element: $element };
            )*

            /// Every field, in the order of the record.
            pub const ALL: &[FixedField] = &[$($name),*];
        }
    };
}

pub(crate) use fields;
