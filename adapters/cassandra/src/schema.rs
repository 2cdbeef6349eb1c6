//! The tables, and how they come about.
//!
//! `flows` has a partition for each bucket of time and shard. Within it rows are ordered by when they were received; origin
//! and row make a key that is the same whenever the same flow of the same archive is written. `buckets` names the partitions
//! that there are, so that a reader of a year asks for no partition that nobody wrote; a writer adds a line before it
//! writes the first row to a partition. `bucket_times` has between which minutes the flows of a partition begin and end, see
//! `times.rs`; layout 1 had no such table. Unsigned numbers are in the next larger signed type; those of 64 bits are in `bigint`
//! with the same bits, because a `varint` costs the server several times as much, so numbers of 2^63 and more are negative there.

use std::collections::HashSet;
use std::time::Duration;

use futures::TryStreamExt;
use scylla::client::session::Session;
use scylla::statement::Statement;
use scylla::value::CqlTimestamp;
use weir_flow::{Column, ColumnType};

use crate::connect::statement_error;
use crate::options::Model;
use crate::times::insert_times;
use crate::{CassandraError, CassandraOptions};

/// The version of the layout that this version of weir reads and writes. New columns do not change it.
pub const LAYOUT_VERSION: i32 = 2;
/// The part of `weir_layout` that has the version.
const TABLES: &str = "tables";
/// The part of `weir_layout` that has the length of buckets of flows, in seconds.
const BUCKET_SECS: &str = "bucket_secs";
/// The least time that a node has to make a table; a busy one takes seconds.
const MAKING_MIN: Duration = Duration::from_mins(1);
/// The CQL type of the columns of metrics in `series`.
const METRIC_TYPE: &str = "bigint";
/// Columns of the key of `flows`, before those of weir; `received` is both.
pub(crate) const FLOW_KEY: &[(&str, &str)] = &[
    ("bucket", "timestamp"),
    ("shard", "smallint"),
    ("received", "timestamp"),
    ("origin", "bigint"),
    ("row", "bigint"),
];

/// Columns of `packets`, in the order in which they are written; the first four are the key.
pub(crate) const PACKET_COLUMNS: [(&str, &str); 9] = [
    ("second", "timestamp"),
    ("shard", "smallint"),
    ("origin", "bigint"),
    ("packet", "bigint"),
    ("received", "timestamp"),
    ("exporter", "inet"),
    ("observation_domain", "bigint"),
    ("flows", "smallint"),
    ("message", "blob"),
];

/// The CQL type of a column of weir.
pub(crate) fn cql_type(column: Column) -> &'static str {
    match column.column_type() {
        ColumnType::U8 => "smallint",
        ColumnType::U16 => "int",
        ColumnType::U32 | ColumnType::U64 => "bigint",
        ColumnType::Time => "timestamp",
        ColumnType::Address => "inet",
        ColumnType::Text => "text",
        ColumnType::Mac | ColumnType::Octets | ColumnType::Elements => "blob",
    }
}

/// The name of a column in CQL. Every name is quoted: some, as `end`, might become words of the language.
pub(crate) fn quoted(column: Column) -> String {
    format!("\"{}\"", column.name())
}

/// Columns of `flows` that are no part of its key.
pub(crate) fn value_columns() -> impl Iterator<Item = Column> {
    Column::ALL.iter().copied().filter(|column| *column != Column::Received)
}

/// Makes sure that the tables are there and of this version.
pub(crate) async fn prepare(session: &Session, options: &CassandraOptions) -> Result<(), CassandraError> {
    let keyspace = &options.to.keyspace;
    create_keyspace(session, options).await?;
    let found = columns(session, options).await?;
    let has_version = found.iter().any(|(table, _)| table == "weir_layout");
    let version = if has_version { check_version(session, options).await? } else { None };
    let missing = missing_statements(options, &found);
    if !missing.is_empty() && !options.schema.create_schema {
        return Err(CassandraError::Schema(format!(
            "keyspace '{keyspace}' has not all tables of weir, and create_schema is off; run once with it on"
        )));
    }
    for statement in &missing {
        run(session, options, statement).await?;
    }
    let has = |table: &str| found.iter().any(|(other, _)| other == table);
    // tables without a version were left by the first start of layout 1, or by that of this one
    let is_older = version.map_or(has("flows") && !has("bucket_times"), |version| version < LAYOUT_VERSION);
    // the first writer of flows makes the new layout of theirs
    let leaves_older = is_older && options.model == Model::Packets && has("flows");
    if is_older && options.model == Model::Flows {
        widen_times(session, options).await?;
    }
    if (!missing.is_empty() || is_older) && !leaves_older {
        write_layout(session, options, TABLES, LAYOUT_VERSION).await?;
    }
    if options.model == Model::Flows { keep_bucket(session, options).await } else { Ok(()) }
}

