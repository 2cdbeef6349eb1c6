//! How long the sorter takes for a row: CPU time of one thread, with the sorter of the reference chain and about as much
//! in its window as a large network has. `cargo run --release -p weir-blocks --example window_speed [case]`

use std::hint::black_box;

use arrow::array::RecordBatch;
use weir_blocks::transforms::sorter;
use weir_chain::{AnyKind, Built, Outlet, State, Transform, compliance};
use weir_flow::{Column, FlowBatchBuilder};

/// Rows of a run.
const ROWS: usize = 4_000_000;

/// Numbers without order, from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// A row of a flow; everything else follows from the number of the flow.
#[derive(Clone, Copy)]
struct Row {
    start: i64,
    end: i64,
    flow: u64,
}

/// Which addresses flows have.
#[derive(Clone, Copy, PartialEq)]
enum Family {
    V4,
    V6,
    Both,
}

/// Batches of eleven columns.
fn batches(rows: &[Row], batch_rows: usize, family: Family) -> Vec<RecordBatch> {
    rows.chunks(batch_rows).map(|rows| batch(rows, family)).collect()
}

fn batch(rows: &[Row], family: Family) -> RecordBatch {
    let bits = |row: &Row| Random(row.flow).next();
    let mut builder = FlowBatchBuilder::new(rows.len());
    builder.begin_rows(rows.len());
    builder.time(Column::Start).extend(rows.iter().map(|row| row.start));
    builder.time(Column::End).extend(rows.iter().map(|row| row.end));
    for (column, salt) in [(Column::SrcAddr, 1u64), (Column::DstAddr, 2)] {
        let short = |row: &Row| ((bits(row).wrapping_mul(salt) >> 20) as u32).to_be_bytes();
        let long = |row: &Row| (u128::from(bits(row).wrapping_mul(salt)) | 0x2001_0db8 << 96).to_be_bytes();
        let addresses = builder.address(column);
        match family {
            Family::V4 => addresses.extend_fixed(rows.iter().map(short)),
            Family::V6 => addresses.extend_fixed(rows.iter().map(long)),
            Family::Both => rows.iter().for_each(|row| match bits(row) % 3 {
                0 => addresses.push(Some(&long(row))),
                _ => addresses.push(Some(&short(row))),
            }),
        }
    }
    builder.u16(Column::SrcPort).extend(rows.iter().map(|row| bits(row) as u16));
    builder.u16(Column::DstPort).extend(rows.iter().map(|row| (bits(row) >> 16) as u16 & 0x3ff));
    builder.u8(Column::Protocol).extend(rows.iter().map(|row| if bits(row) & 4 == 0 { 6 } else { 17 }));
    builder.u16(Column::TcpFlags).extend(rows.iter().map(|row| bits(row) as u16 & 0x1f));
    builder.u32(Column::InIf).extend(rows.iter().map(|row| bits(row) as u32 & 7));
    builder.u64(Column::Packets).extend(rows.iter().map(|row| bits(row) >> 58));
    builder.u64(Column::Bytes).extend(rows.iter().map(|row| bits(row) >> 48));
    builder.finish().record_batch().clone()
}

/// Time that this thread has been running, nanoseconds.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Pages of memory that this thread has had to wait for.
fn page_faults() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split(' ').nth(8).and_then(|number| number.parse().ok()).unwrap_or_default()
}

fn open(kind: &'static dyn AnyKind, options: &str) -> Box<dyn Transform> {
    match compliance::open(kind, options) {
        (Built::Transform(block), _) => block,
        _ => panic!("{} is no transform", kind.name()),
    }
}

/// Runs of which the fastest counts: others use the machine, too.
const RUNS: usize = 5;

/// Runs a block and prints what it took. The first rows only fill the window and are not counted.
fn measure(name: &str, kind: &'static dyn AnyKind, options: &str, inputs: &[(usize, RecordBatch)], warm_up: usize) {
    if !std::env::args().nth(1).is_none_or(|wanted| name.contains(&wanted)) {
        return;
    }
    let rows: usize = inputs.iter().map(|(_, batch)| batch.num_rows()).sum();
    let runs = (0..std::env::var("RUNS").map_or(RUNS, |runs| runs.parse().expect("a number")))
        .map(|_| run(kind, options, inputs, warm_up));
    let Some((nanos, faults, rows_out, window)) = runs.min_by_key(|run| run.0) else { return };
    let counted = (rows - warm_up) as f64;
    println!(
        "{name:<48} {:>6.1} ns/row {:>4.1} faults/1000, window {:>8} rows {:>5} MB, {rows} rows in, {rows_out} out",
        nanos as f64 / counted,
        faults as f64 / counted * 1000.0,
        window.rows,
        window.octets / 1_000_000,
    );
}

fn run(
    kind: &'static dyn AnyKind,
    options: &str,
    inputs: &[(usize, RecordBatch)],
    warm_up: usize,
) -> (u64, u64, usize, State) {
    let mut block = open(kind, options);
    let mut out = Outlet::new();
    let (mut rows_in, mut rows_out, mut begin, mut faults) = (0, 0, 0, 0);
    let mut window = block.state();
    for (input, batch) in inputs {
        if begin == 0 && rows_in >= warm_up {
            (begin, faults) = (cpu_nanos(), page_faults());
        }
        rows_in += batch.num_rows();
        block.take(*input, batch.clone(), &mut out).expect("rows are taken");
        rows_out += out.drain().map(|burst| black_box(burst).len()).sum::<usize>();
        if window.rows < block.state().rows {
            window = block.state();
        }
    }
    (cpu_nanos() - begin, page_faults() - faults, rows_out, window)
}

/// Records as a router exports them: a hundred thousand a second, of which each started up to 20 seconds ago.
fn exported(lag_ms: impl Fn(&mut Random) -> u64) -> Vec<Row> {
    let mut random = Random(1);
    let row = |number: usize| {
        let exported = 1_700_000_000_000 + number as i64 / 100;
        let start = exported - lag_ms(&mut random) as i64;
        Row { start, end: exported, flow: number as u64 / 2 }
    };
    (0..ROWS).map(row).collect()
}

fn sorters() {
    let anywhere = exported(|random| random.below(20_000));
    let mostly =
        exported(|random| if random.below(10) == 0 { random.below(20_000) } else { 15_000 + random.below(1000) });
    let hardly = exported(|random| random.below(300));
    let first = |rows: Vec<RecordBatch>| rows.into_iter().map(|batch| (0, batch)).collect::<Vec<_>>();
    for batch_rows in [2048, 8192] {
        for (name, rows) in
            [("anywhere in 20 s", &anywhere), ("nine of ten within 1 s", &mostly), ("within 0.3 s", &hardly)]
        {
            let inputs = first(batches(rows, batch_rows, Family::V4));
            measure(&format!("sorter, bursts of {batch_rows}, {name}"), &sorter::KIND, "", &inputs, ROWS / 2);
        }
    }
    for (name, family) in [("IPv6", Family::V6), ("IPv4 and IPv6", Family::Both)] {
        let inputs = first(batches(&anywhere, 4096, family));
        measure(&format!("sorter, bursts of 4096, {name}"), &sorter::KIND, "", &inputs, ROWS / 2);
    }
}

fn main() {
    sorters();
}
