//! Flows that agree in some fields, as one row each.

mod answer;
mod collect;
mod keys;
mod measures;
mod part;
mod pieces;
mod row;
mod rows;
mod sums;
mod table;

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use foldhash::fast::RandomState;
use weir_filter::Predicate;
use weir_flow::schema::field;
use weir_flow::{Column, FlowBatch};

pub(crate) use collect::{Collected, Count, Counting, KeySet};
pub(crate) use keys::{KeyLayout, KeyPart};
pub(crate) use part::Part;
pub(crate) use pieces::Pieces;
pub(crate) use row::{Key, Row};
pub(crate) use rows::Rows;
pub(crate) use sums::{Counters, RankingCounter, Sums, add_saturating};

use keys::key_field;
use sums::{COUNTED, sum_fields};
use table::PARTS;

use crate::{AggregateKey, Select, Sorting};

/// How flows are grouped, and which groups are in the answer.
#[derive(Debug, Clone)]
pub(crate) struct Grouping {
    pub(crate) counting: Counting,
    pub(crate) sorting: Option<Sorting>,
    pub(crate) limit: Option<usize>,
}

impl Grouping {
    /// The grouping that a question asks for; `None` for a list, and for one by elements, which the SQL engine answers.
    pub(crate) fn of(select: &Select) -> Option<Self> {
        let counting = |sides: Vec<Vec<KeyPart>>, skip_null, measures| Counting {
            sides: sides.into_iter().map(KeyLayout::new).collect(),
            skip_null,
            measures,
            hasher: RandomState::default(),
            pass: 0,
            passes: 1,
        };
        match select {
            Select::List { .. } => None,
            Select::Aggregate { keys, .. } if keys.iter().any(|key| matches!(key, AggregateKey::Element { .. })) => {
                None
            }
            Select::Statistic { key, per_protocol, sorting, limit } => {
                let name = key.name();
                let protocol = (*per_protocol && name != Column::Protocol.name()).then(|| KeyPart {
                    from: AggregateKey::Column(Column::Protocol),
                    name: Column::Protocol.name().to_owned(),
                });
                let side = |column: &Column| {
                    let part = KeyPart { from: AggregateKey::Column(*column), name: name.to_owned() };
                    std::iter::once(part).chain(protocol.clone()).collect()
                };
                Some(Self {
                    counting: counting(key.columns().iter().map(side).collect(), true, Vec::new()),
                    sorting: Some(*sorting),
                    limit: *limit,
                })
            }
            Select::Aggregate { keys, more, sorting, limit } => {
                let keys = if keys.is_empty() { AggregateKey::FIVE_TUPLE.to_vec() } else { keys.clone() };
                let parts = keys.into_iter().map(|from| {
                    let name = from.column().name().to_owned();
                    KeyPart { from, name }
                });
                let counting = counting(vec![parts.collect()], false, more.clone());
                Some(Self { counting, sorting: *sorting, limit: *limit })
            }
        }
    }

    /// Columns that are read.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let parts = self.counting.sides.iter().flat_map(keys::KeyLayout::parts);
        let keys = parts.flat_map(KeyPart::columns);
        keys.chain(COUNTED).chain(self.counting.measures.iter().map(|measure| measure.column())).collect()
    }

    /// The one counter that decides which groups are in the answer, when that is few of them: then it alone is counted
    /// first, and everything else for these groups only.
    pub(crate) fn lean(&self) -> Option<RankingCounter> {
        const FEW: usize = 1000;
        let few = self.limit.is_some_and(|limit| (1..=FEW).contains(&limit));
        self.sorting.filter(|_| few).and_then(RankingCounter::of)
    }

    /// Columns that are read when one counter decides.
    pub(crate) fn lean_columns(&self, lean: RankingCounter) -> Vec<Column> {
        let parts = self.counting.sides.iter().flat_map(keys::KeyLayout::parts);
        parts.flat_map(KeyPart::columns).chain([lean.column()]).collect()
    }

    /// A filter that every flow of these groups passes, and few others.
    pub(crate) fn hint(&self, only: &KeySet) -> Predicate {
        const TESTED_MAX: usize = 64;
        if only.short.len() + only.long.len() > TESTED_MAX {
            return Predicate::True;
        }
        let short: Vec<u128> = only.short.iter().copied().collect();
        let long: Vec<&[u8]> = only.long.iter().map(|key| &**key).collect();
        let sides = self.counting.sides.iter().map(|layout| {
            let columns = layout.columns(&short, &long);
            let rows = (0..short.len() + long.len()).map(|row| {
                let tests = layout.parts().iter().zip(&columns).filter_map(|(part, values)| part.equals(values, row));
                Predicate::and(tests)
            });
            Predicate::or(rows)
        });
        Predicate::or(sides)
    }

    fn layout(&self) -> &KeyLayout {
        // every grouping has a side
        &self.counting.sides[0]
    }

    /// Columns of the answer.
    pub(crate) fn schema(&self) -> SchemaRef {
        let mut fields: Vec<Field> = self.layout().parts().iter().map(key_field).collect();
        fields.extend(sum_fields());
        fields.extend(self.counting.measures.iter().map(|measure| field(measure.column())));
        Arc::new(Schema::new(fields))
    }
}

/// The counters of the rows of a batch, one by one.
pub(crate) fn rows_of(batch: &FlowBatch) -> impl Iterator<Item = Sums> {
    let counters = Counters::of(batch);
    (0..batch.rows()).map(move |row| counters.row(row))
}

/// Numbers of the parts that a pass is about.
pub(crate) fn parts_of(counting: &Counting) -> Vec<usize> {
    (0..PARTS).filter(|part| counting.passes == 1 || part % counting.passes == counting.pass).collect()
}
