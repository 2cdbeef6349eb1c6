//! Names beside numbers in tables.

use std::io::Write;
use std::path::PathBuf;

use weir_print::{Format, OutputOptions, PrintError, write_batches};
use weir_sql::flows::Written;
use weir_sql::{EngineError, FlowAnswers, FlowQuery, NameFiles, ValueNames};

const HEADING: &str = "Names in tables";

/// Where names of numbers are.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct NameArgs {
    /// Name autonomous systems by this MaxMind DB file
    #[arg(long, value_name = "FILE", env = "WEIR_ASN_MMDB", help_heading = HEADING)]
    asn_mmdb: Option<PathBuf>,
    /// Name interfaces by this file of lines exporter,if_index,name, and then by what exporters reported
    #[arg(long, value_name = "FILE", env = "WEIR_INTERFACES", help_heading = HEADING)]
    interfaces: Option<PathBuf>,
    /// Name exporters by this file of lines exporter,name
    #[arg(long, value_name = "FILE", env = "WEIR_EXPORTERS", help_heading = HEADING)]
    exporters: Option<PathBuf>,
    /// Print numbers and addresses only, without the names of interfaces, exporters and autonomous systems
    #[arg(long, help_heading = HEADING)]
    pub(super) numeric: bool,
}

impl NameArgs {
    fn files(&self, versions: Option<PathBuf>) -> NameFiles {
        let Self { asn_mmdb, interfaces, exporters, numeric: _ } = self.clone();
        NameFiles { asn_mmdb, interfaces, exporters, versions }
    }

    /// Writes an answer as a table, with the names that are known; `versions` is the folder of versions of their files.
    pub(super) fn write(
        &self,
        versions: Option<PathBuf>,
        answers: &FlowAnswers,
        question: &FlowQuery,
        options: &OutputOptions,
        to: &mut dyn Write,
    ) -> anyhow::Result<Written> {
        let answer = answers.ask(question)?;
        let unlisted_max = answer.unlisted_max();
        let snapshot = answers.archive().map(|archive| archive.snapshot().as_ref());
        let schema = answer.schema().clone();
        let names = ValueNames::load(&self.files(versions), snapshot, &question.window, &schema)?;
        let notes = names.notes().to_vec();
        let rows = match names.columns(&schema) {
            None => write_batches(answer, &schema, Format::Table, options, to),
            Some(names) => {
                let named = answer.map(|batch| batch.and_then(|batch| names.rows(&batch)));
                write_batches(named, &names.schema(&schema), Format::Table, options, to)
            }
        };
        let rows = rows.map_err(|error| match error {
            PrintError::Batches(error) => error,
            PrintError::Write(error) => EngineError::Write(error),
        })?;
        // with --quiet too: the names are not those of the whole time
        for note in &notes {
            eprintln!("{note}");
        }
        Ok(Written { rows, unlisted_max })
    }
}
