//! Tables as answers: JSON for pages, Arrow for programs.
//!
//! Rows are written by [`JsonRows`] as they come and never become values of a JSON library, which would take many times
//! their memory. [`TableAnswer`] describes the result; a test reads one back.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_flow::{Column, ColumnType};
use weir_print::JsonRows;
use weir_sql::Totals;

use crate::Problem;
use crate::body::{ARROW_STREAM, AnswerForm, CachedAnswer};
use crate::completeness::CompletenessBody;
use crate::sampling::SamplingBody;
use crate::why_empty::WhyEmpty;

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ValueKind {
    /// An IP address as text.
    Address,
    /// A number; from 2^53 on a string of digits.
    Number,
    /// Milliseconds since the epoch.
    Time,
    /// Text.
    Text,
    /// A number of flags of TCP.
    Flags,
    /// True or false.
    Bool,
}

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ColumnBody {
    /// Its name, as in SQL.
    pub(crate) name: String,
    /// A short heading.
    pub(crate) label: String,
    /// What its values are.
    #[serde(rename = "type")]
    pub(crate) kind: ValueKind,
    /// The unit of its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<String>,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
}

impl ColumnBody {
    /// A column of flows.
    pub(crate) fn of_column(column: Column) -> Self {
        let spec = column.spec();
        let kind = match column.column_type() {
            _ if column == Column::TcpFlags => ValueKind::Flags,
            ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::U64 => ValueKind::Number,
            ColumnType::Time => ValueKind::Time,
            ColumnType::Address => ValueKind::Address,
            ColumnType::Mac | ColumnType::Octets | ColumnType::Elements | ColumnType::Text => ValueKind::Text,
        };
        Self {
            name: spec.name.to_owned(),
            label: spec.label.to_owned(),
            kind,
            unit: Some(spec.unit.to_owned()).filter(|unit| !unit.is_empty()),
            description: Some(spec.doc.to_owned()),
        }
    }

    /// A column of an answer: one of flows, or one that was made of them.
    pub(crate) fn of_field(field: &Field) -> Self {
        let kind = kind_of(field);
        if let Some(known) = Column::by_name(field.name()).map(Self::of_column)
            && (known.kind == kind || known.kind == ValueKind::Flags && kind == ValueKind::Number)
        {
            return known;
        }
        let (label, unit) = match field.name().as_str() {
            "packets_per_second" => ("pps", Some("packets/s")),
            "bits_per_second" => ("bps", Some("bit/s")),
            "bytes_per_packet" => ("bpp", Some("octets")),
            "duration_ms" => ("Duration", Some("milliseconds")),
            "flows_share" => ("Share of flows", None),
            "packets_share" => ("Share of packets", None),
            "bytes_share" => ("Share of bytes", None),
            name => (name, None),
        };
        let unit = unit.map(str::to_owned);
        Self { name: field.name().clone(), label: label.to_owned(), kind, unit, description: None }
    }

    /// The columns of an answer whose packets and octets may be scaled by sampling: those of flows are as measured.
    pub(crate) fn of_schema(schema: &Schema, is_scaled: bool) -> Vec<Self> {
        let column = |field: &Arc<Field>| {
            let column = Self::of_field(field);
            let what = match column.name.as_str() {
                "packets" => "Packets",
                "bytes" => "Octets",
                _ => return column,
            };
            let description = is_scaled.then(|| format!("{what} of the flows, scaled by sampling."));
            Self { description: description.or_else(|| column.description.clone()), ..column }
        };
        schema.fields().iter().map(column).collect()
    }
}

fn kind_of(field: &Field) -> ValueKind {
    match field.data_type() {
        DataType::Boolean => ValueKind::Bool,
        DataType::Timestamp(..) => ValueKind::Time,
        DataType::Binary => match Column::by_name(field.name()).map(Column::column_type) {
            None | Some(ColumnType::Address) if field.metadata().is_empty() => ValueKind::Address,
            Some(ColumnType::Address) => ValueKind::Address,
            _ => ValueKind::Text,
        },
        kind if kind.is_numeric() => ValueKind::Number,
        _ => ValueKind::Text,
    }
}

/// What all flows of a question carried together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TotalsBody {
    /// Flows.
    pub(crate) flows: u64,
    /// Packets.
    pub(crate) packets: u64,
    /// Octets.
    pub(crate) bytes: u64,
}

impl From<Totals> for TotalsBody {
    fn from(totals: Totals) -> Self {
        Self { flows: totals.flows, packets: totals.packets, bytes: totals.bytes }
    }
}

