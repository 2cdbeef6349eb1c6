//! The options of the source `meter`, and the columns that flows have by them.

use std::net::IpAddr;
use std::path::PathBuf;

use weir_chain::{ByteSize, TimeSpan, choices, options};
use weir_flow::Column;

choices! {
    /// What distinguishes one flow from another.
    pub enum FlowKey {
        /// Source address.
        SrcAddr = "src_addr",
        /// Destination address.
        DstAddr = "dst_addr",
        /// Source port.
        SrcPort = "src_port",
        /// Destination port, or type and code of ICMP.
        DstPort = "dst_port",
        /// Protocol over IP.
        Protocol = "protocol",
        /// Type of service; not part of the key of biflows, whose directions may differ in it.
        Tos = "tos",
        /// Outermost VLAN.
        Vlan = "vlan",
        /// Interface on which the packet was captured.
        Interface = "interface",
        /// Kind and identifier of the tunnel: VNI, TEID, key.
        Tunnel = "tunnel",
        /// Addresses of the outermost packet that carries another one, in the columns `tunnel_src_addr` and
        /// `tunnel_dst_addr`; its ports are not part of the key.
        TunnelEndpoints = "tunnel_endpoints",
    }
}

choices! {
    /// Which headers of packets in tunnels are metered.
    pub enum Headers {
        /// Those inside the innermost tunnel.
        Inner = "inner",
        /// The outermost ones.
        Outer = "outer",
    }
}

choices! {
    /// Which packets are metered.
    pub enum Sampling {
        /// All packets.
        None = "none",
        /// Every n-th packet.
        Count = "count",
        /// Each packet with a chance of 1 in n.
        Random = "random",
        /// All packets of one flow in n.
        Flow = "flow",
    }
}

choices! {
    /// What flows have besides their counters.
    pub enum Measure {
        /// Nothing.
        None = "none",
        /// The application, and what its first packets say of it, in the columns `application`, `server_name`, `ja4`, `ja3`,
        /// `alpn`, `dns_name`, `http_host` and `user_agent`.
        Application = "application",
        /// Round-trip times of the handshake and retransmissions, in the columns `tcp_rtt`, `retransmissions` and
        /// `retransmissions_reverse`; segments out of order, initial window.
        Tcp = "tcp",
        /// MAC addresses.
        Mac = "mac",
        /// MPLS labels.
        Mpls = "mpls",
        /// Start and end in microseconds.
        Microseconds = "microseconds",
    }
}

choices! {
    /// Which autonomous system of a path a flow has.
    pub enum RouteAs {
        /// The one that the prefix belongs to.
        Origin = "origin",
        /// The neighbour that the route came from; databases know origins only.
        Peer = "peer",
    }
}

options! {
    /// Options of the source `meter`.
    pub struct MeterSourceOptions {
        /// Meter the packets of these capture files; - means standard input.
        files: Vec<PathBuf> = Vec::new(),
        /// Capture on these interfaces, instead of reading files; it takes CAP_NET_RAW.
        interfaces: Vec<String> = Vec::new(),
        /// Address of the exporter that flows have.
        exporter: IpAddr = IpAddr::from([127, 0, 0, 1]),
        /// Keep only flows that match, in nfdump's filter language; the others are counted in the books under
        /// records_filtered.
        filter: Option<String>,
    }
    includes {
        /// Which packets.
        packets: PacketOptions,
        /// What a flow is.
        flows: FlowOptions,
        /// What flows have besides their counters.
        measured: MeasureOptions,
        /// What flows have of the networks of their addresses.
        routing: RouteOptions,
    }
}

options! {
    /// Which packets are metered, and how they are captured.
    pub struct PacketOptions {
        /// Meter only packets that match, in libpcap's filter language: 'tcp port 443'.
        packet_filter: Option<String>,
        /// Receive also packets that are not meant for this machine.
        promiscuous: bool = true; off "Receive only packets that are meant for this machine",
        /// Capture this much of each packet on interfaces, 256KiB at most; without it 256B, or 2KiB when measures look into
        /// the payload.
        snap_length: Option<ByteSize> => 1..=262_144,
        /// Memory that the system fills with packets, for each interface and worker.
        buffer: ByteSize = ByteSize::from_mib(64) => 1 << 20..=1 << 32,
        /// Meter only some packets.
        sampling: Sampling = Sampling::None,
        /// Select one packet (or flow) in this many; see `sampling`.
        sampling_interval: u32 = 1 => 1..=u32::MAX as u64,
        /// Try to capture again this often once all interfaces have gone away; without it the meter ends then. In weir serve it
        /// is 5s.
        interface_retry: Option<TimeSpan>,
        /// Workers, each with a processor core to itself; one alone runs in the thread of the chain.
        workers: usize = 1 => 1..=256,
    }
}

