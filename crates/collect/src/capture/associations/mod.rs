//! IPFIX over SCTP in a capture (RFC 7011 section 10.2): associations put together, and messages taken out of them.
//!
//! Each direction of an association is one of its own: packets with one source and one Verification Tag, which their receiver has
//! chosen at random. So a packet belongs to an association whatever else has its addresses and ports, and also where it goes to
//! another address of the receiver, or comes from one that the sender has named when it began. A user message is a message,
//! so nothing has to be looked for within it: to ports of exports all are read, and to others those of an association
//! that begins with a message whose sets fill it.
//!
//! Templates are those of the association (RFC 7011 section 8), whatever stream they come on: the decoder keeps data that
//! precedes them.

mod assembly;
mod begins;
mod fragments;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use weir_wire::ipfix;

pub(super) use self::assembly::is_message;
use self::assembly::{Assembly, CHUNKS_NEAR, EachMessage};
use self::begins::Begins;
use self::fragments::AssociationCounts;
use super::connections::{ConnectionEvent, Each, may_begin};
use super::export_port::ExportPort;
use super::sctp::{Chunk, DataChunk, Packet};
use super::stream_table::{Holder, State, StreamTable};
use crate::session::{Session, Transport};

/// What was found of associations of SCTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AssociationReport {
    /// Associations with messages.
    pub sessions: u64,
    /// Those that were given up: there were too many, or another one with the same address and port began elsewhere.
    pub sessions_given_up: u64,
    /// Associations with DTLS to a port of IPFIX, which cannot be read.
    pub sessions_encrypted: u64,
    /// Messages delivered.
    pub messages: u64,
    /// Chunks of user data of sessions that are not in the capture, as far as later ones show it.
    pub chunks_missing: u64,
    /// Octets of user data of sessions that belong to no message.
    pub octets_skipped: u64,
    /// Packets of sessions, and to a port of IPFIX, that were read up to a chunk that the capture cut short, or whose length
    /// cannot be.
    pub packets_damaged: u64,
}

/// Identifies one direction of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    source: SocketAddr,
    /// Port of the destination.
    port: u16,
    /// Verification Tag of the packets.
    tag: u32,
}

/// One direction of an association.
#[derive(Debug)]
struct Association {
    assembly: Assembly,
    destination: SocketAddr,
    /// Whether its first chunk is known.
    has_begin: bool,
    /// Verification Tag of the packets of the other direction, where the begin was captured.
    tag_back: Option<u32>,
    /// Further addresses of the source.
    addresses: Vec<IpAddr>,
    /// What was found before it is known to be one of exports.
    unreported: AssociationCounts,
}

impl Holder for Association {
    fn octets_held(&self) -> usize {
        self.assembly.octets_held()
    }
}

/// The associations of a capture.
#[derive(Debug, Default)]
pub(super) struct Associations {
    port: ExportPort,
    begins: Begins,
    associations: StreamTable<Key, Association>,
    /// The association that is read of each source.
    of_sources: HashMap<SocketAddr, Key, foldhash::fast::RandomState>,
    /// The association of packets that come from a further address of its source.
    of_addresses: HashMap<Key, Key, foldhash::fast::RandomState>,
    report: AssociationReport,
}

impl Associations {
    /// Reads the associations to this port.
    pub(super) fn new(port: ExportPort) -> Self {
        Self { port, ..Self::default() }
    }

    /// What was found so far.
    pub(super) fn report(&self) -> AssociationReport {
        self.report
    }

    /// Takes a packet.
    pub(super) fn take(&mut self, packet: &Packet<'_>, captured_ms: i64, each: &mut Each<'_>) {
        let key = self.key(packet);
        let is_read = self.port.is_read(key.port);
        for chunk in packet.chunks() {
            match chunk {
                Ok(Chunk::Data(data)) if is_read => self.data(key, packet.destination, &data, captured_ms, each),
                Ok(Chunk::Forward { tsn }) => {
                    self.work(key, each, |assembly, counts, each| assembly.forward(tsn, captured_ms, counts, each));
                }
                Ok(Chunk::Begin(begin)) if is_read => self.begins.add((packet.source, packet.destination), &begin),
                // nothing follows it in its packet
                Ok(Chunk::End { is_reflected }) => {
                    self.end_either(packet, is_reflected, captured_ms, each);
                    break;
                }
                Ok(_) => {}
                Err(_) => {
                    let is_session = self.associations.state(key) == Some(State::Session);
                    self.report.packets_damaged += u64::from(is_session || self.port.is_of_exports(key.port));
                }
            }
        }
        self.limit_octets();
    }

