//! Flows between the values of several columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_print::ColumnText;
use weir_query::Select;

use super::extract::Params;
use super::parameters::{MeasureParam, WhichFlows, keys, limit};
use crate::access::Asker;
use crate::body::{AnswerForm, CachedAnswer};
use crate::completeness::CompletenessBody;
use crate::problem::{Answered, Problem};
use crate::sampling::SamplingBody;
use crate::service::{Question, Reads, Service};
use crate::why_empty::WhyEmpty;

/// Groups unless a request asks for another number, and the most: with more nobody can tell them apart.
const GROUPS: (usize, usize) = (50, 1000);
/// Columns at most.
const COLUMNS_MAX: usize = 4;

/// Which flows, and between which columns.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SankeyParams {
    /// 2 to 4 columns, between commas, from left to right.
    by: String,
    /// What links are as wide as.
    #[serde(default)]
    #[param(inline)]
    measure: MeasureParam,
    /// Groups at most: 50, up to 1000.
    limit: Option<usize>,
    /// In nfdump's language; all flows without it.
    filter: Option<String>,
    /// Flows that were active at this time or later.
    from: Option<String>,
    /// Flows that were active at this time or before.
    until: Option<String>,
    /// Whether packets and octets are scaled by the sampling interval of each flow, for the filter too; they are as measured
    /// without it.
    #[serde(default)]
    scaled: bool,
}

/// Nodes and what flows between them.
// only its description is used outside of tests: the end of the body is written when it is given
#[allow(dead_code)]
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
pub(crate) struct SankeyAnswer {
    /// Values of columns.
    nodes: Vec<Node>,
    /// What flows from one to another.
    links: Vec<Link>,
    /// How complete the flows of the window are.
    completeness: CompletenessBody,
    /// Whether packets and octets are scaled by sampling; flows are not counted.
    sampling: SamplingBody,
    /// The last delivery of the archive that the answer has.
    position: u64,
    /// Why there are no links, when there are none.
    why_empty: Option<WhyEmpty>,
    /// How long the question took.
    took_ms: f64,
    /// Whether the answer was there already.
    is_cached: bool,
}

/// A value of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Node {
    /// Its number.
    id: usize,
    /// The column.
    column: String,
    /// The value.
    name: String,
}

/// What flows from one node to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Link {
    /// Number of the node on the left.
    source: usize,
    /// Number of the node on the right.
    target: usize,
    /// Flows, packets or octets.
    value: u64,
}

/// Shows how flows go from the values of one column to those of the next, by the largest groups.
#[utoipa::path(
    get, path = "/sankey", tag = "questions", params(SankeyParams),
    responses((status = 200, body = SankeyAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn sankey(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<SankeyParams>,
) -> Answered<Response> {
    let which = WhichFlows::of(params.filter.as_deref(), params.from.as_deref(), params.until.as_deref())?;
    let which = which.scaled(params.scaled);
    let limit = limit(params.limit, GROUPS.0, GROUPS.1)?;
    let keys = keys(&params.by)?;
    if !(2..=COLUMNS_MAX).contains(&keys.len()) {
        let detail = format!("'by' has {} columns, and 2 to {COLUMNS_MAX} are needed", keys.len());
        return Err(Problem::request(detail));
    }
    let (columns, measure) = (keys.len(), params.measure);
    let sorting = Some(measure.sorting());
    let query = which.query(Select::Aggregate { keys, more: Vec::new(), sorting, limit: Some(limit) });
    let text = which.text(&format!("sankey by={} measure={} limit={limit}", params.by, measure.name()));
    let work = move |question: &Question<'_>| {
        let (mut graph, mut rows) = (Graph::default(), 0);
        for batch in question.ask(&query)? {
            let batch = batch?;
            rows += batch.num_rows();
            graph.add(&batch, columns, measure.name());
        }
        let completeness = question.completeness(&query)?;
        let (nodes, links) = graph.finish();
        Ok(CachedAnswer::open_json(format!(
            "{{\"nodes\":{},\"links\":{},\"completeness\":{},\"sampling\":{},\"position\":{},\"why_empty\":{}",
            serde_json::to_string(&nodes)?,
            serde_json::to_string(&links)?,
            serde_json::to_string(&completeness)?,
            serde_json::to_string(&question.sampling(&query)?)?,
            question.position(),
            serde_json::to_string(&question.why_empty(&query, rows)?)?
        )))
    };
    service.answer(&asker, AnswerForm::Json, text, Reads::Flows(which.window), work).await
}

/// Groups as nodes and links.
#[derive(Debug, Default)]
struct Graph {
    nodes: BTreeMap<(usize, Vec<u8>), usize>,
    names: Vec<Node>,
    links: BTreeMap<(usize, usize), u64>,
}

impl Graph {
    fn add(&mut self, batch: &RecordBatch, columns: usize, measure: &str) {
        let counts = batch.column_by_name(measure).and_then(|counts| counts.as_primitive_opt::<UInt64Type>());
        let fields = batch.schema_ref().fields();
        let mut texts: Vec<ColumnText<'_>> = fields
            .iter()
            .zip(batch.columns())
            .take(columns)
            .map(|(field, values)| ColumnText::new(field, values))
            .collect();
        for row in 0..batch.num_rows() {
            let count = counts.filter(|counts| counts.is_valid(row)).map_or(0, |counts| counts.value(row));
            let mut before = None;
            for (column, text) in texts.iter_mut().enumerate() {
                let mut name = Vec::new();
                text.push(row, &mut name);
                let node = self.node(column, name, fields[column].name());
                if let Some(before) = before.replace(node) {
                    let link = self.links.entry((before, node)).or_default();
                    *link = link.saturating_add(count);
                }
            }
        }
    }

    fn node(&mut self, column: usize, name: Vec<u8>, column_name: &str) -> usize {
        let names = &mut self.names;
        let text = String::from_utf8_lossy(&name).into_owned();
        *self.nodes.entry((column, name)).or_insert_with(|| {
            let id = names.len();
            names.push(Node { id, column: column_name.to_owned(), name: text });
            id
        })
    }

    /// The largest links first.
    fn finish(self) -> (Vec<Node>, Vec<Link>) {
        let link = |((source, target), value)| Link { source, target, value };
        let mut links: Vec<Link> = self.links.into_iter().map(link).collect();
        links.sort_by_key(|link| (std::cmp::Reverse(link.value), link.source, link.target));
        (self.names, links)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, UInt16Array, UInt64Array};

    use super::*;

    #[test]
    fn groups_become_nodes_and_links() {
        let ports = |values: [u16; 3]| -> ArrayRef { Arc::new(UInt16Array::from(values.to_vec())) };
        let bytes: ArrayRef = Arc::new(UInt64Array::from(vec![10, 20, 5]));
        let columns = [("src_port", ports([1, 1, 2])), ("dst_port", ports([1, 80, 80])), ("bytes", bytes)];
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        let mut graph = Graph::default();
        graph.add(&batch, 2, "bytes");
        let (nodes, links) = graph.finish();
        // port 1 on the left and port 1 on the right are two nodes
        let names: Vec<_> = nodes.iter().map(|node| (node.column.as_str(), node.name.as_str())).collect();
        assert_eq!(names, [("src_port", "1"), ("dst_port", "1"), ("dst_port", "80"), ("src_port", "2")]);
        let links: Vec<_> = links.iter().map(|link| (link.source, link.target, link.value)).collect();
        assert_eq!(links, [(0, 2, 20), (0, 1, 10), (3, 2, 5)]);
    }
}
