//! Flows that have ended, as rows.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use weir_flow::icmp::{ICMP, ICMPV6};
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};

use crate::cache::{EndReason, Flow, FlowSink};
use crate::digest::Digest;
use crate::endpoints::{Endpoints, FlowEndpoints};
use crate::key::KeyParts;
use crate::measures::{Measured, Measurer};
use crate::options::MeterOptions;
use crate::route_columns::RouteColumns;

/// Rows of a batch.
const BATCH_ROWS: usize = 16 << 10;
/// Flows that are put into columns together: so few that they are still in the nearest cache when the last column reads
/// them.
const GROUP_ROWS: usize = 128;
/// Longest time that rows wait for a batch to become full, for those who look at flows as they come.
const WAIT_MAX: Duration = Duration::from_secs(1);
const TCP: u8 = 6;

/// A flow that has ended.
#[derive(Debug)]
struct Row {
    flow: Flow,
    measured: Option<Box<Measured>>,
    parts: KeyParts,
    reason: EndReason,
    /// When it was found to be over, by the time of packets.
    ended_us: i64,
}

/// Collects flows and makes batches of them.
#[derive(Debug)]
pub(crate) struct FlowRows {
    /// Flows that are not in columns yet.
    rows: Vec<Row>,
    builder: FlowBatchBuilder,
    options: MeterOptions,
    /// Numbers of interfaces by their position in keys.
    interfaces: Vec<u32>,
    measurer: Measurer,
    routes: Option<RouteColumns>,
    /// Where the ends of tunnels are part of the key.
    endpoints: Option<FlowEndpoints>,
    /// Whether anything is noted of packets.
    needs_packets: bool,
    flows: u64,
    /// When rows were delivered last.
    handed_on: Instant,
}

impl FlowRows {
    pub(crate) fn new(options: &MeterOptions, endpoints: Option<FlowEndpoints>) -> Self {
        let measurer = Measurer::new(options);
        Self {
            rows: Vec::with_capacity(GROUP_ROWS),
            builder: FlowBatchBuilder::new(BATCH_ROWS),
            options: options.clone(),
            interfaces: Vec::new(),
            needs_packets: measurer.needs_packets() || endpoints.is_some(),
            measurer,
            routes: options.routes.clone().map(RouteColumns::new),
            endpoints,
            flows: 0,
            handed_on: Instant::now(),
        }
    }

    /// Flows delivered so far.
    pub(crate) fn flows(&self) -> u64 {
        self.flows
    }

    /// Flows that wait for a batch, the last of [`flows`](Self::flows).
    pub(crate) fn waiting(&self) -> u64 {
        (self.rows.len() + self.builder.rows()) as u64
    }

    /// What looks into packets.
    pub(crate) fn measurer(&mut self) -> &mut Measurer {
        &mut self.measurer
    }

    /// Makes a batch of what there is, when that is enough, has waited for a second, or anyhow.
    pub(crate) fn deliver(
        &mut self,
        anyhow: bool,
        interfaces: &mut dyn FnMut() -> Vec<u32>,
        out: &mut dyn FnMut(FlowBatch),
    ) {
        let rows = self.builder.rows() + self.rows.len();
        if rows == 0 || (rows < BATCH_ROWS && !anyhow && self.handed_on.elapsed() < WAIT_MAX) {
            return;
        }
        self.handed_on = Instant::now();
        self.put_into_columns(interfaces);
        out(self.builder.finish());
    }

    /// Notes what is wanted of a packet.
    fn packet(&mut self, slot: u32, flow: &Flow, digest: &Digest) {
        if let Some(endpoints) = &mut self.endpoints {
            endpoints.packet(slot, flow, digest);
        }
        if self.measurer.needs_packets() {
            self.measurer.packet(slot, digest, flow.is_forward(digest));
        }
    }

    /// What was noted of the packets of a flow that ends, but for the ends of its tunnel, which wait in the order of the
    /// rows.
    fn end_packets(&mut self, slot: u32) -> Option<Box<Measured>> {
        if let Some(endpoints) = &mut self.endpoints {
            endpoints.end(slot);
        }
        self.measurer.end(slot)
    }

    fn put_into_columns(&mut self, interfaces: &mut dyn FnMut() -> Vec<u32>) {
        if self.rows.is_empty() {
            return;
        }
        if self.rows.iter().any(|row| usize::from(row.parts.interface) >= self.interfaces.len()) {
            self.interfaces = interfaces();
        }
        let mut rows = std::mem::take(&mut self.rows);
        self.builder.begin_rows(rows.len());
        self.times(&rows);
        self.key(&rows);
        self.forward(&rows);
        if self.options.is_biflow {
            self.backward(&rows);
        }
        self.endpoints();
        self.measured(&mut rows);
        if let Some(routes) = &mut self.routes {
            routes.write(&self.options.fields, rows.iter().map(|row| row.flow.key()), &mut self.builder);
        }
        rows.clear();
        self.rows = rows;
    }

