//! Looks at the packets of a flow, one at a time, until they show no more.

use super::details::Details;
use super::signatures::{self, Look};
use super::tls::Segment;
use super::{Application, Direction, Protocol, dns, quic, request, text, tls};

/// Most packets with payload that are looked at in each direction.
pub const PACKETS_MAX: u8 = 4;

/// What inspection may cost in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Flows that may have a buffer at a time because their handshake goes on in a further packet; a buffer has
    /// 4096 octets at most. What is in the first packet of the other flows is reported all the same.
    pub buffers_max: usize,
}

impl Default for Limits {
    /// 16,384 buffers, which are 64 MiB at most.
    fn default() -> Self {
        Self { buffers_max: 16_384 }
    }
}

/// What inspection counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that were looked at.
    pub packets: u64,
    /// Flows that were concluded.
    pub flows: u64,
    /// Flows of which the protocol is known by their octets.
    pub recognized: u64,
    /// Flows of which there is only the name of a port.
    pub guessed: u64,
    /// Handshakes that went on in a further packet and got no buffer ([`Limits::buffers_max`]).
    pub buffers_refused: u64,
    /// Handshakes of which pieces lay beyond the end of their buffer, or were too many.
    pub handshakes_cut: u64,
    /// Messages of a known protocol that contradict themselves or end too early.
    pub malformed: u64,
    /// Initial packets of QUIC that could not be decrypted: of versions that are not known, or not of a client.
    pub undecryptable: u64,
}

/// Whether more packets of a flow are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The next packet should be given too.
    More,
    /// Further packets show nothing new.
    Done,
}

/// What the inspections of one shard share: their limits and counts.
///
/// Every [`Inspection`] must come back to [`conclude`](Self::conclude), or else its buffer counts as taken.
#[derive(Debug, Default)]
pub struct Inspector {
    limits: Limits,
    buffers_held: usize,
    counts: Counts,
}

/// What is remembered of a flow while it is looked at.
#[derive(Debug)]
pub struct Inspection {
    transport: u8,
    source_port: u16,
    destination_port: u16,
    /// Packets with payload in each direction.
    packets: [u8; 2],
    state: State,
    application: Application,
}

/// What is known so far.
#[derive(Debug)]
enum State {
    /// Nothing.
    Unknown,
    Tls(tls::Handshake),
    Quic(Box<quic::Connection>),
    Request(request::Exchange),
    Dns,
    Banner,
    /// STUN, which finds a way for something else: DTLS may follow on it (RFC 8842).
    Stun,
    /// All that will be known.
    Done,
}

impl Inspection {
    /// The inspection of a flow that begins: IP protocol and ports of its first packet.
    pub fn new(transport: u8, source_port: u16, destination_port: u16) -> Self {
        Self {
            transport,
            source_port,
            destination_port,
            packets: [0; 2],
            state: State::Unknown,
            application: Application::default(),
        }
    }

    /// Puts the inspection of the first messages of a protocol into place of what was known, and room for what they
    /// tell.
    fn begin(&mut self, protocol: Protocol) {
        self.application.protocol = Some(protocol);
        (self.state, self.application.details) = match protocol {
            Protocol::Tls | Protocol::Dtls => {
                let handshake = tls::Handshake::new(protocol == Protocol::Dtls);
                (State::Tls(handshake), Details::Tls(Box::default()))
            }
            Protocol::Quic => (State::Quic(Box::default()), Details::Tls(Box::default())),
            Protocol::Http | Protocol::Rtsp | Protocol::Sip | Protocol::Ssdp => {
                (State::Request(request::Exchange::default()), Details::Request(Box::default()))
            }
            Protocol::Dns | Protocol::Mdns | Protocol::Llmnr | Protocol::NetbiosNs => {
                (State::Dns, Details::Dns(Box::default()))
            }
            Protocol::Ssh | Protocol::Smtp | Protocol::Ftp | Protocol::Pop3 | Protocol::Imap => {
                (State::Banner, Details::None)
            }
            Protocol::Stun => (State::Stun, Details::None),
            _ => (State::Done, Details::None),
        };
    }
}

/// What the inspection of a message has of the inspector.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    limits: Limits,
    buffers_held: &'a mut usize,
    pub(super) counts: &'a mut Counts,
}

impl Shared<'_> {
    /// Whether there is a buffer left; it is taken then.
    pub(super) fn take_buffer(&mut self) -> bool {
        let free = *self.buffers_held < self.limits.buffers_max;
        if free {
            *self.buffers_held += 1;
        } else {
            self.counts.buffers_refused += 1;
        }
        free
    }

    /// Gives a buffer back.
    pub(super) fn give_buffer(&mut self) {
        *self.buffers_held = self.buffers_held.saturating_sub(1);
    }
}

impl Inspector {
    /// An inspector with these limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Buffers that inspections hold now.
    pub fn buffers_held(&self) -> usize {
        self.buffers_held
    }

