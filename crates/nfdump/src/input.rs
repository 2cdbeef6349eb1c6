//! What is read.

use std::path::{Path, PathBuf};

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
        let named = [&args.read, &args.range].into_iter().flatten().next();
        if let (Some(path), None) = (named, &args.directories)
            && Path::new(path).join(ARCHIVE_MARKER).is_file()
        {
            return Ok(Self::Archive(path.into()));
        }
        let [read, range, directories] = [&args.read, &args.range, &args.directories].map(Option::as_deref);
        Ok(Self::Files(weir_formats::nfcapd::select(read, range, directories)?))
    }
}
