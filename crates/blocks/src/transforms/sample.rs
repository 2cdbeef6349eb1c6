//! Keeps one row in N, and notes the share so that counts can be scaled later.
//!
//! Which rows are kept follows from their number in the input or from their values, never from the clock or a generator
//! that is shared, so a chain that is run again keeps the same rows. The hash of `flow` is written out here rather than
//! taken from a library: two collectors, built years apart, shall keep the same flows. What speaks against it is that
//! it is weaker than what libraries have become; a sender that chooses the addresses of flows can have them kept or dropped.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMillisecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use weir_chain::{
    Built, ComponentError, ComponentKind, Counter, ONE_INPUT, Opener, OptionError, Outlet, Role, Transform, choices,
    options,
};
use weir_flow::Column;
use weir_flow::schema::field;
use weir_rows::keys::FIVE_TUPLE;

/// Keeps one row in N.
pub const KIND: ComponentKind<SampleOptions> = ComponentKind {
    name: "sample",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Keeps one row in N and drops the others. Rows that are kept are unchanged except for the column \
          `sampling_interval`, which is multiplied by `one_in` so that counts can be scaled later: null, 0 and an absent \
          column count as 1. A product over 4294967295 becomes 4294967295 and is counted in `intervals_saturated`. \
          Dropped rows are counted in `rows_sampled_out`. No rows are held.",
    configure,
};

options! {
    /// Options of `sample`.
    pub struct SampleOptions {
        /// Keep one row in this many.
        one_in: u32 => 1..=u64::from(u32::MAX),
        /// Which rows are kept.
        method: SampleMethod = SampleMethod::Count,
        /// Take rows that are equal in these columns for one flow, with the method flow. A flow column that the input
        /// lacks counts as null.
        keys: Vec<String> = FIVE_TUPLE.map(|column| column.name().to_owned()).to_vec(),
        /// Choose by this number, with the methods random and flow: another seed keeps other rows, the same seed keeps
        /// the same rows.
        seed: u64 = 0 => 0..=i64::MAX.cast_unsigned(),
    }
}

choices! {
    /// Which rows are kept.
    pub enum SampleMethod {
        /// Every Nth row, the last of each `one_in`.
        Count = "count",
        /// Each row with the same chance, from the sequence that `seed` begins.
        Random = "random",
        /// Rows whose values in the columns of `keys` are in a share of all values, so either every row of a flow is
        /// kept or none.
        Flow = "flow",
    }
}

fn configure(options: SampleOptions) -> Result<Opener, OptionError> {
    let SampleOptions { one_in, method, keys, seed } = options;
    let method = match method {
        SampleMethod::Count => Method::Count { left: one_in },
        SampleMethod::Random => Method::Random { state: seed },
        SampleMethod::Flow if keys.is_empty() => {
            return Err(OptionError::new("keys", "'keys' names no column").with_hint("name the columns of a flow"));
        }
        SampleMethod::Flow => Method::Flow { keys, seed, hashes: Vec::new() },
    };
    Ok(Box::new(move |context| {
        let counters = &context.counters;
        Ok(Built::Transform(Box::new(Sample {
            one_in,
            method,
            kept: Vec::new(),
            schemas: None,
            left_out: counters.counter("rows_sampled_out"),
            saturated: counters.counter("intervals_saturated"),
        })))
    }))
}

struct Sample {
    one_in: u32,
    method: Method,
    /// Rows of the burst that are kept; here so that its memory is used again.
    kept: Vec<u32>,
    /// Schema of the last burst and of what became of it.
    schemas: Option<(SchemaRef, SchemaRef)>,
    left_out: Counter,
    saturated: Counter,
}

enum Method {
    /// How many rows from here to the next that is kept, itself included.
    Count {
        left: u32,
    },
    Random {
        state: u64,
    },
    Flow {
        keys: Vec<String>,
        seed: u64,
        hashes: Vec<u64>,
    },
}

impl Transform for Sample {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        self.kept.clear();
        self.method.choose(self.one_in, &rows, &mut self.kept)?;
        self.left_out.add((rows.num_rows() - self.kept.len()) as u64);
        if self.kept.is_empty() {
            return Ok(());
        }
        let kept = if self.kept.len() == rows.num_rows() {
            rows
        } else {
            let indices = UInt32Array::from_iter_values(self.kept.iter().copied());
            take_record_batch(&rows, &indices).map_err(|error| ComponentError::caused("rows cannot be taken", error))?
        };
        out.rows(self.scale(&kept)?);
        Ok(())
    }
}

