//! The two tables of counters that devices send besides flows: of interfaces, and of hosts.
//!
//! A row is one counters sample of sFlow. Its columns are listed in the order of the structures that sFlow has for
//! them, so that the place of a field in its structure follows from the list and is written nowhere else. Counters are
//! what the device says: they run on from its start and wrap by its rules; what it does not know is null.

use std::sync::LazyLock;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::field::{address_field, arrow_type, octets_field};
use crate::{ColumnType, Table};

/// How a field lies on the wire and in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CounterKind {
    /// Unsigned, 4 octets.
    U32,
    /// Unsigned, 8 octets.
    U64,
    /// IEEE 754, 4 octets.
    F32,
}

impl CounterKind {
    /// Octets of the field.
    pub const fn octets(self) -> usize {
        match self {
            Self::U32 | Self::F32 => 4,
            Self::U64 => 8,
        }
    }
}

/// One column of counters.
#[derive(Debug, Clone, Copy)]
pub struct CounterColumn {
    /// Name in SQL and in files.
    pub name: &'static str,
    /// Type.
    pub kind: CounterKind,
    /// Unit, empty when there is none.
    pub unit: &'static str,
    /// Format of the sFlow structure that has the field.
    pub format: u32,
    /// Offset of the field in the structure, in octets.
    pub offset: usize,
    /// One sentence for the reference page.
    pub doc: &'static str,
}

/// A column that says whose counters a row holds.
#[derive(Debug, Clone, Copy)]
pub struct KeyColumn {
    /// Name in SQL and in files.
    pub name: &'static str,
    /// Arrow type; addresses are as in the flows.
    pub kind: KeyKind,
    /// One sentence for the reference page.
    pub doc: &'static str,
}

/// Type of a key column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// Milliseconds since the epoch, never null.
    Time,
    /// IP address.
    Address,
    /// Number.
    U32,
    /// Text.
    Text,
    /// Octets.
    Octets,
}

const fn key(name: &'static str, kind: KeyKind, doc: &'static str) -> KeyColumn {
    KeyColumn { name, kind, doc }
}

/// Key columns that both tables begin with.
pub const KEYS: &[KeyColumn] = &[
    key("received", KeyKind::Time, "When the Collecting Process received the counters, by its own clock."),
    key("exporter", KeyKind::Address, "Address of the device that they are of: the sFlow agent."),
    key("observation_domain", KeyKind::U32, "Sub-agent of the device."),
    key("source_class", KeyKind::U32, "Kind of the source: 0 interface, 1 VLAN, 2 physical entity, 3 logical entity."),
    key("source_index", KeyKind::U32, "Number of the source in its class; of an interface, its SNMP index."),
    key("uptime_ms", KeyKind::U32, "Milliseconds since the device started, when it sent the counters."),
    key(
        "sender",
        KeyKind::Address,
        "Where the counters came from, when that is not the device: whoever may send can speak for any. Null when it is.",
    ),
];

/// Further key columns of `host_counters`.
pub const HOST_KEYS: &[KeyColumn] = &[
    key("host_name", KeyKind::Text, "Name of the host."),
    key("host_uuid", KeyKind::Octets, "UUID of the host."),
    key("machine_type", KeyKind::U32, "Kind of machine: 2 x86, 3 x86_64, 10 ARM; others in \"sFlow Host Structures\"."),
    key(
        "os_name",
        KeyKind::U32,
        "Operating system: 2 Linux, 3 Windows, 4 Darwin, 8 FreeBSD; others in the same place.",
    ),
    key("os_release", KeyKind::Text, "Release of the operating system."),
];

