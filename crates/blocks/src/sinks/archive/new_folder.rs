//! Removes the folder of an archive that a chain has created and never used.
//!
//! A chain opens its sinks first, so that flows have a place. When a source cannot be opened then, because its port is in use for
//! instance, an empty archive would remain, perhaps in a folder whose name was mistyped; so it is removed.

use super::Archive;

impl Drop for Archive {
    fn drop(&mut self) {
        // the content may explain the panic
        if std::thread::panicking() {
            return;
        }
        // an archive that was closed is kept, also when no flow came
        let Some(writer) = self.writer.take().filter(|_| self.new_folders.archive().is_some()) else { return };
        if let Err(error) = self.new_folders.remove(writer) {
            tracing::warn!("{}", self.failed(error).chain());
        }
    }
}
