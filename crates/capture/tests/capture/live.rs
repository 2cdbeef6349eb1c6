//! Live capture, in a network namespace that the test makes: two interfaces that are the ends of one cable.
//!
//! Datagrams are sent to an address that nobody has, whose link address is written into the neighbour table; so whatever
//! comes out at the other end was sent by the test.

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use weir_capture::{FillOutcome, LiveOptions, PacketBlock, PacketSource, SourceCounts, WarningHandler, open_live};
use weir_testkit::namespace::{cable, ip, is_inside};

/// Datagrams sent as fast as they can be.
const SENT: u32 = 100_000;
/// Octets of Ethernet, IP and UDP headers before a datagram's payload.
const HEADERS_OCTETS: usize = 42;

fn options(interfaces: &[&str], filter: Option<&str>, threads: usize) -> LiveOptions {
    let interfaces = interfaces.iter().map(|name| (*name).to_owned()).collect();
    LiveOptions { interfaces, filter: filter.map(str::to_owned), threads, ..LiveOptions::default() }
}

fn silent() -> WarningHandler {
    Arc::new(|_: &str| ())
}

/// A packet of a source: time, length, interface, octets.
type Packet = (i64, u32, u16, Vec<u8>);

/// Sources that are read by a thread each.
struct Reading {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<(Vec<Packet>, SourceCounts)>>,
}

impl Reading {
    fn start(sources: Vec<Box<dyn PacketSource>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let read =
            |mut source: Box<dyn PacketSource>, stop: Arc<AtomicBool>| {
                let mut block = PacketBlock::default();
                let mut packets = Vec::new();
                // the kernel may be late too
                let mut silences = 0;
                loop {
                    // asked before, so that all that was sent before the stop is read
                    let is_last = stop.load(Ordering::Acquire);
                    match source.fill(&mut block).unwrap() {
                        FillOutcome::Packets => packets.extend(block.packets().iter().map(|packet| {
                            (packet.time_us, packet.length, packet.interface, block.frame(packet).to_vec())
                        })),
                        FillOutcome::Nothing { .. } if !is_last => (),
                        FillOutcome::Nothing { .. } if silences < 10 => silences += 1,
                        FillOutcome::Nothing { .. } | FillOutcome::Ended => break (packets, source.counts()),
                    }
                }
            };
        let threads = sources.into_iter().map(|source| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || read(source, stop))
        });
        Self { threads: threads.collect(), stop }
    }

    /// What each source has read, when nothing has come for a while.
    fn finish(self) -> Vec<(Vec<Packet>, SourceCounts)> {
        self.stop.store(true, Ordering::Release);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

/// Sends numbered datagrams, and more of the same number where there is no room.
fn send(socket: &UdpSocket, to: &str, numbers: std::ops::Range<u32>) {
    for number in numbers {
        while socket.send_to(&number.to_be_bytes(), to).is_err() {
            thread::yield_now();
        }
    }
}

/// The number of a datagram in a frame.
fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame[HEADERS_OCTETS..].first_chunk().unwrap())
}

