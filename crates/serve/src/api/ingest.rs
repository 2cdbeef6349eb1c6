//! Flows that programs push.

use std::sync::Arc;

use arrow::array::Array;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_collect::intake::Intake;
use weir_flow::FlowBatch;
use weir_formats::arrow_stream::{self, StreamError};
use weir_formats::parquet_body;
use weir_formats::text_body::{self, TextForm};

use super::extract::Params;
use crate::access::Asker;
use crate::body::{ARROW_STREAM, json};
use crate::ingesting::{Ingesting, PendingReceipts, WaitOutcome};
use crate::moment::now_ms;
use crate::problem::{Answered, Problem};
use crate::service::Service;

/// The media type of objects of JSON, one on each line.
const JSON_LINES: &str = "application/x-ndjson";
/// That of CSV with a header (RFC 7111).
const CSV: &str = "text/csv";
/// That of Parquet.
const PARQUET: &str = "application/vnd.apache.parquet";

/// How a push is answered.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct IngestParams {
    /// Until when the answer waits.
    #[serde(default)]
    #[param(inline)]
    wait: WaitParam,
}

/// Until when an answer waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WaitParam {
    /// Until the flows survive a crash of the machine, within the time of the option `durable_timeout`.
    #[default]
    Durable,
    /// Until they are taken.
    None,
}

/// How the flows of a body are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyForm {
    Arrow,
    Parquet,
    Text(TextForm),
}

impl BodyForm {
    /// The form of the body by its `Content-Type`.
    fn of(headers: &HeaderMap) -> Answered<Self> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match kind.split(';').next().map(str::trim) {
            Some(ARROW_STREAM) => Ok(Self::Arrow),
            Some(PARQUET) => Ok(Self::Parquet),
            Some(JSON_LINES) => Ok(Self::Text(TextForm::JsonLines)),
            Some(CSV) => Ok(Self::Text(TextForm::Csv)),
            _ => Err(Problem::request("the Content-Type of the body is none of those that are read").with_hint(
                format!("send {ARROW_STREAM}, {PARQUET}, {JSON_LINES} or {CSV}; weir import reads other files"),
            )),
        }
    }
}

/// The answer to a sender whose body cannot be read.
fn unreadable(error: &StreamError) -> Problem {
    let problem = match error {
        StreamError::TooLarge { .. } => Problem::too_large(error.to_string()),
        _ => Problem::request(error.to_string()),
    };
    problem.with_hint(error.hint())
}

/// What was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct IngestAnswer {
    /// Flows that are in the archive, or on their way.
    flows: u64,
    /// Memory that they keep until they are there.
    octets: u64,
    /// Whether they survive a crash of the machine. If not, a service that is killed now loses them.
    is_durable: bool,
    /// The last delivery of the archive that has some of them; null as long as that is not known, and of no flows.
    position: Option<u64>,
}

/// Takes flows into the archive, whose columns are named as those of flows: an Arrow IPC stream without compression, lines of JSON,
/// CSV with a header, or Parquet of flat columns, plain or with dictionaries, compressed with zstd or not at all.
///
/// Flows without a time of reception get the present. All of a body is taken or nothing. 200 says that the flows are on disk, which
/// takes about a second; 202 that they wait in memory for the archive, because of `wait=none` or because the disk took too
/// long. When there is no room the answer is 503 with Retry-After.
#[utoipa::path(
    post, path = "/ingest", tag = "service", params(IngestParams),
    request_body(content(
        (Vec<u8> = "application/vnd.apache.arrow.stream"),
        (Vec<u8> = "application/vnd.apache.parquet"),
        (String = "application/x-ndjson"),
        (String = "text/csv")
    )),
    responses(
        (status = 200, body = IngestAnswer), (status = 202, body = IngestAnswer), (status = "default", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn ingest(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<IngestParams>,
    request: Request,
) -> Answered<Response> {
    asker.needs_ingest()?;
    let Some(ingesting) = &service.ingesting else {
        return Err(Problem::not_found("this service takes no flows over HTTP")
            .with_hint("the section [ingest] of its configuration has it take them"));
    };
    let intake = Arc::clone(&ingesting.intake);
    let octets_max = ingesting.octets_max;
    let (head, body) = request.into_parts();
    let queue_octets_max = ingesting.queue_octets_max;
    let form = BodyForm::of(&head.headers).inspect_err(|_| intake.count_bad())?;
    let body = axum::body::to_bytes(body, octets_max).await;
    let body = body.map_err(|_| Problem::too_large("the body of the request is too large"))?;
    let work = move || {
        // the place of the body is free when it has been read, whether its client is there or not
        let _head = head;
        let octets = body.len();
        let read = match form {
            BodyForm::Arrow => arrow_stream::read(body, now_ms()),
            BodyForm::Parquet => parquet_body::read(body, now_ms(), queue_octets_max),
            BodyForm::Text(form) => text_body::read(&body, form, now_ms(), queue_octets_max),
        };
        let flows = read.map_err(|error| {
            intake.count_bad();
            unreadable(&error)
        })?;
        taken(&intake, flows, octets, params.wait)
    };
    let taken = tokio::task::spawn_blocking(work).await;
    let (answer, awaited) = taken.map_err(|_| Problem::internal("the body of the request could not be read"))??;
    // only the connection is held meanwhile
    let waited = match awaited {
        Some(awaited) => awaited.wait(ingesting.durable_max).await?,
        None => WaitOutcome::NotYet,
    };
    let answer = match waited {
        WaitOutcome::Durable(position) => IngestAnswer { is_durable: true, position: Some(position), ..answer },
        WaitOutcome::NotYet => answer,
    };
    let status = if answer.is_durable { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, json(&answer)?).into_response())
}

/// Puts flows into the queue, and returns the receipts to wait for.
fn taken(
    intake: &Intake,
    flows: Vec<FlowBatch>,
    body_octets: usize,
    wait: WaitParam,
) -> Answered<(IngestAnswer, Option<PendingReceipts>)> {
    let rows: usize = flows.iter().map(FlowBatch::rows).sum();
    // columns are parts of the body or copies of them, and one part keeps all of it
    let octets = body_octets.max(flows.iter().map(octets_of).sum());
    let answer = IngestAnswer { flows: rows as u64, octets: octets as u64, is_durable: rows == 0, position: None };
    if rows == 0 {
        return Ok((answer, None));
    }
    if wait == WaitParam::None {
        intake.push(flows, octets).map_err(Ingesting::refused)?;
        return Ok((answer, None));
    }
    let (receipts, awaited) = PendingReceipts::of(flows.len());
    intake.push_with(flows, receipts, octets).map_err(Ingesting::refused)?;
    Ok((answer, Some(awaited)))
}

/// Octets of the values of a batch.
fn octets_of(flows: &FlowBatch) -> usize {
    let columns = flows.record_batch().columns().iter();
    columns
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()))
        .sum()
}
