//! The relations of `information_schema` (ISO/IEC 9075-11) that tools ask for.

use super::input::CatalogueInput;
use super::relation::{Cell, Relation};
use crate::kinds::PgKind;

/// Names of relations, and their columns with types.
pub(super) const COLUMNS: &[(&str, &str)] = &[
    ("schemata", "catalog_name schema_name schema_owner"),
    ("tables", "table_catalog table_schema table_name table_type is_insertable_into is_typed"),
    (
        "columns",
        "table_catalog table_schema table_name column_name ordinal_position:int column_default is_nullable data_type \
         character_maximum_length:int numeric_precision:int numeric_scale:int datetime_precision:int udt_catalog \
         udt_schema udt_name is_identity is_generated is_updatable",
    ),
    ("views", "table_catalog table_schema table_name view_definition check_option is_updatable"),
    (
        "table_constraints",
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name constraint_type is_deferrable initially_deferred",
    ),
    (
        "key_column_usage",
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name column_name ordinal_position:int position_in_unique_constraint:int",
    ),
    (
        "constraint_column_usage",
        "table_catalog table_schema table_name column_name constraint_catalog constraint_schema constraint_name",
    ),
    (
        "referential_constraints",
        "constraint_catalog constraint_schema constraint_name unique_constraint_catalog unique_constraint_schema unique_constraint_name match_option update_rule delete_rule",
    ),
    (
        "routines",
        "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name routine_type data_type",
    ),
    ("sequences", "sequence_catalog sequence_schema sequence_name data_type"),
];

/// All relations.
pub(super) fn all(input: &CatalogueInput) -> Vec<Relation> {
    COLUMNS.iter().map(|(name, columns)| Relation::new(name, columns, rows(name, input))).collect()
}

fn rows(name: &str, input: &CatalogueInput) -> Vec<Vec<Cell>> {
    let (database, user) = (input.session.database.as_str(), input.session.user.as_str());
    match name {
        "schemata" => {
            let schema = |name: &str| vec![database.into(), name.into(), user.into()];
            ["pg_catalog", "public", "information_schema"].map(schema).to_vec()
        }
        "tables" => {
            let table = |name: &str| {
                vec![database.into(), "public".into(), name.into(), "BASE TABLE".into(), "NO".into(), "NO".into()]
            };
            input.tables.iter().map(|found| table(&found.name)).collect()
        }
        "columns" => input.tables.iter().flat_map(|table| columns(database, table)).collect(),
        _ => Vec::new(),
    }
}

fn columns(database: &str, table: &weir_sql::TableDescription) -> Vec<Vec<Cell>> {
    let column = |(number, column): (i64, &weir_sql::ColumnDescription)| -> Vec<Cell> {
        let kind = PgKind::of_field(&column.field);
        let precision = match kind {
            PgKind::Int2 => Cell::Int(16),
            PgKind::Int4 => Cell::Int(32),
            PgKind::Int8 => Cell::Int(64),
            PgKind::Float8 => Cell::Int(53),
            _ => Cell::Null,
        };
        vec![
            database.into(),
            "public".into(),
            table.name.as_str().into(),
            column.field.name().as_str().into(),
            number.into(),
            Cell::Null,
            (if column.field.is_nullable() { "YES" } else { "NO" }).into(),
            kind.spoken().into(),
            Cell::Null,
            precision,
            Cell::Null,
            Cell::Null,
            database.into(),
            "pg_catalog".into(),
            kind.name().into(),
            "NO".into(),
            "NEVER".into(),
            "NO".into(),
        ]
    };
    (1..).zip(&table.columns).map(column).collect()
}
