//! Membership in sets that are too large to write down as comparisons.

use std::hash::{DefaultHasher, Hash, Hasher};
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

impl Set {
    /// What the set is for, with a hash of all of it.
    fn name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        let kind = match self {
            Self::Addresses(set) => {
                (set.ranges_v4(), set.ranges_v6()).hash(&mut hasher);
                "address_in"
            }
            Self::Numbers(set) => {
                set.ranges().hash(&mut hasher);
                "number_in"
            }
        };
        format!("{kind}[{:016x}]", hasher.finish())
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Membership {
    /// The engine takes calls for the same whose names and arguments are: so the name distinguishes sets.
    name: String,
    set: Set,
    signature: Signature,
}

impl Hash for Membership {
    /// Sets that differ may share a hash; equality looks at all of them.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Membership {
    fn name(&self) -> &str {
        &self.name
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
    let name = set.name();
    ScalarUDF::from(Membership { name, set, signature }).call(vec![value])
}

/// Whether an address is in a set; null for null.
pub(crate) fn address_in(address: Expr, set: &AddressSet) -> Expr {
    membership(Set::Addresses(set.clone()), DataType::Binary, address)
}

/// Whether a number is in a set; null for null.
pub(crate) fn number_in(number: Expr, set: &NumberSet) -> Expr {
    membership(Set::Numbers(set.clone()), DataType::UInt64, number)
}
