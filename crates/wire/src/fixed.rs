//! What the versions of NetFlow with records of one fixed form have in common: v1, v5 and v7.
//!
//! Each version's file has its header and one table of its record's fields; offsets, the owned record and the
//! borrowed view derive from that table.

use crate::error::{WireError, octets_of};

/// Finds the whole records after a header that counts `counted` of them. Takes the same time for any number.
///
/// Yields [`WireError::CountMismatch`] when the header counts more records than there are,
/// [`WireError::TrailingOctets`] when octets follow the last record counted.
pub(crate) fn whole_records(octets: &[u8], counted: u16, record_len: usize) -> (&[u8], Option<WireError>) {
    let present = (octets.len() / record_len).min(usize::from(counted));
    let (records, after) = octets.split_at_checked(present * record_len).unwrap_or_default();
    let problem = if present < usize::from(counted) {
        Some(WireError::CountMismatch { stated: counted, found: octets_of(present) })
    } else if after.is_empty() {
        None
    } else {
        Some(WireError::TrailingOctets { octets: octets_of(after.len()) })
    };
    (records, problem)
}

/// A number or address in a record.
pub(crate) trait Value: Sized {
    fn read(octets: &[u8], offset: usize) -> Self;
    fn write(&self, octets: &mut [u8], offset: usize);
}

impl<const N: usize> Value for [u8; N] {
    fn read(octets: &[u8], offset: usize) -> Self {
        // The tables keep every field within the record, which a test checks.
        octets.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    fn write(&self, octets: &mut [u8], offset: usize) {
        if let Some(field) = octets.get_mut(offset..).and_then(|rest| rest.first_chunk_mut()) {
            *field = *self;
        }
    }
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn read(octets: &[u8], offset: usize) -> Self {
                Self::from_be_bytes(Value::read(octets, offset))
            }

            fn write(&self, octets: &mut [u8], offset: usize) {
                self.to_be_bytes().write(octets, offset);
            }
        }
    )*};
}
number!(u8, u16, u32);

/// Derives the offsets, the owned record and the borrowed view from one table.
macro_rules! record {
    ($($(#[doc = $doc:literal])+ $constant:ident, $name:ident: $type:ty = $offset:literal;)*) => {
        /// Offset of each field in a record, in octets.
        pub mod field {
            $($(#[doc = $doc])+ pub const $constant: usize = $offset;)*

            /// Name, offset and length in octets of every field.
            pub const ALL: &[(&str, usize, usize)] =
                &[$((stringify!($name), $offset, size_of::<$type>())),*];
        }

        /// A flow record, owned. What the wire has for padding is not in it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Record {
            $($(#[doc = $doc])+ pub $name: $type,)*
        }

        impl Record {
            /// The record as it goes onto the wire.
            pub fn encode(&self) -> [u8; RECORD_LEN] {
                let mut octets = [0; RECORD_LEN];
                $($crate::fixed::Value::write(&self.$name, &mut octets, $offset);)*
                octets
            }
        }

        impl RecordView<'_> {
            $($(#[doc = $doc])+ pub fn $name(self) -> $type {
                $crate::fixed::Value::read(self.0, $offset)
            })*

            /// An owned copy.
            pub fn to_record(self) -> Record {
                Record { $($name: self.$name()),* }
            }
        }
    };
}

pub(crate) use record;
