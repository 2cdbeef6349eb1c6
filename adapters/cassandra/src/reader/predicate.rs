//! What of a question Cassandra can answer itself.

use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use weir_flow::{Column, ColumnType};

use super::ScanRange;
use crate::schema::quoted;
use crate::times::TimeBound;
use crate::values::Place;

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// It is the operand.
    Equal,
    /// It is smaller.
    Less,
    /// It is not larger.
    LessOrEqual,
    /// It is larger.
    Greater,
    /// It is not smaller.
    GreaterOrEqual,
}

/// What a value is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// A number; of times milliseconds since the epoch.
    Number(u64),
    /// An address (4 or 16 octets), a MAC address or other octets.
    Octets(Vec<u8>),
}

/// A comparison of a column with a constant. Rows without a value do not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Predicate {
    /// The column.
    pub column: Column,
    /// How its value is compared.
    pub operator: Operator,
    /// With what.
    pub operand: Operand,
}

/// A comparison that Cassandra makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    column: Column,
    sign: &'static str,
    octets: Vec<u8>,
}

impl Predicate {
    /// The bounds on when flows began or ended that it has.
    pub(super) fn time_bounds(&self) -> Vec<TimeBound> {
        let is_end = self.column == Column::End;
        let Operand::Number(number) = &self.operand else { return Vec::new() };
        let Ok(time_ms) = i64::try_from(*number) else { return Vec::new() };
        if !is_end && self.column != Column::Start {
            return Vec::new();
        }
        // as wide as the next larger one: notes are of whole minutes anyway
        let uppers: &[bool] = match self.operator {
            Operator::Equal => &[true, false],
            Operator::Less | Operator::LessOrEqual => &[true],
            Operator::Greater | Operator::GreaterOrEqual => &[false],
        };
        uppers.iter().map(|is_upper| TimeBound { is_end, is_upper: *is_upper, time_ms, or_received: false }).collect()
    }

    /// The comparison that Cassandra can make; `None` when it would leave out rows that match, or cannot.
    pub(super) fn bound(&self) -> Option<Bound> {
        let sign = match self.operator {
            Operator::Equal => "=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
        };
        let (column, is_equal) = (self.column, self.operator == Operator::Equal);
        let octets = match (&self.operand, column.column_type()) {
            // its bounds are in the range, and a column may be compared with one of each kind only
            _ if column == Column::Received => return None,
            (Operand::Number(number), ColumnType::U8) => i16::try_from(*number).ok()?.to_be_bytes().to_vec(),
            (Operand::Number(number), ColumnType::U16) => i32::try_from(*number).ok()?.to_be_bytes().to_vec(),
            (Operand::Number(number), ColumnType::U32 | ColumnType::Time) => {
                i64::try_from(*number).ok()?.to_be_bytes().to_vec()
            }
            // stored with the same bits, so large ones are negative there and have another order
            (Operand::Number(number), ColumnType::U64) if is_equal => number.to_be_bytes().to_vec(),
            (Operand::Octets(octets), ColumnType::Address) if is_equal && [4, 16].contains(&octets.len()) => {
                octets.clone()
            }
            (Operand::Octets(octets), ColumnType::Mac | ColumnType::Octets) if is_equal => octets.clone(),
            _ => return None,
        };
        Some(Bound { column, sign, octets })
    }
}

/// A comparison as CQL.
pub(super) fn condition(bound: &Bound) -> String {
    format!(" AND {} {} ?", quoted(bound.column), bound.sign)
}

/// The values of the question for one partition.
pub(super) struct PartitionQuery<'q> {
    pub(super) place: Place,
    pub(super) range: &'q ScanRange,
    pub(super) bounds: &'q [Bound],
}

impl SerializeRow for PartitionQuery<'_> {
    fn serialize(&self, _: &RowSerializationContext<'_>, writer: &mut RowWriter<'_>) -> Result<(), SerializationError> {
        let mut set =
            |octets: &[u8]| writer.make_cell_writer().set_value(octets).map(drop).map_err(SerializationError::new);
        set(&self.place.bucket_ms.to_be_bytes())?;
        set(&self.place.shard.to_be_bytes())?;
        set(&self.range.start.to_be_bytes())?;
        set(&self.range.end.to_be_bytes())?;
        self.bounds.iter().try_for_each(|bound| set(&bound.octets))
    }

    fn is_empty(&self) -> bool {
        false
    }
}
