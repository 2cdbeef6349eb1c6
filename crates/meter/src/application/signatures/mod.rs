//! Tells protocols by the first octets of a message.
//!
//! Each protocol has a test that looks at few octets, and most fail at the first one. Tests that are sure come first;
//! those that others could pass too ask for a usual port besides.

mod access;
mod datagrams;
mod measured;
mod names;
mod storage;
mod stream;
mod tunnels;

use super::Protocol;

/// IP protocol number of TCP.
pub(super) const TCP: u8 = 6;
/// IP protocol number of UDP.
pub(super) const UDP: u8 = 17;

/// A message that is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) payload: &'a [u8],
    pub(super) udp: bool,
    /// Port of who sent it.
    pub(super) from: u16,
    /// Port of who receives it.
    pub(super) to: u16,
}

impl Look<'_> {
    fn port(&self, port: u16) -> bool {
        self.from == port || self.to == port
    }

    fn ports(&self, ports: &[u16]) -> bool {
        ports.iter().any(|port| self.port(*port))
    }

    fn starts(&self, octets: &[u8]) -> bool {
        self.payload.starts_with(octets)
    }

    fn len(&self) -> usize {
        self.payload.len()
    }

    /// The octet at a place, 0 behind the end: a test that takes it for more asks for the length first.
    fn at(&self, place: usize) -> u8 {
        self.payload.get(place).copied().unwrap_or_default()
    }

    fn u16_at(&self, place: usize) -> u16 {
        u16::from_be_bytes([self.at(place), self.at(place + 1)])
    }

    fn u24_at(&self, place: usize) -> u32 {
        u32::from_be_bytes([0, self.at(place), self.at(place + 1), self.at(place + 2)])
    }

    fn u32_at(&self, place: usize) -> u32 {
        u32::from(self.u16_at(place)) << 16 | u32::from(self.u16_at(place + 2))
    }
}

/// A protocol and its test.
type Signature = (Protocol, fn(&Look<'_>) -> bool);

/// Tests of what comes in TCP.
const STREAMS: &[Signature] = &[
    (Protocol::Tls, stream::tls),
    (Protocol::Http2, stream::http2),
    (Protocol::Rtsp, stream::rtsp),
    (Protocol::Sip, stream::sip),
    (Protocol::Http, stream::http),
    (Protocol::Ssh, stream::ssh),
    (Protocol::Smb, storage::smb),
    (Protocol::Bgp, access::bgp),
    (Protocol::Bittorrent, stream::bittorrent),
    (Protocol::Vnc, access::vnc),
    (Protocol::Rsync, storage::rsync),
    (Protocol::Xmpp, stream::xmpp),
    (Protocol::Mqtt, stream::mqtt),
    (Protocol::Postgresql, storage::postgresql),
    (Protocol::Redis, storage::redis),
    (Protocol::Rdp, access::rdp),
    (Protocol::Mysql, storage::mysql),
    (Protocol::Ldap, access::ldap),
    (Protocol::Kerberos, access::kerberos),
    (Protocol::Nfs, storage::nfs),
    (Protocol::Portmap, storage::portmap),
    (Protocol::Imap, stream::imap),
    (Protocol::Pop3, stream::pop3),
    (Protocol::Ftp, stream::ftp),
    (Protocol::Smtp, stream::smtp),
    (Protocol::Telnet, stream::telnet),
    (Protocol::Stun, datagrams::stun),
    (Protocol::Openvpn, tunnels::openvpn),
    (Protocol::Dns, names::dns),
    (Protocol::Ipfix, measured::ipfix),
    (Protocol::Syslog, measured::syslog),
];

/// Tests of what comes in UDP.
const DATAGRAMS: &[Signature] = &[
    (Protocol::Dns, names::dns),
    (Protocol::Mdns, names::mdns),
    (Protocol::Llmnr, names::llmnr),
    (Protocol::NetbiosNs, names::netbios_ns),
    (Protocol::NetbiosDgm, names::netbios_dgm),
    (Protocol::Quic, datagrams::quic),
    (Protocol::Dtls, datagrams::dtls),
    (Protocol::Stun, datagrams::stun),
    (Protocol::Ssdp, datagrams::ssdp),
    (Protocol::Sip, stream::sip),
    (Protocol::Ntp, datagrams::ntp),
    (Protocol::Dhcp, datagrams::dhcp),
    (Protocol::Dhcpv6, datagrams::dhcpv6),
    (Protocol::Snmp, datagrams::snmp),
    (Protocol::Bittorrent, datagrams::bittorrent),
    (Protocol::Wireguard, tunnels::wireguard),
    (Protocol::Ike, tunnels::ike),
    (Protocol::EspInUdp, tunnels::esp),
    (Protocol::Gtp, tunnels::gtp),
    (Protocol::Vxlan, tunnels::vxlan),
    (Protocol::Nfs, storage::nfs),
    (Protocol::Portmap, storage::portmap),
    (Protocol::Openvpn, tunnels::openvpn),
    (Protocol::Netflow, measured::netflow),
    (Protocol::Ipfix, measured::ipfix),
    (Protocol::Sflow, measured::sflow),
    (Protocol::Syslog, measured::syslog),
    (Protocol::Radius, access::radius),
    (Protocol::Kerberos, access::kerberos),
    (Protocol::Ldap, access::ldap),
    (Protocol::Tftp, storage::tftp),
];

/// The protocol that a message is of, if it is recognized.
pub(super) fn recognize(look: &Look<'_>) -> Option<Protocol> {
    let signatures = if look.udp { DATAGRAMS } else { STREAMS };
    signatures.iter().find(|(_, test)| test(look)).map(|(protocol, _)| *protocol)
}

/// Whether this is a BER value of that tag whose length, in whichever form, ends at the end of the message or beyond
/// it (X.690 section 8.1.3); the place of its contents then.
fn ber(look: &Look<'_>, place: usize, tag: u8) -> Option<usize> {
    let short = look.at(place + 1);
    let octets = usize::from(short & 0x7f);
    let contents = match short {
        0..=0x7f => place + 2,
        0x81..=0x84 => place + 2 + octets,
        _ => return None,
    };
    (look.len() > contents && look.at(place) == tag).then_some(contents)
}
