//! What is meant by names that other programs have for columns, and for what SQL computes.

use weir_filter::other_name;

/// What is written instead of a column that is computed.
const COMPUTED: &[(&str, &str)] = &[
    ("duration", "duration_ms(start, end)"),
    ("td", "duration_ms(start, end)"),
    ("dur", "duration_ms(start, end)"),
    ("durationms", "duration_ms(start, end)"),
    ("bps", "bits_per_second(start, end, bytes)"),
    ("pps", "packets_per_second(start, end, packets)"),
    ("bpp", "bytes_per_packet(bytes, packets)"),
    ("ip", "src_addr or dst_addr"),
    ("ipaddress", "src_addr or dst_addr"),
    ("address", "src_addr or dst_addr"),
    ("addr", "src_addr or dst_addr"),
    ("asn", "src_as or dst_as"),
    ("country", "country(src_addr)"),
    ("srccountry", "country(src_addr)"),
    ("dstcountry", "country(dst_addr)"),
];

/// What to write instead of a name that another program has; `known` are the columns that there are.
pub(crate) fn meant(name: &str, known: &[&str]) -> Option<String> {
    if let Some(ours) = other_name(name).filter(|ours| known.contains(ours)) {
        return Some(format!("'{ours}'"));
    }
    let plain: String = name.to_lowercase().chars().filter(|letter| letter.is_alphanumeric()).collect();
    let computed = COMPUTED.iter().find(|(other, _)| *other == plain).map(|(_, instead)| *instead);
    computed.filter(|_| known.contains(&"src_addr")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_programs_lead_to_one_column_of_ours() {
        let known = ["src_addr", "src_as", "dst_port", "bytes", "end"];
        let cases = [
            ("src_ip", Some("'src_addr'")),
            ("sourceIPv4Address", Some("'src_addr'")),
            ("L4_DST_PORT", Some("'dst_port'")),
            ("in_bytes", Some("'bytes'")),
            ("last_seen", Some("'end'")),
            ("duration", Some("duration_ms(start, end)")),
            ("proto", None),
            ("nonsense", None),
        ];
        for (name, expected) in cases {
            assert_eq!(meant(name, &known).as_deref(), expected, "{name}");
        }
    }
}
