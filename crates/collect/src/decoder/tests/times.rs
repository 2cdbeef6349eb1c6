//! Times of flows whose records have one of them and for how long the flow lasted (161, 162), and of flows whose
//! uptimes have wrapped.

use arrow::array::Array;
use arrow::datatypes::TimestampMillisecondType;
use weir_flow::elements::elements_of_row;
use weir_flow::registry::REVERSE_ENTERPRISE;
use weir_flow::{Column, Counter, FlowBatch};

use super::records::{EXPORT_SECS, Exporter, Field, template};

/// 2023-11-14T22:13:20.123Z.
const TIME_MS: i64 = 1_700_000_000_123;

/// Start and end of the first flow.
type Times = [Option<i64>; 2];

fn times_of(flows: &FlowBatch, columns: [Column; 2]) -> Times {
    columns.map(|column| {
        let values = flows.primitive::<TimestampMillisecondType>(column)?;
        values.is_valid(0).then(|| values.value(0))
    })
}

/// The elements of the first flow that have no column.
fn left(flows: &FlowBatch) -> Vec<u16> {
    let Some(elements) = flows.column(Column::Elements) else { return Vec::new() };
    elements_of_row(elements, 0).iter().map(|value| value.id).collect()
}

/// Times, and what is left of the record, of a record of IPFIX.
fn seen(fields: &[Field], values: &[&[u8]]) -> (Times, Vec<u16>) {
    let mut exporter = Exporter::new();
    exporter.ipfix(0, &[&template(256, fields, 0)], &[&values.concat()]);
    let flows = exporter.flows();
    (times_of(&flows, [Column::Start, Column::End]), left(&flows))
}

#[test]
fn a_duration_gives_the_time_that_a_record_lacks() {
    let time = TIME_MS.to_be_bytes();
    let [millis, micros] = [1_500_u32, 1_500_999].map(u32::to_be_bytes);
    let ends = [Some(TIME_MS), Some(TIME_MS + 1_500)];
    assert_eq!(seen(&[(0, 152, 8), (0, 161, 4)], &[&time, &millis]), (ends, vec![]));
    let starts = [Some(TIME_MS - 1_500), Some(TIME_MS)];
    assert_eq!(seen(&[(0, 161, 4), (0, 153, 8)], &[&millis, &time]), (starts, vec![]));
    // of microseconds whole milliseconds count, and they are kept
    assert_eq!(seen(&[(0, 152, 8), (0, 162, 4)], &[&time, &micros]), (ends, vec![162]));
    assert_eq!(seen(&[(0, 162, 4), (0, 153, 8)], &[&micros, &time]), (starts, vec![162]));
    // reduced size (RFC 7011 section 6.2)
    assert_eq!(seen(&[(0, 152, 8), (0, 161, 2)], &[&time, &[5, 220]]), (ends, vec![]));
    // the second field has wrapped
    let long = 4_500_000_u32.to_be_bytes();
    let fields = [(0, 152, 8), (0, 162, 4), (0, 161, 4)];
    assert_eq!(seen(&fields, &[&time, &micros, &long]), ([Some(TIME_MS), Some(TIME_MS + 4_500_000)], vec![162]));
    // seconds, and the form of NTP (RFC 5905), which columns do not hold: 3908988800.5 s after 1900
    let ends = [Some(1_700_000_000_000), Some(1_700_000_001_500)];
    assert_eq!(seen(&[(0, 150, 4), (0, 161, 4)], &[&EXPORT_SECS.to_be_bytes(), &millis]), (ends, vec![]));
    let ntp = (3_908_988_800_u64 << 32 | 1 << 31).to_be_bytes();
    let ends = [Some(1_700_000_000_500), Some(1_700_000_002_000)];
    assert_eq!(seen(&[(0, 154, 8), (0, 161, 4)], &[&ntp, &millis]), (ends, vec![154, 161]));
    // beyond all times is the last of them
    let (last, most) = ([0xff_u8; 8], [0xff_u8; 4]);
    assert_eq!(seen(&[(0, 152, 8), (0, 161, 4)], &[&last, &most]).0, [Some(i64::MAX); 2]);
}

