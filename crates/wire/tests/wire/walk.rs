//! Decodes a datagram to the last octet and checks what must hold for any input. The fuzz targets include this
//! file too, so it uses nothing but the crate and the standard library.

use std::collections::HashMap;

use weir_wire::fixed::FixedFormat;
use weir_wire::structured::{self, ListContext};
use weir_wire::{
    ElementId, FieldPositions, ListKind, ObservationDomainId, Set, Sets, Spans, Template, TemplateId, TemplateRecord,
    TemplateRecords, WireError, ipfix, netflow1, netflow5, netflow7, netflow9,
};

/// Templates learnt, and what was seen; a collector without memory limits.
#[derive(Default)]
pub(crate) struct Walk {
    pub(crate) templates: HashMap<(u16, ObservationDomainId, TemplateId), Template>,
    pub(crate) spans: Spans,
    /// Kinds of sets in order, for comparing: what, its ID, its number of records.
    pub(crate) sets: Vec<(&'static str, u16, usize)>,
    pub(crate) data_records: usize,
    pub(crate) data_sets_without_template: usize,
    pub(crate) problems: Vec<WireError>,
    /// What lists hold, and how many could not be read to their end.
    pub(crate) list_entries: usize,
    pub(crate) lists_undecodable: u32,
    /// Grows with every octet read, so that reading cannot be optimised away.
    pub(crate) checksum: u64,
}

/// What a walk knows of one Observation Domain.
struct Known<'w> {
    templates: &'w HashMap<(u16, ObservationDomainId, TemplateId), Template>,
    domain: ObservationDomainId,
}

impl ListContext for Known<'_> {
    fn template(&self, id: TemplateId) -> Option<&Template> {
        self.templates.get(&(10, self.domain, id))
    }

    fn list_kind(&self, element: ElementId) -> Option<ListKind> {
        match element {
            ElementId { enterprise: 0, id: 291 } => Some(ListKind::Basic),
            ElementId { enterprise: 0, id: 292 } => Some(ListKind::SubTemplate),
            ElementId { enterprise: 0, id: 293 } => Some(ListKind::SubTemplateMulti),
            _ => None,
        }
    }
}

impl Walk {
    /// Decodes a datagram of whichever version its first two octets name.
    pub(crate) fn datagram(&mut self, datagram: &[u8]) {
        match datagram {
            [0, 1, ..] => self.fixed(&netflow1::FORMAT, datagram),
            [0, 5, ..] => self.fixed(&netflow5::FORMAT, datagram),
            [0, 7, ..] => self.fixed(&netflow7::FORMAT, datagram),
            [0, 9, ..] => self.netflow9(datagram),
            _ => self.ipfix(datagram),
        }
    }

    /// Reads a datagram of a version with records of one fixed form, and writes each record again from what was read.
    pub(crate) fn fixed(&mut self, format: &'static FixedFormat, datagram: &[u8]) {
        match format.decode(datagram) {
            Ok(packet) => {
                assert_eq!(packet.records.len() % format.record_len, 0);
                assert!(packet.len() <= usize::from(packet.header.count));
                assert!(packet.records.len() + format.header_len() <= datagram.len());
                assert_eq!(packet.iter().len(), packet.len());
                let values = |record: &[u8]| -> Vec<_> {
                    format.fields.iter().map(|field| (*field, field.number(record))).collect()
                };
                for record in packet.iter() {
                    let again = format.record(&values(record));
                    assert_eq!(values(&again), values(record));
                    self.read(&again);
                }
                self.data_records += packet.len();
                self.problems.extend(packet.problem);
            }
            Err(error) => self.problems.push(error),
        }
    }

    pub(crate) fn netflow9(&mut self, datagram: &[u8]) {
        match netflow9::decode(datagram) {
            Ok(message) => self.sets(9, message.header.source_id, message.sets),
            Err(error) => self.problems.push(error),
        }
    }

    pub(crate) fn ipfix(&mut self, message: &[u8]) {
        match ipfix::decode(message) {
            Ok(decoded) => {
                self.problems.extend(decoded.problem);
                self.sets(10, decoded.header.domain, decoded.sets);
            }
            Err(error) => self.problems.push(error),
        }
    }

    fn sets(&mut self, version: u16, domain: ObservationDomainId, mut sets: Sets<'_>) {
        loop {
            let before = sets.rest().len();
            match sets.next() {
                None => break,
                Some(Ok(set)) => {
                    assert!(sets.rest().len() + 4 <= before, "a set takes its header at least");
                    self.set(version, domain, set);
                }
                Some(Err(error)) => {
                    assert!(sets.rest().is_empty(), "framing is lost after {error}");
                    self.problem(error);
                }
            }
        }
        assert!(sets.next().is_none(), "the end stays the end");
    }

    fn set(&mut self, version: u16, domain: ObservationDomainId, set: Set<'_>) {
        match set {
            Set::Templates(records) => self.template_records("templates", version, domain, records),
            Set::OptionsTemplates(records) => self.template_records("options templates", version, domain, records),
            Set::Data { template, body } => self.data(version, domain, template, body),
            Set::Reserved { id, body } => {
                assert!(id < 256);
                self.read(body);
                self.sets.push(("reserved", id, 0));
            }
        }
    }

