//! What the archive has.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use weir_archive::{Inventory, inventory};
use weir_series::StoreSize;

use crate::access::Asker;
use crate::archive::STATISTICS;
use crate::body::json;
use crate::problem::{Answered, Problem};
use crate::questions::Turn;
use crate::service::Service;

/// What the archive has.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ArchiveAnswer {
    /// The folder.
    folder: String,
    /// The last delivery.
    position: u64,
    /// Days of each table, the newest first.
    days: Vec<Day>,
    /// Octets and rows of each table.
    tables: Vec<TableSize>,
    /// The first moment of flows in segments, in milliseconds since the epoch.
    oldest_ms: Option<i64>,
    /// The last moment of flows in segments.
    newest_ms: Option<i64>,
    /// Flows that are in no segment yet.
    rows_unsealed: u64,
    /// Octets of tails, which have these flows.
    tail_octets: u64,
    /// Flows that have expired.
    rows_expired: u64,
    /// Flows in segments that were set aside because they were damaged or gone.
    rows_set_aside: u64,
    /// Tails that cannot be sealed, and damaged tails.
    damaged_tails: usize,
    /// Files that count no more and wait for questions, or for being removed.
    pending_files: usize,
    /// Octets of these files.
    pending_octets: u64,
    /// Octets of statistics that are kept in the folder of the archive, for each length of steps, the finest first: they are
    /// beside its limit by size.
    statistics: Vec<StepsSize>,
    /// Free space of the file system.
    free_octets: u64,
}

/// What statistics of one length of steps take.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepsSize {
    /// Length of a step in seconds.
    step_secs: u32,
    /// How long steps are kept, in seconds, unless a limit by size takes them before.
    keep_secs: u64,
    octets: u64,
}

/// A day of a table.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Day {
    table: &'static str,
    /// As `2026-01-31`, in UTC.
    day: String,
    segments: u64,
    rows: u64,
    octets: u64,
}

/// How large a table is.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct TableSize {
    table: &'static str,
    segments: u64,
    rows: u64,
    octets: u64,
}

/// Says what the archive has.
#[utoipa::path(
    get, path = "/archive", tag = "archive",
    responses((status = 200, body = ArchiveAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn archive(State(service): State<Arc<Service>>, asker: Asker) -> Answered<Response> {
    asker.needs_all_flows()?;
    let asked = Arc::clone(&service);
    let work = move |turn: &Turn| {
        let _admitted = turn.enter_quick()?;
        let folder = asked.archive.folder();
        // statistics that cannot be read are another matter: questions about them say so
        let statistics = StoreSize::of(&folder.join(STATISTICS)).ok().flatten();
        json(&body(&inventory(folder)?, folder.display().to_string(), statistics.as_ref()))
    };
    service.questions.answer(&asker, "archive".to_owned(), work).await
}

fn body(found: &Inventory, folder: String, statistics: Option<&StoreSize>) -> ArchiveAnswer {
    let mut days: BTreeMap<(String, &'static str), Day> = BTreeMap::new();
    let mut tables: BTreeMap<&'static str, TableSize> = BTreeMap::new();
    for segment in &found.segments {
        let (table, day) = (segment.table.name(), segment.day_text());
        let empty = Day { table, day: day.clone(), segments: 0, rows: 0, octets: 0 };
        let of_day = days.entry((day, table)).or_insert(empty);
        of_day.segments += 1;
        of_day.rows += segment.rows;
        of_day.octets += segment.octets;
        let of_table = tables.entry(table).or_insert_with(|| TableSize { table, ..TableSize::default() });
        of_table.segments += 1;
        of_table.rows += segment.rows;
        of_table.octets += segment.octets;
    }
    let flows = || {
        let of_flows = found.segments.iter().filter(|segment| segment.table == weir_flow::Table::Flows);
        of_flows.filter_map(|segment| segment.time_range_ms)
    };
    ArchiveAnswer {
        folder,
        position: found.position.get(),
        days: days.into_values().rev().collect(),
        tables: tables.into_values().collect(),
        oldest_ms: flows().map(|times| times.0).min(),
        newest_ms: flows().map(|times| times.1).max(),
        rows_unsealed: found.tails.iter().map(|tail| tail.rows).sum(),
        tail_octets: found.tails.iter().map(|tail| tail.octets).sum(),
        rows_expired: found.rows_expired,
        rows_set_aside: found.rows_set_aside,
        damaged_tails: found.damaged_tails.len() + found.tails.iter().filter(|tail| tail.is_skipped).count(),
        pending_files: found.pending.len(),
        pending_octets: found.pending_octets,
        statistics: statistics.map_or_else(Vec::new, steps_sizes),
        free_octets: found.free_octets,
    }
}

fn steps_sizes(size: &StoreSize) -> Vec<StepsSize> {
    let sizes = size.resolutions.iter().map(|of| StepsSize {
        step_secs: of.resolution.step_secs,
        keep_secs: of.resolution.keep_secs,
        octets: of.octets,
    });
    sizes.collect()
}