#[test]
fn a_duration_changes_no_time_that_a_record_has() {
    let (start, end) = (TIME_MS.to_be_bytes(), (TIME_MS + 10).to_be_bytes());
    let millis = 1_500_u32.to_be_bytes();
    let both = [Some(TIME_MS), Some(TIME_MS + 10)];
    assert_eq!(seen(&[(0, 152, 8), (0, 153, 8), (0, 161, 4)], &[&start, &end, &millis]), (both, vec![161]));
    // there is no time to count from
    assert_eq!(seen(&[(0, 8, 4), (0, 161, 4)], &[&[10, 0, 0, 1], &millis]), ([None; 2], vec![161]));
    // the only time of an event is its start and its end
    assert_eq!(seen(&[(0, 323, 8), (0, 161, 4)], &[&start, &millis]), ([Some(TIME_MS); 2], vec![161]));
    // the end is when the flow ended, not when it was observed
    let ends = [Some(TIME_MS), Some(TIME_MS + 1_500)];
    assert_eq!(seen(&[(0, 152, 8), (0, 161, 4), (0, 323, 8)], &[&start, &millis, &end]), (ends, vec![323]));
    // more octets than the type has
    let wide = 1_500_u64.to_be_bytes();
    assert_eq!(seen(&[(0, 152, 8), (0, 161, 8)], &[&start, &wide]), ([Some(TIME_MS), None], vec![161]));
}

/// Uptimes of the header, which is exported at an uptime of 100 s, and of IPFIX, whose header has none.
#[test]
fn a_duration_counts_from_an_uptime() {
    let [uptime, millis] = [90_000_u32, 5_000].map(u32::to_be_bytes);
    let record = [uptime, millis].concat();
    let export_ms = i64::from(EXPORT_SECS) * 1_000;
    let netflow9 = |id| {
        let mut exporter = Exporter::new();
        exporter.netflow9(0, &template(256, &[(0, id, 4), (0, 161, 4)], 0), &[&record]);
        let flows = exporter.flows();
        (times_of(&flows, [Column::Start, Column::End]), left(&flows))
    };
    assert_eq!(netflow9(22), ([Some(export_ms - 10_000), Some(export_ms - 5_000)], vec![]));
    assert_eq!(netflow9(21), ([Some(export_ms - 15_000), Some(export_ms - 10_000)], vec![]));
    assert_eq!(seen(&[(0, 22, 4), (0, 161, 4)], &[&record]), ([None; 2], vec![22, 161]));
    // systemInitTimeMilliseconds
    let since = (export_ms - 100_000).to_be_bytes();
    let ends = [Some(export_ms - 10_000), Some(export_ms - 5_000)];
    assert_eq!(seen(&[(0, 22, 4), (0, 161, 4), (0, 160, 8)], &[&record, &since]), (ends, vec![22, 161, 160]));
}

/// RFC 5103 section 6.1: the reverse of every element.
#[test]
fn a_duration_of_the_opposite_direction_is_of_its_times() {
    let mut exporter = Exporter::new();
    let fields = [(0, 152, 8), (0, 153, 8), (REVERSE_ENTERPRISE, 152, 8), (REVERSE_ENTERPRISE, 161, 4)];
    let times = [TIME_MS, TIME_MS + 900, TIME_MS + 100].map(i64::to_be_bytes);
    let record = [&times.concat()[..], &700_u32.to_be_bytes()].concat();
    exporter.ipfix(0, &[&template(256, &fields, 0)], &[&record]);
    let flows = exporter.flows();
    assert_eq!(times_of(&flows, [Column::Start, Column::End]), [Some(TIME_MS), Some(TIME_MS + 900)]);
    let reverse = times_of(&flows, [Column::StartReverse, Column::EndReverse]);
    assert_eq!(reverse, [Some(TIME_MS + 100), Some(TIME_MS + 800)]);
    assert!(left(&flows).is_empty());
}

/// Flows of over 24.8 days, which half of an uptime's 32 bits hold: nfdump has 2023-10-11 04:53:20.900 for the first.
#[test]
fn a_flow_by_uptimes_may_have_lasted_for_weeks() {
    let export_ms = i64::from(EXPORT_SECS) * 1_000;
    let mut exporter = Exporter::new();
    let times = |exporter: &mut Exporter| times_of(&exporter.flows(), [Column::Start, Column::End]);
    // the header's uptime is 100 s, so the counter has wrapped once: the flow began 34.7 days before its end
    let (first, last) = (100_000_u32.wrapping_sub(2_999_999_100), 99_900_u32);
    let record = [first, last].map(u32::to_be_bytes).concat();
    let expected = [Some(export_ms - 2_999_999_100), Some(export_ms - 100)];
    assert_eq!(expected[0], Some(1_697_000_000_900));
    exporter.netflow9(0, &template(256, &[(0, 22, 4), (0, 21, 4)], 0), &[&record]);
    assert_eq!(times(&mut exporter), expected);
    // the end first, and 64 bits
    exporter.netflow9(0, &template(257, &[(0, 21, 4), (0, 22, 4)], 0), &[&[&record[4..], &record[..4]].concat()]);
    assert_eq!(times(&mut exporter), expected);
    let wide = [first, last].map(|uptime| u64::from(uptime).to_be_bytes()).concat();
    exporter.netflow9(0, &template(258, &[(0, 22, 8), (0, 21, 8)], 0), &[&wide]);
    assert_eq!(times(&mut exporter), expected);
    // of IPFIX, whose records say what they count from (systemInitTimeMilliseconds)
    let since = (export_ms - 100_000).to_be_bytes();
    let fields = [(0, 22, 4), (0, 21, 4), (0, 160, 8)];
    exporter.ipfix(0, &[&template(259, &fields, 0)], &[&[&record[..], &since].concat()]);
    assert_eq!(times(&mut exporter), expected);
    // a start that is a little after the end is what the exporter said
    let record = [99_900_u32, 99_000].map(u32::to_be_bytes).concat();
    exporter.netflow9(0, &template(256, &[(0, 22, 4), (0, 21, 4)], 0), &[&record]);
    assert_eq!(times(&mut exporter), [Some(export_ms - 100), Some(export_ms - 1_000)]);
}

