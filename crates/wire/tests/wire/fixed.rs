//! The versions of NetFlow with records of one fixed form, all by the same code.

use weir_wire::fixed::{FORMATS, FixedFormat, Header, HeaderField, PacketBuilder, format_of};
use weir_wire::{WireError, netflow1, netflow5, netflow7};

const HEADER: Header = Header {
    count: 0,
    sys_uptime_ms: 0x0102_0304,
    unix_secs: 0x0506_0708,
    unix_nsecs: 0x090a_0b0c,
    flow_sequence: 0x0d0e_0f10,
    engine_type: 0x11,
    engine_id: 0x12,
    sampling: 0x4064,
};

/// What a header can hold in a version.
fn kept(format: &FixedFormat, header: Header) -> Header {
    let Header { count, sys_uptime_ms, unix_secs, unix_nsecs, .. } = header;
    let mut kept = Header { count, sys_uptime_ms, unix_secs, unix_nsecs, ..Header::default() };
    if format.has(HeaderField::FlowSequence) {
        kept.flow_sequence = header.flow_sequence;
    }
    if format.has(HeaderField::EngineType) {
        kept.engine_type = header.engine_type;
    }
    if format.has(HeaderField::EngineId) {
        kept.engine_id = header.engine_id;
    }
    if format.has(HeaderField::Sampling) {
        kept.sampling = header.sampling;
    }
    kept
}

#[test]
fn lengths_are_those_of_cisco() {
    let lengths = FORMATS.map(|format| (format.version, format.header_len(), format.record_len));
    assert_eq!(lengths, [(1, 16, 48), (5, 24, 48), (7, 24, 52)]);
    assert_eq!([netflow1::HEADER_LEN, netflow5::HEADER_LEN, netflow7::HEADER_LEN], [16, 24, 24]);
    for version in 0..=10 {
        assert_eq!(
            format_of(version).map(|format| format.version),
            [1, 5, 7].into_iter().find(|known| *known == version)
        );
    }
}

#[test]
fn packets_of_every_version_come_back() {
    for format in FORMATS {
        let records: Vec<_> = (1..=u64::from(format.packet_records_max))
            .map(|number| {
                let values: Vec<_> = format.fields.iter().zip(number..).map(|(field, value)| (*field, value)).collect();
                format.record(&values)
            })
            .collect();
        let mut out = Vec::new();
        let mut packet = PacketBuilder::new(format, &mut out, &HEADER);
        for record in &records {
            packet.record(record).expect("fits");
        }
        let limit = format.packet_records_max;
        assert_eq!(packet.record(&records[0]), Err(WireError::CountFull { limit: limit.into() }));
        assert_eq!((packet.octets(), packet.finish()), (out.len(), limit));
        let packet = format.decode(&out).expect("a packet");
        assert_eq!(packet.header, kept(format, Header { count: limit, ..HEADER }), "v{}", format.version);
        assert_eq!((packet.len(), packet.problem), (records.len(), None));
        assert!(packet.iter().eq(&records));
        let numbers = packet.iter().zip(1..).all(|(record, number)| {
            format.fields.iter().zip(number..).all(|(field, value)| field.number(record) == value)
        });
        assert!(numbers, "v{}", format.version);
    }
}

#[test]
fn headers_cut_short_and_of_other_versions_are_refused() {
    for format in FORMATS {
        let mut out = Vec::new();
        PacketBuilder::new(format, &mut out, &HEADER).finish();
        assert_eq!(out.len(), format.header_len());
        for length in 0..out.len() {
            let error = WireError::TruncatedHeader { need: format.header_len() as u32, have: length as u32 };
            assert_eq!(format.decode(&out[..length]).err(), Some(error));
        }
        for other in FORMATS.into_iter().filter(|other| other.version != format.version) {
            assert_eq!(other.decode(&out).err(), Some(WireError::WrongVersion { found: format.version }));
        }
    }
}

#[test]
fn templates_fill_the_record() {
    for format in FORMATS {
        let fields = format.template_fields();
        assert_eq!(fields.iter().map(|field| usize::from(field.length)).sum::<usize>(), format.record_len);
        let elements = fields.iter().filter(|field| field.element.id != 210).map(|field| Some(field.element.id));
        assert!(elements.eq(format.fields.iter().map(|field| field.element).filter(Option::is_some)));
    }
    // reserved octets, and fields without an Information Element
    let padding = |format: &FixedFormat| -> Vec<u16> {
        let fields = format.template_fields();
        fields.iter().filter(|field| field.element.id == 210).map(|field| field.length).collect()
    };
    assert_eq!(FORMATS.map(padding), [vec![2, 7], vec![1, 2], vec![1, 2]]);
}

#[test]
fn octets_that_are_no_record_are_not_written() {
    let mut out = Vec::new();
    let mut packet = PacketBuilder::new(&netflow7::FORMAT, &mut out, &HEADER);
    let error = WireError::RecordMismatch { written: 48, expected: 1 };
    assert_eq!(packet.record(&[0; netflow5::RECORD_LEN]), Err(error));
    assert_eq!(packet.record(&[0; netflow7::RECORD_LEN]), Ok(()));
    assert_eq!((packet.finish(), out.len()), (1, 24 + 52));
}

#[test]
fn a_number_too_large_for_its_field_is_cut_to_its_lowest_octets() {
    let record = netflow5::FORMAT.record(&[(netflow5::field::SRC_PORT, 0x1_2345), (netflow5::field::TOS, 0x1ff)]);
    assert_eq!(netflow5::field::SRC_PORT.number(&record), 0x2345);
    assert_eq!(netflow5::field::TOS.number(&record), 0xff);
    assert_eq!(record.iter().filter(|octet| **octet != 0).count(), 3);
}
