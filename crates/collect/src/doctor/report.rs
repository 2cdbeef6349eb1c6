//! What an examination came to, as text and as columns.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt32Array};
use weir_flow::Counter;
use weir_flow::books::{BooksSums, Completeness};

use super::exporters::missing;
use super::{Finding, Machine, Severity};
use crate::inspection::Diagnosis;

/// One Observation Domain of an exporter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExporterSummary {
    /// Address of the exporter.
    pub exporter: IpAddr,
    /// Port that it sends from.
    pub port: u16,
    /// Version of the protocol.
    pub version: u8,
    /// Observation Domain.
    pub domain: u32,
    /// Datagrams received.
    pub datagrams: u64,
    /// Flow records in them.
    pub records: u64,
    /// What is missing by sequence numbers, in `unit`; `None` where the numbers show nothing.
    pub missing: Option<u64>,
    /// Records or datagrams.
    pub unit: &'static str,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// Who was heard.
    pub exporters: Vec<ExporterSummary>,
    /// How complete the flows are.
    pub completeness: Completeness,
    /// Packets of the capture, where one was examined.
    pub packets: Option<u64>,
    /// Connections and associations of the capture with TLS or DTLS to a port of IPFIX, which cannot be read.
    pub connections_encrypted: u64,
    /// Observation Domains of ended connections that are not listed, because there were too many.
    pub domains_left_out: u64,
}

impl Report {
    pub(super) fn new(findings: Vec<Finding>, diagnoses: &[Diagnosis], machine: &Machine) -> Self {
        let mut sums = BooksSums::default();
        let mut unassigned = machine.totals;
        for diagnosis in diagnoses {
            let key = (Some(diagnosis.exporter.clone()), Some(diagnosis.domain), Some(diagnosis.version));
            sums.add_counts(key, &diagnosis.totals);
            unassigned.iter_mut().zip(diagnosis.totals).for_each(|(rest, count)| *rest = rest.saturating_sub(count));
        }
        sums.add_counts((None, None, None), &unassigned);
        let exporters = diagnoses.iter().map(|diagnosis| {
            let (count, _, unit) = missing(diagnosis);
            ExporterSummary {
                exporter: diagnosis.source().ip().to_canonical(),
                port: diagnosis.source().port(),
                version: diagnosis.version,
                domain: diagnosis.domain,
                datagrams: diagnosis.total(Counter::Datagrams),
                records: diagnosis.total(Counter::RecordsStored),
                missing: diagnosis.sequence.unit_found.shows_loss().then_some(count),
                unit,
            }
        });
        let (completeness, packets) = (sums.completeness(), machine.packets);
        let Machine { connections_encrypted, domains_left_out, .. } = *machine;
        let exporters = exporters.collect();
        Self { findings, exporters, completeness, packets, connections_encrypted, domains_left_out }
    }

    /// How bad the worst finding is.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).min()
    }

    /// The findings as columns of text, for printers of any format.
    pub fn record_batch(&self) -> RecordBatch {
        let each = |text: fn(&Finding) -> Option<String>| -> ArrayRef {
            Arc::new(self.findings.iter().map(text).collect::<StringArray>())
        };
        let domains: UInt32Array = self.findings.iter().map(|finding| finding.domain).collect();
        let columns: [(&str, ArrayRef, bool); 6] = [
            ("severity", each(|finding| Some(finding.severity.name().to_owned())), false),
            ("finding", each(|finding| Some(finding.kind.name().to_owned())), false),
            ("exporter", each(|finding| finding.exporter.map(|address| address.to_string())), true),
            ("observation_domain", Arc::new(domains), true),
            ("evidence", each(|finding| Some(finding.evidence.clone())), false),
            ("remedy", each(|finding| Some(finding.kind.remedy().to_owned())), false),
        ];
        match RecordBatch::try_from_iter_with_nullable(columns) {
            Ok(batch) => batch,
            Err(error) => unreachable!("every column has a row for each finding: {error}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.connections_encrypted > 0 {
            writeln!(
                f,
                "{} of the capture with TLS or DTLS to a port of IPFIX: what they carry cannot be read\n",
                match self.connections_encrypted {
                    1 => "1 connection".to_owned(),
                    count => format!("{count} connections"),
                }
            )?;
        }
        if self.exporters.is_empty() && self.findings.is_empty() {
            return match self.packets {
                None => writeln!(
                    f,
                    "no export came\nhint: see with tcpdump whether any arrives: firewall, route, address and port"
                ),
                Some(0) => writeln!(f, "the capture has no packets"),
                Some(packets) => writeln!(
                    f,
                    "no export is among the {packets} packets of the capture\nhint: weir meter makes flows of packets"
                ),
            };
        }
        if self.exporters.is_empty() && self.findings.iter().all(|finding| finding.kind.is_of_capture()) {
            writeln!(f, "none of the exports in the capture can be read")?;
            return self.write_findings(f);
        }
        writeln!(
            f,
            "{:<39} {:>5} {:>3} {:>10} {:>10} {:>12} {:>10}",
            "exporter", "port", "ver", "domain", "datagrams", "records", "missing"
        )?;
        for exporter in &self.exporters {
            let missing = match exporter.missing {
                Some(count) if exporter.unit == "datagrams" && count > 0 => format!("{count} dgrams"),
                Some(count) => count.to_string(),
                None => "unknown".to_owned(),
            };
            let ExporterSummary { exporter, port, version, domain, datagrams, records, .. } = exporter;
            writeln!(
                f,
                "{:<39} {port:>5} {version:>3} {domain:>10} {datagrams:>10} {records:>12} {missing:>10}",
                exporter.to_string()
            )?;
        }
        if self.domains_left_out > 0 {
            writeln!(
                f,
                "{} more Observation Domains of connections that have ended are neither listed nor judged",
                self.domains_left_out
            )?;
        }
        writeln!(f, "\nflows: {}", self.completeness)?;
        if self.findings.is_empty() {
            return writeln!(f, "nothing is wrong");
        }
        self.write_findings(f)
    }
}

impl Report {
    fn write_findings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let who = match (finding.exporter, finding.domain) {
                (Some(exporter), Some(domain)) => format!("{exporter} domain {domain}"),
                (Some(exporter), None) => exporter.to_string(),
                (None, _) if finding.kind.is_of_capture() => "the capture".to_owned(),
                (None, _) => "this machine".to_owned(),
            };
            writeln!(f, "\n{}: {}: {}", finding.severity.name(), who, finding.kind.name())?;
            writeln!(f, "  {}", finding.evidence)?;
            writeln!(f, "  hint: {}", finding.kind.remedy())?;
        }
        Ok(())
    }
}
