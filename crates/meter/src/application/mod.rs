//! What the first octets of a flow show of its application.
//!
//! A flow is looked at packet by packet, [`PACKETS_MAX`] with payload in each direction at most, until it has shown
//! all that is requested. Protocols are recognized by what is in their first octets; a usual port helps where these
//! octets are few, and is all there is to go by ([`Application::guessed`]) where they show nothing. What speaks
//! against looking so little is that an application which begins late, as after `STARTTLS`, goes unseen.
//!
//! Packets are taken in the order in which they come. Only segments of TCP that a `ClientHello` goes on in are put
//! together by their sequence numbers, from the one on that shows that it is a hello; all else that comes twice or out
//! of order is read as it comes, and what was read before stays. No length in a packet is believed beyond
//! the octets at hand. Packets that show nothing cost no allocation; a `ClientHello` that goes on in a further packet
//! costs a buffer, of which there is a limited number ([`Limits`]).

mod protocol;
pub use protocol::Protocol;
mod details;
pub use details::{Details, DnsDetails, RequestDetails, TlsDetails};
mod columns;
pub use columns::TEXT_COLUMNS;
mod elements;
pub use elements::{Element, ElementValue, Elements};

mod inspection;
pub use inspection::{Counts, Inspection, Inspector, Limits, PACKETS_MAX, Verdict};

mod client_hello;
mod ja;
mod quic;
mod tls;

mod dns;
mod request;

mod services;
mod signatures;

mod assembly;
mod text;

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the source of the flow, which is who sent its first packet.
    Forward,
    /// Back to it.
    Reverse,
}

/// What is known of a flow's application.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Application {
    /// The protocol that its octets are of.
    pub protocol: Option<Protocol>,
    /// The service that its ports are registered for; `None` when the protocol is known, or when no port is in the
    /// table of services.
    service: Option<services::Service>,
    /// What else is known of it.
    pub details: Details,
}

impl Application {
    /// The application of a flow of which nothing but the ports is known.
    pub fn of_ports(transport: u8, source_port: u16, destination_port: u16) -> Self {
        Self { service: services::find(transport, source_port, destination_port), ..Self::default() }
    }

    /// Its name, in small letters: that of the protocol, or else that of the service (RFC 6335) whose port it uses.
    pub fn name(&self) -> Option<&'static str> {
        self.protocol.map(Protocol::name).or(self.service.map(|service| service.name))
    }

    /// Whether the name is that of a port and no octet bears it out.
    pub fn guessed(&self) -> bool {
        self.protocol.is_none() && self.service.is_some()
    }

    /// What is known besides the columns, as Information Elements, in the order of [`Element::ALL`].
    pub fn elements(&self) -> Elements<'_> {
        Elements::of(self)
    }
}