    fn endpoints(&mut self) {
        let Some(endpoints) = &mut self.endpoints else { return };
        let ended: Vec<_> = endpoints.take_ended().collect();
        let column = self.builder.address(Column::TunnelSrcAddr);
        for ends in &ended {
            column.push(ends.as_ref().map(Endpoints::src));
        }
        let column = self.builder.address(Column::TunnelDstAddr);
        for ends in &ended {
            column.push(ends.as_ref().map(Endpoints::dst));
        }
    }

    fn measured(&mut self, rows: &mut [Row]) {
        let measures = self.options.measures;
        if measures.macs {
            for (side, column) in [Column::SrcMac, Column::DstMac].into_iter().enumerate() {
                let column = self.builder.address(column);
                for row in &*rows {
                    column.push(row.measured.as_ref().and_then(|measured| measured.macs()).map(|macs| &macs[side][..]));
                }
            }
        }
        if measures.tells_elements() {
            let measured = rows.iter_mut().map(|row| row.measured.take()).collect();
            self.measurer.write(rows.iter().map(|row| &row.flow), measured, &mut self.builder);
        }
    }

    fn times(&mut self, rows: &[Row]) {
        let builder = &mut self.builder;
        builder.time(Column::Received).extend(rows.iter().map(|row| ms(row.ended_us)));
        builder.time(Column::Start).extend(rows.iter().map(|row| ms(row.flow.first_us())));
        builder.time(Column::End).extend(rows.iter().map(|row| ms(row.flow.last_us())));
        match self.options.exporter {
            Some(IpAddr::V4(address)) => builder.address(Column::Exporter).repeat(&address.octets(), rows.len()),
            Some(IpAddr::V6(address)) => builder.address(Column::Exporter).repeat(&address.octets(), rows.len()),
            None => {}
        }
        let domain = self.options.observation_domain;
        builder.u32(Column::ObservationDomain).repeat(domain, rows.len());
        builder.u8(Column::EndReason).extend(rows.iter().map(|row| row.reason as u8));
        if let Some((_, interval)) = self.options.sampling {
            builder.u32(Column::SamplingInterval).repeat(interval, rows.len());
        }
    }

    fn key(&mut self, rows: &[Row]) {
        let (builder, fields) = (&mut self.builder, &self.options.fields);
        let keys = || rows.iter().map(|row| row.flow.key());
        if fields.src_addr {
            let column = builder.address(Column::SrcAddr);
            keys().for_each(|key| column.push(Some(address(&key.src_octets(), key.is_ipv6()))));
        }
        if fields.dst_addr {
            let column = builder.address(Column::DstAddr);
            keys().for_each(|key| column.push(Some(address(&key.dst_octets(), key.is_ipv6()))));
        }
        let parts = || rows.iter().map(|row| &row.parts);
        let ports = |parts: &KeyParts| !is_icmp(parts.protocol) || !self.options.is_biflow;
        if fields.src_port {
            let column = builder.u16(Column::SrcPort);
            parts().for_each(|parts| column.push(ports(parts).then_some(parts.src_port)));
        }
        if fields.dst_port {
            let column = builder.u16(Column::DstPort);
            parts().for_each(|parts| column.push(ports(parts).then_some(parts.dst_port)));
        }
        if fields.protocol {
            builder.u8(Column::Protocol).extend(parts().map(|parts| parts.protocol));
        }
        if fields.vlan && parts().any(|parts| parts.vlan > 0) {
            let column = builder.u16(Column::SrcVlan);
            parts().for_each(|parts| column.push(parts.vlan.checked_sub(1)));
        }
        if fields.interface {
            let numbers = &self.interfaces;
            let column = builder.u32(Column::InIf);
            parts().for_each(|parts| column.push(numbers.get(usize::from(parts.interface)).copied()));
        }
        if fields.dst_port && parts().any(|parts| is_icmp(parts.protocol)) {
            self.icmp(rows);
        }
    }

    fn icmp(&mut self, rows: &[Row]) {
        let is_biflow = self.options.is_biflow;
        let icmp = move |row: &Row| {
            let kind = if is_biflow { row.parts.src_port as u8 } else { (row.parts.dst_port >> 8) as u8 };
            is_icmp(row.parts.protocol).then_some((kind, row.flow.icmp_code()))
        };
        let column = self.builder.u8(Column::IcmpType);
        for row in rows {
            column.push(icmp(row).map(|icmp| icmp.0));
        }
        let column = self.builder.u8(Column::IcmpCode);
        for row in rows {
            column.push(icmp(row).map(|icmp| icmp.1));
        }
    }

