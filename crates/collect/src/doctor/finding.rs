//! The kinds of findings: their names, how bad they are, and what to do.

use std::net::IpAddr;

/// How bad a finding is; the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Flows are missing or wrong.
    Error,
    /// Flows may be missing or wrong.
    Warning,
    /// Worth knowing.
    Hint,
}

impl Severity {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Hint => "hint",
        }
    }
}

macro_rules! finding_kinds {
    ($($variant:ident $name:literal $severity:ident $remedy:literal;)*) => {
        /// A kind of finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingKind {
            $(#[doc = concat!("The finding `", $name, "`.")] $variant,)*
        }

        impl FindingKind {
            /// Every kind.
            pub const ALL: &'static [FindingKind] = &[$(FindingKind::$variant),*];

            /// Its name, for programs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How bad it is as a rule.
            pub fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// Whether it is of a capture as a whole, not of an exporter or of this machine.
            pub fn is_of_capture(self) -> bool {
                matches!(self, Self::CutShort | Self::InTunnels)
            }

            /// What to do about it.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

finding_kinds! {
    KernelDrops "kernel_drops" Error "raise net.core.rmem_max (sysctl) and --buffer; if it goes on, decoding or the disk is too slow: share the port among more --sockets";
    QueueDrops "queue_drops" Error "the machine decodes what comes over DTLS, or writes, too slowly: use more cores, or faster disks";
    ExportersRefused "exporters_refused" Error "more exporters and Observation Domains than the limit domains_max, of which one address, or one IPv6 network of 64 bits, has half at most, and more as long as a quarter is vacant; the log of a collector names an address that wants more: raise the limit, or find the sender that floods the port";
    OverRate "over_rate" Error "one address sends more datagrams a second than rate_per_source allows; the log names it: raise the limit if it is an exporter, or find out who floods the port";
    CutShort "cut_short" Warning "take the capture with the whole length of packets (tcpdump -s 0) and all fragments; set the exporter's datagrams to less than the path MTU";
    InTunnels "in_tunnels" Warning "exports that GRE, IP in IP, VXLAN or another tunnel carries, such as that of a port mirror, are not read: capture them where they have left it, or take the tunnel's headers off";
    Loss "loss" Error "datagrams are lost between exporter and collector: look for full queues and policers on the path, and at the exporter's own drop counters";
    LossLittle "loss_little" Warning "some datagrams are lost between exporter and collector: look for full queues and policers on the path";
    Reordered "reordered" Hint "datagrams overtake one another on the way, by load balancing per packet; the counts stay exact";
    Duplicates "duplicates" Warning "every datagram should come once: look for mirrored ports, doubled export destinations and replicators; duplicates are dropped and counted";
    SequenceStuck "sequence_stuck" Warning "the exporter does not advance its sequence numbers, so loss cannot be seen: ask the vendor for an update";
    SequenceUnit "sequence_unit" Warning "the exporter counts sequence numbers in another unit than the standard specifies; loss is counted in the unit found";
    SequenceErratic "sequence_erratic" Warning "the sequence numbers follow no rule, so loss cannot be seen: are several exporters behind one address and port?";
    SequenceShared "sequence_shared" Warning "the exporter counts one sequence for all its Observation Domains, so each seems to lose what the others send: ignore the loss reported for its domains";
    DomainCollision "domain_collision" Error "two exporting processes use the same address, port and Observation Domain: give each its own source ID";
    Restarted "restarted" Hint "the exporter restarted";
    RestartsOften "restarts_often" Warning "the exporter restarts often: look at its log";
    UptimeInconsistent "uptime_inconsistent" Warning "export time and uptime disagree from datagram to datagram, and the times of flows with them: check the exporter's clock and NTP";
    ClockOff "clock_off" Warning "the exporter's clock is off: set up NTP there (and here)";
    ClockJumps "clock_jumps" Warning "the exporter's clock jumps, or its datagrams wait long on the way: set up NTP there, and look for queues";
    TemplatesMissing "templates_missing" Error "Data Sets arrive without their template: set the template refresh of the exporter to 60 s, and send templates to this collector too";
    TemplatesElsewhere "templates_elsewhere" Error "the exporter sends templates and data from different ports: --templates-across-ports of weir collect and weir import reads them together";
    TemplatesSlow "templates_slow" Warning "templates are sent seldom, and flows wait for them after a restart of the collector: set the template refresh to 60 s";
    TemplatesChange "templates_change" Warning "templates change under the same ID: give every exporting process its own Observation Domain";
    TemplatesRefused "templates_refused" Error "more templates than the limits allow: raise them, or find out why the exporter defines so many";
    SamplingChanged "sampling_changed" Hint "the sampling interval changed; each flow keeps the interval in force when it was received";
    SamplingUnknown "sampling_unknown" Warning "flows name a sampler whose interval is not known: configure the exporter to send its sampler options, every 60 s";
    SamplingUnmatched "sampling_unmatched" Warning "options report sampling rates of parts of the exporter, such as line cards, that its flows do not name, so these rates are not used: configure it to report them for samplers or interfaces, or to export the field that names the part";
    Undecodable "undecodable" Warning "datagrams contradict themselves: look for datagrams cut on the way, or a fault of the exporter";
    Longer "longer" Hint "octets follow the end of messages: some exporters append octets of their own, and nothing is missing when no other finding says so";
    Foreign "foreign" Warning "datagrams of no known export protocol, or cut within the header: send them elsewhere, or configure NetFlow, IPFIX or sFlow";
    StartAfterEnd "start_after_end" Warning "flows start after they end: a fault of the exporter, whose durations must not be trusted";
    FutureFlows "future_flows" Warning "flows end after they were received: the exporter's clock or uptime is wrong";
    LongFlows "long_flows" Hint "flows last longer than the usual active timeout and are seen late: set the active timeout to 60 s";
    SeenTwice "seen_twice" Hint "two exporters report the same flows: count them once (transform dedup), or export at the edge only";
    InAndOut "in_and_out" Hint "the exporter reports the same flows on their way in and on their way out: count one direction, or export ingress only";
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Its kind.
    pub kind: FindingKind,
    /// The exporter that it is about; `None` for this machine.
    pub exporter: Option<IpAddr>,
    /// The Observation Domain, where it is about one.
    pub domain: Option<u32>,
    /// The numbers that show it.
    pub evidence: String,
}

impl Finding {
    pub(super) fn new(kind: FindingKind, exporter: Option<IpAddr>, domain: Option<u32>, evidence: String) -> Self {
        Self { severity: kind.severity(), kind, exporter, domain, evidence }
    }
}
