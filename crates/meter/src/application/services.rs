//! Services by port, for flows whose octets show nothing.
//!
//! Not IANA's whole registry (RFC 6335): a port that is not used for its service says nothing of a flow. These are the
//! ones that are seen on networks, by their names in the registry, or by the names of the programs that took the port.

use super::signatures::{TCP, UDP};

/// A service that a port is registered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) name: &'static str,
    pub(super) port: u16,
}

/// Transports of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Tcp,
    Udp,
    Both,
}

use On::{Both, Tcp, Udp};

/// In the order of ports.
const SERVICES: &[(u16, On, &str)] = &[
    (7, Both, "echo"),
    (9, Both, "discard"),
    (13, Both, "daytime"),
    (19, Both, "chargen"),
    (20, Tcp, "ftp-data"),
    (21, Tcp, "ftp"),
    (22, Tcp, "ssh"),
    (23, Tcp, "telnet"),
    (25, Tcp, "smtp"),
    (37, Both, "time"),
    (43, Tcp, "nicname"),
    (49, Both, "tacacs"),
    (53, Both, "domain"),
    (67, Udp, "bootps"),
    (68, Udp, "bootpc"),
    (69, Udp, "tftp"),
    (70, Tcp, "gopher"),
    (79, Tcp, "finger"),
    (80, Tcp, "http"),
    (88, Both, "kerberos"),
    (102, Tcp, "iso-tsap"),
    (110, Tcp, "pop3"),
    (111, Both, "sunrpc"),
    (113, Tcp, "auth"),
    (119, Tcp, "nntp"),
    (123, Udp, "ntp"),
    (135, Tcp, "epmap"),
    (137, Udp, "netbios-ns"),
    (138, Udp, "netbios-dgm"),
    (139, Tcp, "netbios-ssn"),
    (143, Tcp, "imap"),
    (161, Udp, "snmp"),
    (162, Udp, "snmptrap"),
    (177, Udp, "xdmcp"),
    (179, Tcp, "bgp"),
    (194, Tcp, "irc"),
    (389, Both, "ldap"),
    (427, Both, "svrloc"),
    (443, Tcp, "https"),
    (443, Udp, "quic"),
    (445, Tcp, "microsoft-ds"),
    (464, Both, "kpasswd"),
    (465, Tcp, "submissions"),
    (500, Udp, "isakmp"),
    (502, Tcp, "mbap"),
    (512, Tcp, "exec"),
    (513, Tcp, "login"),
    (514, Tcp, "shell"),
    (514, Udp, "syslog"),
    (515, Tcp, "printer"),
    (520, Udp, "router"),
    (521, Udp, "ripng"),
    (543, Tcp, "klogin"),
    (546, Udp, "dhcpv6-client"),
    (547, Udp, "dhcpv6-server"),
    (548, Tcp, "afpovertcp"),
    (554, Tcp, "rtsp"),
    (587, Tcp, "submission"),
    (623, Udp, "asf-rmcp"),
    (631, Both, "ipp"),
    (636, Tcp, "ldaps"),
    (646, Both, "ldp"),
    (830, Tcp, "netconf-ssh"),
    (853, Both, "domain-s"),
    (860, Tcp, "iscsi"),
    (873, Tcp, "rsync"),
    (989, Tcp, "ftps-data"),
    (990, Tcp, "ftps"),
    (993, Tcp, "imaps"),
    (995, Tcp, "pop3s"),
    (1080, Tcp, "socks"),
    (1194, Both, "openvpn"),
    (1433, Tcp, "ms-sql-s"),
    (1434, Udp, "ms-sql-m"),
    (1521, Tcp, "oracle"),
    (1645, Udp, "radius"),
    (1701, Udp, "l2tp"),
    (1719, Udp, "h323gatestat"),
    (1720, Tcp, "h323hostcall"),
    (1723, Tcp, "pptp"),
    (1812, Udp, "radius"),
    (1813, Udp, "radius-acct"),
    (1883, Tcp, "mqtt"),
    (1900, Udp, "ssdp"),
    (1935, Tcp, "rtmp"),
    (2000, Tcp, "cisco-sccp"),
    (2049, Both, "nfs"),
    (2055, Udp, "netflow"),
    (2123, Udp, "gtp-control"),
    (2152, Udp, "gtp-user"),
    (2181, Tcp, "zookeeper"),
    (2379, Tcp, "etcd-client"),
    (2404, Tcp, "iec-104"),
    (3128, Tcp, "squid"),
    (3260, Tcp, "iscsi-target"),
    (3268, Tcp, "msft-gc"),
    (3306, Tcp, "mysql"),
    (3386, Udp, "gprs-data"),
    (3389, Both, "ms-wbt-server"),
    (3478, Both, "stun"),
    (3544, Udp, "teredo"),
    (3784, Udp, "bfd-control"),
    (3868, Tcp, "diameter"),
    (4500, Udp, "ipsec-nat-t"),
    (4739, Both, "ipfix"),
    (4789, Udp, "vxlan"),
    (5060, Both, "sip"),
    (5061, Tcp, "sips"),
    (5222, Tcp, "xmpp-client"),
    (5269, Tcp, "xmpp-server"),
    (5349, Both, "stuns"),
    (5351, Udp, "nat-pmp"),
    (5353, Udp, "mdns"),
    (5355, Udp, "llmnr"),
    (5432, Tcp, "postgresql"),
    (5671, Tcp, "amqps"),
    (5672, Tcp, "amqp"),
    (5683, Udp, "coap"),
    (5900, Tcp, "rfb"),
    (5985, Tcp, "wsman"),
    (6081, Udp, "geneve"),
    (6343, Udp, "sflow"),
    (6379, Tcp, "redis"),
    (6514, Tcp, "syslog-tls"),
    (6653, Tcp, "openflow"),
    (6667, Tcp, "ircu"),
    (8000, Tcp, "http-alt"),
    (8080, Tcp, "http-alt"),
    (8443, Tcp, "pcsync-https"),
    (8883, Tcp, "secure-mqtt"),
    (9042, Tcp, "cassandra"),
    (9092, Tcp, "kafka"),
    (9100, Tcp, "hp-pdl-datastr"),
    (9418, Tcp, "git"),
    (11211, Both, "memcache"),
    (20000, Both, "dnp"),
    (27017, Tcp, "mongodb"),
    (44818, Both, "ethernet-ip-2"),
    (47808, Udp, "bacnet"),
];

