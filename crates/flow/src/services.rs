//! Names of services by their ports.

/// A port and the name of the service that is registered for it (IANA "Service Name and Transport Protocol Port Number
/// Registry"), for services that are often in flows. Where people write another name than the registry, both are here, the
/// registered one first.
pub const SERVICES: &[(u16, &str)] = &[
    (7, "echo"),
    (19, "chargen"),
    (20, "ftp-data"),
    (21, "ftp"),
    (22, "ssh"),
    (23, "telnet"),
    (25, "smtp"),
    (37, "time"),
    (43, "whois"),
    (49, "tacacs"),
    (53, "domain"),
    (53, "dns"),
    (67, "bootps"),
    (67, "dhcp"),
    (68, "bootpc"),
    (69, "tftp"),
    (79, "finger"),
    (80, "http"),
    (88, "kerberos"),
    (110, "pop3"),
    (111, "sunrpc"),
    (113, "auth"),
    (119, "nntp"),
    (123, "ntp"),
    (135, "epmap"),
    (137, "netbios-ns"),
    (138, "netbios-dgm"),
    (139, "netbios-ssn"),
    (143, "imap"),
    (161, "snmp"),
    (162, "snmptrap"),
    (179, "bgp"),
    (194, "irc"),
    (389, "ldap"),
    (443, "https"),
    (445, "microsoft-ds"),
    (445, "smb"),
    (465, "submissions"),
    (500, "isakmp"),
    (500, "ike"),
    (502, "mbap"),
    (502, "modbus"),
    (514, "syslog"),
    (515, "printer"),
    (520, "router"),
    (520, "rip"),
    (546, "dhcpv6-client"),
    (547, "dhcpv6-server"),
    (554, "rtsp"),
    (587, "submission"),
    (631, "ipp"),
    (636, "ldaps"),
    (646, "ldp"),
    (853, "domain-s"),
    (853, "dot"),
    (873, "rsync"),
    (989, "ftps-data"),
    (990, "ftps"),
    (993, "imaps"),
    (995, "pop3s"),
    (1080, "socks"),
    (1194, "openvpn"),
    (1433, "ms-sql-s"),
    (1521, "ncube-lm"),
    (1521, "oracle"),
    (1723, "pptp"),
    (1812, "radius"),
    (1813, "radius-acct"),
    (1883, "mqtt"),
    (1900, "ssdp"),
    (2049, "nfs"),
    (2055, "iop"),
    (2055, "netflow"),
    (3128, "ndl-aas"),
    (3306, "mysql"),
    (3389, "ms-wbt-server"),
    (3389, "rdp"),
    (3478, "stun"),
    (3784, "bfd-control"),
    (4739, "ipfix"),
    (4740, "ipfixs"),
    (4500, "ipsec-nat-t"),
    (4789, "vxlan"),
    (5060, "sip"),
    (5061, "sips"),
    (5222, "xmpp-client"),
    (5353, "mdns"),
    (5355, "llmnr"),
    (5432, "postgresql"),
    (5671, "amqps"),
    (5672, "amqp"),
    (5900, "rfb"),
    (5900, "vnc"),
    (5985, "wsman"),
    (6081, "geneve"),
    (6343, "sflow"),
    (6379, "redis"),
    (6514, "syslog-tls"),
    (6667, "ircu"),
    (8080, "http-alt"),
    (8443, "pcsync-https"),
    (8883, "secure-mqtt"),
    (9042, "cassandra"),
    (9092, "kafka"),
    (9200, "wap-wsp"),
    (9200, "elasticsearch"),
    (11211, "memcache"),
    (27017, "mongodb"),
    (51820, "wireguard"),
];

/// The port of a service, in letters of either case.
pub fn service_port(name: &str) -> Option<u16> {
    SERVICES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(port, _)| *port)
}

/// The registered name of the service of a port, if it is one that is often in flows.
pub fn service_name(port: u16) -> Option<&'static str> {
    SERVICES.iter().find(|(known, _)| *known == port).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_lead_to_one_port() {
        let names: HashSet<_> = SERVICES.iter().map(|(_, name)| name).collect();
        assert_eq!(names.len(), SERVICES.len());
        assert_eq!((service_port("HTTPS"), service_port("dns"), service_port("nothing")), (Some(443), Some(53), None));
        assert_eq!(
            (service_name(53), service_name(3389), service_name(1)),
            (Some("domain"), Some("ms-wbt-server"), None)
        );
    }
}
