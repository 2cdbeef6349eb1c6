//! Limits of the Collecting Process. Each has a name, a unit, a default and a counter for when it is hit.

/// What one decoder may keep. A sender of datagrams can fill these, and no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most pairs of transport session and Observation Domain known at a time; more are counted under
    /// `datagrams_refused`.
    pub domains_max: usize,
    /// Most templates of one Observation Domain; more are counted under `templates_refused`.
    pub templates_per_domain_max: usize,
    /// Most fields of all templates together, whoever sent them; more are counted under `templates_refused`. A field
    /// costs some hundred octets.
    pub template_fields_max: usize,
    /// Most octets of Data Sets that wait for their template, all exporters together; when full, the oldest sets are
    /// given up and counted under `sets_expired`.
    pub waiting_octets_max: usize,
    /// Longest time that a Data Set waits for its template, in seconds; then it counts under `sets_expired`.
    pub waiting_secs_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            domains_max: 65_536,
            templates_per_domain_max: 4_096,
            template_fields_max: 1 << 19,
            waiting_octets_max: 64 << 20,
            waiting_secs_max: 1_800,
        }
    }
}
