//! What handing flows over to another process costs: `hand_over append|ring RING_KIB ROWS SECONDS`.
//!
//! `append` is what weir does: a writer appends to an archive, and a follower in another process reads the tail. `ring` is a
//! ring of shared memory, as the paper has one, without anything that a real one would need: the buffers of the columns are
//! copied in, and copied out again, and no batch is made of them. So its figures are what a ring costs at least. When the ring
//! is full its writer waits. Prints rows a second, and processor time of both sides for each row.

#![expect(unsafe_code, reason = "memory that two processes share")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::Array;
use weir_archive::{ArchiveOptions, FollowEvent, FollowOptions, FollowPosition, Follower, Writer};
use weir_flow::{Delivery, FlowBatch};
use weir_generate::TrafficModel;

/// Octets before the ring: how much was written, and how much was read.
const HEAD: usize = 4096;
/// How long a side sleeps when there is nothing to do.
const IDLE: Duration = Duration::from_micros(50);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["consume", way, place] => consume(way, Path::new(place)),
        [way, ring_kib, rows, secs] => {
            let number = |text: &str| text.parse::<u64>().expect("a number");
            produce(way, number(ring_kib), number(rows), number(secs));
        }
        _ => panic!("usage: hand_over append|ring RING_KIB ROWS SECONDS"),
    }
}

fn produce(way: &str, ring_kib: u64, rows: u64, secs: u64) {
    let dir = tempfile::tempdir().expect("a folder");
    let shared = tempfile::Builder::new().tempfile_in("/dev/shm").expect("a file in memory");
    shared.as_file().set_len(HEAD as u64 + ring_kib * 1024).expect("its size");
    let model = TrafficModel { received: true, flows_per_second: 50_000, ..TrafficModel::new(7) };
    let mut flows = model.flows(u64::MAX).expect("flows");
    let batches: Vec<_> = (0..64).map(|_| flows.next_batch(rows as usize).expect("flows")).collect();
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    let mut ring = Ring::open(shared.path());
    let place = if way == "ring" { shared.path() } else { dir.path() };
    let this = std::env::current_exe().expect("this program");
    let consumer =
        Command::new(this).args(["consume", way]).arg(place).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut consumer = consumer.expect("it starts");
    let (began, before) = (Instant::now(), cpu_secs());
    let (mut handed_over, mut octets) = (0, Vec::new());
    for batch in batches.iter().cycle() {
        if way == "ring" {
            encode(batch, &mut octets);
            ring.push(&octets);
        } else {
            writer.append(Delivery::from(batch.clone())).expect("appended");
        }
        handed_over += batch.rows() as u64;
        if began.elapsed() >= Duration::from_secs(secs) {
            break;
        }
    }
    let (took, own) = (began.elapsed().as_secs_f64(), cpu_secs() - before);
    // an empty record ends the ring; the end of standard input the other
    ring.push(&[]);
    drop(consumer.stdin.take());
    let output = consumer.wait_with_output().expect("its output");
    let text = String::from_utf8(output.stdout).expect("text");
    let (seen, other) = text.trim().split_once(' ').expect("two numbers");
    let us = |secs: f64| secs * 1e6 / handed_over as f64;
    println!(
        "{way}, {rows} rows a batch: {:.0} rows/s, {seen} of {handed_over} rows seen; writer {:.3} us/row, reader {:.3} us/row",
        handed_over as f64 / took,
        us(own),
        us(other.parse().expect("seconds")),
    );
}

fn consume(way: &str, place: &Path) {
    let mut rows = 0;
    if way == "ring" {
        let (mut ring, mut octets) = (Ring::open(place), Vec::new());
        loop {
            ring.pop(&mut octets);
            let Some(count) = octets.first_chunk() else { break };
            rows += u64::from(u32::from_le_bytes(*count));
        }
    } else {
        let mut follower = Follower::open(place, FollowPosition::START, FollowOptions::default()).expect("a follower");
        let (ended, is_ended) = (AtomicU64::new(0), |ended: &AtomicU64| ended.load(Ordering::Relaxed) > 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                ended.store(1, Ordering::Relaxed);
            });
            loop {
                let was_ended = is_ended(&ended);
                match follower.next_timeout(Duration::from_millis(20)).expect("followed") {
                    Some(FollowEvent::Delivery(delivery)) => {
                        rows += delivery.flows.map_or(0, |flows| flows.rows() as u64);
                    }
                    None if was_ended => break,
                    Some(_) | None => {}
                }
            }
        });
    }
    println!("{rows} {}", cpu_secs());
}

