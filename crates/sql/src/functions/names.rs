//! Names of protocols and TCP flags.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use weir_flow::protocol_name;
use weir_print::tcp_flags_text;

pub(super) fn protocol_names(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let name = |number: i64| {
        let known = u8::try_from(number).ok().and_then(protocol_name);
        known.map_or_else(|| number.to_string(), str::to_owned)
    };
    texts(arguments, name)
}

pub(super) fn tcp_flags_texts(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    texts(arguments, |flags| tcp_flags_text(flags as u16).map(char::from).iter().collect())
}

/// The texts of whole numbers of any type.
fn texts(arguments: &[ArrayRef], text: impl Fn(i64) -> String) -> Result<ArrayRef> {
    let numbers = cast(&arguments[0], &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>().iter();
    Ok(Arc::new(numbers.map(|number| number.map(&text)).collect::<StringArray>()))
}
