//! The files that both programs read: one that a real nfcapd wrote, one of nfdump 1.6, and some of our own writer.

use std::path::Path;
use std::process::Command;

use crate::nfcapd::{collect, rows};
use crate::process::weir;

/// Flows of the file of nfcapd.
const ROWS: usize = 1500;

/// A folder with the files.
pub(super) struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    /// `None` when nfdump of this release, nfcapd or the corpus is not there.
    pub(super) fn make(version: &str) -> Option<Self> {
        weir_testkit::program("nfdump")?;
        let found = Command::new("nfdump").arg("-V").output().expect("nfdump runs");
        if !String::from_utf8_lossy(&found.stdout).contains(version) {
            weir_testkit::skip("nfdump-release", &format!("nfdump is not {version}"));
            return None;
        }
        weir_testkit::program("nfcapd")?;
        let corpus = weir_testkit::corpus()?.join("chrispassas+nfdump/testdata");
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| folder.path().join(name);
        let written = collect(folder.path(), &rows(ROWS))?;
        let file = std::fs::read_dir(&written).expect("a folder").next().expect("a file").expect("a file").path();
        std::fs::rename(file, place("rich")).expect("renamed");
        for (name, source) in [("v1", "nfcapd-small-lzo"), ("empty", "nfcapd-empty"), ("large", "nfcapd-large-bz2")] {
            std::os::unix::fs::symlink(std::path::absolute(corpus.join(source)).expect("a path"), place(name))
                .expect("linked");
        }
        std::fs::create_dir(place("gen")).expect("a folder");
        let files = Self { folder };
        // flows of a router, in every compression that nfdump 1.7.1 reads
        files.write("v1", "proto tcp", "gen/nfcapd.202001010000", "-z=lzo");
        files.write("v1", "proto udp", "gen/nfcapd.202001010005", "-z=lz4");
        files.write("rich", "proto icmp", "gen/nfcapd.202001010010", "-z=bz2");
        files.write("rich", "proto gre or ipv6", "gen/nfcapd.202001010015", "-N");
        std::fs::write(files.folder().join("filter"), "# a comment\nproto tcp\n  and src port > 1024\n")
            .expect("written");
        std::fs::write(files.folder().join("wrong-filter"), "proto and").expect("written");
        std::fs::write(files.folder().join("text"), "no flows").expect("written");
        Some(files)
    }

    fn write(&self, from: &str, filter: &str, to: &str, codec: &str) {
        let arguments = ["nfdump", "-q", "-r", from, "-w", to, codec, filter];
        let output = weir().args(arguments).current_dir(self.folder()).output().expect("weir runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}