impl Method {
    /// Appends the numbers of the rows that are kept.
    fn choose(&mut self, one_in: u32, rows: &RecordBatch, kept: &mut Vec<u32>) -> Result<(), ComponentError> {
        let end = rows.num_rows() as u32;
        match self {
            Self::Count { left } => {
                let mut next = u64::from(*left) - 1;
                while next < u64::from(end) {
                    kept.push(next as u32);
                    next += u64::from(one_in);
                }
                *left = (next - u64::from(end)) as u32 + 1;
            }
            Self::Random { state } => kept.extend((0..end).filter(|_| is_in_share(next_random(state), one_in))),
            Self::Flow { keys, seed, hashes } => {
                hashes.clear();
                hashes.resize(rows.num_rows(), finish(*seed));
                for name in keys {
                    match rows.column_by_name(name) {
                        Some(values) => hash_column(name, values, hashes)?,
                        None if Column::by_name(name).is_some() => {
                            for hash in hashes.iter_mut() {
                                *hash = mix(*hash, NULL);
                            }
                        }
                        None => return Err(ComponentError::missing_column(name, rows)),
                    }
                }
                kept.extend((0..end).filter(|row| is_in_share(finish(hashes[*row as usize]), one_in)));
            }
        }
        Ok(())
    }
}

impl Sample {
    /// The rows with the sampling interval multiplied.
    fn scale(&mut self, rows: &RecordBatch) -> Result<RecordBatch, ComponentError> {
        let name = Column::SamplingInterval.name();
        let at = rows.schema_ref().index_of(name).ok();
        let scaled: ArrayRef = match at.map(|at| rows.column(at)) {
            None => Arc::new(UInt32Array::from_value(self.one_in, rows.num_rows())),
            Some(intervals) => {
                let Some(intervals) = intervals.as_primitive_opt::<UInt32Type>() else {
                    let found = intervals.data_type();
                    return Err(ComponentError::new(format!("column '{name}' has type {found}, but UInt32 is needed")));
                };
                let mut saturated = 0;
                let one_in = self.one_in;
                let products = intervals.iter().map(|interval| {
                    let product = u64::from(interval.unwrap_or(1).max(1)) * u64::from(one_in);
                    u32::try_from(product).unwrap_or_else(|_| {
                        saturated += 1;
                        u32::MAX
                    })
                });
                let products = UInt32Array::from_iter_values(products);
                self.saturated.add(saturated);
                Arc::new(products)
            }
        };
        let mut columns = rows.columns().to_vec();
        match at {
            Some(at) => columns[at] = scaled,
            None => columns.insert(place(rows.schema_ref()), scaled),
        }
        let schema = self.scaled_schema(rows.schema_ref());
        RecordBatch::try_new(schema, columns)
            .map_err(|error| ComponentError::caused("sampling interval is not set", error))
    }

    fn scaled_schema(&mut self, schema: &SchemaRef) -> SchemaRef {
        if let Some((known, scaled)) = &self.schemas
            && Arc::ptr_eq(known, schema)
        {
            return Arc::clone(scaled);
        }
        let scaled = if schema.index_of(Column::SamplingInterval.name()).is_ok() {
            Arc::clone(schema)
        } else {
            let mut fields = schema.fields().to_vec();
            fields.insert(place(schema), Arc::new(field(Column::SamplingInterval)));
            Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
        };
        self.schemas = Some((Arc::clone(schema), Arc::clone(&scaled)));
        scaled
    }
}

/// Where the sampling interval belongs among the columns of flows; at the end of others.
fn place(schema: &Schema) -> usize {
    let behind = |name: &str| Column::by_name(name).is_some_and(|column| column > Column::SamplingInterval);
    schema.fields().iter().position(|field| behind(field.name())).unwrap_or(schema.fields().len())
}

/// Whether a number falls into the first of `one_in` equal shares of all numbers.
fn is_in_share(number: u64, one_in: u32) -> bool {
    (u128::from(number) * u128::from(one_in)) >> 64 == 0
}

/// splitmix64 (Steele, Lea and Flood 2014): the next number of a sequence.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// What a null adds to a hash.
const NULL: u64 = 0xa5a5_0000_5a5a_ffff;

