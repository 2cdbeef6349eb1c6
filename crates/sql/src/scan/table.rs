//! The table that `DataFusion` sees.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{Column, DFSchema, Result, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::parquet::arrow::arrow_reader::RowSelection;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;

use weir_flow::Table;
use weir_query::Progress;

use super::page_index::IndexColumns;
use super::pages;
use super::reader::{LocalFiles, ScannedSegment};
use super::segments::with_possible_rows;
use super::tail::{Wanted, scan_tail};
use crate::view::{SegmentFile, TableView};

/// Smallest piece of a segment that is worth an own entry in the plan, in octets.
const PIECE_OCTETS_MIN: u64 = 4 << 20;

/// A table at one position of its archive.
#[derive(Debug)]
pub(crate) struct ViewTable {
    schema: SchemaRef,
    /// Whether it is the table whose segments have an index of their pages.
    is_flows: bool,
    view: TableView,
    /// Whether anything is left out that cannot hold a wanted row.
    pruning: bool,
}

impl ViewTable {
    pub(crate) fn new(table: Table, view: TableView, pruning: bool) -> Self {
        Self { schema: table.schema(), is_flows: table == Table::Flows, view, pruning }
    }

    /// How files are read: filters are evaluated while they are decoded.
    fn source(&self) -> ParquetSource {
        let mut options = TableParquetOptions::default();
        options.global.pruning = self.pruning;
        options.global.enable_page_index = self.pruning;
        options.global.bloom_filter_on_read = self.pruning;
        ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(LocalFiles))
            .with_pushdown_filters(true)
            .with_reorder_filters(true)
    }

    fn scan_segments(
        &self,
        state: &dyn Session,
        wanted: &Wanted<'_>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut source = self.source();
        let mut index_columns = IndexColumns::default();
        let mut predicate = None;
        if let Some(filter) = conjunction(wanted.filters.iter().cloned()) {
            let columns = DFSchema::try_from(Arc::clone(&self.schema))?;
            let filter = state.create_physical_expr(filter, &columns)?;
            source = source.with_predicate(Arc::clone(&filter));
            predicate = Some(filter).filter(|_| self.pruning);
            index_columns = IndexColumns(if self.pruning { wanted.columns.to_vec() } else { Vec::new() });
        }
        let segments = with_possible_rows(&self.view.segments, predicate.as_ref(), &self.schema)?;
        let progress = state.config().get_extension::<Progress>().unwrap_or_default();
        let chosen = chosen(segments, wanted.filters, self.is_flows && self.pruning, &progress)?;
        count_segments(&progress, &self.view.segments, &chosen);
        if chosen.is_empty() {
            return Ok(Arc::new(EmptyExec::new(Arc::new(self.schema.project(wanted.projection)?))));
        }
        let rows: u64 = chosen.iter().map(|(segment, _)| segment.rows()).sum();
        let index_columns = Arc::new(index_columns);
        let scanned = chosen.into_iter().map(|(segment, selected)| {
            let scanned = ScannedSegment::new(Arc::clone(&segment), Arc::clone(&index_columns), Arc::clone(&progress));
            (Arc::new(scanned.with_rows(selected.as_ref())), segment, selected)
        });
        let groups = file_groups(&scanned.collect::<Vec<_>>(), state.config().target_partitions());
        let statistics =
            Statistics { num_rows: Precision::Exact(rows as usize), ..Statistics::new_unknown(&self.schema) };
        let scan = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(Some(wanted.projection.to_vec()))?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}

/// A segment, and the rows of it that are read when not all are.
type Chosen = (Arc<SegmentFile>, Option<Arc<ParquetRowSelection>>);

/// The segments that may hold a row for which all filters are true, by their indexes when they have some.
fn chosen(
    segments: Vec<Arc<SegmentFile>>,
    filters: &[Expr],
    has_indexes: bool,
    progress: &Progress,
) -> Result<Vec<Chosen>> {
    if !has_indexes || !pages::is_indexable(filters) {
        return Ok(segments.into_iter().map(|segment| (segment, None)).collect());
    }
    let mut chosen = Vec::with_capacity(segments.len());
    for segment in segments {
        let failed = |error| DataFusionError::External(Box::new(error));
        let Some(index) = segment.index().map_err(failed)? else {
            chosen.push((segment, None));
            continue;
        };
        progress.add_pages_all(index.pages() as u64);
        let possible = pages::possible(&index, filters).map_err(failed)?;
        let Some(possible) = possible.filter(|possible| !possible.is_all()) else {
            chosen.push((segment, None));
            continue;
        };
        progress.add_pages_pruned((index.pages() - possible.count()) as u64);
        if !possible.is_none() {
            let rows = pages::rows_of(&index, &possible).into_iter();
            let selection = RowSelection::from_consecutive_ranges(rows, segment.rows() as usize);
            chosen.push((segment, Some(Arc::new(ParquetRowSelection::new(selection)))));
        }
    }
    Ok(chosen)
}

