//! Hands rows on as they are and writes a copy of them to a file.

use arrow::array::RecordBatch;
use weir_chain::{
    Built, ComponentContext, ComponentError, ComponentKind, ONE_INPUT, Opener, OptionError, Outlet, Role, State,
    Transform,
};

use crate::row_file::{RowFile, RowFileOptions, RowFilePlan};

/// The kind `tee`.
pub const KIND: ComponentKind<RowFileOptions> = ComponentKind {
    name: "tee",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Hands on all rows as they are, and writes a copy of them to a file. The file, its formats, its limits and its \
          counters are those of `dumper`; after `rows_max`, or when the reader of a pipe goes away, rows are handed on \
          and not written any more. Unlike `dumper` it does not wait when the disk is full: that is an error, \
          because others wait for what it hands on.",
    configure,
};

fn configure(options: RowFileOptions) -> Result<Opener, OptionError> {
    let plan = RowFilePlan::new(options)?;
    Ok(Box::new(move |context: &ComponentContext| {
        let file = Some(RowFile::open(plan, false, context)?);
        Ok(Built::Transform(Box::new(Tee { file })))
    }))
}

#[derive(Debug)]
struct Tee {
    /// `None` once it is finished, or failed.
    file: Option<RowFile>,
}

impl Tee {
    fn write(&mut self, work: impl FnOnce(&mut RowFile) -> Result<(), ComponentError>) -> Result<(), ComponentError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = work(file);
        if written.is_err() {
            self.file = None;
        }
        written
    }

    fn close(&mut self) -> Result<(), ComponentError> {
        self.file.take().map_or(Ok(()), RowFile::finish)
    }
}

impl Transform for Tee {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        self.write(|file| file.write(&rows))?;
        out.rows(rows);
        Ok(())
    }

    fn finish(&mut self, _out: &mut Outlet) -> Result<(), ComponentError> {
        self.close()
    }

    fn tick(&mut self, _out: &mut Outlet) -> Result<(), ComponentError> {
        self.write(RowFile::flush)
    }

    fn keeps_bursts(&self) -> bool {
        true
    }

    fn state(&self) -> State {
        self.file.as_ref().map_or_else(State::default, RowFile::state)
    }
}

/// A component whose rows are not taken any more is dropped without being finished; the file is to be whole all the
/// same.
impl Drop for Tee {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(error = error.chain(), "a copy of rows was not finished");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_chain::compliance;
    use weir_generate::TrafficModel;

    use super::*;

    /// The file has the same columns whichever the first rows have: the compliance test leaves some out.
    const ALL_COLUMNS: &str = "columns = '*'";

    fn flows() -> Vec<RecordBatch> {
        let flows = TrafficModel::new(3).flows(5000).expect("flows");
        flows.map(|batch| batch.record_batch().clone()).collect()
    }

    #[test]
    fn compliance_and_the_same_rows_in_both_places() {
        let folder = tempfile::tempdir().expect("a folder");
        for format in ["csv", "parquet"] {
            let path = folder.path().join(format);
            let options = format!("path = '{}'\nformat = '{format}'\noverwrite = true\n{ALL_COLUMNS}", path.display());
            let outcome = compliance::transform(&KIND, &options, &[flows()]);
            let expected = arrow::compute::concat_batches(&flows()[0].schema(), &flows()).expect("a batch");
            assert_eq!((outcome.rows, outcome.counters[0]), (Some(expected), ("rows_written", 5000)));
        }
        let text = fs::read_to_string(folder.path().join("csv")).expect("a file");
        assert_eq!(text.lines().count(), 5001);
    }

    #[test]
    fn a_full_copy_does_not_hold_rows_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("first.csv");
        let options = format!("path = '{}'\nrows_max = 10\noverwrite = true\n{ALL_COLUMNS}", path.display());
        let outcome = compliance::transform(&KIND, &options, &[flows()]);
        assert_eq!((outcome.len(), outcome.counter("rows_written")), (5000, 10));
        assert_eq!(fs::read_to_string(path).expect("a file").lines().count(), 11);
    }

    #[test]
    fn a_copy_is_whole_when_nobody_takes_rows_any_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.json");
        let options = format!("path = '{}'\nformat = 'json'", path.display());
        let (Built::Transform(mut tee), _) = compliance::open(&KIND, &options) else { panic!("no transform") };
        tee.take(0, flows()[0].clone(), &mut Outlet::new()).expect("taken");
        drop(tee);
        assert!(fs::read_to_string(path).expect("a file").ends_with("}\n]\n"));
    }

    #[test]
    fn a_full_disk_is_an_error() {
        if !std::path::Path::new("/dev/full").exists() {
            weir_testkit::skip("dev-full", "there is no /dev/full");
            return;
        }
        let (Built::Transform(mut tee), context) = compliance::open(&KIND, "path = '/dev/full'") else {
            panic!("no transform")
        };
        let error = tee.take(0, flows()[0].clone(), &mut Outlet::new()).expect_err("an error");
        assert!(error.chain().starts_with("cannot write /dev/full: No space left"), "{}", error.chain());
        assert_eq!(context.counters.counter("writes_retried").get(), 0);
    }
}