#[test]
fn what_is_sent_is_received_or_counted_as_dropped() {
    if !is_inside("live::what_is_sent_is_received_or_counted_as_dropped") {
        return;
    }
    cable();
    // the second ring has no room for all, and is read only when all were sent
    for (buffer_octets, is_late) in [(64 << 20, false), (1 << 20, true)] {
        let options = LiveOptions { buffer_octets, ..options(&["out"], Some("udp port 4739"), 1) };
        let sources = open_live(&options, &silent()).unwrap();
        let sender = UdpSocket::bind("10.9.0.1:0").unwrap();
        let reading = if is_late {
            send(&sender, "10.9.0.2:4739", 0..SENT);
            Reading::start(sources)
        } else {
            let reading = Reading::start(sources);
            send(&sender, "10.9.0.2:4739", 0..SENT);
            reading
        };
        let (packets, counts) = reading.finish().pop().unwrap();
        assert!(!is_late || counts.kernel_drops > 10_000, "{counts:?}");
        assert_eq!(is_late, counts.buffer_overruns > 0, "{counts:?}");
        println!("{} received, {} dropped", packets.len(), counts.kernel_drops);
        assert_eq!(packets.len() as u64 + counts.kernel_drops, u64::from(SENT));
        assert!(packets.len() > 1_000);
        assert!(packets.is_sorted_by_key(|packet| packet.0));
        assert!(packets.is_sorted_by(|one, next| number(&one.3) < number(&next.3)));
        for (_, length, interface, frame) in &packets {
            assert_eq!((*length, frame.len(), *interface), (46, 46, 0));
            assert_eq!(frame[..14], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        }
    }
}

#[test]
fn frames_are_as_on_the_wire() {
    if !is_inside("live::frames_are_as_on_the_wire") {
        return;
    }
    cable();
    let cable = raw_socket("in");
    let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5]];
    let frames = tags.map(|tags| {
        let addresses = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        // IPv4 and UDP from 10.9.0.1 port 4738 to 10.9.0.2 port 4739
        let headers = [8, 0, 0x45, 0, 0, 128, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
        [&addresses, tags, &headers, &[0x12, 0x82, 0x12, 0x83, 0, 108, 0, 0], &[0xab; 100]].concat()
    });
    // What speaks of tags is run on whole frames, which is counted, anything else by the kernel. What the system itself
    // sends when the cable comes up may be counted too.
    for (filter, expected, filtered) in [
        (Some("udp port 4739 or (vlan and (udp port 4739 or (vlan and udp port 4739)))"), [true, true, true], None),
        (Some("vlan 7"), [false, true, false], Some(true)),
        (Some("udp port 4739 and not vlan"), [true, false, false], Some(true)),
        (Some("udp port 4739"), [true, true, false], Some(false)),
    ] {
        let options = LiveOptions { snap_octets: 44, ..options(&["out"], filter, 1) };
        let reading = Reading::start(open_live(&options, &silent()).unwrap());
        for frame in &frames {
            assert_eq!(nix::unistd::write(&cable, frame).unwrap(), frame.len());
        }
        let (packets, counts) = reading.finish().pop().unwrap();
        let expected: Vec<_> = (0..3).filter(|at| expected[*at]).collect();
        let ours: Vec<_> = packets.iter().filter(|packet| packet.3[..6] == [2, 0, 0, 0, 0, 2]).collect();
        assert_eq!(ours.len(), expected.len(), "{filter:?}");
        assert!(filtered.is_none_or(|filtered| filtered == (counts.frames_filtered > 0)), "{filter:?}");
        for (at, (_, length, _, frame)) in expected.into_iter().zip(ours) {
            // cut before the outermost tag was put back
            let captured = 44 + tags[at].len().min(4);
            assert_eq!((*length as usize, frame), (frames[at].len(), &frames[at][..captured].to_vec()));
        }
    }
}

/// A socket that sends frames as they are.
#[expect(unsafe_code, reason = "an address of a packet socket cannot be made otherwise")]
fn raw_socket(interface: &str) -> OwnedFd {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None).unwrap();
    // SAFETY: numbers only, so that zeros are a value of it.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = nix::net::if_::if_nametoindex(interface).unwrap() as i32;
    let octets = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is one of a packet socket, of that length, and is only read.
    let status = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), octets) };
    assert_eq!(status, 0);
    socket
}

#[test]
fn threads_share_the_flows() {
    if !is_inside("live::threads_share_the_flows") {
        return;
    }
    cable();
    let reading = Reading::start(open_live(&options(&["out"], Some("udp port 4739"), 2), &silent()).unwrap());
    for flow in 0..64 {
        send(&UdpSocket::bind("10.9.0.1:0").unwrap(), "10.9.0.2:4739", flow * 100..(flow + 1) * 100);
    }
    let mut numbers = BTreeSet::new();
    let mut sources_of_flow: BTreeMap<Vec<u8>, BTreeSet<usize>> = BTreeMap::new();
    let read = reading.finish();
    for (source, (packets, counts)) in read.iter().enumerate() {
        assert_eq!(counts.kernel_drops, 0);
        assert!(packets.len() > 500, "source {source} has {}", packets.len());
        for packet in packets {
            assert!(numbers.insert(number(&packet.3)), "came twice");
            sources_of_flow.entry(packet.3[34..36].to_vec()).or_default().insert(source);
        }
    }
    assert_eq!(numbers.len(), 6_400);
    assert!(sources_of_flow.values().all(|sources| sources.len() == 1));
}

