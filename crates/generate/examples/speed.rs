//! Prints how many flows per second this machine generates, and encodes in each version.
//!
//! `cargo run --release -p weir-generate --example speed -- 2000000`

use std::error::Error;
use std::time::{Duration, Instant};

use weir_export::{Exporter, ExporterConfig, Version};
use weir_generate::TrafficModel;

fn main() -> Result<(), Box<dyn Error>> {
    let count: u64 = std::env::args().nth(1).map_or(Ok(2_000_000), |count| count.parse())?;
    let million_per_second = |elapsed: Duration| count as f64 / elapsed.as_secs_f64() / 1e6;
    for ipv6_permille in [0, 200] {
        let model = TrafficModel { ipv6_permille, ..TrafficModel::new(1) };
        let (mut flows, begun) = (model.flows(count)?, Instant::now());
        let batches = flows.by_ref().count();
        let elapsed = begun.elapsed();
        println!("ipv6 {ipv6_permille} in 1000");
        println!("  generate     {:6.2} million flows/s in {batches} batches", million_per_second(elapsed));
        for version in [Version::V5, Version::V9, Version::Ipfix] {
            let mut exporter = Exporter::new(ExporterConfig::new(version))?;
            let (mut flows, mut octets, mut elapsed) = (model.flows(count)?, 0, Duration::ZERO);
            while let Some(batch) = flows.next() {
                let begun = Instant::now();
                exporter.encode(&batch, flows.clock_ms(), &mut |datagram| octets += datagram.octets.len());
                elapsed += begun.elapsed();
            }
            let per_flow = octets as f64 / exporter.exported().flows.max(1) as f64;
            println!("  {version:<12} {:6.2} million flows/s, {per_flow:.1} octets each", million_per_second(elapsed));
        }
    }
    Ok(())
}
