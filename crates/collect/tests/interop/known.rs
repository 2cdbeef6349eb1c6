//! Differences from other implementations that are not defects of ours, each with its reason. A difference that is
//! not here fails the tests, and so does one that is here and no longer occurs.

/// A difference that stands.
#[derive(Debug)]
pub(crate) struct Known {
    pub oracle: &'static str,
    /// Label of the input.
    pub input: &'static str,
    pub field: &'static str,
    /// How often it differs.
    pub times: usize,
    pub reason: &'static str,
}

const fn known(
    oracle: &'static str,
    input: &'static str,
    field: &'static str,
    times: usize,
    reason: &'static str,
) -> Known {
    Known { oracle, input, field, times, reason }
}

const RUBY_BORROW: &str = "the codec turns uptimes into times with Ruby's `seconds--`, which does nothing: where the \
    milliseconds borrow from the seconds its time is a second late, and where the uptime wraps it is 2^32 ms late";
const FIRST_MESSAGE: &str = "the file holds three messages, of which the codec reads the first";
const MPLS: &str = "the codec splits a label stack entry of three octets as if it had the four of the packet";
const ZERO_LENGTH: &str = "a field of no octets: telegraf says 0, we say nothing";
const LENGTH_TOO_SHORT: &str = "the header states two octets less than there are, so that the last set reaches past the \
    message (RFC 7011 section 3.3.2) and is refused; the others read on";
const HEADER_COUNT: &str = "the exporter counts flows only in the header, where templates count as well (RFC 3954 \
    section 5.1); the dissector believes it and stops early";
const FIRST_SET: &str = "the dissector stops after the first of sixteen data sets; the codec of logstash sees sixteen \
    events as we do";

/// The table.
pub(crate) const KNOWN: &[Known] = &[
    known("logstash", "logstash-plugins+logstash-codec-netflow/test 'IPFIX'", "events", 1, FIRST_MESSAGE),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 5 valid 01'",
        "first_switched",
        2,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 5 valid 01'",
        "last_switched",
        2,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 Cisco ASR 9000 series template 260'",
        "first_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 Cisco ASR 9000 series template 260'",
        "last_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 Cisco NBAR flowset 262'",
        "first_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 Cisco NBAR flowset 262'",
        "last_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 Fortigate FortiOS 5.2.1'",
        "first_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 Fortigate FortiOS 5.2.1'",
        "last_switched",
        1,
        RUBY_BORROW,
    ),
    known("logstash", "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 H3C'", "first_switched", 1, RUBY_BORROW),
    known("logstash", "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 H3C'", "last_switched", 1, RUBY_BORROW),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 Palo Alto PAN-OS with app-id'",
        "first_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 Palo Alto PAN-OS with app-id'",
        "last_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 Ubiquiti Edgerouter with MPLS labels'",
        "first_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 Ubiquiti Edgerouter with MPLS labels'",
        "last_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 field layer2segmentid'",
        "first_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 field layer2segmentid'",
        "last_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 multiple netflow exporters'",
        "first_switched",
        2,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 multiple netflow exporters'",
        "last_switched",
        2,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 valid 01'",
        "first_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 valid 01'",
        "last_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow5 Juniper MX80'",
        "first_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow5 Juniper MX80'",
        "last_switched",
        1,
        RUBY_BORROW,
    ),
    known(
        "logstash",
        "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 Ubiquiti Edgerouter with MPLS labels'",
        "mpls_label_stack_octets",
        1,
        MPLS,
    ),
    known(
        "telegraf",
        "influxdata+telegraf/plugins/inputs/netflow/testcases/issue_14370/message.bin",
        "flow_start",
        1,
        ZERO_LENGTH,
    ),
    known(
        "telegraf",
        "influxdata+telegraf/plugins/inputs/netflow/testcases/issue_14370/message.bin",
        "flow_end",
        1,
        ZERO_LENGTH,
    ),
    known(
        "telegraf",
        "influxdata+telegraf/plugins/inputs/netflow/testcases/issue_14370/message.bin",
        "records",
        1,
        LENGTH_TOO_SHORT,
    ),
    known(
        "tshark",
        "Graylog2+graylog-plugin-netflow/src/test/resources/netflow-data/netflow-v9-1.dat",
        "records",
        1,
        HEADER_COUNT,
    ),
    known(
        "tshark",
        "Graylog2+graylog-plugin-netflow/src/test/resources/netflow-data/netflow9.pcap",
        "records",
        3,
        HEADER_COUNT,
    ),
    known("tshark", "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 invalid 01'", "records", 1, HEADER_COUNT),
    known("tshark", "logstash-plugins+logstash-codec-netflow/test 'Netflow 9 H3C'", "records", 1, FIRST_SET),
    known(
        "tshark",
        "influxdata+telegraf/plugins/inputs/netflow/testcases/issue_14370/message.bin",
        "records",
        1,
        LENGTH_TOO_SHORT,
    ),
];
