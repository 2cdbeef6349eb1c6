//! The relations of `pg_catalog`.

use super::input::{CATALOG_OID, CLASS_OID, CatalogueInput, INFORMATION_OID, OWNER_OID, PUBLIC_OID};
use super::relation::{Cell, Relation};
use super::type_rows;
use crate::kinds::PgKind;

/// Names of relations, and their columns with types.
pub(super) const COLUMNS: &[(&str, &str)] = &[
    ("pg_namespace", "oid:int nspname nspowner:int nspacl"),
    (
        "pg_class",
        "oid:int relname relnamespace:int reltype:int reloftype:int relowner:int relam:int relfilenode:int \
         reltablespace:int relpages:int reltuples:int relallvisible:int reltoastrelid:int relhasindex:bool \
         relisshared:bool relpersistence relkind relnatts:int relchecks:int relhasrules:bool relhastriggers:bool \
         relhassubclass:bool relrowsecurity:bool relforcerowsecurity:bool relispopulated:bool relreplident \
         relispartition:bool relrewrite:int relfrozenxid:int relminmxid:int relacl reloptions relpartbound relhasoids:bool",
    ),
    (
        "pg_attribute",
        "attrelid:int attname atttypid:int attstattarget:int attlen:int attnum:int attndims:int attcacheoff:int \
         atttypmod:int attbyval:bool attalign attstorage attcompression attnotnull:bool atthasdef:bool \
         atthasmissing:bool attidentity attgenerated attisdropped:bool attislocal:bool attinhcount:int \
         attcollation:int attacl attoptions attfdwoptions attmissingval",
    ),
    (
        "pg_type",
        "oid:int typname typnamespace:int typowner:int typlen:int typbyval:bool typtype typcategory \
         typispreferred:bool typisdefined:bool typdelim typrelid:int typelem:int typarray:int typinput typoutput \
         typreceive typsend typalign typstorage typnotnull:bool typbasetype:int typtypmod:int typndims:int \
         typcollation:int typdefault",
    ),
    (
        "pg_database",
        "oid:int datname datdba:int encoding:int datlocprovider datistemplate:bool datallowconn:bool \
         datconnlimit:int dattablespace:int datcollate datctype daticulocale datcollversion datacl",
    ),
    ("pg_description", "objoid:int classoid:int objsubid:int description"),
    (
        "pg_roles",
        "oid:int rolname rolsuper:bool rolinherit:bool rolcreaterole:bool rolcreatedb:bool rolcanlogin:bool \
         rolreplication:bool rolconnlimit:int rolpassword rolvaliduntil rolbypassrls:bool rolconfig",
    ),
    (
        "pg_user",
        "usename usesysid:int usecreatedb:bool usesuper:bool userepl:bool usebypassrls:bool passwd valuntil useconfig",
    ),
    (
        "pg_settings",
        "name setting unit category short_desc extra_desc context vartype source min_val max_val enumvals boot_val reset_val sourcefile sourceline:int pending_restart:bool",
    ),
    (
        "pg_tables",
        "schemaname tablename tableowner tablespace hasindexes:bool hasrules:bool hastriggers:bool rowsecurity:bool",
    ),
    ("pg_am", "oid:int amname amhandler amtype"),
    ("pg_tablespace", "oid:int spcname spcowner:int spcacl spcoptions"),
    // what weir does not have
    ("pg_aggregate", "aggfnoid:int aggkind"),
    ("pg_attrdef", "oid:int adrelid:int adnum:int adbin"),
    ("pg_auth_members", "roleid:int member:int grantor:int admin_option:bool"),
    ("pg_cast", "oid:int castsource:int casttarget:int castfunc:int castcontext castmethod"),
    (
        "pg_collation",
        "oid:int collname collnamespace:int collowner:int collprovider collencoding:int collcollate collctype",
    ),
    (
        "pg_constraint",
        "oid:int conname connamespace:int contype condeferrable:bool condeferred:bool convalidated:bool conrelid:int \
         contypid:int conindid:int conparentid:int confrelid:int confupdtype confdeltype confmatchtype conislocal:bool \
         coninhcount:int connoinherit:bool conkey confkey conbin",
    ),
    ("pg_conversion", "oid:int conname connamespace:int"),
    ("pg_depend", "classid:int objid:int objsubid:int refclassid:int refobjid:int refobjsubid:int deptype"),
    ("pg_enum", "oid:int enumtypid:int enumsortorder:int enumlabel"),
    ("pg_event_trigger", "oid:int evtname evtevent evtowner:int evtfoid:int evtenabled evttags"),
    (
        "pg_extension",
        "oid:int extname extowner:int extnamespace:int extrelocatable:bool extversion extconfig extcondition",
    ),
    ("pg_foreign_data_wrapper", "oid:int fdwname fdwowner:int fdwhandler:int fdwvalidator:int fdwacl fdwoptions"),
    ("pg_foreign_server", "oid:int srvname srvowner:int srvfdw:int srvtype srvversion srvacl srvoptions"),
    ("pg_foreign_table", "ftrelid:int ftserver:int ftoptions"),
    (
        "pg_index",
        "indexrelid:int indrelid:int indnatts:int indnkeyatts:int indisunique:bool indisprimary:bool \
         indisexclusion:bool indimmediate:bool indisclustered:bool indisvalid:bool indcheckxmin:bool indisready:bool \
         indislive:bool indisreplident:bool indkey indcollation indclass indoption indexprs indpred",
    ),
    ("pg_indexes", "schemaname tablename indexname tablespace indexdef"),
    ("pg_inherits", "inhrelid:int inhparent:int inhseqno:int inhdetachpending:bool"),
    (
        "pg_language",
        "oid:int lanname lanowner:int lanispl:bool lanpltrusted:bool lanplcallfoid:int laninline:int lanvalidator:int lanacl",
    ),
    ("pg_locks", "locktype database:int relation:int pid:int mode granted:bool"),
    ("pg_matviews", "schemaname matviewname matviewowner tablespace hasindexes:bool ispopulated:bool definition"),
    ("pg_opclass", "oid:int opcmethod:int opcname opcnamespace:int opcowner:int opcintype:int opcdefault:bool"),
    ("pg_operator", "oid:int oprname oprnamespace:int oprleft:int oprright:int oprresult:int"),
    ("pg_partitioned_table", "partrelid:int partstrat partnatts:int partdefid:int partattrs partexprs"),
    ("pg_policy", "oid:int polname polrelid:int polcmd polpermissive:bool polroles polqual polwithcheck"),
    (
        "pg_proc",
        "oid:int proname pronamespace:int proowner:int prolang:int procost:int prorows:int provariadic:int prokind \
         prosecdef:bool proleakproof:bool proisstrict:bool proretset:bool provolatile proparallel pronargs:int \
         pronargdefaults:int prorettype:int proargtypes proallargtypes proargmodes proargnames prosrc probin proacl",
    ),
    ("pg_publication", "oid:int pubname pubowner:int puballtables:bool"),
    ("pg_publication_namespace", "oid:int pnpubid:int pnnspid:int"),
    ("pg_publication_rel", "oid:int prpubid:int prrelid:int prqual prattrs"),
    (
        "pg_range",
        "rngtypid:int rngsubtype:int rngmultitypid:int rngcollation:int rngsubopc:int rngcanonical rngsubdiff",
    ),
    ("pg_rewrite", "oid:int rulename ev_class:int ev_type ev_enabled is_instead:bool ev_qual ev_action"),
    ("pg_seclabel", "objoid:int classoid:int objsubid:int provider label"),
    (
        "pg_sequence",
        "seqrelid:int seqtypid:int seqstart:int seqincrement:int seqmax:int seqmin:int seqcache:int seqcycle:bool",
    ),
    ("pg_sequences", "schemaname sequencename sequenceowner data_type"),
    ("pg_shdescription", "objoid:int classoid:int description"),
    ("pg_stat_activity", "datid:int datname pid:int usename application_name client_addr state query"),
    ("pg_stat_ssl", "pid:int ssl:bool version cipher bits:int"),
    ("pg_stat_user_tables", "relid:int schemaname relname seq_scan:int n_live_tup:int"),
    (
        "pg_statistic_ext",
        "oid:int stxrelid:int stxname stxnamespace:int stxowner:int stxstattarget:int stxkeys stxkind",
    ),
    (
        "pg_trigger",
        "oid:int tgrelid:int tgparentid:int tgname tgfoid:int tgtype:int tgenabled tgisinternal:bool tgconstrrelid:int \
         tgconstrindid:int tgconstraint:int tgdeferrable:bool tginitdeferred:bool tgnargs:int tgattr tgargs tgqual",
    ),
    ("pg_views", "schemaname viewname viewowner definition"),
];

