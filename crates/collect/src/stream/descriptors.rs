//! Files that connections leave for others to open.
//!
//! A process may have only so many files open, and whoever connects takes one. If connections took them all, the archive
//! could begin no tail, and nothing of anybody would be stored. So exporters get half: the rest is for the archive, the
//! state, and whatever else the process does. How many are open need not be counted, because the kernel gives a new file the
//! lowest number that is free: a connection with the number n is one of n + 1 open files at least.

use std::os::fd::{AsRawFd, RawFd};

use nix::sys::resource::{Resource, getrlimit};

/// What is taken for the limit when the system does not tell it: the least that is usual.
const USUAL_MAX: u64 = 1024;

/// The files that this process may have open.
#[derive(Debug, Clone, Copy)]
pub struct Descriptors {
    max: u64,
}

impl Descriptors {
    /// As the limit is now.
    pub fn of_process() -> Self {
        Self { max: getrlimit(Resource::RLIMIT_NOFILE).map_or(USUAL_MAX, |(soft, _)| soft) }
    }

    /// Whether a connection that has just been accepted leaves half of the files to others.
    pub fn leave_half(self, connection: &impl AsRawFd) -> bool {
        is_below(connection.as_raw_fd(), self.half())
    }

    /// Whether one leaves a quarter: for those who look after the process, whom exporters must not lock out.
    pub fn leave_quarter(self, connection: &impl AsRawFd) -> bool {
        is_below(connection.as_raw_fd(), self.half() + self.max / 4)
    }

    fn half(self) -> u64 {
        self.max / 2
    }

    /// What is to be said at the start, when a limit on connections will not be reached because of the one on files.
    pub(crate) fn notice(self, connections_max: usize) -> Option<String> {
        let for_connections = self.half();
        (for_connections < connections_max as u64).then(|| {
            format!(
                "of {connections_max} connections (connections_max) fewer than {for_connections} will be accepted, because this \
                 process may have {} files open and half of them are for the archive\nhint: raise the limit (ulimit -n, \
                 LimitNOFILE= of systemd), or lower connections_max",
                self.max
            )
        })
    }
}

fn is_below(number: RawFd, end: u64) -> bool {
    u64::try_from(number).is_ok_and(|number| number < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_files_is_for_others() {
        let descriptors = Descriptors { max: 1024 };
        let leave = |number: RawFd| (descriptors.leave_half(&number), descriptors.leave_quarter(&number));
        let expected = [(511, (true, true)), (512, (false, true)), (767, (false, true)), (768, (false, false))];
        assert!(expected.into_iter().all(|(number, expected)| leave(number) == expected));
        assert!(
            descriptors
                .notice(1024)
                .is_some_and(|notice| notice.contains("fewer than 512") && notice.contains("\nhint: "))
        );
        assert_eq!(descriptors.notice(512), None);
        assert!(Descriptors { max: u64::MAX }.leave_half(&RawFd::MAX));
    }
}