/// The service of a flow: that of its destination port, or else that of its source port.
pub(super) fn find(transport: u8, source_port: u16, destination_port: u16) -> Option<Service> {
    of_port(transport, destination_port).or_else(|| of_port(transport, source_port))
}

fn of_port(transport: u8, port: u16) -> Option<Service> {
    let first = SERVICES.partition_point(|service| service.0 < port);
    let on = |on: On| match transport {
        TCP => on != Udp,
        UDP => on != Tcp,
        _ => false,
    };
    let found = SERVICES[first..].iter().take_while(|service| service.0 == port).find(|service| on(service.1));
    found.map(|service| Service { name: service.2, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(SERVICES.is_sorted_by_key(|service| service.0));
    }

    #[test]
    fn services_are_found_by_either_port() {
        let check = |transport, source, destination, name| {
            assert_eq!(find(transport, source, destination).map(|service| service.name), name);
        };
        check(TCP, 40_000, 443, Some("https"));
        check(TCP, 443, 40_000, Some("https"));
        check(UDP, 40_000, 443, Some("quic"));
        check(UDP, 514, 40_000, Some("syslog"));
        check(TCP, 514, 40_000, Some("shell"));
        check(TCP, 40_000, 40_001, None);
        check(132, 40_000, 443, None);
    }
}
