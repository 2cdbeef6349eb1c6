//! Starts nodes of Cassandra, prints where they are, and ends them when standard input ends.
//!
//! usage: `cassandra [nodes [heap in MiB [lines of cassandra.yaml [cable]]]]`; with `cable` each node has a network of its own, behind a cable

use std::io::Read;

use weir_testkit::cassandra::{Cassandra, CassandraOptions};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u32| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let more = arguments.get(2).cloned().unwrap_or_default();
    let networks = arguments.get(3).is_some_and(|word| word == "cable");
    let (nodes, heap_mib) = (number(0, 1) as u8, number(1, 1024));
    let options = CassandraOptions { nodes, heap_mib, more, networks, ..CassandraOptions::default() };
    let Some(cluster) = Cassandra::start(&options) else { return };
    let pids: Vec<_> = (0..usize::from(options.nodes)).filter_map(|node| cluster.pid(node)).collect();
    println!("{} pids {pids:?}", cluster.hosts());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
