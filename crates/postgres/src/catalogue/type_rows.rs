//! The rows of `pg_type`.

use super::input::{CATALOG_OID, OWNER_OID};
use super::relation::Cell;
use crate::kinds::PgKind;

/// Rows in the order of the columns of `pg_type`.
pub(super) fn rows() -> Vec<Vec<Cell>> {
    PgKind::ALL.iter().map(|kind| row(*kind)).collect()
}

fn row(kind: PgKind) -> Vec<Cell> {
    let octets = i64::from(kind.octets());
    let (item, array) = (kind.item().map_or(0, oid), kind.array().map_or(0, oid));
    let functions = if kind.item().is_some() { "array_" } else { kind.name() };
    let function = |end: &str| Cell::Text(format!("{functions}{end}"));
    let alignment = match octets {
        1 => "c",
        2 => "s",
        8 | 16 => "d",
        _ => "i",
    };
    let is_text = ["S", "X"].contains(&kind.category());
    vec![
        oid(kind).into(),
        kind.name().into(),
        CATALOG_OID.into(),
        OWNER_OID.into(),
        octets.into(),
        (matches!(octets, 1..=8)).into(),
        "b".into(),
        kind.category().into(),
        false.into(),
        true.into(),
        ",".into(),
        0.into(),
        item.into(),
        array.into(),
        function("in"),
        function("out"),
        function("recv"),
        function("send"),
        alignment.into(),
        (if octets < 0 { "x" } else { "p" }).into(),
        false.into(),
        0.into(),
        (-1).into(),
        0.into(),
        (if is_text { 100 } else { 0 }).into(),
        Cell::Null,
    ]
}

fn oid(kind: PgKind) -> i64 {
    i64::from(kind.oid())
}
