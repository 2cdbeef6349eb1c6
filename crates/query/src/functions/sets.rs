//! Membership in sets that are too large to write down as comparisons.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use weir_filter::{AddressSet, NumberSet};

/// A set that is part of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Set {
    Addresses(AddressSet),
    Numbers(NumberSet),
}

#[derive(Debug, PartialEq, Eq)]
struct Membership {
    set: Set,
    signature: Signature,
}

impl Hash for Membership {
    /// Sets that differ may share a hash; equality looks at all of them.
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.set {
            Set::Addresses(set) => (set.ranges_v4().len(), set.ranges_v6().len()).hash(state),
            Set::Numbers(set) => set.ranges().hash(state),
        }
    }
}

impl ScalarUDFImpl for Membership {
    fn name(&self) -> &'static str {
        match self.set {
            Set::Addresses(_) => "address_in",
            Set::Numbers(_) => "number_in",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values: ArrayRef = arguments.args[0].to_array(arguments.number_rows)?;
        let found: BooleanArray = match &self.set {
            Set::Addresses(set) => {
                let addresses: &BinaryArray = values.as_binary();
                addresses.iter().map(|octets| octets.map(|octets| set.contains(octets))).collect()
            }
            Set::Numbers(set) => {
                let numbers = values.as_primitive::<UInt64Type>();
                numbers.iter().map(|number| number.map(|number| set.contains(number))).collect()
            }
        };
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}

fn membership(set: Set, argument: DataType, value: Expr) -> Expr {
    let signature = Signature::exact(vec![argument], Volatility::Immutable);
    ScalarUDF::from(Membership { set, signature }).call(vec![value])
}

/// Whether an address is in a set; null for null.
pub(crate) fn address_in(address: Expr, set: &AddressSet) -> Expr {
    membership(Set::Addresses(set.clone()), DataType::Binary, address)
}

/// Whether a number is in a set; null for null.
pub(crate) fn number_in(number: Expr, set: &NumberSet) -> Expr {
    membership(Set::Numbers(set.clone()), DataType::UInt64, number)
}
