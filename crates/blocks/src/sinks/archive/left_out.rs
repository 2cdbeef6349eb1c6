//! What an archive could not be given, for its books.

use arrow::compute::concat_batches;
use weir_chain::ComponentError;
use weir_flow::books::{BooksSums, not_stored_rows};
use weir_flow::{BooksBatch, BooksRow, Delivery, SideTables, Table};

/// What a disk that took nothing until the end has left out: no flow of it is kept, and the books say so.
#[derive(Default)]
pub(super) struct LeftOut {
    /// Why; nothing more is written since.
    pub(super) error: Option<ComponentError>,
    side_tables: Vec<SideTables>,
}

impl LeftOut {
    /// Leaves a delivery out.
    pub(super) fn add(&mut self, delivery: &Delivery) {
        let Delivery { flows, side_tables } = delivery;
        let lines = flows.as_ref().map(|flows| BooksBatch::from_rows(&not_stored_rows(flows)));
        let SideTables { books, others, .. } = side_tables.clone();
        let books = match (books, lines) {
            (Some(books), Some(lines)) => Some(books.followed_by(&lines)),
            (books, lines) => books.or(lines),
        };
        self.side_tables.push(SideTables { books, others, ..SideTables::default() });
    }

    /// What the archive is to be told: everything, or as much as fits. Where sequence numbers stand is part of it as long as
    /// possible, so that the next collector does not count the same flows as lost on the way.
    pub(super) fn deliveries(self) -> [Delivery; 4] {
        let mut sums = BooksSums::default();
        let (mut lines, mut others) = (Vec::new(), Vec::new());
        for side_tables in self.side_tables {
            if let Some(books) = side_tables.books {
                sums.add(&books, i64::MIN, i64::MAX);
                lines.push(books.record_batch().clone());
            }
            others.extend(side_tables.others);
        }
        let schema = Table::ExporterBooks.schema();
        let books = concat_batches(&schema, &lines).ok().filter(|_| !lines.is_empty()).and_then(BooksBatch::try_new);
        let sequences: Vec<_> =
            others.iter().filter(|other| other.table() == Table::ExporterSequences).cloned().collect();
        let minute_ms = sums.extent_ms().map_or(0, |(start_ms, _)| start_ms);
        let row = BooksRow {
            minute_ms,
            exporter: None,
            observation_domain: None,
            export_version: None,
            counts: sums.totals(),
        };
        let sums = Some(BooksBatch::from_rows(&[row]));
        let told = [(books.clone(), others), (books, sequences.clone()), (sums.clone(), sequences), (sums, Vec::new())];
        told.map(|(books, others)| {
            let side_tables = SideTables { books, others, ..SideTables::default() };
            Delivery { flows: None, side_tables }
        })
    }
}
