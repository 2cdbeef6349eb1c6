//! Functions of SQL that know what a flow is.
//!
//! One table names them all: `docs/reference/sql.md` lists the same names in the same order, and a test compares.

mod addresses;
mod community;
mod elements;
mod flow_filter;
mod length_parts;
mod lengths;
mod names;
mod rates;
mod sum;
mod times;
mod wide_times;

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

pub(crate) use addresses::prefix_bounds;
pub use flow_filter::filter_expr;
pub(crate) use flow_filter::filter_of;
pub use weir_flow::protocol_name;
pub use weir_print::tcp_flags_text;
use weir_query::SaturationFlag;

use crate::literals::address_metadata;

type Compute = fn(&[ArrayRef]) -> Result<ArrayRef>;

/// A function whose result depends on its arguments alone, row by row.
#[derive(Debug)]
struct RowFunction {
    name: &'static str,
    signature: Signature,
    returns: DataType,
    compute: Compute,
}

/// A function is its name: there is one of each.
impl PartialEq for RowFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RowFunction {}

impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// For functions of counters, which take decimals for them too.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let TypeSignature::OneOf(forms) = &self.signature.type_signature else {
            return plan_err!("Failed to coerce arguments of '{}'", self.name);
        };
        let Some(TypeSignature::Exact(plain)) = forms.first() else {
            return plan_err!("Failed to coerce arguments of '{}'", self.name);
        };
        // what is missing would be so until the function reads it
        if types.len() != plain.len() {
            return plan_err!("Failed to coerce arguments of '{}'", self.name);
        }
        let taken = plain.iter().zip(types).map(|(plain, given)| match (plain, given) {
            (DataType::UInt64, DataType::Decimal128(_, 0)) => given.clone(),
            _ => plain.clone(),
        });
        Ok(taken.collect())
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn return_field_from_args(&self, _arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name, self.returns.clone(), true);
        let is_address = self.returns == DataType::Binary;
        Ok(Arc::new(if is_address { field.with_metadata(address_metadata()) } else { field }))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let arrays = arguments.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let result = (self.compute)(&arrays)?;
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

fn row_function(name: &'static str, arguments: &[DataType], returns: DataType, compute: Compute) -> Arc<ScalarUDF> {
    let signature = Signature::exact(arguments.to_vec(), Volatility::Immutable);
    Arc::new(ScalarUDF::from(RowFunction { name, signature, returns, compute }))
}

/// A function of counters, which are whole numbers of 64 bits, or decimals as sums and differences of counters are.
fn counting_function(name: &'static str, arguments: &[DataType], compute: Compute) -> Arc<ScalarUDF> {
    let forms = vec![TypeSignature::Exact(arguments.to_vec()), TypeSignature::UserDefined];
    let signature = Signature::one_of(forms, Volatility::Immutable);
    Arc::new(ScalarUDF::from(RowFunction { name, signature, returns: DataType::UInt64, compute }))
}

/// A function whose first argument is an address, as octets or as text.
fn address_function(name: &'static str, rest: &[DataType], returns: DataType, compute: Compute) -> Arc<ScalarUDF> {
    let form = |address| TypeSignature::Exact(std::iter::once(address).chain(rest.iter().cloned()).collect());
    let forms = vec![form(DataType::Binary), form(DataType::Utf8)];
    let signature = Signature::one_of(forms, Volatility::Immutable);
    Arc::new(ScalarUDF::from(RowFunction { name, signature, returns, compute }))
}

/// A function of a width, a time, and a zone that may be left out.
fn bucket_function(name: &'static str, time: &DataType, compute: Compute) -> Arc<ScalarUDF> {
    let form = |rest: &[DataType]| {
        TypeSignature::Exact([DataType::Utf8, time.clone()].into_iter().chain(rest.iter().cloned()).collect())
    };
    let signature = Signature::one_of(vec![form(&[]), form(&[DataType::Utf8])], Volatility::Immutable);
    Arc::new(ScalarUDF::from(RowFunction { name, signature, returns: time.clone(), compute }))
}

/// A function that names numbers: of a column of type `of`, or of any whole number.
fn naming_function(name: &'static str, of: DataType, compute: Compute) -> Arc<ScalarUDF> {
    let forms = vec![TypeSignature::Exact(vec![of]), TypeSignature::Exact(vec![DataType::Int64])];
    let signature = Signature::one_of(forms, Volatility::Immutable);
    Arc::new(ScalarUDF::from(RowFunction { name, signature, returns: DataType::Utf8, compute }))
}