    /// Hands on what is left at the end of the capture. Sessions do not end with it.
    pub(super) fn finish(&mut self, each: &mut Each<'_>) {
        for key in self.associations.keys_read() {
            self.work(key, each, Assembly::finish);
        }
    }

    /// Which direction of which association a packet is of.
    fn key(&self, packet: &Packet<'_>) -> Key {
        let key = Key { source: packet.source, port: packet.destination.port(), tag: packet.tag };
        match self.of_addresses.get(&key) {
            Some(&known) if self.associations.state(key).is_none() => known,
            _ => key,
        }
    }

    fn data(&mut self, key: Key, destination: SocketAddr, data: &DataChunk<'_>, captured_ms: i64, each: &mut Each<'_>) {
        match self.associations.state(key) {
            Some(State::Undecided | State::Session) => {}
            // what has ended is sent again at times
            Some(State::Ignored | State::Ended) => return,
            None if !self.is_begin(key.port, data) => return,
            None => {
                self.leave_source(key.source, destination, captured_ms, each);
                self.open(key, destination, data.tsn);
            }
        }
        if self.is_encrypted(key, data) {
            self.report.sessions_encrypted += 1;
            return self.close(key, State::Ignored);
        }
        self.work(key, each, |assembly, counts, each| assembly.add(data, captured_ms, counts, each));
    }

    /// Whether exports may begin with this chunk, of an association that is not known.
    fn is_begin(&self, port: u16, data: &DataChunk<'_>) -> bool {
        let octets = data.payload;
        if octets.is_empty() || self.port.is_of_exports(port) {
            return !octets.is_empty();
        }
        let is_export = || {
            if data.header.ends {
                return is_message(octets);
            }
            octets.len() >= ipfix::HEADER_LEN + 4 && may_begin(octets)
        };
        data.header.begins && (self.port.is_of_tls(port) && looks_like_dtls(octets) || is_export())
    }

    /// Whether the first user message of an association begins with a record of DTLS.
    fn is_encrypted(&self, key: Key, data: &DataChunk<'_>) -> bool {
        let is_first =
            |(state, known): (State, &Association)| state == State::Undecided && known.assembly.is_untouched();
        data.header.begins
            && self.port.is_of_tls(key.port)
            && looks_like_dtls(data.payload)
            && self.associations.get(key).is_some_and(is_first)
    }

    /// Another association begins with this address and port. Where the one that is known goes to the same destination, it has
    /// ended. Else it is given up: the Templates of both would be mixed up.
    fn leave_source(&mut self, source: SocketAddr, destination: SocketAddr, captured_ms: i64, each: &mut Each<'_>) {
        let Some(&key) = self.of_sources.get(&source) else { return };
        let known = self.associations.get(key).map(|(state, known)| (state, known.destination));
        match known {
            Some((State::Session, elsewhere)) if elsewhere != destination => {
                self.report.sessions_given_up += 1;
                self.close(key, State::Ignored);
                each(ConnectionEvent::End { session: key.session(), captured_ms });
            }
            _ => self.end(key, captured_ms, each),
        }
    }

    fn open(&mut self, key: Key, destination: SocketAddr, tsn: u32) {
        let begin = self.begins.take((key.source, destination));
        // one that fits: the packets that it is of may have another tag
        let begin = begin.filter(|begin| tsn.wrapping_sub(begin.initial_tsn) <= CHUNKS_NEAR);
        let has_begin = begin.is_some();
        let (first, tag_back, addresses) = match begin {
            Some(begin) => (begin.initial_tsn, Some(begin.initiate_tag), begin.addresses),
            None => (tsn, None, Vec::new()),
        };
        for address in &addresses {
            self.of_addresses.insert(key.with_address(*address), key);
        }
        self.of_sources.insert(key.source, key);
        let assembly = Assembly::new(first, self.port.is_of_exports(key.port));
        let unreported = AssociationCounts::default();
        let association = Association { assembly, destination, has_begin, tag_back, addresses, unreported };
        if let Some(oldest) = self.associations.insert(key, association) {
            self.remove(oldest);
        }
    }

