//! Flows that programs push.

use std::sync::Arc;

use arrow::array::Array;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use weir_collect::intake::Intake;
use weir_flow::FlowBatch;
use weir_formats::arrow_stream;

use crate::access::Asker;
use crate::body::{ARROW_STREAM, json};
use crate::ingesting::Ingesting;
use crate::moment::now_ms;
use crate::problem::{Answered, Problem};
use crate::service::Service;

/// What was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct IngestAnswer {
    /// Flows that are on their way into the archive.
    flows: u64,
    /// Memory that they keep until they are there.
    octets: u64,
}

/// Takes flows into the archive: an Arrow IPC stream without compression whose columns are named as those of flows.
///
/// Flows without a time of reception get the present. All of a body is taken or nothing. 202 says that the flows wait in memory
/// for the archive, which has them on disk about a second later; when there is no room the answer is 503 with Retry-After.
#[utoipa::path(
    post, path = "/ingest", tag = "service",
    request_body(content = Vec<u8>, content_type = "application/vnd.apache.arrow.stream"),
    responses((status = 202, body = IngestAnswer), (status = "default", body = Problem))
)]
pub(crate) async fn ingest(State(service): State<Arc<Service>>, asker: Asker, request: Request) -> Answered<Response> {
    asker.needs_ingest()?;
    let Some(ingesting) = &service.ingesting else {
        return Err(Problem::not_found("this service takes no flows over HTTP")
            .with_hint("the section [ingest] of its configuration has it take them"));
    };
    let intake = Arc::clone(&ingesting.intake);
    let octets_max = ingesting.octets_max;
    let (head, body) = request.into_parts();
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some(ARROW_STREAM) {
        intake.count_bad();
        return Err(Problem::request("the body is not said to be an Arrow IPC stream")
            .with_hint(format!("send Content-Type: {ARROW_STREAM}; weir import reads Parquet and other files")));
    }
    let body = axum::body::to_bytes(body, octets_max).await;
    let body = body.map_err(|_| Problem::too_large("the body of the request is too large"))?;
    let work = move || {
        // the place of the body is free when it has been read, whether its client is there or not
        let _head = head;
        let octets = body.len();
        let flows = arrow_stream::read(body, now_ms()).map_err(|error| {
            intake.count_bad();
            Problem::request(error.to_string()).with_hint(error.hint())
        })?;
        taken(&intake, flows, octets)
    };
    let answer = tokio::task::spawn_blocking(work).await;
    let answer = answer.map_err(|_| Problem::internal("the body of the request could not be read"))??;
    Ok((StatusCode::ACCEPTED, json(&answer)?).into_response())
}

fn taken(intake: &Intake, flows: Vec<FlowBatch>, body_octets: usize) -> Answered<IngestAnswer> {
    let rows: usize = flows.iter().map(FlowBatch::rows).sum();
    // columns are parts of the body or copies of them, and one part keeps all of it
    let octets = body_octets.max(flows.iter().map(octets_of).sum());
    if rows > 0 {
        intake.push(flows, octets).map_err(Ingesting::refused)?;
    }
    Ok(IngestAnswer { flows: rows as u64, octets: octets as u64 })
}

/// Octets of the values of a batch.
fn octets_of(flows: &FlowBatch) -> usize {
    let columns = flows.record_batch().columns().iter();
    columns
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()))
        .sum()
}
