//! Whether a folder or a file could be written, found out without a change.
//!
//! The system is asked, so what it decides by is known to it alone: modes, lists of access, a file system that is mounted to be
//! read. What speaks against asking before writing is that the answer may be another one a moment later: writing reports
//! errors all the same.

use std::fs;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::statfs::{PROC_SUPER_MAGIC, SYSFS_MAGIC, statfs};
use nix::unistd::{AccessFlags, faccessat};

/// Finds out whether files can be made in a folder that is there, or that can be made with those above it.
///
/// # Errors
///
/// Those that making the folder or a file in it would have: a file is in the way, who asks may not, the file system takes no
/// files.
pub fn check_folder(path: &Path) -> io::Result<()> {
    for above in path.ancestors() {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match fs::metadata(above) {
            Ok(found) if found.is_dir() => return check_entries(above),
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Finds out whether a file can be read and written, or made in its folder, which must be there.
///
/// # Errors
///
/// Those that opening it would have.
pub fn check_file(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => check_access(path, AccessFlags::R_OK | AccessFlags::W_OK),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if !fs::metadata(folder)?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            check_entries(folder)
        }
        Err(error) => Err(error),
    }
}

/// Whether files can be made in a folder.
fn check_entries(folder: &Path) -> io::Result<()> {
    // everybody who is root may write there, and nothing can be made
    let file_system = statfs(folder)?.filesystem_type();
    if file_system == PROC_SUPER_MAGIC || file_system == SYSFS_MAGIC {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "this file system takes no files"));
    }
    check_access(folder, AccessFlags::W_OK | AccessFlags::X_OK)
}

/// Asks with the rights that the process has now, and not with those of who started it.
fn check_access(path: &Path, access: AccessFlags) -> io::Result<()> {
    match faccessat(AT_FDCWD, path, access, AtFlags::AT_EACCESS) {
        // a filter of system calls that does not know this one refuses it so; writing reports what it finds
        Err(Errno::EPERM) => Ok(()),
        answer => Ok(answer?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of this test, removed when it ends.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("weir-disk-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_folder_that_can_be_made_is_fine_and_is_not_made() {
        let folder = Folder::new("folder");
        let deep = folder.0.join("a").join("b");
        check_folder(&deep).expect("it could be made");
        check_folder(&folder.0).expect("it is there");
        // the working folder may be one that cannot be written
        let kind = |path: &str| check_folder(Path::new(path)).map_err(|error| error.kind());
        assert_eq!(kind("a-folder-of-the-working-folder"), kind("."), "a relative one");
        assert!(!folder.0.join("a").exists());
        fs::write(folder.0.join("a"), "a file").expect("written");
        assert_eq!(check_folder(&deep).expect_err("a file").kind(), io::ErrorKind::NotADirectory);
        // whoever asks, nobody makes a folder there
        check_folder(Path::new("/proc/x")).expect_err("no files");
    }

    #[test]
    fn a_file_is_writable_or_can_be_made_in_a_folder_that_is_there() {
        let folder = Folder::new("file");
        let file = folder.0.join("audit");
        check_file(&file).expect("it could be made");
        assert!(!file.exists());
        fs::write(&file, "").expect("written");
        check_file(&file).expect("it is there");
        check_file(&folder.0).expect_err("a folder");
        let missing = check_file(&folder.0.join("none").join("audit")).expect_err("no folder");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        check_file(&file.join("audit")).expect_err("in a file");
    }
}