/// Relations that have rows; the others never do.
const WITH_ROWS: &[&str] = &[
    "pg_namespace",
    "pg_class",
    "pg_attribute",
    "pg_type",
    "pg_database",
    "pg_description",
    "pg_roles",
    "pg_user",
    "pg_settings",
    "pg_tables",
    "pg_am",
    "pg_tablespace",
];

/// Whether a relation never has a row.
pub(super) fn is_empty(name: &str) -> bool {
    COLUMNS.iter().any(|(known, _)| *known == name) && !WITH_ROWS.contains(&name)
}

/// All relations.
pub(super) fn all(input: &CatalogueInput) -> Vec<Relation> {
    COLUMNS.iter().map(|(name, columns)| Relation::new(name, columns, rows(name, input))).collect()
}

fn rows(name: &str, input: &CatalogueInput) -> Vec<Vec<Cell>> {
    match name {
        "pg_namespace" => {
            let schema = |oid: i64, name: &str| vec![oid.into(), name.into(), OWNER_OID.into(), Cell::Null];
            vec![
                schema(CATALOG_OID, "pg_catalog"),
                schema(PUBLIC_OID, "public"),
                schema(INFORMATION_OID, "information_schema"),
            ]
        }
        "pg_class" => input.tables.iter().enumerate().map(|(position, table)| class(position, table)).collect(),
        "pg_attribute" => {
            input.tables.iter().enumerate().flat_map(|(position, table)| attributes(position, table)).collect()
        }
        "pg_type" => type_rows::rows(),
        "pg_database" => vec![database(&input.session.database)],
        "pg_description" => descriptions(input),
        "pg_roles" => vec![role(&input.session.user)],
        "pg_user" => {
            let mut user: Vec<Cell> = vec![input.session.user.as_str().into(), OWNER_OID.into()];
            user.extend([Cell::Bool(false), Cell::Bool(false), Cell::Bool(false), Cell::Bool(false)]);
            vec![user]
        }
        "pg_settings" => input.session.settings.iter().map(|(name, value)| setting(name, value)).collect(),
        "pg_tables" => {
            let table = |name: &str| {
                let user = input.session.user.as_str();
                vec![
                    "public".into(),
                    name.into(),
                    user.into(),
                    Cell::Null,
                    false.into(),
                    false.into(),
                    false.into(),
                    false.into(),
                ]
            };
            input.tables.iter().map(|found| table(&found.name)).collect()
        }
        "pg_am" => vec![vec![2.into(), "heap".into(), "heap_tableam_handler".into(), "t".into()]],
        "pg_tablespace" => vec![vec![1663.into(), "pg_default".into(), OWNER_OID.into(), Cell::Null, Cell::Null]],
        _ => Vec::new(),
    }
}

