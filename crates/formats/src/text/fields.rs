//! Which column a field of a text file means, by its name.

use weir_flow::Column;

/// What a field is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A column, as it is.
    Column(Column),
    /// Seconds from the start to the end.
    DurationSecs,
    /// Milliseconds from the start to the end.
    DurationMs,
    /// A port, or the type of ICMP.
    ZeekSource,
    /// The number of the protocol, which Zeek's name for it does not always tell.
    ZeekProtocol,
    /// A port, or the code of ICMP.
    ZeekDestination,
    /// A protocol, by the names of nfdump.
    NfdumpProtocol,
    /// A destination port of nfdump, or type and code of ICMP.
    NfdumpPort,
    /// The direction at the observation point, as of nfdump, or an arrow of argus, which is none.
    DirectionOrArrow,
    /// Type and number of the engine, `0/0`.
    Engine,
    /// Nothing that is kept.
    Ignored,
    /// Nothing that is kept, and the user says so.
    LeftOut,
}

const fn of(column: Column) -> Part {
    Part::Column(column)
}

/// Names that other programs have: Zeek, rwcut, nfdump's CSV. Those of our columns need no entry.
const NAMES: &[(&str, Part)] = &[
    // Zeek
    ("id.orig_h", of(Column::SrcAddr)),
    ("id.resp_h", of(Column::DstAddr)),
    ("id.orig_p", Part::ZeekSource),
    ("id.resp_p", Part::ZeekDestination),
    ("proto", of(Column::Protocol)),
    ("ip_proto", Part::ZeekProtocol),
    ("orig_pkts", of(Column::Packets)),
    ("orig_ip_bytes", of(Column::Bytes)),
    ("resp_pkts", of(Column::PacketsReverse)),
    ("resp_ip_bytes", of(Column::BytesReverse)),
    ("orig_l2_addr", of(Column::SrcMac)),
    ("resp_l2_addr", of(Column::DstMac)),
    ("vlan", of(Column::SrcVlan)),
    // rwcut
    ("sip", of(Column::SrcAddr)),
    ("dip", of(Column::DstAddr)),
    ("sport", of(Column::SrcPort)),
    ("dport", of(Column::DstPort)),
    ("pro", of(Column::Protocol)),
    ("pkts", of(Column::Packets)),
    ("flags", of(Column::TcpFlags)),
    ("stime", of(Column::Start)),
    ("stime+msec", of(Column::Start)),
    ("etime", of(Column::End)),
    ("etime+msec", of(Column::End)),
    ("dur", Part::DurationSecs),
    ("dur+msec", Part::DurationSecs),
    ("duration", Part::DurationSecs),
    ("nhip", of(Column::NextHop)),
    ("itype", of(Column::IcmpType)),
    ("icode", of(Column::IcmpCode)),
    // nfdump 1.7
    ("ts", of(Column::Start)),
    ("te", of(Column::End)),
    ("td", Part::DurationSecs),
    ("sa", of(Column::SrcAddr)),
    ("da", of(Column::DstAddr)),
    ("sp", of(Column::SrcPort)),
    ("dp", of(Column::DstPort)),
    ("pr", of(Column::Protocol)),
    ("flg", of(Column::TcpFlags)),
    ("fwd", of(Column::ForwardingStatus)),
    ("stos", of(Column::Tos)),
    ("ipkt", of(Column::Packets)),
    ("ibyt", of(Column::Bytes)),
    ("opkt", of(Column::PacketsOut)),
    ("obyt", of(Column::BytesOut)),
    ("in", of(Column::InIf)),
    ("out", of(Column::OutIf)),
    ("sas", of(Column::SrcAs)),
    ("das", of(Column::DstAs)),
    ("smk", of(Column::SrcMask)),
    ("dmk", of(Column::DstMask)),
    ("dtos", of(Column::DstTos)),
    ("dir", Part::DirectionOrArrow),
    ("nh", of(Column::NextHop)),
    ("nhb", of(Column::BgpNextHop)),
    ("svln", of(Column::SrcVlan)),
    ("dvln", of(Column::DstVlan)),
    ("ismc", of(Column::SrcMac)),
    ("odmc", of(Column::PostDstMac)),
    ("idmc", of(Column::DstMac)),
    ("osmc", of(Column::PostSrcMac)),
    ("ra", of(Column::Exporter)),
    ("eng", Part::Engine),
    ("tr", of(Column::Received)),
    ("firstseen", of(Column::Start)),
    ("lastseen", of(Column::End)),
    ("srcaddr", of(Column::SrcAddr)),
    ("dstaddr", of(Column::DstAddr)),
    ("srcport", of(Column::SrcPort)),
    ("dstport", of(Column::DstPort)),
];

/// What a name means: a column of ours, or a name of another program's; in upper case or lower.
pub(crate) fn part(name: &str) -> Part {
    let name = name.trim().to_ascii_lowercase();
    let known = || NAMES.iter().find(|(known, _)| *known == name).map(|(_, part)| *part);
    match Column::by_name(&name).filter(|column| *column != Column::Elements) {
        Some(column) => Part::Column(column),
        None if name == "duration_ms" => Part::DurationMs,
        None => known().unwrap_or(Part::Ignored),
    }
}

/// Whether names are those of a title of nfdump: `ts,te,td,sa,da,…` of 1.7.1, `firstSeen,duration,proto,…` of 1.7.8.
pub(crate) fn is_of_nfdump(names: &[String]) -> bool {
    let has = |wanted: &str| names.iter().any(|name| name.trim().eq_ignore_ascii_case(wanted));
    has("firstSeen") || has("lastSeen") || (has("sa") && has("da"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_twice() {
        for (index, (name, _)) in NAMES.iter().enumerate() {
            assert!(NAMES[..index].iter().all(|(other, _)| other != name), "{name}");
            assert_eq!(Column::by_name(name), None, "{name} is a column");
            assert_eq!(*name, name.to_ascii_lowercase());
        }
    }
}
