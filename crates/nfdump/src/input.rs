//! What is read.

use std::path::{Path, PathBuf};

use tracing::warn;

use crate::Arguments;

/// The file that every archive has.
const ARCHIVE_MARKER: &str = "weir-archive";

/// What is read.
#[derive(Debug)]
pub(crate) enum Input {
    Files(Vec<PathBuf>),
    Archive(PathBuf),
}

impl Input {
    pub(crate) fn of(args: &Arguments) -> anyhow::Result<Self> {
        let named = [&args.input.read, &args.input.range].into_iter().flatten().next();
        if let (Some(path), None) = (named, &args.input.directories)
            && Path::new(path).join(ARCHIVE_MARKER).is_file()
        {
            return Ok(Self::Archive(path.into()));
        }
        let [read, range, directories] =
            [&args.input.read, &args.input.range, &args.input.directories].map(Option::as_deref);
        let selected = weir_formats::nfcapd::select(read, range, directories)?;
        for missing in &selected.missing {
            warn!("{} is not a directory, and is left out", missing.display());
        }
        Ok(Self::Files(selected.files))
    }
}
