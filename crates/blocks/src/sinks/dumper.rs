//! A sink that writes rows to a file or to standard output.

use weir_chain::{
    Built, Burst, ComponentContext, ComponentError, ComponentKind, ONE_INPUT, Opener, OptionError, Role, Sink, State,
};

use crate::row_file::{RowFile, RowFileOptions, RowFilePlan};

/// The kind `dumper`.
pub const KIND: ComponentKind<RowFileOptions> = ComponentKind {
    name: "dumper",
    role: Role::Sink,
    inputs: ONE_INPUT,
    doc: "Writes rows to a file or to standard output, as text, as Parquet or as a plot. It takes rows of any columns. \
          A column that some rows do not have is null in them; a column that the first rows did not have is an error, \
          unless `columns` names those to write. Times are in UTC; the columns of a table are as wide as its first \
          burst needs. Text is written as it comes and can be read while the chain runs; \
          Parquet and plots are written to a file whose name ends in `.part`, which gets its name when it is whole. \
          Rows without an `x` or `y` make no point of a plot and are counted in `points_null`. Books are not written. \
          A full disk is waited for, and is an error when the chain is stopped meanwhile. When whoever reads standard \
          output goes away, the sink wants no more rows, as after `rows_max`. Counts `rows_written`, `octets_written` \
          and `writes_retried`.",
    configure,
};

fn configure(options: RowFileOptions) -> Result<Opener, OptionError> {
    let plan = RowFilePlan::new(options)?;
    Ok(Box::new(move |context: &ComponentContext| {
        let file = Some(RowFile::open(plan, true, context)?);
        Ok(Built::Sink(Box::new(Dumper { file })))
    }))
}

#[derive(Debug)]
struct Dumper {
    /// `None` once it is finished.
    file: Option<RowFile>,
}

impl Sink for Dumper {
    fn take(&mut self, burst: Burst) -> Result<(), ComponentError> {
        match &mut self.file {
            Some(file) => file.write(burst.rows()),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), ComponentError> {
        self.file.take().map_or(Ok(()), RowFile::finish)
    }

    fn tick(&mut self) -> Result<(), ComponentError> {
        self.file.as_mut().map_or(Ok(()), RowFile::flush)
    }

    fn is_full(&self) -> bool {
        self.file.as_ref().is_none_or(RowFile::is_full)
    }

    fn state(&self) -> State {
        self.file.as_ref().map_or_else(State::default, RowFile::state)
    }
}

#[cfg(test)]
mod tests;
