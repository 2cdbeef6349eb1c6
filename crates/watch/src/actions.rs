//! Where reports go besides the journal.

use std::path::{Path, PathBuf};

use toml::Table;
use weir_chain::options::Given;
use weir_chain::{OptionError, options};

options! {
    /// An action of a watch.
    pub struct ActionOptions {
        /// Append reports to this file, one object of JSON a line.
        file: PathBuf,
    }
}

impl ActionOptions {
    /// Reads the table of an action.
    pub fn read(table: Table, folder: &Path) -> Result<Self, OptionError> {
        weir_chain::options::read(&Given::from_table(table, folder))
    }
}
