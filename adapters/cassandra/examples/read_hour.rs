//! Reading a range of time back: by the driver alone, and into columns.
//!
//! `read_hour write URL FLOWS HOURS` stores so many flows of the generator over so many hours and prints when they begin.
//! `read_hour driver|columns URL FROM_MS UNTIL_MS COLUMN,COLUMN…` reads these columns of the partitions that have the range:
//! by the driver, page by page and value by value, without anything being made of them; or as `weir sql` does, into batches.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::ColumnIterator;
use scylla::response::PagingState;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;
use weir_archive::{FollowPosition, Position};
use weir_cassandra::{CassandraOptions, CassandraReader, CassandraStore, CassandraUrl};
use weir_chain::OptionText;
use weir_flow::Column;
use weir_forward::identity::row_keys;
use weir_forward::{ForwardDelivery, ForwardStore};
use weir_generate::TrafficModel;

/// Partitions that are read at the same time, and rows of a page: those of the reader.
const PARTITIONS_MAX: usize = 8;
const PAGE_ROWS: i32 = 5000;
const DAY_MS: i64 = 86_400_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let options = |url: &str| CassandraUrl::parse_text(url).and_then(|url| url.options()).expect("an address");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let began = Instant::now();
    match words[..] {
        ["write", url, flows, hours] => write(options(url), number(flows) as u64, number(hours) as u64),
        [way, url, from_ms, until_ms, columns] => {
            let columns: Vec<Column> =
                columns.split(',').map(|name| Column::by_name(name).expect("a column of flows")).collect();
            let range = number(from_ms)..number(until_ms);
            let rows = match way {
                "driver" => runtime.block_on(by_driver(&options(url), range, &columns)),
                _ => runtime.block_on(into_columns(options(url), range, &columns)),
            };
            println!("{way}: {rows} rows in {:.2} s", began.elapsed().as_secs_f64());
        }
        _ => panic!("usage: read_hour write URL FLOWS HOURS | read_hour driver|columns URL FROM_MS UNTIL_MS COLUMNS"),
    }
}

fn write(options: CassandraOptions, count: u64, hours: u64) {
    let model =
        TrafficModel { received: true, flows_per_second: (count / (hours * 3600)) as u32, ..TrafficModel::new(7) };
    let mut flows = model.flows(count).expect("flows");
    let mut store = CassandraStore::new(options).expect("a store");
    store.connect().expect("a cluster");
    let (mut number, mut waiting, mut first) = (0, 0, None);
    loop {
        let batch = flows.next_batch(8192).filter(|batch| batch.rows() > 0);
        if let Some(batch) = &batch {
            let received = batch.primitive::<arrow::datatypes::TimestampMillisecondType>(Column::Received);
            first = first.or_else(|| received.and_then(|received| received.iter().flatten().min()));
            let position = FollowPosition { epoch: 1, position: Position::new(number) };
            let row_keys = row_keys(position, batch).into();
            store.begin(ForwardDelivery { position, flows: batch.clone(), origin: 1, row_keys });
            (number, waiting) = (number + 1, waiting + 1);
        }
        while waiting > if batch.is_some() { 8 } else { 0 } {
            for outcome in store.ended(Duration::from_secs(1)) {
                outcome.result.expect("stored");
                waiting -= 1;
            }
        }
        if batch.is_none() {
            break;
        }
    }
    println!("{}", first.expect("flows"));
}

async fn into_columns(options: CassandraOptions, range: std::ops::Range<i64>, columns: &[Column]) -> usize {
    let reader = CassandraReader::connect(options).await.expect("a reader");
    let batches = reader.scan(range, Some(columns), &[]).await.expect("a scan");
    batches.try_fold(0, |rows, batch| std::future::ready(Ok(rows + batch.rows()))).await.expect("batches")
}

async fn by_driver(options: &CassandraOptions, range: std::ops::Range<i64>, columns: &[Column]) -> usize {
    let session = SessionBuilder::new().known_nodes(&options.to.hosts).build().await.expect("a session");
    let keyspace = &options.to.keyspace;
    let names: Vec<String> = columns.iter().map(|column| format!("\"{}\"", column.name())).collect();
    let select = format!(
        "SELECT {} FROM {keyspace}.flows WHERE bucket = ? AND shard = ? AND received >= ? AND received < ?",
        names.join(", ")
    );
    let mut select = session.prepare(select).await.expect("a statement");
    select.set_page_size(PAGE_ROWS);
    let buckets = format!("SELECT bucket, shard, width_ms FROM {keyspace}.buckets WHERE model = 'flows' AND day = ?");
    let mut places = Vec::new();
    for day in range.start.div_euclid(DAY_MS)..=range.end.div_euclid(DAY_MS) {
        let rows = session.query_iter(&*buckets, (CqlTimestamp(day * DAY_MS),)).await.expect("buckets");
        let rows = rows.rows_stream::<(CqlTimestamp, i16, i32)>().expect("buckets");
        let rows: Vec<_> = rows.try_collect().await.expect("buckets");
        let is_within = |(bucket, _, width): &(CqlTimestamp, i16, i32)| {
            bucket.0 < range.end && range.start < bucket.0 + i64::from(*width)
        };
        places.extend(rows.into_iter().filter(is_within).map(|(bucket, shard, _)| (bucket, shard)));
    }
    let range = (CqlTimestamp(range.start), CqlTimestamp(range.end));
    let partitions = stream::iter(places).map(|place| partition(&session, &select, place, range));
    partitions.buffer_unordered(PARTITIONS_MAX).fold(0, |sum, rows| std::future::ready(sum + rows)).await
}

async fn partition(
    session: &Session,
    select: &PreparedStatement,
    (bucket, shard): (CqlTimestamp, i16),
    (from, until): (CqlTimestamp, CqlTimestamp),
) -> usize {
    let (mut state, mut count) = (PagingState::start(), 0);
    loop {
        let page = session.execute_single_page(select, (bucket, shard, from, until), state).await;
        let (page, next) = page.expect("a page");
        let rows = page.into_rows_result().expect("rows");
        for row in rows.rows::<ColumnIterator<'_, '_>>().expect("rows") {
            for value in row.expect("a row") {
                std::hint::black_box(value.expect("a value").slice);
            }
            count += 1;
        }
        match next.into_paging_control_flow() {
            std::ops::ControlFlow::Continue(next) => state = next,
            std::ops::ControlFlow::Break(()) => return count,
        }
    }
}
