//! The thread that decodes what sessions have sent.

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::{Read, messages};
use crate::deliver::Outgoing;
use crate::relay::Relay;
use crate::{Decoder, socket};

/// Decodes until all sessions and listeners have ended.
pub(crate) fn decode(reads: &Receiver<Read>, mut outgoing: Outgoing, relay: Option<&Relay>) {
    // what is known of sessions ends with them, so nothing of it is stored
    let mut decoder = outgoing.decoder(|_| false);
    loop {
        match reads.recv_deadline(outgoing.due(&decoder)) {
            Ok(read) => take(read, &mut decoder, &outgoing, relay),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        outgoing.deliver_when_due(&mut decoder);
    }
    outgoing.finish(&mut decoder);
}

fn take(read: Read, decoder: &mut Decoder, outgoing: &Outgoing, relay: Option<&Relay>) {
    let mut message = |session, received_ms, octets: &[u8]| {
        decoder.message(session, received_ms, octets);
        if decoder.is_full() {
            outgoing.deliver(decoder);
        }
    };
    match read {
        Read::Messages { session, received_ms, octets } => {
            messages(&octets).for_each(|octets| message(session, received_ms, octets));
            if let Some(relay) = relay {
                relay.messages(messages(&octets).map(|octets| (session.source, octets)));
            }
        }
        Read::Datagram { session, received_ms, octets } => {
            message(session, received_ms, &octets);
            if let Some(relay) = relay {
                relay.messages(std::iter::once((session.source, octets.as_slice())));
            }
        }
        Read::End(session) => decoder.end_session(session, socket::now_ms()),
    }
}
