//! The footer of a Parquet file, read at its offsets.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::AtOffset;

/// Octets at the end of a segment that are read at once, in the hope that the footer is in them.
const FOOTER_OCTETS: u64 = 64 << 10;

/// Reads the footer.
pub(super) fn footer(file: &AtOffset<Arc<File>>) -> Result<ParquetMetaData> {
    let end = |octets: u64| -> Result<Bytes> {
        let mut end = vec![0; octets as usize];
        file.file.read_exact_at(&mut end, file.octets - octets)?;
        Ok(end.into())
    };
    let mut reader = ParquetMetaDataReader::new();
    match reader.try_parse_sized(&end(FOOTER_OCTETS.min(file.octets))?, file.octets) {
        Ok(()) => {}
        Err(ParquetError::NeedMoreData(needed)) => {
            reader.try_parse_sized(&end((needed as u64).min(file.octets))?, file.octets)?;
        }
        Err(error) => return Err(error),
    }
    reader.finish()
}