/// Fails when flows of the keyspace are in buckets of another length. A line of `buckets` has one length, so of two writers the one
/// with shorter buckets would hide flows of the other; and what is repeated after a crash would be stored in another place.
async fn keep_bucket(session: &Session, options: &CassandraOptions) -> Result<(), CassandraError> {
    let (keyspace, wanted) = (&options.to.keyspace, (options.writing.bucket.millis() / 1000) as i32);
    let mut found = read_layout(session, options, BUCKET_SECS).await?;
    // without it, tables are those that an administrator made, for a user who may write flows only
    if found.is_none() && options.schema.create_schema {
        // of two writers that begin at once one is the first, and the other one finds what it has kept
        let insert = format!("INSERT INTO {keyspace}.weir_layout (part, version) VALUES ('{BUCKET_SECS}', {wanted})");
        run(session, options, &format!("{insert} IF NOT EXISTS")).await?;
        found = read_layout(session, options, BUCKET_SECS).await?;
    }
    match found {
        Some(found) if found != wanted => Err(CassandraError::Schema(format!(
            "flows in keyspace '{keyspace}' are in buckets of {found} s, not of {wanted} s; give bucket={found}s, or another keyspace"
        ))),
        _ => Ok(()),
    }
}

/// Notes that partitions of layout 1 may have flows of any time: what is written to them from now on is not all that they have.
async fn widen_times(session: &Session, options: &CassandraOptions) -> Result<(), CassandraError> {
    let keyspace = &options.to.keyspace;
    let failed = |statement: &'static str| {
        move |error: &dyn std::error::Error| CassandraError::Unavailable {
            hosts: options.to.hosts_text(),
            message: format!("{statement}: {}", crate::connect::message(error)),
        }
    };
    let select = format!("SELECT model, day, bucket, shard FROM {keyspace}.buckets");
    let of_select = failed("SELECT FROM buckets");
    let rows = session.query_iter(select, ()).await.map_err(|error| of_select(&error))?;
    let rows = rows.rows_stream::<(String, CqlTimestamp, CqlTimestamp, i16)>().map_err(|error| of_select(&error))?;
    let buckets: Vec<_> = rows.try_collect().await.map_err(|error| of_select(&error))?;
    let insert = session
        .prepare(insert_times(keyspace, ""))
        .await
        .map_err(|error| statement_error(options, "INSERT INTO bucket_times", &error.into()))?;
    let [first, last] = [i64::MIN, i64::MAX].map(CqlTimestamp);
    for (model, day, bucket, shard) in buckets {
        if model == options.model.word() {
            let line = (day, bucket, shard, first, last, first, last);
            let sent = session.execute_unpaged(&insert, line).await;
            sent.map_err(|error| statement_error(options, "INSERT INTO bucket_times", &error))?;
        }
    }
    Ok(())
}

/// Fails when a table that rows are written to is not there any more, or lacks columns: a refusal is none of rows then.
pub(crate) async fn check_whole(session: &Session, options: &CassandraOptions) -> Result<(), CassandraError> {
    is_whole(options, &missing_statements(options, &columns(session, options).await?))
}

/// The same for the table `series`.
pub(crate) async fn check_statistics_whole(
    session: &Session,
    options: &CassandraOptions,
    metrics: &[String],
) -> Result<(), CassandraError> {
    let found = columns(session, options).await?;
    is_whole(options, &missing_series_statements(options, &series_columns(found), metrics, &lifetime(options)))
}

fn is_whole(options: &CassandraOptions, missing: &[String]) -> Result<(), CassandraError> {
    if missing.is_empty() {
        return Ok(());
    }
    let keyspace = &options.to.keyspace;
    Err(CassandraError::Schema(format!(
        "keyspace '{keyspace}' has not all tables of weir any more; they are made when it is started again"
    )))
}

fn series_columns(found: Vec<(String, String)>) -> HashSet<String> {
    found.into_iter().filter(|(table, _)| table == "series").map(|(_, column)| column).collect()
}

/// The columns of metrics that the table `series` has; an error when there is no such table.
pub(crate) async fn statistics_metrics(
    session: &Session,
    options: &CassandraOptions,
    key: &[&str],
) -> Result<Vec<String>, CassandraError> {
    let found = typed_columns(session, options).await?;
    if !found.iter().any(|(table, ..)| table == "series") {
        return Err(CassandraError::Schema(format!(
            "keyspace '{}' has no table 'series'; weir series forward stores statistics there",
            options.to.keyspace
        )));
    }
    Ok(metrics_of(found, key))
}