fn class(position: usize, table: &weir_sql::TableDescription) -> Vec<Cell> {
    vec![
        CatalogueInput::oid(position).into(),
        table.name.as_str().into(),
        PUBLIC_OID.into(),
        0.into(),
        0.into(),
        OWNER_OID.into(),
        2.into(),
        CatalogueInput::oid(position).into(),
        0.into(),
        0.into(),
        (-1).into(),
        0.into(),
        0.into(),
        false.into(),
        false.into(),
        "p".into(),
        "r".into(),
        (table.columns.len() as i64).into(),
        0.into(),
        false.into(),
        false.into(),
        false.into(),
        false.into(),
        false.into(),
        true.into(),
        "n".into(),
        false.into(),
        0.into(),
        0.into(),
        0.into(),
        Cell::Null,
        Cell::Null,
        Cell::Null,
        false.into(),
    ]
}

fn attributes(position: usize, table: &weir_sql::TableDescription) -> Vec<Vec<Cell>> {
    let attribute = |(number, column): (i64, &weir_sql::ColumnDescription)| -> Vec<Cell> {
        let kind = PgKind::of_field(&column.field);
        vec![
            CatalogueInput::oid(position).into(),
            column.field.name().as_str().into(),
            i64::from(kind.oid()).into(),
            (-1).into(),
            i64::from(kind.octets()).into(),
            number.into(),
            0.into(),
            (-1).into(),
            (-1).into(),
            (kind.octets() > 0).into(),
            "i".into(),
            "p".into(),
            "".into(),
            (!column.field.is_nullable()).into(),
            false.into(),
            false.into(),
            "".into(),
            "".into(),
            false.into(),
            true.into(),
            0.into(),
            0.into(),
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Null,
        ]
    };
    (1..).zip(&table.columns).map(attribute).collect()
}

