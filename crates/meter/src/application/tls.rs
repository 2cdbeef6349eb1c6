//! Handshakes of TLS over TCP and of DTLS: the `ClientHello`, and what the server chose.

use std::borrow::Cow;

use super::Direction;
use super::assembly::{ASSEMBLY_OCTETS_MAX, Assembly, Placed};
use super::client_hello::{CLIENT_HELLO, ClientHello, SERVER_HELLO, server_hello};
use super::details::TlsDetails;
use super::inspection::{Shared, Verdict};
use super::ja::{Carrier, ja3, ja4};
use weir_wire::Cursor;

/// Content type of records that hold handshake messages (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;

/// A handshake as far as it was seen.
#[derive(Debug)]
pub(super) struct Handshake {
    datagrams: bool,
    client: Client,
    /// Of TCP: what the client sent before this sequence number was read. It may come again.
    read_until: Option<(Direction, u32)>,
    server_told: bool,
}

/// What a packet carries.
pub(super) struct Segment<'a> {
    /// Sequence number of the first octet in TCP.
    pub(super) sequence: Option<u32>,
    pub(super) payload: &'a [u8],
}

/// What is known of the `ClientHello`.
#[derive(Debug)]
enum Client {
    /// Nothing yet.
    Awaited,
    /// It goes on in a further packet: the octets so far, from this sequence number of TCP on, or the message of DTLS.
    Begun { direction: Direction, from: Option<u32>, assembly: Assembly },
    /// All that will be known.
    Told,
}

/// A handshake message.
struct Message<'a> {
    kind: u8,
    /// Octets that it should have.
    length: usize,
    body: Cow<'a, [u8]>,
}

/// A fragment of a handshake message of DTLS (RFC 6347 section 4.2.2).
struct Fragment<'a> {
    kind: u8,
    length: usize,
    offset: usize,
    octets: &'a [u8],
}

impl Handshake {
    pub(super) fn new(datagrams: bool) -> Self {
        Self { datagrams, client: Client::Awaited, read_until: None, server_told: false }
    }

    fn carrier(&self) -> Carrier {
        if self.datagrams { Carrier::Dtls } else { Carrier::Tcp }
    }

    /// Takes in the payload of a packet.
    pub(super) fn inspect(
        &mut self,
        direction: Direction,
        segment: &Segment<'_>,
        details: &mut TlsDetails,
        shared: &mut Shared<'_>,
    ) -> Verdict {
        if self.datagrams {
            for fragment in fragments(segment.payload) {
                self.take_fragment(direction, &fragment, details, shared);
            }
        } else {
            self.take_segment(direction, segment, details, shared);
        }
        if matches!(self.client, Client::Told) && self.server_told { Verdict::Done } else { Verdict::More }
    }

    fn take_segment(
        &mut self,
        direction: Direction,
        segment: &Segment<'_>,
        details: &mut TlsDetails,
        shared: &mut Shared<'_>,
    ) {
        let &Segment { sequence, payload } = segment;
        let is_read = |(client, until): (Direction, u32)| {
            client == direction && sequence.is_some_and(|sequence| is_before(sequence, until))
        };
        if self.read_until.is_some_and(is_read) {
            return;
        }
        if let Client::Begun { direction: client, from, assembly } = &mut self.client
            && *client == direction
        {
            let placed = place(assembly, *from, segment);
            let message = message(assembly.start());
            if placed == Placed::Cut || message.as_ref().is_some_and(Message::is_whole) {
                shared.counts.handshakes_cut += u64::from(placed == Placed::Cut);
                self.settle(details, shared);
            }
            return;
        }
        match message(payload) {
            Some(message) if message.kind == CLIENT_HELLO => {
                if !matches!(self.client, Client::Awaited) {
                    return;
                }
                if !message.is_whole() && shared.take_buffer() {
                    let mut assembly = Assembly::with_capacity(payload.len() + message.missing());
                    assembly.append(payload);
                    self.client = Client::Begun { direction, from: sequence, assembly };
                } else {
                    self.note_read(direction, sequence, payload.len());
                    self.report(&message.body, message.length, details, shared);
                }
            }
            Some(message) if message.kind == SERVER_HELLO => {
                self.server_told = true;
                shared.counts.malformed += u64::from(server_hello(&message.body, details).is_none());
            }
            // The length of the hello is still to come.
            None if matches!(self.client, Client::Awaited) && begins_hello(payload) => {
                if shared.take_buffer() {
                    let mut assembly = Assembly::with_capacity(ASSEMBLY_OCTETS_MAX);
                    assembly.append(payload);
                    self.client = Client::Begun { direction, from: sequence, assembly };
                }
            }
            // Whatever else comes, the hello of this side is over.
            _ => self.server_told |= !matches!(self.client, Client::Awaited),
        }
    }

