//! Prints how fast this machine generates the records of two routers, and the truth about them.
//!
//! `cargo run --release -p weir-generate --example router_pair -- 21384000`

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;

use arrow::datatypes::{TimestampMillisecondType, UInt8Type};
use weir_flow::Column;
use weir_generate::{Router, RouterPair};

fn main() -> Result<(), Box<dyn Error>> {
    let conversations: u64 = std::env::args().nth(1).map_or(Ok(1_000_000), |count| count.parse())?;
    let pair = RouterPair::new(1);
    for router in [Router::First, Router::Second] {
        let (mut records, begun) = (pair.records(router, conversations)?, Instant::now());
        let (mut reasons, mut last_ms) = (BTreeMap::<u8, u64>::new(), pair.start_ms);
        for batch in records.by_ref() {
            for &reason in batch.primitive::<UInt8Type>(Column::EndReason).map_or(&[][..], |column| column.values()) {
                *reasons.entry(reason).or_default() += 1;
            }
            let received = batch.primitive::<TimestampMillisecondType>(Column::Received);
            last_ms = received.and_then(|column| column.values().last().copied()).unwrap_or(last_ms);
        }
        let (count, seconds) = (records.totals().flows as f64, begun.elapsed().as_secs_f64());
        println!("{router:?} router: {:.2} million records/s", count / seconds / 1e6);
        println!("  records       {count} over {} s", (last_ms - pair.start_ms) / 1000);
        println!("  conversation  {:.3} records", count / conversations as f64);
        println!("  end reasons   {reasons:?}");
    }
    let begun = Instant::now();
    let truth = pair.truth(conversations)?;
    println!("truth: {:.2} million conversations/s", conversations as f64 / begun.elapsed().as_secs_f64() / 1e6);
    print!("{truth}");
    Ok(())
}
