//! A flow before it is columns, with the numbers that flows of conversations and of scenes share.

use crate::network::Host;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Control bits of TCP (RFC 9293 section 3.1).
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;

/// A flow before it is columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub start_ms: i64,
    pub end_ms: i64,
    pub src: Host,
    pub dst: Host,
    pub src_port: u16,
    pub dst_port: u16,
    pub packets: u64,
    pub bytes: u64,
    pub wide: bool,
    pub protocol: u8,
    pub tcp_flags: u8,
    pub tos: u8,
    /// One packet of this many was seen, where it is known.
    pub sampling_interval: Option<u32>,
}

impl Row {
    pub(crate) fn is_wide(&self) -> bool {
        self.wide
    }

    /// Whether it is to or from a web server.
    pub(crate) fn is_web(&self) -> bool {
        self.protocol == TCP && [self.src_port, self.dst_port].iter().any(|port| [80, 443, 8080].contains(port))
    }
}