    /// RFC 9260 section 8.5.1: either side ends both directions, with the tag that its peer has chosen, or with the one
    /// that it has chosen itself, where it does not know the association.
    fn end_either(&mut self, packet: &Packet<'_>, is_reflected: bool, captured_ms: i64, each: &mut Each<'_>) {
        let there = (packet.source, packet.destination.port(), is_reflected);
        let back = (packet.destination, packet.source.port(), !is_reflected);
        for (source, port, has_tag_back) in [there, back] {
            let Some(&key) = self.of_sources.get(&source) else { continue };
            let tag_back = self.associations.get(key).and_then(|(_, known)| known.tag_back);
            let tag = if has_tag_back { tag_back } else { Some(key.tag) };
            if key.port == port && tag == Some(packet.tag) {
                self.end(key, captured_ms, each);
            }
        }
    }

    /// Has an association that is read do something, and hands on the messages that come of it.
    fn work(
        &mut self,
        key: Key,
        each: &mut Each<'_>,
        work: impl FnOnce(&mut Assembly, &mut AssociationCounts, &mut EachMessage<'_>),
    ) {
        let Some(state) = self.associations.state(key).filter(|state| state.is_read()) else { return };
        let (session, was_session) = (key.session(), state == State::Session);
        let (mut is_session, mut counts) = (was_session, AssociationCounts::default());
        let is_given = self.port.is_given();
        self.associations.work(key, |known| {
            let has_begin = known.has_begin;
            work(&mut known.assembly, &mut counts, &mut |captured_ms: i64, octets: &[u8]| {
                if !is_session && has_begin {
                    // of one that had this address and port before, in another capture as well
                    each(ConnectionEvent::End { session, captured_ms });
                }
                is_session = true;
                each(ConnectionEvent::Message { session, captured_ms, octets });
            });
            known.unreported.add(&counts);
            if is_session || is_given {
                // with what came before the first message
                self.report.add(&std::mem::take(&mut known.unreported));
            }
        });
        if is_session && !was_session {
            self.report.sessions += 1;
            self.set_state(key, State::Session);
        }
        if !is_session && counts.octets_skipped > 0 && !self.port.is_of_exports(key.port) {
            self.remove(key);
        }
    }

    fn set_state(&mut self, key: Key, state: State) {
        let Some(oldest) = self.associations.set_state(key, state) else { return };
        if state == State::Session {
            self.report.sessions_given_up += 1;
            self.drop_octets(oldest);
        }
        self.remove(oldest);
    }

    /// Ends an association, and the session that it is.
    fn end(&mut self, key: Key, captured_ms: i64, each: &mut Each<'_>) {
        self.work(key, each, Assembly::finish);
        match self.associations.state(key) {
            Some(State::Session) => {
                self.close(key, State::Ended);
                each(ConnectionEvent::End { session: key.session(), captured_ms });
            }
            Some(State::Undecided) => self.remove(key),
            Some(State::Ignored | State::Ended) | None => {}
        }
    }

    /// Reads no more of an association, but still knows it.
    fn close(&mut self, key: Key, state: State) {
        self.drop_octets(key);
        self.set_state(key, state);
        self.release_source(key);
    }

    fn remove(&mut self, key: Key) {
        let Some((_, known)) = self.associations.remove(key) else { return };
        self.release_source(key);
        for address in known.addresses {
            let further = key.with_address(address);
            if self.of_addresses.get(&further) == Some(&key) {
                self.of_addresses.remove(&further);
            }
        }
    }

    fn release_source(&mut self, key: Key) {
        if self.of_sources.get(&key.source) == Some(&key) {
            self.of_sources.remove(&key.source);
        }
    }

    /// Drops octets of the oldest associations while too many are held.
    fn limit_octets(&mut self) {
        while let Some(oldest) = self.associations.next_to_lose() {
            if self.associations.state(oldest) == Some(State::Undecided) {
                self.remove(oldest);
            } else {
                self.drop_octets(oldest);
            }
        }
    }

    fn drop_octets(&mut self, key: Key) {
        let mut counts = AssociationCounts::default();
        self.associations.work(key, |known| known.assembly.clear(&mut counts));
        self.report.add(&counts);
    }
}

impl Key {
    fn session(self) -> Session {
        Session { transport: Transport::Sctp, source: self.source }
    }

    /// Of packets that come from another address.
    fn with_address(self, address: IpAddr) -> Self {
        Self { source: SocketAddr::new(address, self.source.port()), ..self }
    }
}

impl AssociationReport {
    fn add(&mut self, counts: &AssociationCounts) {
        self.messages += counts.messages;
        self.chunks_missing += counts.chunks_missing;
        self.octets_skipped += counts.octets_skipped;
    }
}

/// Whether a record of DTLS begins here: type and version (RFC 6347 section 4.1).
fn looks_like_dtls(octets: &[u8]) -> bool {
    matches!(octets, [20..=23, 254, 253 | 255, ..])
}