    fn template_records(
        &mut self,
        what: &'static str,
        version: u16,
        domain: ObservationDomainId,
        records: TemplateRecords<'_>,
    ) {
        let options = what == "options templates";
        let mut defined = 0;
        for record in records {
            match record {
                Ok(TemplateRecord::Define(template)) => {
                    assert_eq!(template.is_options(), options);
                    assert!(template.scope_count() <= template.fields().len());
                    assert!(template.layout().min_record_len() > 0);
                    defined += 1;
                    self.templates.insert((version, domain, template.id()), template);
                }
                Ok(TemplateRecord::Withdraw(id)) => {
                    assert_eq!(version, 10, "only IPFIX withdraws");
                    self.templates.remove(&(version, domain, id));
                }
                Ok(TemplateRecord::WithdrawAll) => {
                    assert_eq!(version, 10, "only IPFIX withdraws");
                    self.templates
                        .retain(|&(v, d, _), known| v != version || d != domain || known.is_options() != options);
                }
                Err(error) => self.problem(error),
            }
        }
        self.sets.push((what, 0, defined));
    }

    fn data(&mut self, version: u16, domain: ObservationDomainId, id: TemplateId, body: &[u8]) {
        // Taken out for the time of reading, so that everything else can be borrowed.
        let Some(template) = self.templates.remove(&(version, domain, id)) else {
            self.data_sets_without_template += 1;
            self.sets.push(("data", id.get(), 0));
            return;
        };
        let mut spans = std::mem::take(&mut self.spans);
        let layout = template.layout();
        let located = layout.locate(body, &mut spans);
        assert!(located.records * layout.min_record_len() + located.unread <= body.len());
        assert!(located.problem.is_some() || located.unread < layout.min_record_len());
        let ends = (0..located.records).map(|record| located.range(record).expect("a record").end);
        let starts = (0..=located.records).map(|record| located.range(record).map(|range| range.start));
        let expected = std::iter::once(Some(0)).chain(ends.clone().map(Some)).take(located.records).chain([None]);
        assert!(starts.eq(expected), "records follow one another");
        assert_eq!(ends.clone().next_back().unwrap_or(0) + located.unread, body.len());
        let mut octets_in_fields = 0;
        for field in 0..template.fields().len() {
            let positions = located.field(field);
            if let FieldPositions::Variable(variable) = positions {
                assert_eq!(variable.iter().len(), located.records);
                assert!(variable.iter().enumerate().all(|(record, at)| variable.get(record) == at));
            }
            // A field of no octets says nothing, and there may be very many of them.
            let looked_at = if template.fields()[field].length == 0 { located.records.min(1) } else { located.records };
            for record in 0..looked_at {
                let octets = positions.octets(body, record).expect("a located field lies within the body");
                octets_in_fields += octets.len();
                self.read(octets);
            }
        }
        assert!(octets_in_fields + located.unread <= body.len(), "fields do not overlap");
        assert_eq!(located.field(template.fields().len()).get(0), (0, 0));
        let known = Known { templates: &self.templates, domain };
        let kinds: Vec<_> = template.fields().iter().map(|field| known.list_kind(field.element)).collect();
        for (field, kind) in kinds.into_iter().enumerate().filter(|_| version == 10) {
            for record in 0..located.records {
                let octets = located.field(field).octets(body, record).expect("a located field lies within the body");
                if let Some(kind) = kind {
                    self.list(kind, octets, domain);
                }
            }
        }
        self.data_records += located.records;
        self.sets.push(("data", id.get(), located.records));
        if let Some(error) = located.problem {
            self.problem(error);
        }
        self.spans = spans;
        self.templates.insert((version, domain, id), template);
    }

    /// Walks a list with the templates of an Observation Domain. Everything found lies within the list that holds it.
    pub(crate) fn list(&mut self, kind: ListKind, octets: &[u8], domain: ObservationDomainId) {
        let mut entries = Vec::new();
        let known = Known { templates: &self.templates, domain };
        let undecodable = structured::walk(ElementId::iana(0), kind, octets, &known, &mut entries);
        assert!(entries.len() <= structured::LIST_ENTRIES_MAX);
        assert_eq!((entries[0].octets, entries[0].parent), (octets, None));
        let mut depths = vec![1; entries.len()];
        for (position, entry) in entries.iter().enumerate().skip(1) {
            let at = usize::from(entry.parent.expect("one list at the top"));
            assert!(at < position, "what is in a list follows it");
            let (parent, inner) = (entries[at].octets.as_ptr_range(), entry.octets.as_ptr_range());
            assert!(parent.start <= inner.start && inner.end <= parent.end, "and lies within it");
            assert!(entries[at].list.is_some());
            depths[position] = depths[at] + 1;
            assert!(depths[position] <= structured::LIST_DEPTH_MAX + 1);
        }
        self.lists_undecodable += undecodable;
        self.list_entries += entries.len() - 1;
        for entry in &entries {
            self.read(entry.octets);
        }
    }

    fn problem(&mut self, error: WireError) {
        assert!(WireError::LABELS.contains(&error.label()));
        self.checksum = self.checksum.wrapping_add(error.to_string().len() as u64);
        self.problems.push(error);
    }

    fn read(&mut self, octets: &[u8]) {
        let sum = octets.iter().map(|&octet| u64::from(octet)).sum::<u64>();
        self.checksum = self.checksum.wrapping_mul(31).wrapping_add(sum);
    }
}
