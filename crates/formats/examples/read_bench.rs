//! Reads files over and over, and tells flows for each second of the processor: `read_bench TIMES FILE…`.

use std::time::Instant;

use weir_formats::AnyReader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let times: u32 = arguments.next().ok_or("TIMES FILE…")?.parse()?;
    for path in arguments {
        let (begun, mut flows) = (Instant::now(), 0);
        for _ in 0..times {
            for batch in AnyReader::open(&path, None, &[])? {
                flows += batch?.rows();
            }
        }
        let secs = begun.elapsed().as_secs_f64();
        println!("{path}: {flows} flows in {secs:.2} s, {:.2} million/s", flows as f64 / secs / 1e6);
    }
    Ok(())
}