/// The number of rows, and the buffers of the columns with their lengths.
fn encode(batch: &FlowBatch, octets: &mut Vec<u8>) {
    octets.clear();
    octets.extend((batch.rows() as u32).to_le_bytes());
    for column in batch.record_batch().columns() {
        let data = column.to_data();
        for buffer in data.buffers() {
            octets.extend((buffer.len() as u32).to_le_bytes());
            octets.extend_from_slice(buffer);
        }
    }
}

/// Records in shared memory, each with its length before it.
struct Ring {
    start: *mut u8,
    size: u64,
}

impl Ring {
    fn open(path: &Path) -> Self {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("the file");
        let len = file.metadata().expect("its length").len() as usize;
        // SAFETY: the file has this length, and stays mapped until the process ends.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, 0)
        };
        assert_ne!(start, libc::MAP_FAILED, "it cannot be mapped");
        Self { start: start.cast(), size: (len - HEAD) as u64 }
    }

    /// How much was written (0) and read (1) so far.
    fn counter(&self, which: usize) -> &AtomicU64 {
        #[expect(clippy::cast_ptr_alignment, reason = "a mapping begins at a page")]
        // SAFETY: the head is aligned, is longer than both, and is only used as these two, by both processes.
        unsafe {
            AtomicU64::from_ptr(self.start.cast::<u64>().add(which * 64))
        }
    }

    fn push(&mut self, record: &[u8]) {
        let needed = 4 + record.len() as u64;
        assert!(needed <= self.size, "a record of {needed} octets does not fit into the ring");
        let written = self.counter(0).load(Ordering::Relaxed);
        while written + needed - self.counter(1).load(Ordering::Acquire) > self.size {
            std::thread::sleep(IDLE);
        }
        self.copy_in(written, &(record.len() as u32).to_le_bytes());
        self.copy_in(written + 4, record);
        self.counter(0).store(written + needed, Ordering::Release);
    }

    fn pop(&mut self, record: &mut Vec<u8>) {
        let read = self.counter(1).load(Ordering::Relaxed);
        while self.counter(0).load(Ordering::Acquire) == read {
            std::thread::sleep(IDLE);
        }
        let mut len = [0; 4];
        self.copy_out(read, &mut len);
        let len = u32::from_le_bytes(len);
        record.resize(len as usize, 0);
        self.copy_out(read + 4, record);
        self.counter(1).store(read + 4 + u64::from(len), Ordering::Release);
    }

    /// The parts of the ring that octets at a place are in: where each begins, and how long the first is.
    fn parts(&self, at: u64, len: usize) -> (*mut u8, usize, *mut u8) {
        let at = (at % self.size) as usize;
        let first = len.min(self.size as usize - at);
        // SAFETY: both are within the mapping.
        unsafe { (self.start.add(HEAD + at), first, self.start.add(HEAD)) }
    }

    fn copy_in(&self, at: u64, octets: &[u8]) {
        let (one, first, other) = self.parts(at, octets.len());
        // SAFETY: the reader does not look at what is not counted as written yet.
        unsafe {
            std::ptr::copy_nonoverlapping(octets.as_ptr(), one, first);
            std::ptr::copy_nonoverlapping(octets.as_ptr().add(first), other, octets.len() - first);
        }
    }

    fn copy_out(&self, at: u64, octets: &mut [u8]) {
        let (one, first, other) = self.parts(at, octets.len());
        // SAFETY: the writer does not touch what is not counted as read yet.
        unsafe {
            std::ptr::copy_nonoverlapping(one, octets.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(other, octets.as_mut_ptr().add(first), octets.len() - first);
        }
    }
}

/// Time that this process has spent on processors, in seconds; ticks of Linux are hundredths.
fn cpu_secs() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("this process");
    let (_, rest) = text.rsplit_once(')').expect("a name");
    let fields: Vec<f64> = rest.split(' ').skip(12).take(2).map(|field| field.parse().expect("ticks")).collect();
    fields.iter().sum::<f64>() / 100.0
}
