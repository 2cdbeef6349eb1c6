//! Spoiled input: datagrams cut at every octet, words of them overwritten, captures cut short. Nothing panics, and
//! the books balance.

use std::path::Path;

use weir_collect::{Decoder, Limits};
use weir_flow::Counter;

use crate::books;
use crate::inputs::{Datagram, RECEIVED_MS};
use crate::outcome::Case;
use crate::rows;

/// Datagrams of each input that are spoiled: the longest of those that bring templates and of those that do not.
const DATAGRAMS_SPOILED: usize = 2;
/// Words of a datagram that are overwritten; of longer ones not every word is.
const WORDS_MAX: usize = 100;
/// What words are overwritten with: lengths of nothing, of less than a header, and of more than there is.
const WORDS: [u16; 4] = [0, 3, 0x0101, 0xffff];

/// Spoils datagrams of an input: cuts them at every octet and overwrites words of them. Yields how many were fed and what does not balance.
pub(crate) fn spoil(case: &Case) -> (usize, Vec<String>) {
    let (with_templates, without): (Vec<_>, Vec<_>) =
        case.input.datagrams.iter().zip(&case.messages).partition(|(_, message)| message.templates().next().is_some());
    let longest = |datagrams: Vec<(&'_ Datagram, _)>| {
        datagrams.into_iter().map(|(datagram, _)| datagram.clone()).max_by_key(|datagram| datagram.payload.len())
    };
    let chosen: Vec<_> = [longest(with_templates), longest(without)].into_iter().flatten().collect();
    assert!(chosen.len() <= DATAGRAMS_SPOILED);
    let mut feeder = Feeder::new();
    case.input.datagrams.iter().for_each(|datagram| feeder.feed(datagram, &datagram.payload));
    for datagram in &chosen {
        for end in 0..datagram.payload.len() {
            feeder.feed(datagram, &datagram.payload[..end]);
        }
        let step = 2 * (datagram.payload.len() / 2 / WORDS_MAX + 1);
        for place in (0..datagram.payload.len().saturating_sub(1)).step_by(step) {
            for word in WORDS {
                let mut payload = datagram.payload.clone();
                payload[place..place + 2].copy_from_slice(&word.to_be_bytes());
                feeder.feed(datagram, &payload);
            }
        }
    }
    feeder.finish()
}

struct Feeder {
    decoder: Decoder,
    fed: usize,
    flows: usize,
    books: [u64; Counter::COUNT],
}

impl Feeder {
    fn new() -> Self {
        // Little room, so that it is filled.
        let limits = Limits { waiting_octets_max: 64 << 10, templates_per_domain_max: 64, ..Limits::default() };
        Self { decoder: Decoder::new(limits), fed: 0, flows: 0, books: [0; Counter::COUNT] }
    }

    fn feed(&mut self, datagram: &Datagram, payload: &[u8]) {
        self.decoder.datagram(datagram.source, RECEIVED_MS + self.fed as i64, payload);
        self.fed += 1;
        if self.fed.is_multiple_of(256) {
            self.take();
        }
    }

    fn take(&mut self) {
        let delivery = self.decoder.take_delivery();
        rows::add_books(&delivery, &mut self.books);
        self.flows += delivery.rows();
    }

    fn finish(mut self) -> (usize, Vec<String>) {
        self.take();
        let statistics = self.decoder.statistics();
        let mut complaints: Vec<_> = books::balance(&statistics).into_iter().collect();
        if self.books != statistics.totals {
            complaints.push("the lines of the books do not add up to the totals".to_owned());
        }
        if statistics.total(Counter::RecordsStored) != self.flows as u64 {
            complaints.push(format!("{} flows came out", self.flows));
        }
        if statistics.total(Counter::Datagrams) + statistics.total(Counter::DatagramsRefused) != self.fed as u64 {
            complaints.push(format!("{} datagrams went in", self.fed));
        }
        (self.fed, complaints)
    }
}

/// Cuts a capture at many places: what is read must be the beginning of what the whole one holds. Yields how many
/// cuts were read.
pub(crate) fn cut_capture(path: &Path, whole: &[Datagram]) -> usize {
    let octets = std::fs::read(path).expect("a capture");
    let step = octets.len() / 100 + 1;
    let ends = (0..octets.len()).step_by(step).chain(octets.len().saturating_sub(40)..octets.len());
    let mut cuts = 0;
    for end in ends {
        let mut read = 0;
        let (report, _) = weir_collect::capture::read(&octets[..end], |captured| {
            assert_eq!(captured.payload, whole[read].payload, "{} cut at {end}", path.display());
            read += 1;
        });
        assert_eq!(report.datagrams, read as u64);
        cuts += 1;
    }
    cuts
}
