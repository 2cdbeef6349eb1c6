//! The release of nfdump whose layouts are written.
//!
//! Scripts are written for one release, and releases of 1.7 differ in headings, widths, columns of comma-separated
//! values and names in JSON. What is written is therefore that of one release from the first octet to the last, and
//! never a mixture.

/// A release of nfdump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Release {
    /// Layouts of nfdump 1.7.1, the one of Debian 12
    #[default]
    #[value(name = "1.7.1")]
    V1_7_1,
    /// Layouts of nfdump 1.7.8, the last of 1.7
    #[value(name = "1.7.8")]
    V1_7_8,
}

impl Release {
    /// Its number.
    pub fn number(self) -> &'static str {
        match self {
            Self::V1_7_1 => "1.7.1",
            Self::V1_7_8 => "1.7.8",
        }
    }

    /// What its option -V prints behind its name.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::V1_7_1 => "Version: NSEL-NEL1.7.1",
            Self::V1_7_8 => "Version: 1.7.8-release options: LZ4 ZSTD BZIP2",
        }
    }

    pub(crate) fn is_last(self) -> bool {
        self == Self::V1_7_8
    }
}