/// The columns of `series` that have values of metrics. Columns of other types are not of weir.
fn metrics_of(found: Vec<(String, String, String)>, key: &[&str]) -> Vec<String> {
    let is_metric = |(table, column, cql_type): &(String, String, String)| {
        table == "series" && cql_type == METRIC_TYPE && !key.contains(&column.as_str())
    };
    found.into_iter().filter(is_metric).map(|(_, column, _)| column).collect()
}

/// Makes sure that the table `series` is there and has these metrics.
pub(crate) async fn prepare_statistics(
    session: &Session,
    options: &CassandraOptions,
    metrics: &[String],
) -> Result<(), CassandraError> {
    let keyspace = &options.to.keyspace;
    create_keyspace(session, options).await?;
    let own = series_columns(columns(session, options).await?);
    let missing = missing_series_statements(options, &own, metrics, &lifetime(options));
    if !missing.is_empty() && !options.schema.create_schema {
        return Err(CassandraError::Schema(format!(
            "keyspace '{keyspace}' has no table 'series' with these metrics, and create_schema is off; run once with it on"
        )));
    }
    for statement in &missing {
        run(session, options, statement).await?;
    }
    Ok(())
}

async fn create_keyspace(session: &Session, options: &CassandraOptions) -> Result<(), CassandraError> {
    if !options.schema.create_schema {
        return Ok(());
    }
    let replication = options.replication().map_err(|error| CassandraError::Options(error.message))?;
    let keyspace = &options.to.keyspace;
    run(session, options, &format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}")).await
}

async fn run(session: &Session, options: &CassandraOptions, statement: &str) -> Result<(), CassandraError> {
    // one that is given up and sent to another node while the first still makes it would make the table twice
    let mut patient = Statement::new(statement);
    patient.set_request_timeout(Some(options.request_timeout().max(MAKING_MIN)));
    session.query_unpaged(patient, ()).await.map(drop).or_else(|error| {
        // another writer was faster; columns are added without IF NOT EXISTS on older servers
        let text = error.to_string();
        if statement.starts_with("ALTER") && text.contains("already exists") {
            return Ok(());
        }
        Err(statement_error(options, statement, &error))
    })
}

/// Names of tables and columns that the keyspace has.
async fn columns(session: &Session, options: &CassandraOptions) -> Result<Vec<(String, String)>, CassandraError> {
    let found = typed_columns(session, options).await?;
    Ok(found.into_iter().map(|(table, column, _)| (table, column)).collect())
}

/// The same with the CQL types of the columns.
async fn typed_columns(
    session: &Session,
    options: &CassandraOptions,
) -> Result<Vec<(String, String, String)>, CassandraError> {
    let statement = "SELECT table_name, column_name, type FROM system_schema.columns WHERE keyspace_name = ?";
    let unavailable = |error: &dyn std::error::Error| CassandraError::Unavailable {
        hosts: options.to.hosts_text(),
        message: crate::connect::message(error),
    };
    let rows = session.query_iter(statement, (&options.to.keyspace,)).await.map_err(|error| unavailable(&error))?;
    let rows = rows.rows_stream::<(String, String, String)>().map_err(|error| unavailable(&error))?;
    rows.try_collect().await.map_err(|error| unavailable(&error))
}

/// Whether the keyspace has a table.
pub(crate) async fn has_table(
    session: &Session,
    options: &CassandraOptions,
    table: &str,
) -> Result<bool, CassandraError> {
    Ok(columns(session, options).await?.iter().any(|(found, _)| found == table))
}

/// The version of the tables, if they say so.
async fn check_version(session: &Session, options: &CassandraOptions) -> Result<Option<i32>, CassandraError> {
    let keyspace = &options.to.keyspace;
    match read_layout(session, options, TABLES).await? {
        Some(version) if version > LAYOUT_VERSION => Err(CassandraError::Schema(format!(
            "the tables in keyspace '{keyspace}' have layout {version}, and this version of weir knows {LAYOUT_VERSION} at most"
        ))),
        version => Ok(version),
    }
}

/// A number of the table `weir_layout`, if it has one of this name.
async fn read_layout(session: &Session, options: &CassandraOptions, part: &str) -> Result<Option<i32>, CassandraError> {
    let statement = format!("SELECT version FROM {}.weir_layout WHERE part = '{part}'", options.to.keyspace);
    let found = session.query_unpaged(&*statement, ()).await;
    let found = found.map_err(|error| statement_error(options, &statement, &error))?;
    let number = found.into_rows_result().ok().and_then(|rows| rows.maybe_first_row::<(i32,)>().ok().flatten());
    Ok(number.map(|(number,)| number))
}

async fn write_layout(
    session: &Session,
    options: &CassandraOptions,
    part: &str,
    number: i32,
) -> Result<(), CassandraError> {
    let keyspace = &options.to.keyspace;
    let insert = format!("INSERT INTO {keyspace}.weir_layout (part, version) VALUES ('{part}', {number})");
    run(session, options, &insert).await
}

