//! What an archive could not be given, for its books.

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
        let SideTables { books, others } = side_tables.clone();
        let books = match (books, lines) {
            (Some(books), Some(lines)) => Some(books.followed_by(&lines)),
            (books, lines) => books.or(lines),
        };
        // where sequence numbers stand, so that the next collector does not count the same flows as lost on the way
        let others = others.into_iter().filter(|other| other.table() == Table::ExporterSequences).collect();
        self.side_tables.push(SideTables { books, others });
    }

    /// What the archive is to be told: everything, or where that does not fit the sums of the books alone.
    pub(super) fn deliveries(self) -> [Delivery; 2] {
        let mut all = SideTables::default();
        let mut sums = BooksSums::default();
        for SideTables { books, others } in self.side_tables {
            if let Some(books) = books {
                sums.add(&books, i64::MIN, i64::MAX);
                all.books = Some(all.books.map_or(books.clone(), |all| all.followed_by(&books)));
            }
            all.others.extend(others);
        }
        let minute_ms = sums.extent_ms().map_or(0, |(start_ms, _)| start_ms);
        let row = BooksRow {
            minute_ms,
            exporter: None,
            observation_domain: None,
            export_version: None,
            counts: sums.totals(),
        };
        let least = SideTables { books: Some(BooksBatch::from_rows(&[row])), others: Vec::new() };
        [all, least].map(|side_tables| Delivery { flows: None, side_tables })
    }
}
