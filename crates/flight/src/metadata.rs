//! What drivers ask about the service before they ask it anything else.

use std::sync::LazyLock;

use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{Nullable, Searchable, SqlInfo, XdbcDataType, XdbcDatetimeSubcode};

/// The catalog and the schema of all tables, as the engine has them.
pub(crate) const CATALOG: &str = "datafusion";
pub(crate) const SCHEMA: &str = "public";
pub(crate) const TABLE_TYPE: &str = "TABLE";

/// What the service can do; `None` never happens, as a test shows.
pub(crate) static SQL_INFO: LazyLock<Option<SqlInfoData>> = LazyLock::new(|| {
    let mut builder = SqlInfoDataBuilder::new();
    builder.append(SqlInfo::FlightSqlServerName, "weir");
    builder.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    builder.append(SqlInfo::FlightSqlServerArrowVersion, "1.3");
    builder.append(SqlInfo::FlightSqlServerReadOnly, true);
    builder.append(SqlInfo::FlightSqlServerSql, true);
    builder.append(SqlInfo::FlightSqlServerSubstrait, false);
    builder.append(SqlInfo::FlightSqlServerTransaction, 0_i32);
    builder.append(SqlInfo::FlightSqlServerCancel, true);
    builder.append(SqlInfo::SqlDdlCatalog, false);
    builder.append(SqlInfo::SqlDdlSchema, false);
    builder.append(SqlInfo::SqlDdlTable, false);
    // 1: names are compared in lower case unless they are quoted
    builder.append(SqlInfo::SqlIdentifierCase, 3_i32);
    builder.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    builder.append(SqlInfo::SqlQuotedIdentifierCase, 1_i32);
    builder.append(SqlInfo::SqlAllTablesAreSelectable, true);
    builder.append(SqlInfo::SqlSelectForUpdateSupported, false);
    builder.append(SqlInfo::SqlSupportsColumnAliasing, true);
    builder.append(SqlInfo::SqlTransactionsSupported, false);
    builder.append(SqlInfo::SqlStoredProceduresSupported, false);
    builder.build().ok()
});

/// A type of columns.
struct TypeRow {
    name: &'static str,
    data_type: XdbcDataType,
    size: Option<i32>,
    quote: Option<&'static str>,
    unsigned: Option<bool>,
}

const TYPES: &[TypeRow] = &[
    row("BOOLEAN", XdbcDataType::XdbcBit, Some(1), None, None),
    row("TINYINT UNSIGNED", XdbcDataType::XdbcTinyint, Some(3), None, Some(true)),
    row("SMALLINT UNSIGNED", XdbcDataType::XdbcSmallint, Some(5), None, Some(true)),
    row("INTEGER UNSIGNED", XdbcDataType::XdbcInteger, Some(10), None, Some(true)),
    row("BIGINT UNSIGNED", XdbcDataType::XdbcBigint, Some(20), None, Some(true)),
    row("SMALLINT", XdbcDataType::XdbcSmallint, Some(5), None, Some(false)),
    row("INTEGER", XdbcDataType::XdbcInteger, Some(10), None, Some(false)),
    row("BIGINT", XdbcDataType::XdbcBigint, Some(19), None, Some(false)),
    row("DECIMAL", XdbcDataType::XdbcDecimal, Some(38), None, Some(false)),
    row("DOUBLE", XdbcDataType::XdbcDouble, Some(15), None, Some(false)),
    row("VARCHAR", XdbcDataType::XdbcVarchar, None, Some("'"), None),
    row("VARBINARY", XdbcDataType::XdbcVarbinary, None, Some("'"), None),
    row("DATE", XdbcDataType::XdbcDate, Some(10), Some("'"), None),
    row("TIMESTAMP", XdbcDataType::XdbcTimestamp, Some(23), Some("'"), None),
];

const fn row(
    name: &'static str,
    data_type: XdbcDataType,
    size: Option<i32>,
    quote: Option<&'static str>,
    unsigned: Option<bool>,
) -> TypeRow {
    TypeRow { name, data_type, size, quote, unsigned }
}

/// The types of columns.
pub(crate) static TYPE_INFO: LazyLock<Option<XdbcTypeInfoData>> = LazyLock::new(|| {
    let mut builder = XdbcTypeInfoDataBuilder::new();
    for TypeRow { name, data_type, size, quote, unsigned } in TYPES {
        let subcode = match data_type {
            // the number 1 is that of dates too
            XdbcDataType::XdbcDate => Some(XdbcDatetimeSubcode::XdbcSubcodeYear),
            XdbcDataType::XdbcTimestamp => Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp),
            _ => None,
        };
        builder.append(XdbcTypeInfo {
            type_name: (*name).to_owned(),
            data_type: *data_type,
            column_size: *size,
            literal_prefix: quote.map(str::to_owned),
            literal_suffix: quote.map(str::to_owned),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: *data_type == XdbcDataType::XdbcVarchar,
            searchable: Searchable::Full,
            unsigned_attribute: *unsigned,
            local_type_name: Some((*name).to_owned()),
            sql_data_type: *data_type,
            datetime_subcode: subcode,
            num_prec_radix: unsigned.map(|_| 10),
            ..XdbcTypeInfo::default()
        });
    }
    builder.build().ok()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_there() {
        let info = SQL_INFO.as_ref().expect("information");
        assert_eq!(info.record_batch([SqlInfo::FlightSqlServerReadOnly as u32]).expect("a batch").num_rows(), 1);
        let types = TYPE_INFO.as_ref().expect("types").record_batch(None).expect("a batch");
        assert_eq!(types.num_rows(), TYPES.len());
    }
}
