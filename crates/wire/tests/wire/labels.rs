//! Labels are a closed set: one for each variant, all different.

use weir_wire::WireError;

#[test]
fn every_variant_has_its_own_label() {
    let all = [
        WireError::TruncatedHeader { need: 0, have: 0 },
        WireError::WrongVersion { found: 0 },
        WireError::CountMismatch { stated: 0, found: 0 },
        WireError::MessageLength { stated: 0, have: 0 },
        WireError::TrailingOctets { octets: 0 },
        WireError::SetLength { set_id: 0, stated: 0, have: 0 },
        WireError::SetTooLong { octets: 0, limit: 0 },
        WireError::ReservedTemplateId { id: 0 },
        WireError::TemplateTruncated { template: 0, need: 0, have: 0 },
        WireError::ZeroLengthTemplate,
        WireError::TooManyFields { template: 0, stated: 0, limit: 0 },
        WireError::RecordTooLong { template: 0, octets: 0, limit: 0 },
        WireError::ScopeCount { template: 0, scopes: 0, fields: 0 },
        WireError::OptionsLength { template: 0, scope_octets: 0, option_octets: 0 },
        WireError::RecordTruncated { record: 0, need: 0, have: 0 },
        WireError::VariableLengthOverrun { record: 0, field: 0, length: 0, have: 0 },
        WireError::MessageFull { need: 0, limit: 0 },
        WireError::CountFull { limit: 0 },
        WireError::RecordMismatch { written: 0, expected: 0 },
        WireError::Inexpressible { enterprise: 0, id: 0 },
        WireError::ValueTooLong { octets: 0, limit: 0 },
        WireError::AddressType { found: 3 },
        WireError::SampleCount { stated: 0, found: 0 },
        WireError::SampleTruncated { sample: 0, need: 0, have: 0 },
        WireError::SampleRecordTruncated { record: 0, need: 0, have: 0 },
        WireError::StructureTooShort { format: 0, octets: 0 },
    ];
    let labels: Vec<_> = all.iter().map(|error| error.label()).collect();
    assert_eq!(labels, WireError::LABELS);
    for error in all {
        // The label is the variant's name in snake case.
        let name = format!("{error:?}");
        let name = name.split(' ').next().unwrap_or_default();
        assert_eq!(error.label().replace('_', ""), name.to_lowercase());
    }
    assert!(size_of::<WireError>() <= 16, "{} octets are not small", size_of::<WireError>());
}
