//! Types as Postgres has them.

use arrow::datatypes::{DataType, Field};
use weir_flow::schema::CONTENT_KEY;

/// Defines types by their rows in `pg_type`.
macro_rules! kinds {
    ($($kind:ident $oid:literal $octets:literal $category:literal $name:literal $spoken:literal,)*) => {
        /// A type of Postgres.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum PgKind {
            $($kind,)*
        }

        impl PgKind {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Its number, which clients know.
            pub(crate) fn oid(self) -> u32 {
                match self { $(Self::$kind => $oid,)* }
            }

            /// Octets of a value; -1 when they vary.
            pub(crate) fn octets(self) -> i16 {
                match self { $(Self::$kind => $octets,)* }
            }

            /// The letter of its category.
            pub(crate) fn category(self) -> &'static str {
                match self { $(Self::$kind => $category,)* }
            }

            /// Its name in `pg_type`.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Its name in SQL, which `format_type` gives.
            pub(crate) fn spoken(self) -> &'static str {
                match self { $(Self::$kind => $spoken,)* }
            }
        }
    };
}

// select oid, typlen, typcategory, typname, format_type(oid, null) from pg_type
kinds! {
    Bool 16 1 "B" "bool" "boolean",
    Bytea 17 -1 "U" "bytea" "bytea",
    Name 19 64 "S" "name" "name",
    Int8 20 8 "N" "int8" "bigint",
    Int2 21 2 "N" "int2" "smallint",
    Int4 23 4 "N" "int4" "integer",
    Text 25 -1 "S" "text" "text",
    Oid 26 4 "N" "oid" "oid",
    Json 114 -1 "U" "json" "json",
    Float4 700 4 "N" "float4" "real",
    Float8 701 8 "N" "float8" "double precision",
    Unknown 705 -2 "X" "unknown" "unknown",
    Macaddr 829 6 "U" "macaddr" "macaddr",
    Inet 869 -1 "I" "inet" "inet",
    Bpchar 1042 -1 "S" "bpchar" "character",
    Varchar 1043 -1 "S" "varchar" "character varying",
    Date 1082 4 "D" "date" "date",
    Time 1083 8 "D" "time" "time without time zone",
    Timestamp 1114 8 "D" "timestamp" "timestamp without time zone",
    Timestamptz 1184 8 "D" "timestamptz" "timestamp with time zone",
    Interval 1186 16 "T" "interval" "interval",
    Numeric 1700 -1 "N" "numeric" "numeric",
    Uuid 2950 16 "U" "uuid" "uuid",
    Int2Array 1005 -1 "A" "_int2" "smallint[]",
    Int4Array 1007 -1 "A" "_int4" "integer[]",
    TextArray 1009 -1 "A" "_text" "text[]",
    VarcharArray 1015 -1 "A" "_varchar" "character varying[]",
    Int8Array 1016 -1 "A" "_int8" "bigint[]",
    InetArray 1041 -1 "A" "_inet" "inet[]",
}

impl PgKind {
    /// The type of a number.
    pub(crate) fn by_oid(oid: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.oid() == oid)
    }

    /// The type of a name, in `pg_type` or in SQL.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name || kind.spoken() == name)
    }

    /// The type of the items of an array.
    pub(crate) fn item(self) -> Option<Self> {
        match self {
            Self::Int2Array => Some(Self::Int2),
            Self::Int4Array => Some(Self::Int4),
            Self::Int8Array => Some(Self::Int8),
            Self::TextArray => Some(Self::Text),
            Self::VarcharArray => Some(Self::Varchar),
            Self::InetArray => Some(Self::Inet),
            _ => None,
        }
    }

    /// The array of this type.
    pub(crate) fn array(self) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.item() == Some(self))
    }

    /// How a column is shown. Unsigned numbers have the next larger type, those of 64 bits `bigint`, which is an error for values
    /// from 2^63 on; lists, and what else Postgres has no type for, are text.
    pub(crate) fn of_field(field: &Field) -> Self {
        match field.data_type() {
            DataType::Binary | DataType::FixedSizeBinary(_) | DataType::LargeBinary => {
                match field.metadata().get(CONTENT_KEY).map(String::as_str) {
                    Some("address") => Self::Inet,
                    Some("mac") => Self::Macaddr,
                    _ => Self::Bytea,
                }
            }
            kind => Self::of_type(kind),
        }
    }

    fn of_type(kind: &DataType) -> Self {
        match kind {
            DataType::Boolean => Self::Bool,
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => Self::Int2,
            DataType::Int32 | DataType::UInt16 => Self::Int4,
            DataType::Int64 | DataType::UInt32 | DataType::UInt64 => Self::Int8,
            DataType::Float16 | DataType::Float32 => Self::Float4,
            DataType::Float64 => Self::Float8,
            DataType::Decimal128(..) | DataType::Decimal256(..) => Self::Numeric,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Timestamp(_, None) => Self::Timestamp,
            DataType::Timestamp(_, Some(_)) => Self::Timestamptz,
            DataType::Duration(_) | DataType::Interval(_) => Self::Interval,
            DataType::Dictionary(_, values) => Self::of_type(values),
            _ => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::Column;

    use super::*;

    #[test]
    fn columns_of_flows_have_the_types_that_people_expect() {
        for (column, expected) in [
            (Column::SrcAddr, PgKind::Inet),
            (Column::SrcMac, PgKind::Macaddr),
            (Column::Bytes, PgKind::Int8),
            (Column::SrcPort, PgKind::Int4),
            (Column::Protocol, PgKind::Int2),
            (Column::Start, PgKind::Timestamptz),
            (Column::Elements, PgKind::Text),
        ] {
            assert_eq!(PgKind::of_field(&weir_flow::schema::field(column)), expected, "{column:?}");
        }
    }
}
