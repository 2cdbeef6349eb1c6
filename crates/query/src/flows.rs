//! Where the flows of a question are, cut into pieces of work.

use weir_archive::Segment;
use weir_flow::FlowBatch;

use crate::run::share_out;
use crate::scan::{Morsel, RowGroupPages, Wanted, cut, row_group_pages};
use crate::{QueryError, QueryOptions};

/// Pages of a piece of work: about 130,000 rows.
const PAGES: usize = 16;

/// Where flows are.
pub(crate) struct FlowSources {
    pub(crate) segments: Vec<Segment>,
    pub(crate) tail: Vec<FlowBatch>,
}

impl FlowSources {
    /// Pieces of work, in the order of the archive.
    pub(crate) fn morsels(&self, wanted: &Wanted, options: &QueryOptions) -> Result<Vec<Morsel>, QueryError> {
        self.morsels_of(wanted, PAGES, options)
    }

    pub(crate) fn morsels_of(
        &self,
        wanted: &Wanted,
        pages_max: usize,
        options: &QueryOptions,
    ) -> Result<Vec<Morsel>, QueryError> {
        let opened = share_out(
            options.threads,
            self.segments.len(),
            || Ok(Vec::new()),
            |opened: &mut Vec<(usize, Vec<RowGroupPages>)>, number| {
                opened.push((number, row_group_pages(&self.segments[number], wanted, &options.progress)?));
                Ok(())
            },
        )?;
        let mut opened: Vec<_> = opened.into_iter().flatten().collect();
        opened.sort_unstable_by_key(|(number, _)| *number);
        let opened: Vec<RowGroupPages> = opened.into_iter().flat_map(|(_, stretches)| stretches).collect();
        let mut morsels = cut(&opened, options.threads, pages_max);
        morsels.extend(self.tail.iter().cloned().map(Morsel::Batch));
        Ok(morsels)
    }
}
