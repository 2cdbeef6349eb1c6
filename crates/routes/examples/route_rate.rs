//! How fast routes are found: `route_rate [FILE...]`, with files as `RouteTableBuilder` loads them.
//!
//! Without files a table is made up with as many prefixes of each length as the internet's has in round numbers: a
//! million of IPv4 and 220 thousand of IPv6. Looked up are addresses within its prefixes, in an order that nothing can
//! foresee: some that come again and again, as those of flows do, and ever new ones.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Instant;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_routes::{AsChoice, Attributes, Lookups, Route, RouteTable, RouteTableBuilder};

/// Prefixes of IPv4 by their length, in thousands.
const LENGTHS_V4: [(u8, u32); 14] = [
    (8, 1),
    (11, 1),
    (13, 1),
    (14, 1),
    (15, 2),
    (16, 13),
    (17, 8),
    (18, 14),
    (19, 25),
    (20, 45),
    (21, 53),
    (22, 112),
    (23, 104),
    (24, 620),
];
/// Prefixes of IPv6 by their length, in thousands.
const LENGTHS_V6: [(u8, u32); 8] = [(28, 1), (29, 5), (32, 26), (36, 12), (40, 28), (44, 33), (46, 5), (48, 110)];
/// Lookups of a measurement.
const LOOKUPS: usize = 50_000_000;
/// Addresses that are looked up together: those of the flows of a batch.
const BATCH: usize = 16 << 10;
/// Times that each is measured; the best counts.
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    let mut builder = RouteTableBuilder::new(AsChoice::Origin);
    let start = Instant::now();
    for file in &files {
        println!("{file}: {:?}", builder.load(Path::new(file))?);
    }
    if files.is_empty() {
        (v4, v6) = made_up(&mut random, &mut builder);
    }
    println!("prefixes read in {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let table = builder.build()?;
    let [prefixes_v4, prefixes_v6] = table.prefixes();
    println!(
        "{prefixes_v4} prefixes of IPv4, {prefixes_v6} of IPv6; built in {:.2} s; {:.1} MiB",
        start.elapsed().as_secs_f64(),
        table.octets() as f64 / f64::from(1 << 20)
    );
    if v4.is_empty() {
        (v4, v6) = ((0..1 << 20).map(|_| random.next_u32()).collect(), vec![0x2001_0db8 << 96]);
    }
    for addresses in [1 << 10, 1 << 14, 1 << 17, 1 << 20] {
        let some: Vec<_> = (0..addresses).map(|_| Ipv4Addr::from_bits(pick(&v4, &mut random))).collect();
        report("IPv4", addresses, rate(&some, &table, |table, address| table.find_v4(address).map(parts)));
        report("IPv4 together", addresses, rate_together(&some, &table));
        let some: Vec<_> = (0..addresses).map(|_| Ipv6Addr::from_bits(pick(&v6, &mut random))).collect();
        report("IPv6", addresses, rate(&some, &table, |table, address| table.find_v6(address).map(parts)));
        report("IPv6 together", addresses, rate_together(&some, &table));
    }
    Ok(())
}

fn pick<T: Copy>(from: &[T], random: &mut Xoshiro256PlusPlus) -> T {
    from[random.next_u64() as usize % from.len()]
}

fn report(what: &str, addresses: usize, (per_second, found): (f64, usize)) {
    println!(
        "{what}, {addresses} addresses again and again: {:.1} million lookups a second, {found} found",
        per_second / 1e6
    );
}

/// What a flow takes of its route.
fn parts(route: Route) -> (u32, u8) {
    (route.attributes.autonomous_system, route.prefix_bits)
}

/// Lookups a second, and how many of the addresses have a route.
fn rate<A: Copy>(
    addresses: &[A],
    table: &RouteTable,
    find: impl Fn(&RouteTable, A) -> Option<(u32, u8)>,
) -> (f64, usize) {
    let found = addresses.iter().filter(|address| find(table, **address).is_some()).count();
    let rounds = LOOKUPS / addresses.len();
    let mut best = 0_f64;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..rounds {
            for address in addresses {
                black_box(find(table, black_box(*address)));
            }
        }
        best = best.max((rounds * addresses.len()) as f64 / start.elapsed().as_secs_f64());
    }
    (best, found)
}

/// The same of addresses that are looked up together, as those of a batch of flows are.
fn rate_together<A: Copy + Into<IpAddr>>(addresses: &[A], table: &RouteTable) -> (f64, usize) {
    let mut lookups = Lookups::default();
    let mut found = 0;
    let mut all = |found: &mut usize| {
        for batch in addresses.chunks(BATCH) {
            lookups.find(table, batch.iter().map(|address| black_box(*address).into()));
            for route in lookups.routes(table) {
                *found += usize::from(black_box(route.map(parts)).is_some());
            }
        }
    };
    all(&mut found);
    let rounds = LOOKUPS / addresses.len();
    let mut best = 0_f64;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut again = 0;
        (0..rounds).for_each(|_| all(&mut again));
        assert_eq!(again, found * rounds, "the same is found each time");
        best = best.max((rounds * addresses.len()) as f64 / start.elapsed().as_secs_f64());
    }
    (best, found)
}

/// Prefixes by chance, and an address within each.
fn made_up(random: &mut Xoshiro256PlusPlus, builder: &mut RouteTableBuilder) -> (Vec<u32>, Vec<u128>) {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    let attributes = |random: &mut Xoshiro256PlusPlus| {
        // A system is reached by few ways.
        let autonomous_system = 1 + random.next_u32() % 75_000;
        let hop = Ipv4Addr::from_bits(0xc000_0200 + autonomous_system % 64);
        Attributes { autonomous_system, next_hop: None, bgp_next_hop: Some(IpAddr::V4(hop)) }
    };
    for (bits, thousands) in LENGTHS_V4 {
        for _ in 0..thousands * 1000 {
            let within = random.next_u32();
            builder.insert(Ipv4Addr::from_bits(within).into(), bits, attributes(random));
            v4.push(within);
        }
    }
    for (bits, thousands) in LENGTHS_V6 {
        for _ in 0..thousands * 1000 {
            // 2000::/3, of which the registries have given out a small part.
            let within = 0x2000_u128 << 112 | u128::from(random.next_u64() >> 7) << 64 | u128::from(random.next_u64());
            builder.insert(Ipv6Addr::from_bits(within).into(), bits, attributes(random));
            v6.push(within);
        }
    }
    (v4, v6)
}
