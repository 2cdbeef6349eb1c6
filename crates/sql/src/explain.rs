//! What a question reads, and what it need not.
//!
//! `EXPLAIN` says in words what is done, and shows the plan and the segments that would be opened; `EXPLAIN ANALYZE` runs the question, throws its rows
//! away and adds what every step gave and what was pruned at which level. The planner has reports of its own; ours
//! leaves out what does not decide about time, and sums over the segments rather than listing a hundred of them.

mod words;

// Writing to a text does not fail.
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use futures::StreamExt;
use weir_query::{Progress, ProgressCounts};

use crate::limits::batches::BoundedExec;
use crate::scan::{FlowScanExec, RowsExec};

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
    let mut lines = words::lines(&plan);
    lines.push(String::new());
    let mut sums = Scanned::default();
    push_step(&mut lines, &mut sums, &plan, 0, is_run);
    lines.push(String::new());
    push_archive(&mut lines, &progress.counts(), &sums, is_run);
    Ok(RecordBatch::try_new(schema(), vec![Arc::new(StringArray::from(lines))])?)
}

/// What the scans of a plan have, and what they did.
#[derive(Default)]
struct Scanned {
    /// Segments of the tables, and those that are opened.
    segments: (usize, usize),
    /// Rows of the tables, and those of the segments that are opened.
    rows: (u64, u64),
    rows_tested: usize,
    rows_passed: usize,
}

impl Scanned {
    fn add(&mut self, segments: (usize, usize), rows: (u64, u64)) {
        self.segments = (self.segments.0 + segments.0, self.segments.1 + segments.1);
        self.rows = (self.rows.0 + rows.0, self.rows.1 + rows.1);
    }

    fn add_metrics(&mut self, metrics: &MetricsSet) {
        self.rows_passed += metrics.output_rows().unwrap_or(0);
        self.rows_tested += metrics.sum_by_name("rows_tested").map_or(0, |count| count.as_usize());
    }
}

fn push_step(lines: &mut Vec<String>, sums: &mut Scanned, plan: &Arc<dyn ExecutionPlan>, depth: usize, is_run: bool) {
    let indent = "  ".repeat(depth);
    if let Some(bounded) = plan.downcast_ref::<BoundedExec>() {
        return push_step(lines, sums, bounded.input(), depth, is_run);
    }
    let metrics = plan.metrics().filter(|_| is_run);
    let step = if let Some(flows) = plan.downcast_ref::<FlowScanExec>() {
        sums.add(flows.segments(), flows.rows());
        if let (Some(metrics), Some(_)) = (&metrics, flows.filter()) {
            sums.add_metrics(metrics);
        }
        let filter = flows.filter().map(|filter| format!(", filter: {filter}")).unwrap_or_default();
        format!("Segments: {} to open{filter}", flows.segments().1)
    } else if let Some(rows) = plan.downcast_ref::<RowsExec>() {
        sums.add(rows.segments(), rows.rows());
        format!("Segments: {} to open", rows.segments().1)
    } else {
        displayable(plan.as_ref()).one_line().to_string().trim_end().to_owned()
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

/// The books of the whole question.
fn push_archive(lines: &mut Vec<String>, seen: &ProgressCounts, sums: &Scanned, is_run: bool) {
    let mut line = |name: &str, number: u64, of: Option<u64>, note: &str| {
        let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
        let text = format!("{name:<24}{number:>14}{of}  {note}");
        lines.push(text.trim_end().to_owned());
    };
    let (segments, closed) = (sums.segments.0 as u64, (sums.segments.0 - sums.segments.1) as u64);
    line("segments", segments, None, "");
    if is_run {
        line("  pruned", seen.segments_pruned, Some(segments), "by the times in their names and by their indexes");
        line("  read", seen.segments_done, Some(segments), "");
    } else {
        line("  pruned", closed, Some(segments), "by the times in their names; indexes are asked when it runs");
    }
    if is_run && seen.pages_all > 0 {
        let name = "pages pruned by index";
        line(name, seen.pages_pruned, Some(seen.pages_all), "of the segments whose times fit");
    }
    line("rows", sums.rows.0, None, "");
    line("  pruned", if is_run { seen.rows_pruned } else { sums.rows.0 - sums.rows.1 }, Some(sums.rows.0), "");
    if is_run && sums.rows_tested > 0 {
        line("  passed the filter", sums.rows_passed as u64, Some(sums.rows_tested as u64), "that were tested");
    }
}
