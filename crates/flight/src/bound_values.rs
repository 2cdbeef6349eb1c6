//! Values of parameters, as clients send them.
//!
//! A client sends a schema and a batch of one row. Decoding a batch must not allocate more than was sent: a compressed buffer
//! begins with the length that it will have, for which a decoder allocates before it decompresses anything, and a dictionary grows
//! with each delta. One row of values needs neither, so both are refused by the header of their message.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::ipc::{MessageHeader, root_as_message};
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use datafusion::common::ScalarValue;
use futures::{Stream, StreamExt};
use tonic::Status;
use weir_sql::ParameterValue;

use crate::answers::of_flight;
use crate::errors::internal;

/// The values of the row that a client sends; none when it sends no row.
pub(crate) async fn read(
    messages: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
) -> Result<Vec<ParameterValue>, Status> {
    let messages = messages.map(|message| {
        let checked = message.and_then(|message| check(&message).map(|()| message));
        checked.map_err(|status| FlightError::Tonic(Box::new(status)))
    });
    let mut batches = FlightRecordBatchStream::new_from_flight_data(messages);
    let mut values = Vec::new();
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(of_flight)?;
        if batch.num_rows() == 0 {
            continue;
        }
        if batch.num_rows() > 1 || !values.is_empty() {
            return Err(Status::invalid_argument("more than one row of values came for the parameters"));
        }
        values = values_of(&batch)?;
    }
    Ok(values)
}

/// Refuses a message that takes more memory than it has octets.
fn check(message: &FlightData) -> Result<(), Status> {
    // what is no message is the decoder's to refuse
    let Ok(header) = root_as_message(&message.data_header) else { return Ok(()) };
    if header.header_type() == MessageHeader::DictionaryBatch {
        let message = "dictionaries are not taken as values of parameters\nhint: send plain columns";
        return Err(Status::invalid_argument(message));
    }
    if header.header_as_record_batch().is_some_and(|batch| batch.compression().is_some()) {
        let message = "compressed batches are not taken as values of parameters\nhint: send them without compression";
        return Err(Status::invalid_argument(message));
    }
    Ok(())
}

/// The values of a row.
fn values_of(batch: &RecordBatch) -> Result<Vec<ParameterValue>, Status> {
    let value = |column: &ArrayRef| {
        let value = ScalarValue::try_from_array(column, 0).map_err(internal)?;
        Ok(match value {
            // what the text means follows from what it is compared with
            ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
                ParameterValue::Text(text)
            }
            other => ParameterValue::Typed(other),
        })
    };
    batch.columns().iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, StringArray};
    use arrow::datatypes::Int32Type;
    use arrow::ipc::CompressionType;
    use arrow::ipc::writer::IpcWriteOptions;
    use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
    use futures::TryStreamExt;
    use tokio::runtime::Builder;

    use super::*;

    fn batch(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("$1", column)]).expect("a batch")
    }

    /// What the service reads of a batch that a client encodes so.
    fn read_of(batch: RecordBatch, builder: FlightDataEncoderBuilder) -> Result<Vec<ParameterValue>, Status> {
        let messages = builder.build(futures::stream::iter([Ok(batch)])).map_err(of_flight);
        Builder::new_current_thread().build().expect("a runtime").block_on(read(messages))
    }

    #[test]
    fn one_row_of_plain_columns_is_taken() {
        let read =
            |texts: Vec<&str>| read_of(batch(Arc::new(StringArray::from(texts))), FlightDataEncoderBuilder::new());
        let values = read(vec!["TCP"]).expect("values");
        assert!(matches!(values.as_slice(), [ParameterValue::Text(text)] if text == "TCP"), "{values:?}");
        assert!(read(Vec::new()).expect("no values").is_empty());
        assert!(read(vec!["TCP", "UDP"]).expect_err("two rows").message().contains("more than one row"));
    }

    #[test]
    fn what_takes_more_memory_than_it_has_octets_is_refused() {
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME));
        let compressed = FlightDataEncoderBuilder::new().with_options(options.expect("options"));
        let text = "a".repeat(4096);
        let refused = read_of(batch(Arc::new(StringArray::from(vec![text.as_str()]))), compressed);
        assert!(refused.expect_err("compressed").message().starts_with("compressed batches are not taken"));
        let dictionaries = FlightDataEncoderBuilder::new().with_dictionary_handling(DictionaryHandling::Resend);
        let words: DictionaryArray<Int32Type> = ["TCP"].into_iter().collect();
        let refused = read_of(batch(Arc::new(words)), dictionaries);
        assert!(refused.expect_err("a dictionary").message().starts_with("dictionaries are not taken"));
    }
}
