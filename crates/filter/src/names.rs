//! Names that stand for numbers in filters.

/// Names of the values of one field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// What a name names, for errors: "protocol".
    pub(crate) what: &'static str,
    /// Names in lower case and their numbers; the first name of a number is the one to show.
    pub(crate) table: &'static [(&'static str, u64)],
}

impl Names {
    /// The number of a name in any case.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, number)| *number)
    }
}

/// Protocol Numbers registry of IANA, the keywords that exporters and tools use.
/// Protocols, by the names of [`weir_flow::PROTOCOLS`].
pub(crate) static PROTOCOLS: Names = Names { what: "protocol", table: &PROTOCOL_NAMES };

static PROTOCOL_NAMES: [(&str, u64); PROTOCOL_NAMES_COUNT] = {
    let mut table = [("", 0); PROTOCOL_NAMES_COUNT];
    let (mut at, mut written) = (0, 0);
    while at < weir_flow::PROTOCOLS.len() {
        let protocol = &weir_flow::PROTOCOLS[at];
        let mut name = 0;
        while name < protocol.filter_names.len() {
            table[written] = (protocol.filter_names[name], protocol.number as u64);
            (name, written) = (name + 1, written + 1);
        }
        at += 1;
    }
    table
};

const PROTOCOL_NAMES_COUNT: usize = {
    let (mut at, mut count) = (0, 0);
    while at < weir_flow::PROTOCOLS.len() {
        count += weir_flow::PROTOCOLS[at].filter_names.len();
        at += 1;
    }
    count
};

/// Forwarding status of RFC 7270 section 4.12 under nfdump's names: two bits of status, six of reason.
pub(crate) static FORWARDING: Names = Names {
    what: "forwarding status",
    table: &[
        ("ukwn", 0),
        ("forw", 64),
        ("frag", 65),
        ("drop", 128),
        ("dacld", 129),
        ("daclp", 130),
        ("noroute", 131),
        ("dadj", 132),
        ("dfrag", 133),
        ("dbadh", 134),
        ("dbadtlen", 135),
        ("dbadhlen", 136),
        ("dbadttl", 137),
        ("dpolicy", 138),
        ("dwred", 139),
        ("drpf", 140),
        ("dforus", 141),
        ("dbadof", 142),
        ("dhw", 143),
        ("term", 192),
        ("tadj", 193),
        ("tincadj", 194),
        ("tforus", 195),
    ],
};

/// NAT events of RFC 8158 section 4.3 under nfdump's names.
pub(crate) static NAT_EVENTS: Names = Names {
    what: "NAT event",
    table: &[
        ("add", 1),
        ("delete", 2),
        ("exhaust", 3),
        ("add44", 4),
        ("del44", 5),
        ("add64", 6),
        ("del64", 7),
        ("add44bib", 8),
        ("del44bib", 9),
        ("add64bib", 10),
        ("del64bib", 11),
        ("pexhaust", 12),
        ("quotaexh", 13),
        ("addaddr", 14),
        ("deladdr", 15),
        ("addpblk", 16),
        ("delpblk", 17),
        ("threshld", 18),
    ],
};

/// Values of the Information Element firewallEvent (233); `deny` and `term` are the words of nfdump's manual.
pub(crate) static FIREWALL_EVENTS: Names = Names {
    what: "firewall event",
    table: &[
        ("ignore", 0),
        ("create", 1),
        ("delete", 2),
        ("term", 2),
        ("denied", 3),
        ("deny", 3),
        ("alert", 4),
        ("update", 5),
    ],
};

/// Extended events of Cisco's NSEL by which a flow is denied, under the words that nfdump's grammar takes.
pub(crate) static DENIED: Names = Names {
    what: "reason to deny",
    table: &[
        ("ingress", 1001),
        ("i-acl", 1001),
        ("egress", 1002),
        ("e-acl", 1002),
        ("interface", 1003),
        ("access", 1003),
        ("nosyn", 1004),
        ("deny", 1004),
    ],
};

/// Values of the Information Element flowDirection (61).
pub(crate) static DIRECTIONS: Names = Names { what: "flow direction", table: &[("ingress", 0), ("egress", 1)] };