/// A table.
// only its description is used outside of tests: the body is written piece by piece
#[allow(dead_code)]
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
pub(crate) struct TableAnswer {
    /// Columns of the rows.
    columns: Vec<ColumnBody>,
    /// Rows, each with a value for each column.
    rows: Vec<Vec<serde_json::Value>>,
    /// What all flows of the question carried, whatever rows are left out.
    totals: Option<TotalsBody>,
    /// Whether packets and octets are scaled by sampling; null of a statement, and of flows one by one, which are as received.
    sampling: Option<SamplingBody>,
    /// How complete the flows of the window are.
    completeness: CompletenessBody,
    /// The last delivery of the archive that the answer has.
    position: u64,
    /// Whether there are more rows than were asked for.
    is_truncated: bool,
    /// Why there are no rows, when there are none.
    why_empty: Option<WhyEmpty>,
    /// What of the rows is lost, as steps of statistics whose files are damaged, and whether a sum does not fit into 64 bits; absent
    /// when there is nothing to say.
    #[serde(default)]
    warnings: Vec<String>,
    /// How long the question took; of a cached answer how long finding it took.
    took_ms: f64,
    /// Whether the answer was there already.
    is_cached: bool,
}

/// What an answer says besides its rows.
#[derive(Debug, Clone)]
pub(crate) struct AnswerNotes {
    pub(crate) totals: Option<TotalsBody>,
    pub(crate) completeness: CompletenessBody,
    pub(crate) position: u64,
    pub(crate) is_truncated: bool,
    pub(crate) sampling: Option<SamplingBody>,
    pub(crate) why_empty: Option<WhyEmpty>,
    pub(crate) warnings: Vec<String>,
}

/// Makes a body of batches.
pub(crate) struct BodyMaker {
    schema: SchemaRef,
    form: AnswerForm,
    octets_max: usize,
    rows: JsonRows,
    batches: Vec<RecordBatch>,
    octets: usize,
    rows_count: u64,
}

impl BodyMaker {
    /// An empty body of at most so many octets.
    pub(crate) fn new(schema: SchemaRef, form: AnswerForm, octets_max: usize) -> Self {
        Self { schema, form, octets_max, rows: JsonRows::default(), batches: Vec::new(), octets: 0, rows_count: 0 }
    }

