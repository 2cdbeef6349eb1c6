//! The input of the catalogue: the session that asks, and the tables that it sees.

use weir_sql::TableDescription;

use crate::settings::Settings;

/// Numbers of tables begin here, as in Postgres.
pub(super) const FIRST_OID: i64 = 16_384;
pub(super) const CATALOG_OID: i64 = 11;
pub(super) const PUBLIC_OID: i64 = 2200;
pub(super) const INFORMATION_OID: i64 = 13_000;
/// The number of the owner of all objects.
pub(super) const OWNER_OID: i64 = 10;
/// The number of `pg_class` in `pg_description` and in casts.
pub(super) const CLASS_OID: i64 = 1259;
/// The schema that replaces `information_schema`: the engine has one of its own, with other types.
pub(super) const INFORMATION: &str = "weir_information";

/// The session that asks, as the catalogue shows it.
#[derive(Debug, Clone)]
pub(crate) struct CatalogueSession {
    pub(super) user: String,
    pub(super) database: String,
    pub(super) settings: Vec<(&'static str, String)>,
}

impl CatalogueSession {
    pub(crate) fn new(user: &str, database: &str, settings: &Settings) -> Self {
        let settings = settings.all().map(|(name, value)| (name, value.to_owned())).collect();
        Self { user: user.to_owned(), database: database.to_owned(), settings }
    }
}

/// The input of the catalogue.
#[derive(Debug)]
pub(super) struct CatalogueInput {
    pub(super) session: CatalogueSession,
    pub(super) tables: Vec<TableDescription>,
}

impl CatalogueInput {
    /// The number of a table.
    pub(super) fn oid(position: usize) -> i64 {
        FIRST_OID + position as i64
    }

    pub(super) fn table_oid(&self, name: &str) -> Option<i64> {
        self.tables.iter().position(|table| table.name == name).map(Self::oid)
    }

    pub(super) fn table_of(&self, oid: i64) -> Option<&TableDescription> {
        self.tables.get(usize::try_from(oid - FIRST_OID).ok()?)
    }
}
