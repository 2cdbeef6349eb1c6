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
const HEADER_COUNT: &str = "the exporter counts flows only in the header, where templates count as well (RFC 3954 \
    section 5.1); the dissector believes it and stops early";
const FIRST_SET: &str = "the dissector stops after the first of sixteen data sets; the codec of logstash sees sixteen \
    events as we do";

const UNKNOWN_COUNTERS: &str = "the dissector does not step over structures of counters that it does not know (OpenFlow, \
    host, enterprises) and reads what follows wrongly";
const DISCARDED: &str = "the dissector does not know discarded packets";
const NO_INTERFACE: &str = "0x3fffffff says that the device itself sent or took the packet (sFlow 5), which is no interface; the dissector prints the number";
const SAMPLE_TOO_SHORT: &str = "the sample states four octets less than its record has, which is refused; the \
    dissector reads on";
const BRIDGED: &str = "Ethernet behind a label stack, which the dissector does not look into without being told to; \
    in it GRE with IPv4";
const TEREDO: &str = "the dissector tells of what is in Teredo behind the datagram, where it belongs to no sample";
const BRIDGED_OR_TEREDO: &str = "as for Teredo and, once, for Ethernet behind a label stack";
const OF_THE_SOURCE: &str = "telegraf prints the source of the sample, which is the output interface here";
const EXTENSION_HEADER: &str = "telegraf prints the number of the first extension header, we that of the protocol \
    behind them";

