//! Options that report what is in files, rather than query their flows: `-v`, `-E`, `-I` and `-g`.

// Writing to a text does not fail.
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tracing::warn;
use weir_flow::AddressText;
use weir_formats::nfcapd::{Reader, Statistics, Sums};

/// A counter of a file's statistics, and its name.
type Counter = (&'static str, fn(&Sums) -> u64);

/// `-v`: reads the whole of a file and reports what is in it.
pub(crate) fn verify(path: &str, output: &mut dyn Write) -> anyhow::Result<()> {
    let mut reader = Reader::open(path)?;
    let info = reader.info().clone();
    let compressed = match info.compression.name() {
        "none" => "not compressed".to_owned(),
        codec => format!("{codec} compressed"),
    };
    let mut text = format!("File       : {path}\nVersion    : {} - {compressed}\n", info.layout);
    if let Some(created) = info.created_secs {
        let created = jiff::Timestamp::from_second(created)?.to_zoned(jiff::tz::TimeZone::system());
        let _ = writeln!(text, "Created    : {}", created.strftime("%Y-%m-%d %H:%M:%S"));
    }
    let _ = writeln!(text, "encryption : no\nData blks  : {}", info.blocks);
    output.write_all(text.as_bytes())?;
    let mut failure = None;
    for batch in reader.by_ref() {
        if let Err(error) = batch {
            failure = Some(error);
            break;
        }
    }
    let damage = reader.damage();
    let sums = [
        ("Blocks", damage.blocks),
        ("Records", damage.flows),
        ("Exporters", damage.exporters),
        ("Samplers", damage.samplers),
        ("Damaged blocks", damage.blocks_damaged),
        ("Unknown blocks", damage.blocks_unknown),
        ("Damaged records", damage.records_damaged),
        ("Unknown records", damage.records_unknown),
        ("Unknown extensions", damage.extensions_unknown),
    ];
    let lines: Vec<_> = sums.iter().map(|(label, count)| format!("{label:<18} : {count}\n")).collect();
    write!(output, "\nTotal\n{}", lines.concat())?;
    match failure {
        Some(error) => Err(error.into()),
        None if damage.is_damaged() => bail!("{path} is damaged"),
        None => Ok(()),
    }
}

/// `-E`: the exporters of a file.
pub(crate) fn exporters(path: &str, output: &mut dyn Write) -> anyhow::Result<()> {
    let mut reader = Reader::open(path)?;
    for batch in reader.by_ref() {
        batch?;
    }
    let mut text = "Exporters:\n\n".to_owned();
    for (number, exporter) in reader.exporters().iter() {
        let address = AddressText(&exporter.address).to_string();
        let version = exporter.version.unwrap_or(0);
        let _ = writeln!(text, "SysID: {number}, IP: {address:>16}, version: {version}, ID: {:2}", exporter.domain);
    }
    Ok(output.write_all(text.as_bytes())?)
}

/// `-I`: counters of all files, by protocol.
pub(crate) fn statistics(files: &[PathBuf], output: &mut dyn Write) -> anyhow::Result<()> {
    let mut ident = String::new();
    let mut all = Statistics::default();
    for (_, (name, of_file)) in all_statistics(files)? {
        if ident.is_empty() {
            ident = name;
        }
        let first = if all.first_ms == 0 { of_file.first_ms } else { all.first_ms.min(of_file.first_ms) };
        (all.first_ms, all.last_ms) = (first, all.last_ms.max(of_file.last_ms));
        all.sequence_failures += of_file.sequence_failures;
        for (sums, more) in [
            (&mut all.total, of_file.total),
            (&mut all.tcp, of_file.tcp),
            (&mut all.udp, of_file.udp),
            (&mut all.icmp, of_file.icmp),
            (&mut all.other, of_file.other),
        ] {
            sums.flows += more.flows;
            sums.packets += more.packets;
            sums.bytes += more.bytes;
        }
    }
    let mut text = format!("Ident: {}\n", if ident.is_empty() { "none" } else { &ident });
    let counters: [Counter; 3] =
        [("Flows", |sums| sums.flows), ("Packets", |sums| sums.packets), ("Bytes", |sums| sums.bytes)];
    for (label, counter) in counters {
        let classes =
            [("", &all.total), ("_tcp", &all.tcp), ("_udp", &all.udp), ("_icmp", &all.icmp), ("_other", &all.other)];
        for (class, sums) in classes {
            let _ = writeln!(text, "{label}{class}: {}", counter(sums));
        }
    }
    let Statistics { first_ms, last_ms, sequence_failures, .. } = all;
    let _ = writeln!(text, "First: {}\nLast: {}", first_ms / 1000, last_ms / 1000);
    let _ = writeln!(text, "msec_first: {}\nmsec_last: {}", first_ms % 1000, last_ms % 1000);
    let _ = writeln!(text, "Sequence failures: {sequence_failures}");
    Ok(output.write_all(text.as_bytes())?)
}

/// `-g`: a line for each file, with the time of its name.
pub(crate) fn gnuplot(files: &[PathBuf], output: &mut dyn Write) -> anyhow::Result<()> {
    let mut text = "# yyyy-mm-dd HH:MM:SS,flows,packets,bytes\n".to_owned();
    for (path, (_, Statistics { total: Sums { flows, packets, bytes }, .. })) in all_statistics(files)? {
        let time = time_of_name(path).with_context(|| {
            let name = path.display();
            format!("the name of {name} has no time\nhint: files of nfcapd are named nfcapd.YYYYMMDDhhmm")
        })?;
        let _ = writeln!(text, "{time},{flows},{packets},{bytes}");
    }
    Ok(output.write_all(text.as_bytes())?)
}

/// What each file says; those that say nothing are left out, as long as another one says something.
fn all_statistics(files: &[PathBuf]) -> anyhow::Result<Vec<(&PathBuf, (String, Statistics))>> {
    let mut found = Vec::new();
    let mut failure = None;
    for path in files {
        match statistics_of(path) {
            Ok(of_file) => found.push((path, of_file)),
            Err(error) if files.len() == 1 => return Err(error),
            Err(error) => {
                warn!("{error:#}");
                failure = Some(error);
            }
        }
    }
    failure.filter(|_| found.is_empty()).map_or(Ok(found), Err)
}

fn statistics_of(path: &Path) -> anyhow::Result<(String, Statistics)> {
    let reader = Reader::open(path)?;
    let info = reader.info();
    let statistics = info.statistics.with_context(|| {
        format!("{} has no statistics\nhint: it is still being written, or damaged; -v reads all of it", path.display())
    })?;
    Ok((info.ident.clone(), statistics))
}

/// `nfcapd.202611212140` and `nfcapd.20261121214000` as `2026-11-21 21:40:00`.
fn time_of_name(path: &Path) -> Option<String> {
    let digits = path.file_name()?.to_str()?.split_once('.')?.1.get(..)?;
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    let part = |from: usize, to: usize| digits.get(from..to);
    let second = part(12, 14).unwrap_or("00");
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    Some(format!("{year}-{month}-{day} {}:{}:{second}", part(8, 10)?, part(10, 12)?))
}

/// Seconds of processor time of the program and of the system on its behalf.
pub(crate) fn processor_seconds() -> (f64, f64) {
    use nix::time::{ClockId, clock_gettime};
    let total = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    let total = total.map_or(0.0, |time| time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9);
    let system = std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| system_seconds(&text));
    let system = system.unwrap_or(0.0).min(total);
    (total - system, system)
}

/// Ticks of a second in `/proc`, which is the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads the fifteenth field of `/proc/self/stat`; the second one, in parentheses, may hold blanks.
fn system_seconds(text: &str) -> Option<f64> {
    let after_name = text.rsplit_once(") ")?.1;
    let ticks: f64 = after_name.split(' ').nth(12)?.parse().ok()?;
    Some(ticks / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_times() {
        let time = |name: &str| time_of_name(Path::new(name));
        assert_eq!(time("/flows/nfcapd.202611212140").as_deref(), Some("2026-11-21 21:40:00"));
        assert_eq!(time("nfcapd.20261121214059").as_deref(), Some("2026-11-21 21:40:59"));
        assert_eq!(time("nfcapd.current").or(time("flows")), None);
    }

    #[test]
    fn the_system_time_is_the_fifteenth_field() {
        let text = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 41 250 12 13 20";
        assert_eq!(system_seconds(text), Some(2.5));
    }
}
