//! Sources: where rows enter a chain. One file or folder for each kind, named after the kind.

pub mod archive_reader;
pub mod capture_reader;
pub mod collector;
pub mod file_reader;
pub mod generator;
pub mod ingest;
pub mod meter;
pub mod router_generator;

pub mod traffic;

use std::error::Error;
use std::io;

use weir_chain::AnyKind;

/// Every kind of this folder.
pub const KINDS: &[&'static dyn AnyKind] = &[
    // keep in the order of the modules
    &archive_reader::KIND_WITH_COLUMNS,
    &capture_reader::KIND,
    &collector::KIND,
    &file_reader::KIND,
    &generator::KIND,
    &ingest::KIND,
    &meter::KIND,
    &router_generator::KIND,
];

/// Whether an error is one of the system and not of what a file holds: reading the file again may well succeed.
pub(crate) fn is_of_the_system(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.raw_os_error().is_some()) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use weir_chain::ComponentError;

    use super::*;

    #[test]
    fn what_the_system_refuses_is_no_damage() {
        // EIO
        let refused = ComponentError::caused("cannot read", io::Error::from_raw_os_error(5));
        assert!(is_of_the_system(&refused));
        let cut = ComponentError::caused("cannot read", io::Error::from(io::ErrorKind::UnexpectedEof));
        assert!(!is_of_the_system(&cut) && !is_of_the_system(&ComponentError::new("damaged")));
    }
}