/// Counts the segments of a table, and those that a scan does not open.
fn count_segments(progress: &Progress, all: &[Arc<SegmentFile>], opened: &[Chosen]) {
    let rows =
        |segments: &mut dyn Iterator<Item = &Arc<SegmentFile>>| segments.map(|segment| segment.rows()).sum::<u64>();
    let rows_all = rows(&mut all.iter());
    progress.add_segments_all(all.len() as u64);
    progress.add_segments_pruned((all.len() - opened.len()) as u64);
    progress.add_rows_all(rows_all);
    progress.add_rows_pruned(rows_all - rows(&mut opened.iter().map(|(segment, _)| segment)));
    progress.add_octets_all(all.iter().map(|segment| segment.octets()).sum());
}

/// A segment on its way into a plan.
type Scanned = (Arc<ScannedSegment>, Arc<SegmentFile>, Option<Arc<ParquetRowSelection>>);

/// Deals pieces of files out to at most `partitions` groups, the largest first to the group that has least.
///
/// A segment that is larger than its share is cut into ranges; a row group belongs to the range that its first octet
/// is in.
fn file_groups(segments: &[Scanned], partitions: usize) -> Vec<FileGroup> {
    let total: u64 = segments.iter().map(|(_, segment, _)| segment.octets()).sum();
    let share = (total / (partitions as u64 * 2)).max(PIECE_OCTETS_MIN);
    let mut pieces = Vec::new();
    for (scanned, segment, selected) in segments {
        let path = segment.path().to_string_lossy().into_owned();
        let count = segment.octets().div_ceil(share).max(1);
        for piece in 0..count {
            let (start, end) = (segment.octets() * piece / count, segment.octets() * (piece + 1) / count);
            let mut file = PartitionedFile::new(path.clone(), segment.octets()).with_extension(scanned.piece());
            if let Some(selected) = selected {
                file = file.with_extension(ParquetRowSelection::clone(selected));
            }
            if count > 1 {
                file = file.with_range(start as i64, end as i64);
            }
            pieces.push((end - start, file));
        }
    }
    pieces.sort_by_key(|(octets, _)| std::cmp::Reverse(*octets));
    let mut groups: Vec<(u64, Vec<PartitionedFile>)> = vec![Default::default(); partitions.clamp(1, pieces.len())];
    for (octets, file) in pieces {
        if let Some(group) = groups.iter_mut().min_by_key(|(octets, _)| *octets) {
            group.0 += octets;
            group.1.push(file);
        }
    }
    groups.into_iter().map(|(_, files)| FileGroup::new(files)).collect()
}

/// Whether a scan can decide a filter for every row: not when it is about lists, which Parquet readers do not filter,
/// or gives another answer each time it is asked.
fn is_decidable(filter: &Expr, schema: &SchemaRef) -> bool {
    let on_values = filter
        .column_refs()
        .iter()
        .all(|column| schema.field_with_name(column.name()).is_ok_and(|field| !field.data_type().is_nested()));
    on_values && !filter.is_volatile()
}

#[async_trait]
impl TableProvider for ViewTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let decide = |filter: &&Expr| {
            let is_decidable = is_decidable(filter, &self.schema);
            if is_decidable { TableProviderFilterPushDown::Exact } else { TableProviderFilterPushDown::Unsupported }
        };
        Ok(filters.iter().map(decide).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let every: Vec<usize> = (0..self.schema.fields().len()).collect();
        let projection = projection.unwrap_or(&every);
        let named: HashSet<_> = filters.iter().flat_map(Expr::column_refs).map(Column::name).collect();
        let is_wanted = |position: &usize| {
            projection.contains(position) || named.contains(self.schema.field(*position).name().as_str())
        };
        let columns: Vec<usize> = every.iter().copied().filter(is_wanted).collect();
        let wanted = Wanted { projection, columns: &columns, filters };
        let mut plans = Vec::new();
        if !self.view.segments.is_empty() {
            plans.push(self.scan_segments(state, &wanted, limit)?);
        }
        if !self.view.tail.is_empty() {
            // in memory and filtered before anyone looks
            let rows = self.view.tail.iter().map(|batch| batch.num_rows() as u64).sum();
            let progress = state.config().get_extension::<Progress>().unwrap_or_default();
            progress.add_rows_all(rows);
            progress.add_rows_done(rows);
            let partitions = state.config().target_partitions();
            plans.push(scan_tail(state, &self.schema, &self.view.tail, &wanted, partitions)?);
        }
        if plans.is_empty() {
            return Ok(Arc::new(EmptyExec::new(Arc::new(self.schema.project(projection)?))));
        }
        UnionExec::try_new(plans)
    }
}
