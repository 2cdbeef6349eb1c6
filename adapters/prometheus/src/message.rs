//! The message of remote write 1.0: Protocol Buffers, compressed with the block format of Snappy.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use prost::Message;
use weir_forward::StatisticsStep;

/// Columns of the table `series` before those of metrics.
const FIRST_METRIC: usize = 6;
/// Ends of the names of columns that are not sent: a sample has the sum of a counter, or the average of a gauge.
const FOLDS: [&str; 3] = ["_min", "_max", "_last"];

/// A request: series, each with its new samples.
#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    /// Series in any order.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
}

/// A series and its new samples.
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// What it is, in the order of the names.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// Its samples in the order of time.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
}

/// A label of a series.
#[derive(Clone, PartialEq, Message)]
pub struct Label {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A value at a time.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Sample {
    /// The value.
    #[prost(double, tag = "1")]
    pub value: f64,
    /// The time in milliseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

/// The samples of a step: for each metric of a row one, at the end of the step.
pub fn samples(step: &StatisticsStep, extra: &[(String, String)]) -> Vec<TimeSeries> {
    let end_ms = (step.time_secs + i64::from(step.step_secs)) * 1_000;
    let step_secs = step.step_secs.to_string();
    let mut found = Vec::new();
    let (Some(by), Some(key)) = (texts(&step.rows, "by"), texts(&step.rows, "key")) else { return found };
    let schema = step.rows.schema();
    for (field, values) in schema.fields().iter().zip(step.rows.columns()).skip(FIRST_METRIC) {
        let is_fold = |ending: &str| {
            field.name().strip_suffix(ending).is_some_and(|metric| schema.column_with_name(metric).is_some())
        };
        let Some(values) = values.as_primitive_opt::<UInt64Type>().filter(|_| !FOLDS.iter().any(|end| is_fold(end)))
        else {
            continue;
        };
        let name = format!("weir_{}", field.name());
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let own = [("__name__", &*name), ("by", by.value(row)), ("key", key.value(row)), ("step", &*step_secs)];
            let extra = extra.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let label = |(name, value): (&str, &str)| Label { name: name.to_owned(), value: value.to_owned() };
            let mut labels: Vec<Label> = own.into_iter().chain(extra).map(label).collect();
            labels.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            let sample = Sample { value: values.value(row) as f64, timestamp: end_ms };
            found.push(TimeSeries { labels, samples: vec![sample] });
        }
    }
    found
}

fn texts<'a>(rows: &'a RecordBatch, name: &str) -> Option<&'a arrow::array::StringArray> {
    rows.column_by_name(name)?.as_string_opt::<i32>()
}

/// The octets of a request with these series.
pub fn encode(timeseries: Vec<TimeSeries>) -> Result<Vec<u8>, snap::Error> {
    let plain = WriteRequest { timeseries }.encode_to_vec();
    snap::raw::Encoder::new().compress_vec(&plain)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray, UInt32Array, UInt64Array};

    use super::*;

    #[test]
    fn a_row_is_a_sample_of_each_metric_that_it_has() {
        let text = |values: [&str; 2]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
        let number = |values: [Option<u64>; 2]| -> ArrayRef { Arc::new(UInt64Array::from(values.to_vec())) };
        let small = || -> ArrayRef { Arc::new(UInt32Array::from(vec![60, 60])) };
        let columns = [
            ("time", small()),
            ("step", small()),
            ("by", text(["total", "src_addr"])),
            ("key", text(["total", "192.0.2.1"])),
            ("known", small()),
            ("count", small()),
            ("bytes", number([Some(7), Some(5)])),
            ("bytes_min", number([Some(0), Some(0)])),
            ("bytes_max", number([Some(7), Some(5)])),
            ("bytes_last", number([Some(7), Some(5)])),
            ("peers", number([None, Some(3)])),
            ("peers_max", number([None, Some(4)])),
        ];
        let rows = RecordBatch::try_from_iter(columns).expect("rows");
        let step = StatisticsStep { time_secs: 120, step_secs: 60, rows };
        let found = samples(&step, &[("collector".to_owned(), "north".to_owned())]);
        let texts: Vec<String> = found
            .iter()
            .map(|series| {
                let labels: Vec<_> =
                    series.labels.iter().map(|label| format!("{}={}", label.name, label.value)).collect();
                let sample = series.samples[0];
                format!("{} {} {}", labels.join(","), sample.value, sample.timestamp)
            })
            .collect();
        assert_eq!(
            texts,
            [
                "__name__=weir_bytes,by=total,collector=north,key=total,step=60 7 180000",
                "__name__=weir_bytes,by=src_addr,collector=north,key=192.0.2.1,step=60 5 180000",
                "__name__=weir_peers,by=src_addr,collector=north,key=192.0.2.1,step=60 3 180000",
            ]
        );
    }

    #[test]
    fn a_request_has_the_octets_of_the_protocol() {
        let label = |name: &str, value: &str| Label { name: name.to_owned(), value: value.to_owned() };
        let series =
            TimeSeries { labels: vec![label("__name__", "up")], samples: vec![Sample { value: 1.0, timestamp: 300 }] };
        let octets = encode(vec![series]).expect("encoded");
        let plain = snap::raw::Decoder::new().decompress_vec(&octets).expect("Snappy");
        // written by hand from prometheus/prompb/types.proto: fields 1 and 2 of TimeSeries, Label and Sample
        let mut wanted = vec![0x0a, 30, 0x0a, 14, 0x0a, 8];
        wanted.extend(b"__name__");
        wanted.extend([0x12, 2, b'u', b'p', 0x12, 12, 0x09]);
        wanted.extend(1.0_f64.to_le_bytes());
        wanted.extend([0x10, 0xac, 0x02]);
        assert_eq!(plain, wanted);
    }
}