type Row = (&'static str, CounterKind, &'static str, &'static str);

macro_rules! structures {
    ($name:ident: $($format:literal { $($column:literal $kind:ident $unit:literal $doc:literal;)* })*) => {
        const $name: &[(u32, &[Row])] = &[$(($format, &[$(($column, CounterKind::$kind, $unit, $doc)),*])),*];
    };
}

structures! { INTERFACE:
    1 {
        "if_index" U32 "" "SNMP index of the interface.";
        "if_type" U32 "" "Kind of interface (IANA ifType).";
        "if_speed" U64 "bits/s" "Nominal speed.";
        "if_direction" U32 "" "1 full duplex, 2 half duplex, 3 in, 4 out, 0 unknown.";
        "if_status" U32 "" "Bit 0: administratively up. Bit 1: operationally up.";
        "in_octets" U64 "octets" "Octets received, framing included.";
        "in_unicast" U32 "packets" "Unicast packets received.";
        "in_multicast" U32 "packets" "Multicast packets received.";
        "in_broadcast" U32 "packets" "Broadcast packets received.";
        "in_discards" U32 "packets" "Packets received without an error, and discarded.";
        "in_errors" U32 "packets" "Packets received with an error.";
        "in_unknown_protocols" U32 "packets" "Packets received of an unknown protocol.";
        "out_octets" U64 "octets" "Octets sent, framing included.";
        "out_unicast" U32 "packets" "Unicast packets sent.";
        "out_multicast" U32 "packets" "Multicast packets sent.";
        "out_broadcast" U32 "packets" "Broadcast packets sent.";
        "out_discards" U32 "packets" "Packets to be sent that had no error, and were discarded.";
        "out_errors" U32 "packets" "Packets that were not sent because of an error.";
        "promiscuous" U32 "" "1 when the interface takes every frame, 2 when only its own.";
    }
    2 {
        "ethernet_alignment_errors" U32 "frames" "Frames with a number of bits that is no multiple of eight.";
        "ethernet_fcs_errors" U32 "frames" "Frames with a wrong checksum.";
        "ethernet_single_collisions" U32 "frames" "Frames sent after one collision.";
        "ethernet_multiple_collisions" U32 "frames" "Frames sent after several collisions.";
        "ethernet_sqe_test_errors" U32 "" "Errors of the signal quality test.";
        "ethernet_deferred" U32 "frames" "Frames whose first try had to wait.";
        "ethernet_late_collisions" U32 "" "Collisions later than one slot time.";
        "ethernet_excessive_collisions" U32 "frames" "Frames dropped after too many collisions.";
        "ethernet_mac_transmit_errors" U32 "frames" "Frames not sent because of an error of the MAC sublayer.";
        "ethernet_carrier_sense_errors" U32 "" "Times that the carrier was lost or never there.";
        "ethernet_frames_too_long" U32 "frames" "Frames longer than allowed.";
        "ethernet_mac_receive_errors" U32 "frames" "Frames not received because of an error of the MAC sublayer.";
        "ethernet_symbol_errors" U32 "" "Symbols that were invalid.";
    }
    3 {
        "token_ring_line_errors" U32 "" "Line errors (RFC 1748).";
        "token_ring_burst_errors" U32 "" "Burst errors.";
        "token_ring_ac_errors" U32 "" "Errors of address recognised and frame copied bits.";
        "token_ring_abort_errors" U32 "" "Transmissions aborted.";
        "token_ring_internal_errors" U32 "" "Internal errors.";
        "token_ring_lost_frames" U32 "" "Frames lost.";
        "token_ring_congestions" U32 "" "Frames for this station without room for them.";
        "token_ring_frame_copied_errors" U32 "" "Frames for this station copied by another.";
        "token_ring_token_errors" U32 "" "Token errors.";
        "token_ring_soft_errors" U32 "" "Soft errors.";
        "token_ring_hard_errors" U32 "" "Hard errors.";
        "token_ring_signal_losses" U32 "" "Losses of the signal.";
        "token_ring_beacons" U32 "" "Beacons sent.";
        "token_ring_recoveries" U32 "" "Recoveries of the ring.";
        "token_ring_lobe_wires" U32 "" "Open or short circuits of the lobe.";
        "token_ring_removes" U32 "" "Requests to leave the ring.";
        "token_ring_singles" U32 "" "Times that it was alone on the ring.";
        "token_ring_frequency_errors" U32 "" "Frequency errors.";
    }
    5 {
        "vlan" U32 "" "VLAN that the next counters are of.";
        "vlan_octets" U64 "octets" "Octets in the VLAN.";
        "vlan_unicast" U32 "packets" "Unicast packets in the VLAN.";
        "vlan_multicast" U32 "packets" "Multicast packets in the VLAN.";
        "vlan_broadcast" U32 "packets" "Broadcast packets in the VLAN.";
        "vlan_discards" U32 "packets" "Packets of the VLAN discarded.";
    }
}

structures! { HOST:
    1001 {
        "processor_5s" U32 "1/100 %" "Load of the processor over 5 seconds.";
        "processor_1m" U32 "1/100 %" "Load of the processor over a minute.";
        "processor_5m" U32 "1/100 %" "Load of the processor over 5 minutes.";
        "processor_memory" U64 "octets" "Memory of the device.";
        "processor_memory_free" U64 "octets" "Memory that is free.";
    }
    2002 {
        "parent_class" U32 "" "Class of the source that this host is a part of, as a virtual machine of its machine.";
        "parent_index" U32 "" "Number of that source.";
    }
    2003 {
        "load_1m" F32 "" "Load average over a minute.";
        "load_5m" F32 "" "Load average over 5 minutes.";
        "load_15m" F32 "" "Load average over 15 minutes.";
        "processes_running" U32 "" "Processes that run.";
        "processes" U32 "" "Processes.";
        "cpus" U32 "" "Processors.";
        "cpu_speed" U32 "MHz" "Speed of a processor.";
        "host_uptime" U32 "s" "Seconds since the host started.";
        "cpu_user" U32 "ms" "Time in user mode.";
        "cpu_nice" U32 "ms" "Time in user mode with low priority.";
        "cpu_system" U32 "ms" "Time in the kernel.";
        "cpu_idle" U32 "ms" "Time with nothing to do.";
        "cpu_wait" U32 "ms" "Time waiting for devices.";
        "cpu_interrupts" U32 "ms" "Time serving interrupts.";
        "cpu_soft_interrupts" U32 "ms" "Time serving soft interrupts.";
        "interrupts" U32 "" "Interrupts.";
        "context_switches" U32 "" "Context switches.";
    }
    2004 {
        "memory" U64 "octets" "Memory of the host.";
        "memory_free" U64 "octets" "Memory that is free.";
        "memory_shared" U64 "octets" "Memory that is shared.";
        "memory_buffers" U64 "octets" "Memory for buffers.";
        "memory_cached" U64 "octets" "Memory for cached files.";
        "swap" U64 "octets" "Swap space.";
        "swap_free" U64 "octets" "Swap space that is free.";
        "pages_in" U32 "pages" "Pages read from disk.";
        "pages_out" U32 "pages" "Pages written to disk.";
        "swaps_in" U32 "pages" "Pages swapped in.";
        "swaps_out" U32 "pages" "Pages swapped out.";
    }
    2005 {
        "disk" U64 "octets" "Size of the disks.";
        "disk_free" U64 "octets" "What of it is free.";
        "disk_fullest" U32 "1/100 %" "How full the fullest partition is.";
        "disk_reads" U32 "" "Reads.";
        "disk_octets_read" U64 "octets" "Octets read.";
        "disk_read_time" U32 "ms" "Time spent reading.";
        "disk_writes" U32 "" "Writes.";
        "disk_octets_written" U64 "octets" "Octets written.";
        "disk_write_time" U32 "ms" "Time spent writing.";
    }
    2006 {
        "net_octets_in" U64 "octets" "Octets received by the host.";
        "net_packets_in" U32 "packets" "Packets received.";
        "net_errors_in" U32 "packets" "Packets received with an error.";
        "net_drops_in" U32 "packets" "Packets received and dropped.";
        "net_octets_out" U64 "octets" "Octets sent.";
        "net_packets_out" U32 "packets" "Packets sent.";
        "net_errors_out" U32 "packets" "Packets that could not be sent.";
        "net_drops_out" U32 "packets" "Packets dropped before they were sent.";
    }
    2100 {
        "hypervisor_cpu_speed" U32 "MHz" "Speed of a processor of a host of virtual machines.";
        "hypervisor_cpus" U32 "" "Its processors.";
        "hypervisor_memory" U64 "octets" "Its memory.";
        "hypervisor_memory_free" U64 "octets" "What of it no virtual machine has.";
        "hypervisor_machines" U32 "" "Virtual machines that run.";
    }
    2101 {
        "virtual_state" U32 "" "State of a virtual machine: 1 running, 2 blocked, 3 paused, 4 shutting down, 5 off, 6 crashed.";
        "virtual_cpu_time" U32 "ms" "Processor time that it used.";
        "virtual_cpus" U32 "" "Its processors.";
    }
    2102 {
        "virtual_memory" U64 "octets" "Memory that it uses.";
        "virtual_memory_max" U64 "octets" "Memory that it may use.";
    }
    2103 {
        "virtual_disk" U64 "octets" "Size of its disks.";
        "virtual_disk_allocated" U64 "octets" "What of it is allocated.";
        "virtual_disk_available" U64 "octets" "What of it is left.";
        "virtual_disk_reads" U32 "" "Reads.";
        "virtual_disk_octets_read" U64 "octets" "Octets read.";
        "virtual_disk_writes" U32 "" "Writes.";
        "virtual_disk_octets_written" U64 "octets" "Octets written.";
        "virtual_disk_errors" U32 "" "Errors reading or writing.";
    }
    2104 {
        "virtual_net_octets_in" U64 "octets" "Octets that it received.";
        "virtual_net_packets_in" U32 "packets" "Packets received.";
        "virtual_net_errors_in" U32 "packets" "Packets received with an error.";
        "virtual_net_drops_in" U32 "packets" "Packets received and dropped.";
        "virtual_net_octets_out" U64 "octets" "Octets that it sent.";
        "virtual_net_packets_out" U32 "packets" "Packets sent.";
        "virtual_net_errors_out" U32 "packets" "Packets that could not be sent.";
        "virtual_net_drops_out" U32 "packets" "Packets dropped before they were sent.";
    }
}

fn columns(structures: &[(u32, &'static [Row])]) -> Vec<CounterColumn> {
    let mut columns = Vec::new();
    for &(format, rows) in structures {
        let mut offset = 0;
        for &(name, kind, unit, doc) in rows {
            columns.push(CounterColumn { name, kind, unit, format, offset, doc });
            offset += kind.octets();
        }
    }
    columns
}

static INTERFACE_COLUMNS: LazyLock<Vec<CounterColumn>> = LazyLock::new(|| columns(INTERFACE));
static HOST_COLUMNS: LazyLock<Vec<CounterColumn>> = LazyLock::new(|| columns(HOST));

/// The keys of a table of counters; none for other tables.
pub fn key_columns(table: Table) -> impl Iterator<Item = &'static KeyColumn> {
    let (keys, more): (&[KeyColumn], &[KeyColumn]) = match table {
        Table::InterfaceCounters => (KEYS, &[]),
        Table::HostCounters => (KEYS, HOST_KEYS),
        Table::Flows | Table::ExporterBooks | Table::ExporterOptions | Table::ExporterSequences => (&[], &[]),
    };
    keys.iter().chain(more)
}

/// The counters of a table, in the order of its columns behind the keys; none for other tables.
pub fn counter_columns(table: Table) -> &'static [CounterColumn] {
    match table {
        Table::InterfaceCounters => &INTERFACE_COLUMNS,
        Table::HostCounters => &HOST_COLUMNS,
        Table::Flows | Table::ExporterBooks | Table::ExporterOptions | Table::ExporterSequences => &[],
    }
}

/// The schema of a table of counters.
pub(crate) fn schema(table: Table) -> SchemaRef {
    let keys = key_columns(table).map(|key| match key.kind {
        KeyKind::Time => Field::new(key.name, arrow_type(ColumnType::Time), false),
        KeyKind::Address => address_field(key.name),
        KeyKind::U32 => Field::new(key.name, DataType::UInt32, true),
        KeyKind::Text => Field::new(key.name, DataType::Utf8, true),
        KeyKind::Octets => octets_field(key.name),
    });
    let counters = counter_columns(table).iter().map(|column| {
        let kind = match column.kind {
            CounterKind::U32 => DataType::UInt32,
            CounterKind::U64 => DataType::UInt64,
            CounterKind::F32 => DataType::Float32,
        };
        Field::new(column.name, kind, true)
    });
    SchemaRef::new(Schema::new(keys.chain(counters).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn names_are_unique() {
        for table in [Table::InterfaceCounters, Table::HostCounters] {
            let mut names: Vec<_> = table.schema().fields().iter().map(|field| field.name().clone()).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{}", table.name());
        }
    }

    #[test]
    fn structures_are_as_long_as_the_standard_has_them() {
        let mut lengths = BTreeMap::new();
        for column in INTERFACE_COLUMNS.iter().chain(HOST_COLUMNS.iter()) {
            *lengths.entry(column.format).or_insert(0) += column.kind.octets();
        }
        let expected = [
            (1, 88),
            (2, 52),
            (3, 72),
            (5, 28),
            (1001, 28),
            (2002, 8),
            (2003, 68),
            (2004, 72),
            (2005, 52),
            (2006, 40),
            (2100, 28),
            (2101, 12),
            (2102, 16),
            (2103, 52),
            (2104, 40),
        ];
        assert_eq!(lengths, expected.into());
    }
}