    fn forward(&mut self, rows: &[Row]) {
        let builder = &mut self.builder;
        let tcp = |row: &Row| row.parts.protocol == TCP || !self.options.fields.protocol;
        let column = builder.u16(Column::TcpFlags);
        for row in rows {
            column.push(tcp(row).then_some(row.flow.tcp_flags().0));
        }
        builder.u8(Column::Tos).extend(rows.iter().map(|row| row.flow.tos()));
        builder.u64(Column::Packets).extend(rows.iter().map(|row| row.flow.forward().packets));
        builder.u64(Column::Bytes).extend(rows.iter().map(|row| row.flow.forward().octets));
        builder.u8(Column::MinTtl).extend(rows.iter().map(|row| row.flow.ttl().0));
        builder.u8(Column::MaxTtl).extend(rows.iter().map(|row| row.flow.ttl().1));
    }

    fn backward(&mut self, rows: &[Row]) {
        let builder = &mut self.builder;
        builder.u64(Column::BytesReverse).extend(rows.iter().map(|row| row.flow.backward().octets));
        builder.u64(Column::PacketsReverse).extend(rows.iter().map(|row| row.flow.backward().packets));
        let answered = |row: &Row| row.flow.backward().packets > 0;
        let column = builder.u16(Column::TcpFlagsReverse);
        for row in rows {
            column.push((row.parts.protocol == TCP && answered(row)).then_some(row.flow.tcp_flags().1));
        }
        let column = builder.time(Column::StartReverse);
        for row in rows {
            column.push(answered(row).then_some(ms(row.flow.backward().first_us)));
        }
        let column = builder.time(Column::EndReverse);
        for row in rows {
            column.push(answered(row).then_some(ms(row.flow.backward().last_us)));
        }
    }
}

/// Rows, and where they go as soon as they fill a batch. However many flows end at once, no more than a batch is held.
pub(crate) struct BatchDelivery<'r> {
    pub(crate) rows: &'r mut FlowRows,
    pub(crate) interfaces: &'r mut dyn FnMut() -> Vec<u32>,
    pub(crate) out: &'r mut dyn FnMut(FlowBatch),
}

impl FlowSink for BatchDelivery<'_> {
    #[inline]
    fn flow(&mut self, slot: u32, flow: &Flow, reason: EndReason, ended_us: i64) {
        let rows = &mut *self.rows;
        rows.flows += 1;
        let measured = if rows.needs_packets { rows.end_packets(slot) } else { None };
        rows.rows.push(Row { flow: *flow, measured, parts: flow.key().parts(), reason, ended_us });
        if rows.rows.len() < GROUP_ROWS {
            return;
        }
        rows.put_into_columns(self.interfaces);
        if rows.builder.rows() >= BATCH_ROWS {
            rows.deliver(true, self.interfaces, self.out);
        }
    }

    #[inline]
    fn packet(&mut self, slot: u32, flow: &Flow, digest: &Digest) {
        if self.rows.needs_packets {
            self.rows.packet(slot, flow, digest);
        }
    }
}

const fn ms(time_us: i64) -> i64 {
    time_us.div_euclid(1_000)
}

const fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, ICMP | ICMPV6)
}

fn address(octets: &[u8; 16], is_ipv6: bool) -> &[u8] {
    if is_ipv6 { octets } else { &octets[..4] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::FlowCache;
    use crate::key::{FlowKey, KeyHasher};

    #[test]
    fn many_flows_that_end_at_once_are_not_held() {
        const FLOWS: usize = 4 * BATCH_ROWS + 7;
        let options = MeterOptions { flows_max: FLOWS, ..MeterOptions::default() };
        let hasher = KeyHasher::new(1);
        let mut cache = FlowCache::new(FLOWS, options.timeouts, false, hasher.clone());
        let mut rows = FlowRows::new(&options, None);
        let mut batches = Vec::new();
        let mut delivery = BatchDelivery {
            rows: &mut rows,
            interfaces: &mut || vec![1],
            out: &mut |batch| batches.push(batch.rows()),
        };
        for number in 0..FLOWS as u32 {
            let parts = KeyParts { ip_version: 4, ..KeyParts::default() };
            let key = FlowKey::new(&number.to_be_bytes(), &[192, 0, 2, 1], parts);
            let digest = Digest {
                key,
                hash: hasher.hash(&key),
                time_us: 0,
                octets: 40,
                packet: 0,
                tcp_flags: 0,
                ttl: 64,
                tos: 0,
                icmp_code: 0,
                marks: 0,
            };
            cache.take(&[digest], &mut delivery);
        }
        cache.finish(0, &mut delivery);
        assert!(rows.builder.rows() < BATCH_ROWS, "{} rows are held", rows.builder.rows());
        rows.deliver(true, &mut || vec![1], &mut |batch| batches.push(batch.rows()));
        assert_eq!(batches.iter().sum::<usize>(), FLOWS);
        assert!(batches.iter().all(|batch| *batch <= BATCH_ROWS));
    }
}