options! {
    /// What a flow is, and when it ends.
    pub struct FlowOptions {
        /// Flow Keys.
        keys: Vec<FlowKey> = DEFAULT_KEYS.to_vec(),
        /// Meter these headers of packets in tunnels.
        headers: Headers = Headers::Inner,
        /// Make one flow of both directions (RFC 5103).
        biflow: bool = false,
        /// Export a long-running flow after this time.
        active_timeout: TimeSpan = TimeSpan::from_secs(1800),
        /// End a flow after this time without a packet.
        idle_timeout: TimeSpan = TimeSpan::from_secs(15),
        /// End a flow of few packets after this time without a packet; without it after the idle timeout.
        fast_timeout: Option<TimeSpan>,
        /// Apply the fast timeout to flows of at most this many packets.
        fast_packets_max: u32 = 3 => 1..=u32::MAX as u64,
        /// Keep a flow that TCP has ended this long, for packets still on their way.
        closed_timeout: TimeSpan = TimeSpan::from_secs(2),
        /// Keep at most this many flows, over all workers, in 139 to 150 bytes each; when the table is full, flows of the
        /// fewest packets end first.
        flows_max: usize = 1_000_000 => 16..=1 << 31,
        /// Observation Domain of the flows.
        domain: u32 = 0,
    }
}

options! {
    /// What flows have besides their counters.
    pub struct MeasureOptions {
        /// Measure these as well; without it, the application of what is read from files, and nothing of interfaces. What
        /// has no column of its own goes to the column `elements`.
        measures: Option<Vec<Measure>>,
    }
}

options! {
    /// What flows have of the networks of their addresses.
    pub struct RouteOptions {
        /// Fill `src_as`, `dst_as`, `src_mask`, `dst_mask`, `next_hop` and `bgp_next_hop` from these files: MRT dumps of
        /// routing tables (TABLE_DUMP, TABLE_DUMP_V2), MaxMind databases of autonomous systems, or lines of prefixes; also
        /// compressed with gzip, bzip2 or zstd. The content shows the format. If a prefix is in several files, the last
        /// counts. A file without any route is an error; records that cannot be used are counted.
        routes: Vec<PathBuf> = Vec::new(),
        /// Use this autonomous system of a path.
        route_as: RouteAs = RouteAs::Origin,
        /// While interfaces are metered, look this often whether a file of routes has changed; one that has, and is the same
        /// at two looks, is read again. 0s: never.
        routes_reload: TimeSpan = TimeSpan::from_secs(5),
    }
}

/// The Flow Keys of a meter without options: the five-tuple, and what separates customers and interfaces.
pub const DEFAULT_KEYS: [FlowKey; 8] = [
    FlowKey::SrcAddr,
    FlowKey::DstAddr,
    FlowKey::SrcPort,
    FlowKey::DstPort,
    FlowKey::Protocol,
    FlowKey::Tos,
    FlowKey::Vlan,
    FlowKey::Interface,
];

/// Columns that every flow has.
const ALWAYS: [Column; 12] = [
    Column::Received,
    Column::Start,
    Column::End,
    Column::Exporter,
    Column::ObservationDomain,
    Column::TcpFlags,
    Column::Tos,
    Column::Packets,
    Column::Bytes,
    Column::MinTtl,
    Column::MaxTtl,
    Column::EndReason,
];

impl MeterSourceOptions {
    /// What is measured: files have time for the application.
    pub(super) fn measures(&self) -> Vec<Measure> {
        match &self.measured.measures {
            Some(measures) => measures.iter().copied().filter(|measure| *measure != Measure::None).collect(),
            None if self.interfaces.is_empty() => vec![Measure::Application],
            None => Vec::new(),
        }
    }

    /// The columns that flows may have, in the order of the schema. Which of them the first flows have says nothing about
    /// those that come later.
    pub fn columns(&self) -> Vec<Column> {
        Column::ALL.iter().copied().filter(|&column| self.has_column(column)).collect()
    }

    fn has_column(&self, column: Column) -> bool {
        let is_key = |key| self.flows.keys.contains(&key);
        let measures = self.measures();
        let is_measured = |measure| measures.contains(&measure);
        match column {
            Column::SrcAddr => is_key(FlowKey::SrcAddr),
            Column::DstAddr => is_key(FlowKey::DstAddr),
            Column::SrcPort => is_key(FlowKey::SrcPort),
            Column::DstPort | Column::IcmpType | Column::IcmpCode => is_key(FlowKey::DstPort),
            Column::Protocol => is_key(FlowKey::Protocol),
            Column::SrcVlan => is_key(FlowKey::Vlan),
            Column::InIf => is_key(FlowKey::Interface),
            Column::TunnelSrcAddr | Column::TunnelDstAddr => is_key(FlowKey::TunnelEndpoints),
            Column::SrcMac | Column::DstMac => is_measured(Measure::Mac),
            Column::Application
            | Column::ApplicationId
            | Column::ServerName
            | Column::Ja4
            | Column::Ja3
            | Column::Alpn
            | Column::DnsName
            | Column::HttpHost
            | Column::UserAgent => is_measured(Measure::Application),
            Column::TcpRtt | Column::Retransmissions | Column::RetransmissionsReverse => is_measured(Measure::Tcp),
            // who has not asked for measures wants columns
            Column::Elements => {
                self.measured.measures.is_some() && measures.iter().any(|measure| *measure != Measure::Mac)
            }
            Column::SamplingInterval => self.packets.sampling != Sampling::None,
            Column::SrcAs
            | Column::DstAs
            | Column::SrcMask
            | Column::DstMask
            | Column::NextHop
            | Column::BgpNextHop => !self.routing.routes.is_empty(),
            Column::BytesReverse
            | Column::PacketsReverse
            | Column::TcpFlagsReverse
            | Column::StartReverse
            | Column::EndReverse => self.flows.biflow,
            _ => ALWAYS.contains(&column),
        }
    }
}
