//! Flows as a file.

use std::io::{self, Write};
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_flow::{Column, FlowBatch};
use weir_formats::nfcapd;
use weir_print::{Format, OutputOptions};
use weir_query::{FlowQuery, Select};

use super::extract::Params;
use super::parameters::{WhichFlows, column, limit, names, sorting};
use super::question_text::given;
use crate::access::Asker;
use crate::body::with_type;
use crate::problem::{Answered, Problem, with_causes};
use crate::service::{Question, Reads, Service};

/// Rows unless a request asks for another number, and the most.
const ROWS: (usize, usize) = (100_000, 1_000_000);

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileFormat {
    /// Comma-separated values with a header line.
    Csv,
    /// Parquet, compressed with zstd.
    Parquet,
    /// As nfdump 1.7 reads it, with every column that has a place there.
    Nfcapd,
}

impl FileFormat {
    fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Nfcapd => "nfcapd",
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Parquet => "application/vnd.apache.parquet",
            Self::Nfcapd => "application/octet-stream",
        }
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Csv => "attachment; filename=\"flows.csv\"",
            Self::Parquet => "attachment; filename=\"flows.parquet\"",
            Self::Nfcapd => "attachment; filename=\"nfcapd.flows\"",
        }
    }
}

/// Which flows, and what of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DownloadParams {
    /// csv, parquet or nfcapd.
    #[param(inline)]
    format: FileFormat,
    /// In nfdump's language; all flows without it.
    filter: Option<String>,
    /// Flows that were active at this time or later.
    from: Option<String>,
    /// Flows that were active at this time or before.
    until: Option<String>,
    /// Columns between commas; all of them without it. A file of nfcapd has those that it has.
    columns: Option<String>,
    /// What they are sorted by, with `-` before it for the largest first; without it they come as they are found.
    order: Option<String>,
    /// Rows at most: 100,000, up to 1,000,000.
    limit: Option<usize>,
}

/// Gives flows as a file.
#[utoipa::path(
    get, path = "/flows/download", tag = "questions", params(DownloadParams),
    responses(
        (status = 200, content(
            (String = "text/csv"),
            (Vec<u8> = "application/vnd.apache.parquet"),
            (Vec<u8> = "application/octet-stream")
        )),
        (status = "default", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn download(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<DownloadParams>,
) -> Answered<Response> {
    let which = WhichFlows::of(params.filter.as_deref(), params.from.as_deref(), params.until.as_deref())?;
    let columns = match params.columns.as_deref().map(str::trim) {
        Some(list) if !list.is_empty() && list != "*" && params.format != FileFormat::Nfcapd => {
            names(list).map(column).collect::<Answered<Vec<_>>>()?
        }
        _ => Column::ALL.to_vec(),
    };
    let sorting = params.order.as_deref().filter(|order| !order.is_empty()).map(sorting).transpose()?;
    let limit = limit(params.limit, ROWS.0, ROWS.1)?;
    let format = params.format;
    let (name, order) = (format.name(), given("order", params.order.as_deref()));
    let text = which.text(&format!("download format={name}{order} limit={limit}"));
    // all columns are asked for, and those that who asks does not see are null
    let query = which.query(Select::List { columns, sorting, limit: Some(limit) });
    let work = move |question: &Question<'_>| {
        let (octets, rows) = file(question, &query, format)?;
        question.turn.note_rows(rows);
        let mut response = with_type(octets, format.media_type());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(format.file_name()));
        Ok(response)
    };
    service.ask(&asker, text, Reads::Flows(which.window), work).await
}

/// The octets of the file, and how many rows it has.
fn file(question: &Question<'_>, query: &FlowQuery, format: FileFormat) -> Answered<(Vec<u8>, u64)> {
    let mut octets = Limited::new(question.service.answer_octets_max());
    let written = match format {
        FileFormat::Csv => csv(question, query, &mut octets),
        FileFormat::Parquet => parquet(question, query, &mut octets),
        FileFormat::Nfcapd => nfcapd(question, query, &mut octets),
    };
    if octets.is_full {
        let detail = format!("the file is larger than {} octets", octets.octets_max);
        return Err(Problem::too_large(detail).with_hint("ask for fewer rows, or use weir query"));
    }
    Ok((octets.octets, written?))
}

fn csv(question: &Question<'_>, query: &FlowQuery, to: &mut Limited) -> Answered<u64> {
    question.check_filter(query)?;
    Ok(question.answers.write(query, Format::Csv, &OutputOptions::default(), to)?.rows)
}

fn parquet(question: &Question<'_>, query: &FlowQuery, to: &mut Limited) -> Answered<u64> {
    question.check_filter(query)?;
    let answer = question.answers.ask(query)?;
    let schema = Arc::clone(answer.schema());
    let failed =
        |error: parquet::errors::ParquetError| Problem::internal(format!("Parquet cannot be written: {error}"));
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut writer = ArrowWriter::try_new(to, schema, Some(properties)).map_err(failed)?;
    let mut rows = 0;
    for batch in answer {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        writer.write(&batch).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(rows)
}

fn nfcapd(question: &Question<'_>, query: &FlowQuery, to: &mut Limited) -> Answered<u64> {
    question.check_filter(query)?;
    let failed = |error: &dyn std::error::Error| {
        Problem::internal(format!("the file cannot be written: {}", with_causes(error)))
    };
    // the format ends with what goes to its beginning, so it is a file first
    let file = tempfile::NamedTempFile::new().map_err(|error| failed(&error))?;
    let options = nfcapd::WriterOptions { ident: "weir".to_owned(), ..nfcapd::WriterOptions::default() };
    let mut writer = nfcapd::Writer::create(file.path(), options).map_err(|error| failed(&error))?;
    let mut rows = 0;
    for batch in question.answers.ask(query)? {
        let flows = FlowBatch::try_new(batch?).map_err(|error| failed(&error))?;
        rows += flows.rows() as u64;
        writer.write(&flows).map_err(|error| failed(&error))?;
        if file.as_file().metadata().is_ok_and(|metadata| metadata.len() > to.octets_max as u64) {
            to.is_full = true;
            return Ok(rows);
        }
    }
    writer.finish().map_err(|error| failed(&error))?;
    let octets = std::fs::read(file.path()).map_err(|error| failed(&error))?;
    // a file that is too large is noted by the writer
    to.write_all(&octets).map_err(|error| failed(&error))?;
    Ok(rows)
}

/// Octets up to a limit.
struct Limited {
    octets: Vec<u8>,
    octets_max: usize,
    is_full: bool,
}

impl Limited {
    fn new(octets_max: usize) -> Self {
        Self { octets: Vec::new(), octets_max, is_full: false }
    }
}

impl Write for Limited {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.octets.len() + octets.len() > self.octets_max {
            self.is_full = true;
            return Err(io::Error::other("the answer is too large"));
        }
        self.octets.extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_no_more_than_it_may() {
        let mut to = Limited::new(10);
        to.write_all(b"12345").expect("it fits");
        assert!(to.write_all(b"123456").is_err() && to.is_full);
        assert_eq!(to.octets, b"12345");
    }
}