/// What makes the tables out of those that there are.
fn missing_statements(options: &CassandraOptions, found: &[(String, String)]) -> Vec<String> {
    let keyspace = &options.to.keyspace;
    let has_table = |table: &str| found.iter().any(|(other, _)| other == table);
    let mut statements = Vec::new();
    if !has_table("weir_layout") {
        statements
            .push(format!("CREATE TABLE IF NOT EXISTS {keyspace}.weir_layout (part text PRIMARY KEY, version int)"));
    }
    if !has_table("buckets") {
        statements.push(format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.buckets (model text, day timestamp, bucket timestamp, shard smallint, \
             width_ms int, PRIMARY KEY ((model, day), bucket, shard)) WITH {}",
            lifetime(options)
        ));
    }
    if options.model == Model::Flows && !has_table("bucket_times") {
        statements.push(format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.bucket_times (day timestamp, bucket timestamp, shard smallint, \
             start_first timestamp, start_last timestamp, end_first timestamp, end_last timestamp, PRIMARY KEY ((day), bucket, \
             shard, start_first, start_last, end_first, end_last)) WITH {}",
            lifetime(options)
        ));
    }
    match options.model {
        Model::Flows if !has_table("flows") => statements.push(create_flows(options)),
        Model::Flows => {
            let missing = value_columns()
                .filter(|column| !found.iter().any(|(table, name)| table == "flows" && name == column.name()));
            statements.extend(
                missing
                    .map(|column| format!("ALTER TABLE {keyspace}.flows ADD {} {}", quoted(column), cql_type(column))),
            );
        }
        Model::Packets if !has_table("packets") => statements.push(create_packets(options)),
        Model::Packets => {}
    }
    statements
}

/// What makes the table `series`, or adds the columns that it lacks.
fn missing_series_statements(
    options: &CassandraOptions,
    found: &HashSet<String>,
    metrics: &[String],
    lifetime: &str,
) -> Vec<String> {
    let keyspace = &options.to.keyspace;
    if found.is_empty() {
        let metrics =
            metrics.iter().fold(String::new(), |columns, name| columns + &format!("\"{name}\" {METRIC_TYPE}, "));
        return vec![format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.series (step int, \"by\" text, key text, part timestamp, time timestamp, \
             known int, count int, {metrics}PRIMARY KEY ((step, \"by\", key, part), time)) WITH {lifetime}"
        )];
    }
    let missing = metrics.iter().filter(|name| !found.contains(*name));
    missing.map(|name| format!("ALTER TABLE {keyspace}.series ADD \"{name}\" {METRIC_TYPE}")).collect()
}

fn create_flows(options: &CassandraOptions) -> String {
    let keyspace = &options.to.keyspace;
    let mut columns: Vec<String> = FLOW_KEY.iter().map(|(name, cql_type)| format!("{name} {cql_type}")).collect();
    columns.extend(value_columns().map(|column| format!("{} {}", quoted(column), cql_type(column))));
    format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.flows ({}, PRIMARY KEY ((bucket, shard), received, origin, row)) WITH {}",
        columns.join(", "),
        lifetime(options)
    )
}

fn create_packets(options: &CassandraOptions) -> String {
    let columns: Vec<_> = PACKET_COLUMNS.iter().map(|(name, cql_type)| format!("{name} {cql_type}")).collect();
    format!(
        "CREATE TABLE IF NOT EXISTS {}.packets ({}, PRIMARY KEY ((second, shard), origin, packet)) WITH {}",
        options.to.keyspace,
        columns.join(", "),
        lifetime(options)
    )
}

/// How a table of a time series is compacted and expires: files of one window of time expire together.
fn lifetime(options: &CassandraOptions) -> String {
    let ttl = options.ttl_secs();
    // some 30 windows, as the documentation of Cassandra recommends
    let hours = if ttl == 0 { 24 } else { (ttl / 30).div_ceil(3600).clamp(1, 24 * 30) };
    let compaction = format!(
        "compaction = {{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', \
         'compaction_window_size': {hours}}}"
    );
    format!("{compaction} AND default_time_to_live = {ttl}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_somebody_has_added_are_no_metrics() {
        // as `system_schema.columns` has them
        let found = [
            ("flows", "bytes", "bigint"),
            ("series", "by", "text"),
            ("series", "bytes", "bigint"),
            ("series", "count", "int"),
            ("series", "remark", "text"),
            ("series", "seen", "timestamp"),
        ];
        let found = found.map(|(table, column, cql_type)| (table.to_owned(), column.to_owned(), cql_type.to_owned()));
        assert_eq!(metrics_of(found.to_vec(), &crate::statistics::KEY), ["bytes"]);
    }
}
