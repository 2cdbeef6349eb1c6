//! What a collector hands on.

use arrow::array::{Array, RecordBatch};

use crate::{BooksBatch, FlowBatch, Receipt, Table};

/// Rows of a table that is neither the flows nor the books, with exactly the columns of its schema.
#[derive(Debug, Clone, PartialEq)]
pub struct TableBatch {
    table: Table,
    batch: RecordBatch,
}

impl TableBatch {
    /// Takes a record batch that has the schema of the table. `None` for flows and books, which have types of their
    /// own, and for another schema. The first column of every table is a time that is never null.
    pub fn try_new(table: Table, batch: RecordBatch) -> Option<Self> {
        let own = !matches!(table, Table::Flows | Table::ExporterBooks);
        let fits = batch.schema_ref().fields() == table.schema().fields() && batch.column(0).null_count() == 0;
        (own && fits).then_some(Self { table, batch })
    }

    /// The table that the rows belong to.
    pub fn table(&self) -> Table {
        self.table
    }

    /// The rows as Arrow sees them.
    pub fn record_batch(&self) -> &RecordBatch {
        &self.batch
    }
}

/// The side tables: lines of the books that account for flows, and rows of other tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SideTables {
    /// Lines of the books, when there are any.
    pub books: Option<BooksBatch>,
    /// Rows of other tables.
    pub others: Vec<TableBatch>,
    /// Resolved by the sink that stores the flows.
    pub receipts: Vec<Receipt>,
}

impl SideTables {
    /// True when there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.books.is_none() && self.others.is_empty() && self.receipts.is_empty()
    }

    /// Every batch with its table, the books first.
    pub fn batches(&self) -> impl Iterator<Item = (Table, &RecordBatch)> {
        let books = self.books.iter().map(|books| (Table::ExporterBooks, books.record_batch()));
        books.chain(self.others.iter().map(|other| (other.table, &other.batch)))
    }

    /// The same without batches that have no row.
    #[must_use]
    pub fn without_empty(self) -> Self {
        Self {
            books: self.books.filter(|books| books.record_batch().num_rows() > 0),
            others: self.others.into_iter().filter(|other| other.batch.num_rows() > 0).collect(),
            receipts: self.receipts,
        }
    }
}

/// Flows and their side tables. They are kept or lost together, so that the books balance after a crash at any
/// moment.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    /// Flows, when there are any.
    pub flows: Option<FlowBatch>,
    /// What accounts for them, and what else the exporters reported.
    pub side_tables: SideTables,
}

impl Delivery {
    /// Number of flows.
    pub fn rows(&self) -> usize {
        self.flows.as_ref().map_or(0, FlowBatch::rows)
    }

    /// Lines of the books, when there are any.
    pub fn books(&self) -> Option<&BooksBatch> {
        self.side_tables.books.as_ref()
    }

    /// True when there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.flows.is_none() && self.side_tables.is_empty()
    }

    /// The same in two deliveries, for whoever cannot take so much at once: flows are halved, or rows of another table
    /// when there are no flows to halve. `None` when there are no two rows to part. The books, and where sequence numbers
    /// stand, are in the second: they tell of all that is in both. Receipts are in neither: they are for who halves.
    pub fn halves(&self) -> Option<[Self; 2]> {
        let halves = |batch: &RecordBatch| {
            let half = batch.num_rows() / 2;
            (half > 0).then(|| [batch.slice(0, half), batch.slice(half, batch.num_rows() - half)])
        };
        let Self { flows, side_tables: SideTables { books, others, .. } } = self;
        let piece = |flows: Option<FlowBatch>, books: &Option<BooksBatch>, others: &[TableBatch]| Self {
            flows,
            side_tables: SideTables { books: books.clone(), others: others.to_vec(), ..SideTables::default() },
        };
        if let Some([first, second]) = flows.as_ref().and_then(|flows| halves(flows.record_batch())) {
            let [first, second] = [FlowBatch::try_new(first).ok()?, FlowBatch::try_new(second).ok()?];
            let (last, rest): (Vec<_>, Vec<_>) =
                others.iter().cloned().partition(|other| other.table == Table::ExporterSequences);
            return Some([piece(Some(first), &None, &rest), piece(Some(second), books, &last)]);
        }
        match &others[..] {
            [] => None,
            [_] if flows.is_some() => Some([piece(flows.clone(), &None, &[]), piece(None, books, others)]),
            [only] if books.is_some() && only.table == Table::ExporterSequences => {
                Some([piece(None, books, &[]), piece(None, &None, others)])
            }
            [_] if books.is_some() => Some([piece(None, &None, others), piece(None, books, &[])]),
            [only] => {
                let of = |batch| [TableBatch { table: only.table, batch }];
                halves(&only.batch).map(|[one, other]| [piece(None, &None, &of(one)), piece(None, &None, &of(other))])
            }
            [one, others @ ..] => {
                Some([piece(flows.clone(), &None, std::slice::from_ref(one)), piece(None, books, others)])
            }
        }
    }
}

impl From<FlowBatch> for Delivery {
    fn from(flows: FlowBatch) -> Self {
        Self { flows: Some(flows), side_tables: SideTables::default() }
    }
}
