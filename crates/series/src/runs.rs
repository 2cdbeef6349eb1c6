//! Values series by series.

/// The values of some series of one family in one block, series by series, each in the order of its steps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    /// The series, ascending.
    pub(crate) ids: Vec<u32>,
    /// Where the values of each series begin, and where the last ones end.
    pub(crate) starts: Vec<usize>,
    /// The place of each value's step in the block.
    pub(crate) places: Vec<u16>,
    /// The values, for each column.
    pub(crate) columns: Vec<Vec<u64>>,
    /// The sketches, for each metric; for none when there are none.
    pub(crate) sketches: Vec<Vec<Box<[u8]>>>,
    /// Places of steps that are damaged where these series are, and left out.
    pub(crate) damaged: Vec<u16>,
}

impl Runs {
    pub(crate) fn new(columns: usize, sketches: usize) -> Self {
        let (columns, sketches) = (vec![Vec::new(); columns], vec![Vec::new(); sketches]);
        Self { ids: Vec::new(), starts: vec![0], places: Vec::new(), columns, sketches, damaged: Vec::new() }
    }

    /// Makes columns of sketches that are not known, up to so many: a slice of series may have none where others have some.
    pub(crate) fn widen(&mut self, sketches: usize) {
        let rows = self.places.len();
        self.sketches.resize_with(sketches, || vec![Box::default(); rows]);
    }

    /// Ends the values of a series, which have been put behind those of the series before.
    pub(crate) fn end_run(&mut self, id: u32) {
        self.ids.push(id);
        self.starts.push(self.places.len());
    }

    /// Leaves the values of steps at these places out.
    pub(crate) fn leave_out(&mut self, places: &[u16]) {
        let stays: Vec<bool> = self.places.iter().map(|place| !places.contains(place)).collect();
        let mut before = 0;
        let left = stays.iter().map(|stays| {
            before += usize::from(*stays);
            before
        });
        // how many values there are up to each place, and none before the first one
        let left: Vec<usize> = std::iter::once(0).chain(left).collect();
        self.starts.iter_mut().for_each(|start| *start = left[*start]);
        keep(&mut self.places, &stays);
        self.columns.iter_mut().for_each(|column| keep(column, &stays));
        self.sketches.iter_mut().for_each(|column| keep(column, &stays));
    }

    /// The rows of the series at this index.
    pub(crate) fn rows(&self, index: usize) -> std::ops::Range<usize> {
        self.starts[index]..self.starts[index + 1]
    }
}

/// Leaves the values that stay.
fn keep<T>(values: &mut Vec<T>, stays: &[bool]) {
    let mut stays = stays.iter();
    values.retain(|_| stays.next().copied().unwrap_or(true));
}
