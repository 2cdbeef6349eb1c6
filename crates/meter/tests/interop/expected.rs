//! What another program says of a capture.

use std::path::PathBuf;

use weir_meter::Timeouts;

use crate::conversation::{Conversation, Sides};
use crate::reason::Reason;
use crate::seen::Seen;

/// Which octets a program counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Octets {
    /// Those of IP packets, as weir does.
    Ip,
    /// Those of frames on the wire.
    Frames,
}

impl Octets {
    pub(crate) fn of(self, seen: &Seen) -> u64 {
        match self {
            Self::Ip => seen.ip_octets,
            Self::Frames => seen.frame_octets,
        }
    }
}

/// A record of another program; what it does not tell is `None`.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    pub(crate) conversation: Conversation,
    /// Whether the lower end began.
    pub(crate) by_low: Option<bool>,
    pub(crate) sides: Sides,
    pub(crate) first_us: Option<i64>,
    pub(crate) last_us: Option<i64>,
    pub(crate) duration_us: Option<i64>,
    /// TCP control bits of what the lower end sent, and the higher one, the eight of RFC 3168.
    pub(crate) tcp_flags: Option<(u16, u16)>,
    /// SYN, FIN and RST of what the lower end sent, and the higher one.
    pub(crate) ends_of_tcp: Option<(u16, u16)>,
    /// TCP control bits of both together, but ACK, and without the two of congestion.
    pub(crate) tcp_flags_of_both: Option<u16>,
    /// Whether the program says that it stopped to count.
    pub(crate) stopped_to_count: bool,
}

impl Expected {
    /// A record that says nothing yet.
    pub(crate) const fn of(conversation: Conversation, sides: Sides) -> Self {
        Self {
            conversation,
            by_low: None,
            sides,
            first_us: None,
            last_us: None,
            duration_us: None,
            tcp_flags: None,
            ends_of_tcp: None,
            tcp_flags_of_both: None,
            stopped_to_count: false,
        }
    }
}

/// All that a program says of a capture.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "what programs do differently, each by itself")]
pub(crate) struct Answer {
    /// Name of the test or file.
    pub(crate) name: String,
    pub(crate) capture: PathBuf,
    pub(crate) records: Vec<Expected>,
    /// The program's timeouts, of TCP and of other protocols.
    pub(crate) timeouts: [Timeouts; 2],
    pub(crate) octets: Octets,
    /// How exact its durations are, with those of weir, which are in milliseconds.
    pub(crate) duration_step_us: i64,
    /// Whether VLANs tell flows from each other.
    pub(crate) by_vlan: bool,
    /// Whether types of ICMP do.
    pub(crate) by_icmp_type: bool,
    /// Whether the program looks into tunnels.
    pub(crate) looks_into_tunnels: bool,
    /// Whether the program was told to leave packets out, so that nothing follows from a flow that it does not have.
    pub(crate) is_partial: bool,
    /// What it may do otherwise.
    pub(crate) reasons: &'static [Reason],
}

/// Timeouts that never come.
pub(crate) const NEVER: Timeouts =
    Timeouts { active_us: i64::MAX / 4, idle_us: i64::MAX / 4, fast: None, closed_us: i64::MAX / 4 };

impl Answer {
    /// Whether durations are the same as far as the program tells them: in steps, and some of them as floating-point
    /// numbers of 32 bits.
    pub(crate) const fn is_same_duration(&self, theirs_us: i64, ours_us: i64) -> bool {
        (theirs_us - ours_us).abs() < self.duration_step_us + (ours_us >> (f32::MANTISSA_DIGITS - 1))
    }

    /// Packets and octets as far as flows can have the same.
    pub(crate) fn count(&self, sides: Sides) -> Sides {
        if self.octets == Octets::Ip { sides } else { sides.packets_only() }
    }

    /// A conversation as the program tells it from others.
    pub(crate) const fn conversation(&self, conversation: Conversation) -> Conversation {
        let icmp = if self.by_icmp_type { conversation.icmp } else { None };
        Conversation { icmp, ..conversation }
    }
}
