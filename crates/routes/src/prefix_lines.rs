//! Files of prefixes, one in a line.
//!
//! A line has a prefix, the number of an autonomous system, and perhaps a next hop and the next hop of BGP, separated by
//! commas or by blanks: `192.0.2.0/24,64500,198.51.100.1`. The files that CAIDA makes of `RouteViews` (pfx2as) have the
//! length of the prefix in a field of its own. There several numbers joined by `_` are several origins, of which the
//! first one is taken, as the most frequent; joined by `,` they are a set, which gives no origin unless it has one
//! member. The files of pmacct (`networks_file`) have the prefix last: `198.51.100.1,64501_64500,192.0.2.0/24` with the next
//! hop of BGP, the neighbour and the origin, of which the origin alone is needed. What follows `#` or `!` is left out, and
//! so is a first line with the names of columns.

use std::io::{self, BufRead};
use std::net::IpAddr;

use super::builder::{AsChoice, LoadReport, RouteTableBuilder};
use super::input::Input;
use super::route_table::Attributes;

/// Most octets of a line.
const LINE_OCTETS_MAX: u64 = 4096;

/// Adds the prefixes of a file.
pub(super) fn load(mut input: Input, table: &mut RouteTableBuilder, report: &mut LoadReport) -> io::Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = io::Read::take(&mut input, LINE_OCTETS_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        report.records += 1;
        if read as u64 == LINE_OCTETS_MAX && line.last() != Some(&b'\n') {
            report.defect(number, "line is too long");
            input.skip_until(b'\n')?;
            continue;
        }
        let parse = |line| parse(line, table.choice());
        match str::from_utf8(&line).map_err(|_| "line is no text").and_then(parse) {
            Ok(Some((address, bits, attributes))) if table.insert(address, bits, attributes) => report.routes += 1,
            Ok(Some(_)) => report.defect(number, "prefix is longer than its address"),
            Ok(None) => report.skipped += 1,
            Err(_) if number == 1 && names_columns(&line) => report.skipped += 1,
            Err(what) => report.defect(number, what),
        }
    }
    Ok(())
}

/// Names of columns begin with a letter and have no address.
fn names_columns(line: &[u8]) -> bool {
    line.first().is_some_and(u8::is_ascii_alphabetic) && !line.iter().any(|octet| b".:/".contains(octet))
}

/// The route in a line; `None` for a line without one.
fn parse(line: &str, choice: AsChoice) -> Result<Option<(IpAddr, u8, Attributes)>, &'static str> {
    let line = line.split(['#', '!']).next().unwrap_or_default().trim();
    if line.is_empty() {
        return Ok(None);
    }
    let blanks = line.contains([' ', '\t']) && !line.contains(", ");
    let separators: &[char] = if blanks { &[' ', '\t'] } else { &[',', ';'] };
    let mut fields = line.split(separators).map(str::trim).filter(|field| !field.is_empty());
    if let Some((rest, prefix)) =
        line.rsplit_once(',').filter(|(rest, prefix)| prefix.contains('/') && !rest.contains('/'))
    {
        return prefix_last(rest, prefix.trim(), choice).map(Some);
    }
    let prefix = fields.next().ok_or("prefix is missing")?;
    let (address, bits) = match prefix.split_once('/') {
        Some((address, bits)) => (address, bits),
        None => (prefix, fields.next().ok_or("length of the prefix is missing")?),
    };
    let (address, bits) = prefix_of(address, bits)?;
    let autonomous_system = origin(fields.next().ok_or("autonomous system is missing")?)?;
    let mut hop = || fields.next().map(str::parse::<IpAddr>).transpose().map_err(|_| "next hop is no address");
    let (next_hop, bgp_next_hop) = (hop()?, hop()?);
    Ok(Some((address, bits, Attributes { autonomous_system, next_hop, bgp_next_hop })))
}

fn prefix_of(address: &str, bits: &str) -> Result<(IpAddr, u8), &'static str> {
    let address = address.parse().map_err(|_| "prefix is no address")?;
    Ok((address, bits.parse().map_err(|_| "length of the prefix is no number")?))
}

/// A line of pmacct, of which the prefix was taken.
fn prefix_last(rest: &str, prefix: &str, choice: AsChoice) -> Result<(IpAddr, u8, Attributes), &'static str> {
    let (address, bits) = prefix.split_once('/').ok_or("prefix is missing")?;
    let (address, bits) = prefix_of(address, bits)?;
    let (hop, systems) = match rest.split_once(',') {
        Some((hop, systems)) => (Some(hop.trim()), systems.trim()),
        None => (None, rest.trim()),
    };
    let system = match (systems.split_once('_'), choice) {
        (Some((peer, _)), AsChoice::Peer) => peer,
        (Some((_, origin)), AsChoice::Origin) => origin,
        (None, _) => systems,
    };
    let bgp_next_hop = hop.map(str::parse).transpose().map_err(|_| "next hop is no address")?;
    let attributes = Attributes { autonomous_system: number(system)?, next_hop: None, bgp_next_hop };
    Ok((address, bits, attributes))
}

fn origin(field: &str) -> Result<u32, &'static str> {
    let first = field.split('_').next().unwrap_or_default();
    if first.contains(',') {
        return Ok(0);
    }
    number(first)
}

fn number(text: &str) -> Result<u32, &'static str> {
    let number = text.strip_prefix("AS").unwrap_or(text);
    number.parse().map_err(|_| "autonomous system is no number")
}