fn database(name: &str) -> Vec<Cell> {
    vec![
        16_000.into(),
        name.into(),
        OWNER_OID.into(),
        6.into(),
        "c".into(),
        false.into(),
        true.into(),
        (-1).into(),
        1663.into(),
        "C".into(),
        "C.UTF-8".into(),
        Cell::Null,
        Cell::Null,
        Cell::Null,
    ]
}

fn role(name: &str) -> Vec<Cell> {
    let mut role: Vec<Cell> =
        vec![OWNER_OID.into(), name.into(), false.into(), true.into(), false.into(), false.into()];
    role.extend([
        Cell::Bool(true),
        Cell::Bool(false),
        Cell::Int(-1),
        Cell::Null,
        Cell::Null,
        Cell::Bool(false),
        Cell::Null,
    ]);
    role
}

fn setting(name: &str, value: &str) -> Vec<Cell> {
    let mut row: Vec<Cell> = vec![name.into(), value.into(), Cell::Null, "Client".into(), "".into(), Cell::Null];
    row.extend(["user".into(), "string".into(), "default".into()]);
    row
}

/// What tables and columns hold, in words.
fn descriptions(input: &CatalogueInput) -> Vec<Vec<Cell>> {
    let described = |oid: i64, number: i64, doc: &str| -> Vec<Cell> {
        vec![oid.into(), CLASS_OID.into(), number.into(), doc.into()]
    };
    let mut rows = Vec::new();
    for (position, table) in input.tables.iter().enumerate() {
        rows.push(described(CatalogueInput::oid(position), 0, table.doc));
        let columns = (1..).zip(&table.columns).filter(|(_, column)| !column.doc.is_empty());
        rows.extend(columns.map(|(number, column)| described(CatalogueInput::oid(position), number, column.doc)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_wide_as_their_columns() {
        let width = |name: &str| {
            let columns = COLUMNS.iter().find(|(known, _)| *known == name).map(|(_, columns)| *columns);
            columns.expect("a relation").split_whitespace().count()
        };
        assert_eq!(type_rows::rows()[0].len(), width("pg_type"));
        assert_eq!(database("flows").len(), width("pg_database"));
        assert_eq!(role("ann").len(), width("pg_roles"));
        let field = std::sync::Arc::new(weir_flow::schema::field(weir_flow::Column::Bytes));
        let columns = vec![weir_sql::ColumnDescription { field, doc: "octets" }];
        let table = weir_sql::TableDescription { name: "flows".to_owned(), doc: "flows", columns };
        assert_eq!(class(0, &table).len(), width("pg_class"));
        assert_eq!(attributes(0, &table)[0].len(), width("pg_attribute"));
    }
}
