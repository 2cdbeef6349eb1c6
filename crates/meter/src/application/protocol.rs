//! The protocols that are recognized by their octets, in one table.

/// Makes the enumeration of protocols and what is known of them from one table.
macro_rules! protocols {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal),+ $(,)?) => {
        /// A protocol that flows are known to be of by their octets.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Protocol {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Protocol {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name: that of the service (RFC 6335) where there is one.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// What it is and where it is written down.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

protocols! {
    /// Transport Layer Security (RFC 8446, RFC 5246).
    Tls = "tls",
    /// Datagram Transport Layer Security (RFC 9147, RFC 6347).
    Dtls = "dtls",
    /// QUIC (RFC 9000, RFC 9369), its drafts, and the QUIC of Google.
    Quic = "quic",
    /// HTTP/1 (RFC 9112).
    Http = "http",
    /// HTTP/2 without TLS (RFC 9113 section 3.3).
    Http2 = "http2",
    /// Domain names (RFC 1035).
    Dns = "domain",
    /// Multicast DNS (RFC 6762).
    Mdns = "mdns",
    /// Link-local multicast name resolution (RFC 4795).
    Llmnr = "llmnr",
    /// `NetBIOS` name service (RFC 1002 section 4.2).
    NetbiosNs = "netbios-ns",
    /// `NetBIOS` datagrams (RFC 1002 section 4.4).
    NetbiosDgm = "netbios-dgm",
    /// Simple Service Discovery Protocol (`UPnP` Device Architecture).
    Ssdp = "ssdp",
    /// Secure Shell (RFC 4253).
    Ssh = "ssh",
    /// Telnet (RFC 854).
    Telnet = "telnet",
    /// Mail transfer (RFC 5321).
    Smtp = "smtp",
    /// File transfer, control connection (RFC 959).
    Ftp = "ftp",
    /// Post Office Protocol (RFC 1939).
    Pop3 = "pop3",
    /// Internet Message Access Protocol (RFC 9051).
    Imap = "imap",
    /// Messaging and presence (RFC 6120).
    Xmpp = "xmpp",
    /// Network time (RFC 5905).
    Ntp = "ntp",
    /// Network management (RFC 3416, RFC 3412).
    Snmp = "snmp",
    /// Dynamic host configuration (RFC 2131), and BOOTP.
    Dhcp = "dhcp",
    /// Dynamic host configuration of IPv6 (RFC 8415).
    Dhcpv6 = "dhcpv6",
    /// Session initiation (RFC 3261).
    Sip = "sip",
    /// Real-time streaming (RFC 2326, RFC 7826).
    Rtsp = "rtsp",
    /// Session traversal for NAT, and TURN (RFC 8489, RFC 8656).
    Stun = "stun",
    /// `BitTorrent`, its trackers and its distributed hash table (BEP 3, 5, 15).
    Bittorrent = "bittorrent",
    /// `WireGuard`.
    Wireguard = "wireguard",
    /// `OpenVPN`.
    Openvpn = "openvpn",
    /// Remote Desktop Protocol (MS-RDPBCGR).
    Rdp = "ms-wbt-server",
    /// Remote framebuffer, VNC (RFC 6143).
    Vnc = "rfb",
    /// Server Message Block (MS-CIFS, MS-SMB2).
    Smb = "microsoft-ds",
    /// Kerberos (RFC 4120).
    Kerberos = "kerberos",
    /// Lightweight directory access (RFC 4511), also without connections.
    Ldap = "ldap",
    /// `MySQL`.
    Mysql = "mysql",
    /// `PostgreSQL`, protocol 3.
    Postgresql = "postgresql",
    /// Redis (RESP).
    Redis = "redis",
    /// MQTT.
    Mqtt = "mqtt",
    /// `NetFlow` versions 5, 7 and 9 (RFC 3954).
    Netflow = "netflow",
    /// IPFIX (RFC 7011).
    Ipfix = "ipfix",
    /// sFlow version 5.
    Sflow = "sflow",
    /// Syslog (RFC 5424, RFC 3164).
    Syslog = "syslog",
    /// Border Gateway Protocol (RFC 4271).
    Bgp = "bgp",
    /// Internet key exchange (RFC 7296, RFC 2409).
    Ike = "isakmp",
    /// Encapsulating Security Payload in UDP (RFC 3948).
    EspInUdp = "ipsec-nat-t",
    /// GPRS tunnelling (3GPP TS 29.060, TS 29.274, TS 29.281).
    Gtp = "gtp",
    /// VXLAN (RFC 7348).
    Vxlan = "vxlan",
    /// Authentication, authorization, accounting (RFC 2865, RFC 2866).
    Radius = "radius",
    /// Trivial file transfer (RFC 1350).
    Tftp = "tftp",
    /// Network file system (RFC 7530, RFC 1813).
    Nfs = "nfs",
    /// Port mapper and RPC binding (RFC 1833), mount (RFC 1813).
    Portmap = "sunrpc",
    /// rsync.
    Rsync = "rsync",
}

#[cfg(test)]
mod tests {
    use super::Protocol;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Protocol::ALL.iter().map(|protocol| protocol.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Protocol::ALL.len());
    }
}