const FIRST_OCTET: &str = "the dissector reads the flags from the first octet of their 32 bits";

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
        2,
        ZERO_LENGTH,
    ),
    known(
        "telegraf",
        "influxdata+telegraf/plugins/inputs/netflow/testcases/issue_14370/message.bin",
        "flow_end",
        2,
        ZERO_LENGTH,
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
    known("tshark on sFlow", "_derived/orliin-sflow/raw-0001-0600.pcap", "src_addr", 6, BRIDGED_OR_TEREDO),
    known("tshark on sFlow", "_derived/orliin-sflow/raw-0001-0600.pcap", "dst_addr", 6, BRIDGED_OR_TEREDO),
    known("tshark on sFlow", "_derived/orliin-sflow/raw-0001-0600.pcap", "src_port", 6, BRIDGED_OR_TEREDO),
    known("tshark on sFlow", "_derived/orliin-sflow/raw-0001-0600.pcap", "dst_port", 6, BRIDGED_OR_TEREDO),
    known("tshark on sFlow", "_derived/orliin-sflow/raw-0001-0600.pcap", "tcp_flags", 1, BRIDGED),
    known("tshark on sFlow", "_derived/orliin-sflow/raw-0001-0600.pcap", "min_ttl", 5, TEREDO),
    known("tshark on sFlow", "_derived/orliin-sflow/raw-0001-0600.pcap", "protocol", 5, TEREDO),
    known("tshark on sFlow", "gopacket+gopacket/003_sflow5_SFlowTestPacket5.bin", "next hop", 1, SAMPLE_TOO_SHORT),
    known(
        "tshark on sFlow",
        "gopacket+gopacket/003_sflow5_SFlowTestPacket5.bin",
        "nexthop.dst_mask",
        1,
        SAMPLE_TOO_SHORT,
    ),
    known(
        "tshark on sFlow",
        "gopacket+gopacket/003_sflow5_SFlowTestPacket5.bin",
        "nexthop.src_mask",
        1,
        SAMPLE_TOO_SHORT,
    ),
    known("tshark on sFlow", "gopacket+gopacket/006_sflow5_SFlowTestPacket8.bin", "next hop", 1, SAMPLE_TOO_SHORT),
    known(
        "tshark on sFlow",
        "gopacket+gopacket/010_sflow5_SFlowEthernetFramePacket.bin",
        "input interface",
        6,
        NO_INTERFACE,
    ),
    known(
        "tshark on sFlow",
        "gopacket+gopacket/010_sflow5_SFlowEthernetFramePacket.bin",
        "output interface",
        1,
        NO_INTERFACE,
    ),
    known(
        "tshark on sFlow",
        "gopacket+gopacket/006_sflow5_SFlowTestPacket8.bin",
        "nexthop.dst_mask",
        1,
        SAMPLE_TOO_SHORT,
    ),
    known(
        "tshark on sFlow",
        "gopacket+gopacket/006_sflow5_SFlowTestPacket8.bin",
        "nexthop.src_mask",
        1,
        SAMPLE_TOO_SHORT,
    ),
    known(
        "tshark on sFlow",
        "netsampler+goflow2/004_sflow5_TestSFlowDecodeDropExtendedACL.bin",
        "flow samples",
        1,
        DISCARDED,
    ),
    known(
        "tshark on sFlow",
        "netsampler+goflow2/005_sflow5_TestSFlowDecodeDropExtendedFunction.bin",
        "flow samples",
        1,
        DISCARDED,
    ),
    known(
        "tshark on sFlow",
        "gopacket+gopacket/007_sflow5_SFlowTestPacket9.bin",
        "structures after an unknown one",
        1,
        UNKNOWN_COUNTERS,
    ),
    known(
        "tshark on sFlow",
        "gopacket+gopacket/011_sflow5_SFlowTestPacket12.bin",
        "structures after an unknown one",
        1,
        UNKNOWN_COUNTERS,
    ),
    known(
        "telegraf on sFlow",
        "influxdata+telegraf/plugins/inputs/netflow/testcases/sflow_issue_15918/message.bin",
        "in_snmp",
        4,
        OF_THE_SOURCE,
    ),
    known(
        "telegraf on sFlow",
        "influxdata+telegraf/plugins/inputs/netflow/testcases/sflow_issue_15918/message.bin",
        "protocol",
        1,
        EXTENSION_HEADER,
    ),
    known(
        "tshark on sFlow",
        "Cistern+sflow/_test/host_sample.dump",
        "structures after an unknown one",
        1,
        UNKNOWN_COUNTERS,
    ),
    known(
        "tshark on sFlow",
        "gopacket+gopacket/012_sflow5_SFlowTestPacket13.bin",
        "structures after an unknown one",
        1,
        UNKNOWN_COUNTERS,
    ),
    known(
        "tshark on sFlow",
        "influxdata+telegraf/plugins/inputs/netflow/testcases/sflow_v5_example/sflow_v5.bin",
        "structures after an unknown one",
        1,
        UNKNOWN_COUNTERS,
    ),
    known(
        "tshark on sFlow",
        "mikemiles-dev+flowparser-sflow/001_sflow5_result.bin",
        "structures after an unknown one",
        1,
        UNKNOWN_COUNTERS,
    ),
    known(
        "tshark on sFlow",
        "mikemiles-dev+flowparser-sflow/002_sflow5_result.bin",
        "structures after an unknown one",
        1,
        UNKNOWN_COUNTERS,
    ),
    known(
        "tshark on sFlow",
        "mikemiles-dev+flowparser-sflow/003_sflow5_result.bin",
        "structures after an unknown one",
        1,
        UNKNOWN_COUNTERS,
    ),
    known(
        "tshark on sFlow",
        "mikemiles-dev+flowparser-sflow/005_sflow5_result.bin",
        "structures after an unknown one",
        1,
        UNKNOWN_COUNTERS,
    ),
    known(
        "tshark on sFlow",
        "the-tcpdump-group+tcpdump/tests/sflow_multiple_counter_30_pdus.pcap",
        "structures after an unknown one",
        2,
        UNKNOWN_COUNTERS,
    ),
    known("tshark on sFlow", "nxthdr+sflow-parser/tests/data/sflow.bin", "tcp_flags", 1, FIRST_OCTET),
    known("tshark on sFlow", "nxthdr+sflow-parser/tests/data/sflow.pcap", "tcp_flags", 1, FIRST_OCTET),
];
