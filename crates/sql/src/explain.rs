//! What a question reads, and what it need not.
//!
//! `EXPLAIN` shows the plan and the segments that would be opened; `EXPLAIN ANALYZE` runs the question, throws its rows
//! away and adds what every step gave and what was pruned at which level. The planner has reports of its own; ours
//! leaves out what does not decide about time, and sums over the segments rather than listing a hundred of them.

// Writing to a text does not fail.
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use futures::StreamExt;
use weir_query::{Progress, ProgressCounts};

use crate::limits::batches::BoundedExec;
use crate::scan::is_segment;

/// The column of a report.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("plan", DataType::Utf8, false)]))
}

/// Explains a plan; with a task, after running it.
pub(crate) async fn report(
    plan: Arc<dyn ExecutionPlan>,
    task: Option<Arc<TaskContext>>,
    progress: &Progress,
) -> Result<RecordBatch> {
    let is_run = task.is_some();
    if let Some(task) = task {
        let mut rows = execute_stream(Arc::clone(&plan), task)?;
        while let Some(batch) = rows.next().await {
            batch?;
        }
    }
    let mut lines = Vec::new();
    let mut sums = Pruned::default();
    push_step(&mut lines, &mut sums, &plan, 0, is_run);
    lines.push(String::new());
    push_archive(&mut lines, &progress.counts(), &sums, is_run);
    Ok(RecordBatch::try_new(schema(), vec![Arc::new(StringArray::from(lines))])?)
}

/// Containers pruned and looked at, over all scans of a plan.
#[derive(Default)]
struct Pruned {
    row_groups: (usize, usize),
    pages: (usize, usize),
    rows_tested: usize,
    rows_passed: usize,
}

impl Pruned {
    fn add(&mut self, metrics: &MetricsSet) {
        for metric in metrics.iter() {
            match metric.value() {
                MetricValue::PruningMetrics { name, pruning_metrics } => {
                    let sum = match name.as_ref() {
                        "row_groups_pruned_statistics" => &mut self.row_groups,
                        "page_index_pages_pruned" => &mut self.pages,
                        _ => continue,
                    };
                    sum.0 += pruning_metrics.pruned();
                    sum.1 += pruning_metrics.pruned() + pruning_metrics.matched();
                }
                MetricValue::Count { name, count } if name == "pushdown_rows_matched" => {
                    self.rows_passed += count.value();
                }
                MetricValue::Count { name, count } if name == "pushdown_rows_pruned" => {
                    self.rows_tested += count.value();
                }
                _ => {}
            }
        }
    }
}

fn push_step(lines: &mut Vec<String>, sums: &mut Pruned, plan: &Arc<dyn ExecutionPlan>, depth: usize, is_run: bool) {
    let indent = "  ".repeat(depth);
    if let Some(bounded) = plan.downcast_ref::<BoundedExec>() {
        return push_step(lines, sums, bounded.input(), depth, is_run);
    }
    let metrics = plan.metrics().filter(|_| is_run);
    let step = match segments_of(plan) {
        Some((count, filter)) => {
            if let Some(metrics) = &metrics {
                sums.add(metrics);
            }
            let filter = filter.map(|filter| format!(", filter: {filter}")).unwrap_or_default();
            format!("Segments: {count} to open{filter}")
        }
        None => displayable(plan.as_ref()).one_line().to_string().trim_end().to_owned(),
    };
    let ran = metrics.map(|metrics| ran(&metrics)).unwrap_or_default();
    lines.push(format!("{indent}{step}{ran}"));
    for child in plan.children() {
        push_step(lines, sums, child, depth + 1, is_run);
    }
}

/// What a step gave, and what it took.
fn ran(metrics: &MetricsSet) -> String {
    let mut text = String::new();
    if let Some(rows) = metrics.output_rows() {
        let _ = write!(text, "  [{rows} rows");
        if let Some(nanos) = metrics.elapsed_compute() {
            let _ = write!(text, ", {:.1} ms", nanos as f64 / 1e6);
        }
        if let Some(octets) = metrics.spilled_bytes().filter(|octets| *octets > 0) {
            let _ = write!(text, ", {octets} octets written to disk");
        }
        text += "]";
    }
    text
}

/// How many segments a scan opens and by what it filters, when the step is a scan of segments.
fn segments_of(plan: &Arc<dyn ExecutionPlan>) -> Option<(usize, Option<String>)> {
    let scan = plan.downcast_ref::<DataSourceExec>()?;
    let (config, source): (&FileScanConfig, &ParquetSource) = scan.downcast_to_file_source()?;
    let files = config.file_groups.iter().flat_map(datafusion::datasource::physical_plan::FileGroup::files);
    let mut paths: Vec<_> = files.filter(|file| is_segment(file)).map(|file| file.path().as_ref()).collect();
    if paths.is_empty() {
        return None;
    }
    paths.sort_unstable();
    paths.dedup();
    Some((paths.len(), source.filter().map(|filter| filter.to_string())))
}

/// The books of the whole question.
fn push_archive(lines: &mut Vec<String>, seen: &ProgressCounts, sums: &Pruned, is_run: bool) {
    let mut line = |name: &str, number: u64, of: Option<u64>, note: &str| {
        let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
        let text = format!("{name:<24}{number:>14}{of}  {note}");
        lines.push(text.trim_end().to_owned());
    };
    line("segments", seen.segments_all, None, "");
    if is_run {
        let unread = "not opened, or nothing read but the footer";
        line("  pruned", seen.segments_pruned, Some(seen.segments_all), unread);
        line("  read", seen.segments_done, Some(seen.segments_all), "");
        line("row groups pruned", sums.row_groups.0 as u64, Some(sums.row_groups.1 as u64), "by their statistics");
        line("pages pruned", sums.pages.0 as u64, Some(sums.pages.1 as u64), "of the rest, by their statistics");
        line("octets read", seen.octets_read, Some(seen.octets_all), "");
    } else {
        line(
            "  pruned",
            seen.segments_pruned,
            Some(seen.segments_all),
            "by the times in their names and by their indexes",
        );
    }
    if seen.pages_all > 0 {
        let name = "pages pruned by index";
        line(name, seen.pages_pruned, Some(seen.pages_all), "of the segments whose times fit");
    }
    line("rows", seen.rows_all, None, "");
    line("  pruned", seen.rows_pruned, Some(seen.rows_all), "");
    if is_run && sums.rows_tested + sums.rows_passed > 0 {
        let tested = (sums.rows_tested + sums.rows_passed) as u64;
        line("  passed the filter", sums.rows_passed as u64, Some(tested), "that were tested in segments");
    }
}