fn mix(hash: u64, value: u64) -> u64 {
    let bits = (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^ (bits >> 29)
}

fn finish(hash: u64) -> u64 {
    let mut state = hash;
    next_random(&mut state)
}

/// Octets, eight at a time in network order, and how many they are.
fn mix_octets(hash: u64, octets: &[u8]) -> u64 {
    let words = octets.chunks(8).map(|part| part.iter().fold(0, |word, octet| word << 8 | u64::from(*octet)));
    words.fold(mix(hash, octets.len() as u64), mix)
}

/// Adds a column to the hash of each row. A number counts by its value, whatever its width.
fn hash_column(name: &str, values: &ArrayRef, hashes: &mut [u64]) -> Result<(), ComponentError> {
    macro_rules! numbers {
        ($($data_type:pat => $primitive:ty),* $(,)?) => {
            match values.data_type() {
                $($data_type => hash_numbers::<$primitive>(values, hashes, |value| value as i64 as u64),)*
                DataType::UInt64 => hash_numbers::<UInt64Type>(values, hashes, |value| value),
                DataType::Binary => hash_octets(values.as_binary::<i32>().iter(), hashes),
                DataType::Utf8 => hash_octets(values.as_string::<i32>().iter().map(|text| text.map(str::as_bytes)), hashes),
                other => {
                    let message = format!("column '{name}' of type {other} cannot distinguish flows");
                    return Err(ComponentError::new(message));
                }
            }
        };
    }
    numbers! {
        DataType::UInt8 => UInt8Type,
        DataType::UInt16 => UInt16Type,
        DataType::UInt32 => UInt32Type,
        DataType::Int8 => Int8Type,
        DataType::Int16 => Int16Type,
        DataType::Int32 => Int32Type,
        DataType::Int64 => Int64Type,
        DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
    }
    Ok(())
}

fn hash_numbers<T: ArrowPrimitiveType>(values: &ArrayRef, hashes: &mut [u64], number: impl Fn(T::Native) -> u64) {
    let values = values.as_primitive::<T>();
    if values.null_count() == 0 {
        hashes.iter_mut().zip(values.values()).for_each(|(hash, value)| *hash = mix(*hash, number(*value)));
    } else {
        let values = values.iter().map(|value| value.map_or(NULL, &number));
        hashes.iter_mut().zip(values).for_each(|(hash, value)| *hash = mix(*hash, value));
    }
}

fn hash_octets<'a>(values: impl Iterator<Item = Option<&'a [u8]>>, hashes: &mut [u64]) {
    for (hash, octets) in hashes.iter_mut().zip(values) {
        *hash = match octets {
            Some(octets) => mix_octets(*hash, octets),
            None => mix(*hash, NULL),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use arrow::array::BinaryArray;
    use proptest::prelude::*;
    use weir_chain::AnyKind;
    use weir_chain::compliance::{self, Outcome};
    use weir_flow::{FlowBatch, FlowBatchBuilder};
    use weir_generate::TrafficModel;

    use super::*;

    const SAMPLE: &dyn AnyKind = &KIND;

    fn flows(count: u64) -> Vec<RecordBatch> {
        let model = TrafficModel { ipv6_permille: 300, hosts: 1 << 10, ..TrafficModel::new(3) };
        model.flows(count).expect("a model").map(|batch| batch.record_batch().clone()).collect()
    }

    fn intervals(outcome: &Outcome) -> Vec<Option<u32>> {
        let rows = outcome.rows.as_ref().expect("rows");
        let intervals = rows.column_by_name("sampling_interval").expect("a sampling interval");
        intervals.as_primitive::<UInt32Type>().iter().collect()
    }

    fn with_intervals(intervals: &[Option<u32>]) -> RecordBatch {
        let mut builder = FlowBatchBuilder::new(4);
        for (number, interval) in intervals.iter().enumerate() {
            builder.begin_rows(1);
            builder.u64(Column::Bytes).push(Some(number as u64));
            builder.u32(Column::SamplingInterval).push(*interval);
            builder.u64(Column::FlowId).push(Some(1));
        }
        builder.finish().record_batch().clone()
    }

    #[test]
    fn complies() {
        for method in ["count", "random", "flow"] {
            let outcome =
                compliance::transform(SAMPLE, &format!("one_in = 7\nmethod = '{method}'\nseed = 5"), &[flows(9_000)]);
            assert_eq!(outcome.len() as u64 + outcome.counter("rows_sampled_out"), 9_000);
            let rows = outcome.rows.clone().expect("rows");
            assert!(FlowBatch::try_new(rows).is_ok(), "the sampling interval is in its place");
            assert!(intervals(&outcome).iter().all(|interval| *interval == Some(7)));
            // three standard deviations of 9000 coins of 1/7; flows come several rows at a time, so they vary more
            let tolerance = if method == "flow" { 300 } else { 100 };
            assert!(outcome.len().abs_diff(9_000 / 7) < tolerance, "{method}: {}", outcome.len());
        }
    }

    #[test]
    fn count_keeps_every_nth() {
        let rows = with_intervals(&[Some(1); 10]);
        let outcome = compliance::transform(SAMPLE, "one_in = 3", &[vec![rows]]);
        let kept = outcome.rows.as_ref().expect("rows").column(0).as_primitive::<UInt64Type>().values().to_vec();
        assert_eq!(kept, [2, 5, 8]);
        assert_eq!(outcome.counter("rows_sampled_out"), 7);
    }

    #[test]
    fn intervals_are_multiplied() {
        let rows = with_intervals(&[None, Some(0), Some(1), Some(100), Some(u32::MAX), Some(u32::MAX / 2)]);
        let outcome = compliance::transform(SAMPLE, "one_in = 1", &[vec![rows.clone()]]);
        let same = [Some(1), Some(1), Some(1), Some(100), Some(u32::MAX), Some(u32::MAX / 2)];
        assert_eq!(intervals(&outcome), same);
        assert_eq!(outcome.counter("intervals_saturated"), 0);
        let thrice: Vec<_> = (0..3).map(|_| rows.clone()).collect();
        // the 2nd, 4th, 6th and so on of the rows
        let outcome = compliance::transform(SAMPLE, "one_in = 2", &[thrice]);
        assert_eq!(intervals(&outcome), [Some(2), Some(200), Some(u32::MAX - 1)].repeat(3));
        let outcome = compliance::transform(SAMPLE, "one_in = 5", &[vec![rows]]);
        assert_eq!((intervals(&outcome), outcome.counter("intervals_saturated")), (vec![Some(u32::MAX)], 1));
    }

    type Key = (Option<Vec<u8>>, Option<u16>);

    fn keys(rows: &RecordBatch) -> Vec<Key> {
        let addresses: &BinaryArray = rows.column_by_name("src_addr").expect("addresses").as_binary();
        let ports = rows.column_by_name("dst_port").expect("ports").as_primitive::<UInt16Type>();
        addresses.iter().zip(ports).map(|(address, port)| (address.map(<[u8]>::to_vec), port)).collect()
    }

    #[test]
    fn all_rows_of_a_flow_share_its_fate() {
        let rows = flows(20_000);
        let options = "one_in = 4\nmethod = 'flow'\nkeys = ['src_addr', 'dst_port', 'flow_id']";
        let outcome = compliance::transform(SAMPLE, options, std::slice::from_ref(&rows));
        let kept: HashSet<Key> = keys(outcome.rows.as_ref().expect("rows")).into_iter().collect();
        let all: Vec<Key> = rows.iter().flat_map(keys).collect();
        assert_eq!(all.iter().filter(|key| kept.contains(key)).count(), outcome.len());
        let distinct: HashSet<_> = all.iter().collect();
        let (few, many) = (distinct.len() / 5, distinct.len() / 3);
        assert!((few..many).contains(&kept.len()), "{} of {} flows", kept.len(), distinct.len());
        let other = compliance::transform(SAMPLE, &format!("{options}\nseed = 1"), &[rows]);
        assert_ne!(other.rows, outcome.rows, "another seed keeps other flows");
    }

    #[test]
    fn hashes_and_numbers_are_those_of_every_version() {
        // the first numbers that the authors' own program gives for the seed 1234567
        let mut state = 1_234_567;
        let numbers = [(); 3].map(|()| next_random(&mut state));
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        // by width a number does not change, by kind it does
        let hash = |values: ArrayRef| {
            let mut hashes = [finish(0)];
            hash_column("x", &values, &mut hashes).expect("a key");
            hashes[0]
        };
        let narrow = hash(Arc::new(arrow::array::UInt8Array::from(vec![6])));
        assert_eq!(narrow, hash(Arc::new(arrow::array::UInt64Array::from(vec![6]))));
        assert_eq!(narrow, hash(Arc::new(arrow::array::Int32Array::from(vec![6]))));
        assert_ne!(narrow, hash(Arc::new(arrow::array::UInt8Array::from(vec![None]))));
        let octets = |octets: &[u8]| hash(Arc::new(BinaryArray::from(vec![octets])));
        assert_ne!(octets(&[0; 4]), octets(&[0; 16]));
    }

    proptest! {
        #[test]
        fn shares_are_equal(number: u64, one_in in 1_u32..) {
            // the naive way: cut the numbers from 0 to 2^64 - 1 into shares of 2^64 / one_in each
            let share = (1_u128 << 64).div_ceil(u128::from(one_in));
            prop_assert_eq!(is_in_share(number, one_in), u128::from(number) < share);
        }
    }

    #[test]
    fn what_cannot_be_sampled_is_told() {
        let (Built::Transform(mut block), _) = compliance::open(SAMPLE, "one_in = 2\nmethod = 'flow'\nkeys = 'colour'")
        else {
            panic!("a transform")
        };
        let error = block.take(0, flows(10).remove(0), &mut Outlet::new()).expect_err("no such column");
        assert!(error.chain().starts_with("input has no column 'colour'; it has start, end"), "{}", error.chain());
        let error = weir_chain::options::parse("one_in = 2\nmethod = 'flow'\nkeys = []").and_then(configure);
        assert_eq!(error.err().expect("no columns").message, "'keys' names no column");
    }
}