    fn take_fragment(
        &mut self,
        direction: Direction,
        fragment: &Fragment<'_>,
        details: &mut TlsDetails,
        shared: &mut Shared<'_>,
    ) {
        match (fragment.kind, &mut self.client) {
            (CLIENT_HELLO, Client::Awaited) if fragment.octets.len() == fragment.length => {
                self.report(fragment.octets, fragment.length, details, shared);
            }
            (CLIENT_HELLO, Client::Awaited) => {
                if !shared.take_buffer() {
                    if fragment.offset == 0 {
                        self.report(fragment.octets, fragment.length, details, shared);
                    }
                    return;
                }
                let mut assembly = Assembly::with_capacity(fragment.length);
                assembly.insert(fragment.offset as u64, fragment.octets);
                self.client = Client::Begun { direction, from: None, assembly };
            }
            (CLIENT_HELLO, Client::Begun { direction: client, assembly, .. }) if *client == direction => {
                let placed = assembly.insert(fragment.offset as u64, fragment.octets);
                if placed == Placed::Cut || assembly.start().len() >= fragment.length {
                    shared.counts.handshakes_cut += u64::from(placed == Placed::Cut);
                    self.settle(details, shared);
                }
            }
            (SERVER_HELLO, _) if fragment.offset == 0 => {
                self.server_told = true;
                shared.counts.malformed += u64::from(server_hello(fragment.octets, details).is_none());
            }
            _ => {}
        }
    }

    /// Tells what the octets put together say, and gives their buffer back.
    fn settle(&mut self, details: &mut TlsDetails, shared: &mut Shared<'_>) {
        let Client::Begun { direction, from, assembly } = std::mem::replace(&mut self.client, Client::Told) else {
            return;
        };
        shared.give_buffer();
        self.note_read(direction, from, assembly.start().len());
        if self.datagrams {
            let octets = assembly.start();
            self.report(octets, octets.len(), details, shared);
        } else if let Some(message) = message(assembly.start()) {
            self.report(&message.body, message.length, details, shared);
        }
    }

    /// So many octets from this sequence number on are read, and need not be looked at when they come again.
    fn note_read(&mut self, client: Direction, from: Option<u32>, octets: usize) {
        self.read_until = from.map(|from| (client, from.wrapping_add(octets as u32)));
    }

    fn report(&mut self, body: &[u8], length: usize, details: &mut TlsDetails, shared: &mut Shared<'_>) {
        self.client = Client::Told;
        report(body, length, self.carrier(), details, shared);
    }

    /// Reports what there is of a `ClientHello` from this direction, of which no more packets are looked at.
    pub(super) fn end_direction(&mut self, direction: Direction, details: &mut TlsDetails, shared: &mut Shared<'_>) {
        if matches!(self.client, Client::Begun { direction: client, .. } if client == direction) {
            self.settle(details, shared);
        }
    }

    /// Tells what there is of a `ClientHello` whose rest never came.
    pub(super) fn conclude(mut self, details: &mut TlsDetails, shared: &mut Shared<'_>) {
        self.settle(details, shared);
    }
}