/// A capture of a time that cannot be gets the present: what the exporter's clock says has nothing to do with it.
#[test]
fn clocks_are_not_compared_with_times_that_were_replaced() {
    let mut exporter = Exporter::new();
    let export_ms = i64::from(EXPORT_SECS) * 1_000;
    let counted = |exporter: &Exporter| {
        [Counter::ClockAheadMs, Counter::ClockBehindMs].map(|counter| exporter.decoder.statistics().total(counter))
    };
    for (is_replaced, offset_ms) in [(true, 9_000_000_000), (true, -9_000_000_000), (false, 5_000)] {
        exporter.decoder.set_time_replaced(is_replaced);
        exporter.received_ms = export_ms - offset_ms;
        exporter.ipfix(0, &[&template(256, &[(0, 4, 1)], 0)], &[&[6]]);
    }
    assert_eq!(counted(&exporter), [5_000, 0]);
}

/// RFC 5905 section 6: an NTP timestamp of 0 says that the time is not known. It is not the begin of the next era, in 2036.
#[test]
fn an_ntp_timestamp_of_zeros_is_no_time() {
    let (zero, millis) = ([0_u8; 8], 1_500_u32.to_be_bytes());
    for (start, end) in [(154, 155), (156, 157)] {
        assert_eq!(seen(&[(0, start, 8), (0, end, 8)], &[&zero, &zero]), ([None; 2], vec![start, end]));
        // a duration that no time follows from is kept
        assert_eq!(seen(&[(0, start, 8), (0, 161, 4)], &[&zero, &millis]), ([None; 2], vec![start, 161]));
    }
    // the only time of an event
    assert_eq!(seen(&[(0, 325, 8)], &[&zero]), ([None; 2], vec![325]));
}

/// Exporters that have several forms of times in one template fill those that they do not use with zeros.
#[test]
fn a_time_of_zeros_is_no_time_where_another_is_set() {
    let zero = [0_u8; 8];
    let (first, last) = ((EXPORT_SECS - 9).to_be_bytes(), (EXPORT_SECS - 1).to_be_bytes());
    let export_ms = i64::from(EXPORT_SECS) * 1_000;
    let ends = [Some(export_ms - 9_000), Some(export_ms - 1_000)];
    // seconds (150, 151) and milliseconds (152, 153), of which the latter are preferred where they are set
    let fields = [(0, 150, 4), (0, 151, 4), (0, 152, 8), (0, 153, 8)];
    assert_eq!(seen(&fields, &[&first, &last, &zero, &zero]), (ends, vec![150, 151]));
    let time = TIME_MS.to_be_bytes();
    assert_eq!(seen(&fields, &[&first, &last, &time, &time]), ([Some(TIME_MS); 2], vec![150, 151]));
    assert_eq!(seen(&fields, &[&zero[..4], &zero[..4], &zero, &zero]).0, [Some(0); 2], "it says nothing else");
    // the end follows from the start that is meant
    let fields = [(0, 150, 4), (0, 152, 8), (0, 161, 4)];
    let millis = 1_500_u32.to_be_bytes();
    let lasted = [Some(export_ms - 9_000), Some(export_ms - 7_500)];
    assert_eq!(seen(&fields, &[&first, &zero, &millis]), (lasted, vec![150, 161]));
    // uptimes (22, 21), of which the exporter has 100 s at the export; also of a flow of 34.7 days
    let fields = [(0, 152, 8), (0, 153, 8), (0, 22, 4), (0, 21, 4)];
    for (age_of_start, age_of_end) in [(5_000_u32, 1_000_u32), (2_999_999_100, 100)] {
        let mut exporter = Exporter::new();
        let uptimes = [age_of_start, age_of_end].map(|age| 100_000_u32.wrapping_sub(age).to_be_bytes());
        exporter.netflow9(0, &template(256, &fields, 0), &[&[&[0; 16][..], &uptimes.concat()[..]].concat()]);
        let expected = [age_of_start, age_of_end].map(|age| Some(export_ms - i64::from(age)));
        assert_eq!(times_of(&exporter.flows(), [Column::Start, Column::End]), expected);
    }
}
