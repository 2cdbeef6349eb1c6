//! The times that an exporter tells.

/// When it is, and when the exporter started, in milliseconds since the epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub now_ms: i64,
    pub boot_ms: i64,
}

impl Clock {
    /// Uptime at a moment, modulo 2^32.
    pub(crate) fn uptime_at(self, moment_ms: i64) -> u32 {
        moment_ms.wrapping_sub(self.boot_ms) as u32
    }
}