/// Tells what a `ClientHello` says. There are fingerprints only of a whole one.
pub(super) fn report(body: &[u8], length: usize, carrier: Carrier, details: &mut TlsDetails, shared: &mut Shared<'_>) {
    let datagrams = carrier == Carrier::Dtls;
    let Some(hello) = ClientHello::parse(body, length, datagrams) else {
        shared.counts.malformed += 1;
        return;
    };
    hello.report(datagrams, details);
    if hello.whole {
        details.ja4 = Some(ja4(&hello, carrier));
        details.ja3 = ja3(&hello);
    }
}

impl Message<'_> {
    fn is_whole(&self) -> bool {
        self.missing() == 0
    }

    /// Octets that are missing, if it can ever be whole.
    fn missing(&self) -> usize {
        self.length.min(ASSEMBLY_OCTETS_MAX).saturating_sub(self.body.len())
    }
}

/// Whether one sequence number comes before another (RFC 9293 section 3.4).
const fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// Puts a segment where it belongs in a stream of which there is what follows sequence number `from`; without sequence
/// numbers behind all that is there.
fn place(assembly: &mut Assembly, from: Option<u32>, segment: &Segment<'_>) -> Placed {
    let Some((from, sequence)) = from.zip(segment.sequence) else { return assembly.append(segment.payload) };
    if is_before(sequence, from) {
        let before = from.wrapping_sub(sequence) as usize;
        return assembly.insert(0, segment.payload.get(before..).unwrap_or_default());
    }
    assembly.insert(sequence.wrapping_sub(from).into(), segment.payload)
}

/// The first handshake message of a stream of records (RFC 8446 section 5.1), or as much of it as is there.
fn message(octets: &[u8]) -> Option<Message<'_>> {
    let mut records = Cursor::new(octets);
    let mut body = Cow::Borrowed(record(&mut records)?);
    let (kind, length) = loop {
        let mut header = Cursor::new(&body);
        let read = header.u8().zip(header.u24());
        if let Some((kind, length)) = read
            && body.len() >= 4 + length as usize
        {
            break (kind, length as usize);
        }
        // It goes on in the next record, which is rare and costs a copy.
        match record(&mut records) {
            Some(more) => body.to_mut().extend_from_slice(more),
            None => break read.map(|(kind, length)| (kind, length as usize))?,
        }
    };
    let body = match body {
        Cow::Borrowed(octets) => Cow::Borrowed(octets.get(4..)?),
        Cow::Owned(mut octets) => {
            octets.drain(..4);
            Cow::Owned(octets)
        }
    };
    Some(Message { kind, length, body })
}

/// Whether a segment begins a `ClientHello` and ends before its length.
fn begins_hello(segment: &[u8]) -> bool {
    matches!(segment, [HANDSHAKE, _, _, _, _, CLIENT_HELLO, ..]) && segment.len() < 9
}

/// The octets of the next record, if it is of a handshake.
fn record<'a>(records: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let kind = records.u8()?;
    records.u16()?;
    let length = records.u16()?;
    let octets = records.take_up_to(length.into());
    (kind == HANDSHAKE && !octets.is_empty()).then_some(octets)
}

/// The fragments of handshake messages in a datagram (RFC 6347 sections 4.1 and 4.2.2). Records that are encrypted,
/// those of a later epoch, are left out.
fn fragments(datagram: &[u8]) -> impl Iterator<Item = Fragment<'_>> {
    let mut records = Cursor::new(datagram);
    std::iter::from_fn(move || {
        loop {
            let kind = records.u8()?;
            records.u16()?;
            let epoch = records.u16()?;
            records.take(6)?;
            let octets = records.list16()?;
            if kind == HANDSHAKE
                && epoch == 0
                && let Some(fragment) = fragment(octets)
            {
                return Some(fragment);
            }
        }
    })
}

/// The first fragment in a record; others follow only behind the hello.
fn fragment(record: &[u8]) -> Option<Fragment<'_>> {
    let mut cursor = Cursor::new(record);
    let kind = cursor.u8()?;
    let length = cursor.u24()? as usize;
    cursor.u16()?;
    let offset = cursor.u24()? as usize;
    let octets = cursor.u24()?;
    Some(Fragment { kind, length, offset, octets: cursor.take(octets as usize)? })
}