#[test]
fn several_interfaces_and_loopback_once() {
    if !is_inside("live::several_interfaces_and_loopback_once") {
        return;
    }
    cable();
    let sources = open_live(&options(&["lo", "in", "out"], Some("udp port 4739"), 1), &silent()).unwrap();
    let interfaces: Vec<_> = sources[0].interfaces().iter().map(|one| (one.index, one.name.clone())).collect();
    let reading = Reading::start(sources);
    send(&UdpSocket::bind("127.0.0.1:0").unwrap(), "127.0.0.1:4739", 0..5);
    send(&UdpSocket::bind("10.9.0.1:0").unwrap(), "10.9.0.2:4739", 5..7);
    let (packets, _) = reading.finish().pop().unwrap();
    let mut seen: Vec<_> = packets.iter().map(|packet| (packet.2, number(&packet.3))).collect();
    seen.sort_unstable();
    assert_eq!(seen, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 5), (1, 6), (2, 5), (2, 6)]);
    let system = weir_capture::list_interfaces().unwrap();
    for (index, name) in interfaces {
        let known = system.iter().find(|known| known.name == name).unwrap();
        assert_eq!((known.index, known.is_up, known.is_loopback), (index, true, name == "lo"));
        assert_eq!(known.addresses.contains(&[10, 9, 0, 1].into()), name == "in");
    }
}

#[test]
fn an_interface_that_goes_leaves_the_others() {
    if !is_inside("live::an_interface_that_goes_leaves_the_others") {
        return;
    }
    cable();
    ip("link add other type veth peer name end
        link set other up
        link set end up");
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&warnings);
    let warn: WarningHandler = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
    let mut sources = open_live(&options(&["out", "end"], Some("udp port 4739"), 1), &warn).unwrap();
    let mut block = PacketBlock::default();
    let source = &mut sources[0];
    let wait_for = |lines: usize, source: &mut Box<dyn PacketSource>, block: &mut PacketBlock| {
        while warnings.lock().unwrap().len() < lines {
            assert!(matches!(source.fill(block).unwrap(), FillOutcome::Nothing { .. }));
        }
    };
    ip("link set out down");
    wait_for(1, source, &mut block);
    ip("link set out up");
    ip("link del end");
    wait_for(2, source, &mut block);
    // distinguished by the interface they name, since the second may come with more than one line of the first
    let sender = UdpSocket::bind("10.9.0.1:0").unwrap();
    while source.fill(&mut block).unwrap() != FillOutcome::Packets {
        let _ = sender.send_to(&[0; 4], "10.9.0.2:4739");
    }
    assert_eq!(block.packets()[0].interface, 0);
    ip("link del out");
    while source.fill(&mut block).unwrap() != FillOutcome::Ended {}
    let warnings = warnings.lock().unwrap();
    assert!(warnings[0].starts_with("interface out: ") && warnings[0].contains("up again"), "{warnings:?}");
    assert!(
        warnings.iter().any(|line| line.starts_with("interface end: ") && line.ends_with("it is gone")),
        "{warnings:?}"
    );
    assert!(
        warnings.iter().any(|line| line.starts_with("interface out: ") && line.ends_with("it is gone")),
        "{warnings:?}"
    );
}

#[test]
fn what_cannot_be_captured_is_told() {
    if !is_inside("live::what_cannot_be_captured_is_told") {
        return;
    }
    let error = open_live(&options(&["no-such"], None, 1), &silent()).err().unwrap().to_string();
    assert_eq!(error, "there is no interface 'no-such'");
    let error = open_live(&options(&["lo"], Some("prt 80"), 1), &silent()).err().unwrap().to_string();
    assert!(error.starts_with("the packet filter 'prt 80' is not valid: "), "{error}");
}