/// A function of two addresses, protocol and ports, and type and code of ICMP, which may be left out.
fn community_function(name: &'static str) -> Arc<ScalarUDF> {
    let form = |address: DataType, numbers: usize| {
        TypeSignature::Exact([vec![address; 2], vec![DataType::Int64; numbers]].concat())
    };
    let forms = [3, 5].into_iter().flat_map(|numbers| [form(DataType::Binary, numbers), form(DataType::Utf8, numbers)]);
    let signature = Signature::one_of(forms.collect(), Volatility::Immutable);
    let compute = community::community_id;
    Arc::new(ScalarUDF::from(RowFunction { name, signature, returns: DataType::Utf8, compute }))
}

static ALL: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
    use DataType::{Binary, Boolean, Int64, UInt8, UInt16, UInt64, Utf8};
    let time = weir_flow::schema::arrow_type(weir_flow::ColumnType::Time);
    let list = weir_flow::schema::arrow_type(weir_flow::ColumnType::Elements);
    vec![
        row_function("address", &[Utf8], Binary, addresses::address),
        address_function("family", &[], UInt8, addresses::family),
        address_function("is_ipv4", &[], Boolean, addresses::is_ipv4),
        address_function("is_ipv6", &[], Boolean, addresses::is_ipv6),
        address_function("host", &[], Utf8, addresses::host),
        address_function("cidr", &[Utf8], Boolean, addresses::cidr),
        address_function("prefix", &[Int64], Binary, addresses::prefix),
        address_function("network", &[Int64], Utf8, addresses::network),
        bucket_function("time_bucket", &time, times::time_bucket),
        row_function("local_time", &[time.clone(), Utf8], Utf8, times::local_time),
        naming_function("protocol_name", UInt8, names::protocol_names),
        naming_function("tcp_flags_text", UInt16, names::tcp_flags_texts),
        community_function("community_id"),
        row_function("element", &[list, Utf8], Utf8, elements::element),
        row_function("duration_ms", &[time.clone(), time.clone()], UInt64, rates::duration_ms),
        counting_function("packets_per_second", &[time.clone(), time.clone(), UInt64], rates::packets_per_second),
        counting_function("bits_per_second", &[time.clone(), time, UInt64], rates::bits_per_second),
        counting_function("bytes_per_packet", &[UInt64, UInt64], rates::bytes_per_packet),
    ]
});

/// What lengths of time are compared by; statements do not name it.
static NANOSECONDS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    let returns = DataType::Decimal128(38, 0);
    let compute = lengths::nanoseconds;
    Arc::new(ScalarUDF::from(RowFunction { name: "nanoseconds", signature, returns, compute }))
});

/// Names of the functions that look up what files know, see [`crate::enrichment`].
pub(crate) const LOOK_UPS: [&str; 4] = ["country", "asn", "label", "if_name"];

/// Names of the functions, in the order of the reference page.
pub fn function_names() -> Vec<&'static str> {
    ALL.iter().map(|function| function.name()).chain(LOOK_UPS).collect()
}

/// How many of the first arguments of a function are addresses, which may be written as text.
pub(crate) fn address_arguments(name: &str) -> usize {
    match name {
        "family" | "is_ipv4" | "is_ipv6" | "host" | "cidr" | "prefix" | "network" => 1,
        name if LOOK_UPS.contains(&name) => 1,
        "community_id" => 2,
        _ => 0,
    }
}

pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    note_saturation(state, &SaturationFlag::default())?;
    wide_times::register(state)?;
    length_parts::register(state)?;
    ALL.iter().try_for_each(|function| state.register_udf(Arc::clone(function)).map(drop))
}

/// Has sums that do not fit noted in the flag of a statement, which is planned next with this state.
pub(crate) fn note_saturation(state: &mut SessionState, saturation: &SaturationFlag) -> Result<()> {
    state.register_udaf(sum::saturating_sum(saturation)).map(drop)
}

/// Calls a function of the table.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    match ALL.iter().find(|function| function.name() == name) {
        Some(function) => function.call(arguments),
        None => unreachable!("'{name}' is not in the table of functions"),
    }
}

/// The nanoseconds of a length of time, of months of 30 days and days of 24 hours.
pub(crate) fn nanoseconds(length: Expr) -> Expr {
    NANOSECONDS.call(vec![length])
}

/// `family(address)`.
pub(crate) fn family(address: Expr) -> Expr {
    call("family", vec![address])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_reference_page_lists_every_function() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/sql.md");
        let page = std::fs::read_to_string(path).expect("the reference page");
        let calls = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('('));
        let is_name = |name: &&str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let mut listed: Vec<_> = calls.map(|(name, _)| name).filter(is_name).collect();
        // one that is called in several ways has a line for each
        listed.dedup();
        assert_eq!(listed, super::function_names());
    }
}