    /// Looks at the payload of the next packet: what follows the header of TCP or UDP, without the padding of the
    /// link layer. Packets without payload may be given or not. Of TCP the sequence number is that of the first octet of
    /// the payload; without it the payload is taken to follow all that came in its direction.
    pub fn inspect(
        &mut self,
        inspection: &mut Inspection,
        direction: Direction,
        sequence: Option<u32>,
        payload: &[u8],
    ) -> Verdict {
        let seen = &mut inspection.packets[direction as usize];
        let looks = !matches!(inspection.state, State::Done) && *seen < PACKETS_MAX;
        if !payload.is_empty() {
            *seen = seen.saturating_add(1);
            if looks {
                self.counts.packets += 1;
                self.look(inspection, direction, sequence, payload);
                if inspection.packets[direction as usize] >= PACKETS_MAX {
                    self.end_direction(inspection, direction);
                }
            }
        }
        let seen: u16 = inspection.packets.iter().map(|seen| u16::from(*seen)).sum();
        if matches!(inspection.state, State::Done) || seen >= 2 * u16::from(PACKETS_MAX) {
            Verdict::Done
        } else {
            Verdict::More
        }
    }

    fn look(&mut self, inspection: &mut Inspection, direction: Direction, sequence: Option<u32>, payload: &[u8]) {
        let udp = inspection.transport == signatures::UDP;
        if matches!(inspection.state, State::Unknown | State::Stun) {
            let (from, to) = match direction {
                Direction::Forward => (inspection.source_port, inspection.destination_port),
                Direction::Reverse => (inspection.destination_port, inspection.source_port),
            };
            let Some(protocol) = signatures::recognize(&Look { payload, udp, from, to }) else { return };
            let begins = matches!(inspection.state, State::Unknown) || protocol == Protocol::Dtls;
            if begins {
                inspection.begin(protocol);
            }
        }
        let Inspection { state, application, .. } = inspection;
        let mut shared = Shared { limits: self.limits, buffers_held: &mut self.buffers_held, counts: &mut self.counts };
        let Some(protocol) = application.protocol else { return };
        let verdict = match (state, &mut application.details) {
            (State::Tls(handshake), Details::Tls(details)) => {
                handshake.inspect(direction, &Segment { sequence, payload }, details, &mut shared)
            }
            (State::Quic(connection), Details::Tls(details)) => {
                connection.inspect(direction, payload, details, &mut shared)
            }
            (State::Request(exchange), Details::Request(details)) => {
                exchange.inspect(protocol, direction, payload, details)
            }
            (State::Dns, Details::Dns(details)) => {
                let verdict = dns::inspect(protocol, !udp, payload, details);
                shared.counts.malformed += u64::from(verdict.is_none());
                verdict.unwrap_or(Verdict::More)
            }
            (State::Banner, details) => banner(protocol, direction, payload, details),
            _ => return,
        };
        if verdict == Verdict::Done {
            inspection.state = State::Done;
        }
    }

    /// Reports what came of a handshake of which no more is looked at: others need its buffer, and the flow may last
    /// for hours.
    fn end_direction(&mut self, inspection: &mut Inspection, direction: Direction) {
        let Inspection { state, application, .. } = inspection;
        let mut shared = Shared { limits: self.limits, buffers_held: &mut self.buffers_held, counts: &mut self.counts };
        match (state, &mut application.details) {
            (State::Tls(handshake), Details::Tls(details)) => handshake.end_direction(direction, details, &mut shared),
            (State::Quic(connection), Details::Tls(details)) => {
                connection.end_direction(direction, details, &mut shared);
            }
            _ => {}
        }
    }

    /// What became known of a flow that ends, or of which no more is asked.
    pub fn conclude(&mut self, inspection: Inspection) -> Application {
        let Inspection { transport, source_port, destination_port, state, mut application, .. } = inspection;
        let mut shared = Shared { limits: self.limits, buffers_held: &mut self.buffers_held, counts: &mut self.counts };
        match (state, &mut application.details) {
            (State::Tls(handshake), Details::Tls(details)) => handshake.conclude(details, &mut shared),
            (State::Quic(connection), Details::Tls(details)) => connection.conclude(details, &mut shared),
            _ => {}
        }
        self.counts.flows += 1;
        if application.protocol.is_some() {
            self.counts.recognized += 1;
            return application;
        }
        let application = Application::of_ports(transport, source_port, destination_port);
        self.counts.guessed += u64::from(application.guessed());
        application
    }
}

/// Keeps the line that a server greets with. Both ends of SSH begin with one, and the server's is the one kept.
fn banner(protocol: Protocol, direction: Direction, payload: &[u8], details: &mut Details) -> Verdict {
    let line = text::line(payload).map_or(payload, |(line, _)| line);
    let server = direction == Direction::Reverse;
    if (server || protocol == Protocol::Ssh)
        && let Some(line) = text::clean(line)
    {
        *details = Details::Banner(line);
    }
    if server { Verdict::Done } else { Verdict::More }
}