    /// Appends a batch.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<(), Problem> {
        self.rows_count += batch.num_rows() as u64;
        match self.form {
            AnswerForm::Json => self.rows.push(&batch),
            AnswerForm::Arrow => {
                self.octets += batch.get_array_memory_size();
                self.batches.push(batch);
            }
        }
        if self.octets.max(self.rows.octets()) > self.octets_max {
            let detail = format!("the answer is larger than {} octets", self.octets_max);
            return Err(Problem::too_large(detail).with_hint("ask for fewer rows or columns"));
        }
        Ok(())
    }

    /// The body.
    pub(crate) fn finish(self, notes: &AnswerNotes) -> Result<CachedAnswer, Problem> {
        let rows = self.rows_count;
        let body = match self.form {
            AnswerForm::Json => self.json(notes),
            AnswerForm::Arrow => self.arrow(notes),
        };
        Ok(body?.with_rows(rows))
    }

    fn json(self, notes: &AnswerNotes) -> Result<CachedAnswer, Problem> {
        let is_scaled = notes.sampling.is_some_and(|sampling| sampling.is_scaled);
        let columns = ColumnBody::of_schema(&self.schema, is_scaled);
        let text = |value: Result<String, serde_json::Error>| value.map_err(Problem::from);
        let mut body = format!(
            "{{\"columns\":{},\"rows\":{},\"completeness\":{},\"position\":{},\"is_truncated\":{}",
            text(serde_json::to_string(&columns))?,
            self.rows.finish(),
            text(serde_json::to_string(&notes.completeness))?,
            notes.position,
            notes.is_truncated
        );
        if let Some(totals) = &notes.totals {
            body.push_str(",\"totals\":");
            body.push_str(&text(serde_json::to_string(totals))?);
        }
        if let Some(sampling) = &notes.sampling {
            body.push_str(",\"sampling\":");
            body.push_str(&text(serde_json::to_string(sampling))?);
        }
        if let Some(why) = &notes.why_empty {
            body.push_str(",\"why_empty\":");
            body.push_str(&text(serde_json::to_string(why))?);
        }
        if !notes.warnings.is_empty() {
            body.push_str(",\"warnings\":");
            body.push_str(&text(serde_json::to_string(&notes.warnings))?);
        }
        Ok(CachedAnswer::open_json(body))
    }

    fn arrow(self, notes: &AnswerNotes) -> Result<CachedAnswer, Problem> {
        let mut metadata = self.schema.metadata().clone();
        metadata.insert("completeness".to_owned(), serde_json::to_string(&notes.completeness)?);
        metadata.insert("position".to_owned(), notes.position.to_string());
        if let Some(sampling) = &notes.sampling {
            metadata.insert("sampling".to_owned(), serde_json::to_string(sampling)?);
        }
        if let Some(why) = &notes.why_empty {
            metadata.insert("why_empty".to_owned(), serde_json::to_string(why)?);
        }
        if !notes.warnings.is_empty() {
            metadata.insert("warnings".to_owned(), serde_json::to_string(&notes.warnings)?);
        }
        let schema: SchemaRef = Arc::new(Schema::new_with_metadata(self.schema.fields().clone(), metadata));
        let mut octets = Vec::new();
        let write = || {
            let mut writer = StreamWriter::try_new(&mut octets, &schema)?;
            for batch in self.batches {
                writer.write(&RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec())?)?;
            }
            writer.finish()
        };
        write().map_err(|error| Problem::internal(format!("the answer cannot be written: {error}")))?;
        Ok(CachedAnswer::whole(octets, ARROW_STREAM))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, UInt64Array};
    use arrow::ipc::reader::StreamReader;

    use super::*;
    use crate::sampling::ScalingSource;

    fn batch() -> RecordBatch {
        let bytes: ArrayRef = Arc::new(UInt64Array::from(vec![Some(1500), Some(1 << 60), None]));
        RecordBatch::try_from_iter([("bytes", bytes)]).expect("a batch")
    }

    fn notes() -> AnswerNotes {
        let found = weir_flow::Completeness { stored: 3, ..weir_flow::Completeness::default() };
        let completeness = CompletenessBody::of(&found);
        let totals = Some(TotalsBody { flows: 3, packets: 4, bytes: 5 });
        let sampling = SamplingBody {
            is_scaled: true,
            by: ScalingSource::Reported,
            has_sampled: true,
            sampled_flows: Some(2),
            unknown_flows: Some(1),
        };
        AnswerNotes {
            totals,
            completeness,
            position: 42,
            is_truncated: false,
            sampling: Some(sampling),
            why_empty: None,
            warnings: vec!["a step is lost".to_owned()],
        }
    }

    #[test]
    fn json_is_what_the_description_says() {
        let mut body = BodyMaker::new(batch().schema(), AnswerForm::Json, 10_000);
        body.push(batch()).expect("small");
        let octets = body.finish(&notes()).expect("a body").octets(1.5, true);
        let table: TableAnswer = serde_json::from_slice(&octets).expect("a table answer");
        assert_eq!(table.columns[0].kind, ValueKind::Number);
        assert_eq!(table.columns[0].description.as_deref(), Some("Octets of the flows, scaled by sampling."));
        let measured = ColumnBody::of_schema(&batch().schema(), false);
        assert_eq!(measured, [ColumnBody::of_column(Column::Bytes)]);
        assert_eq!(serde_json::json!(table.rows), serde_json::json!([[1500], ["1152921504606846976"], [null]]));
        assert_eq!((table.position, table.took_ms, table.is_cached), (42, 1.5, true));
        assert_eq!((table.totals, table.sampling), (notes().totals, notes().sampling));
        assert_eq!(table.completeness.sentence, "complete");
        assert_eq!(table.warnings, notes().warnings);
    }

    #[test]
    fn arrow_has_the_rows_and_the_notes() {
        let mut body = BodyMaker::new(batch().schema(), AnswerForm::Arrow, 10_000);
        body.push(batch()).expect("small");
        let octets = body.finish(&notes()).expect("a body").octets(1.5, false);
        let mut reader = StreamReader::try_new(octets.as_ref(), None).expect("a stream");
        assert_eq!(reader.schema().metadata().get("position").map(String::as_str), Some("42"));
        let sampling = reader.schema().metadata().get("sampling").cloned().expect("sampling");
        assert_eq!(serde_json::from_str::<SamplingBody>(&sampling).ok(), notes().sampling);
        assert_eq!(reader.schema().metadata().get("warnings").map(String::as_str), Some("[\"a step is lost\"]"));
        let read = reader.next().expect("a batch").expect("a batch");
        assert_eq!(read.column(0), batch().column(0));
    }

    #[test]
    fn an_answer_that_is_too_large_is_refused() {
        let mut body = BodyMaker::new(batch().schema(), AnswerForm::Json, 10);
        let problem = body.push(batch()).expect_err("too large");
        assert_eq!((problem.status, problem.hint.is_some()), (413, true));
    }
}
