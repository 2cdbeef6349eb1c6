//! What the options of the source `meter` mean to the crate that meters.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_capture::{
    CaptureEnd, FileEnds, FileOptions, LiveOptions, PacketSource, SourceError, WarningHandler, check_live, open_files,
    open_live,
};
use weir_chain::{FileEnd, Notices, OptionError, TimeSpan};
use weir_meter::{FastTimeout, KeyFields, KeyHeaders, Measures, MeterOptions, Selection, Timeouts};
use weir_routes::AsChoice;

use super::open_files::OpenFiles;
use super::options::{FlowKey, FlowOptions, Headers, Measure, MeterSourceOptions, RouteAs, RouteOptions, Sampling};
use super::routes::RouteFiles;

/// Octets that headers take, also in tunnels.
const HEADERS_OCTETS: u32 = 256;
/// Octets in which the first packets of a flow tell what they are.
const PAYLOAD_OCTETS: u32 = 2_048;

/// What a source of this kind does.
#[derive(Debug, Clone)]
pub(super) struct Configuration {
    pub(super) options: MeterOptions,
    pub(super) workers: usize,
    files: Vec<PathBuf>,
    ends: FileEnds,
    filter: Option<String>,
    live: Option<LiveOptions>,
    /// How often interfaces that have gone away are tried again.
    pub(super) retry: Option<Duration>,
    pub(super) routes: Option<RouteFiles>,
}

impl Configuration {
    pub(super) fn of(options: MeterSourceOptions) -> Result<Self, OptionError> {
        let wrong = |text: &str| OptionError::new("files", text.to_owned());
        match (options.files.is_empty(), options.interfaces.is_empty()) {
            (true, true) => return Err(wrong("neither 'files' nor 'interfaces' names anything")),
            (false, false) => return Err(wrong("packets come from 'files' or from 'interfaces', not from both")),
            _ => {}
        }
        let meter_options = meter_options(&options)?;
        let looks_into_payload = !options.measures().is_empty();
        let MeterSourceOptions { files, interfaces, packets, routing, .. } = options;
        let filter = packets.packet_filter.filter(|text| !text.is_empty());
        let usual_snap = if looks_into_payload { PAYLOAD_OCTETS } else { HEADERS_OCTETS };
        let retry = packets.interface_retry.filter(|every| !interfaces.is_empty() && !every.is_zero());
        let live = (!interfaces.is_empty()).then(|| LiveOptions {
            interfaces,
            promiscuous: packets.promiscuous,
            snap_octets: packets.snap_length.map_or(usual_snap, |length| length.bytes() as u32),
            buffer_octets: packets.buffer.bytes() as usize,
            filter: filter.clone(),
            threads: packets.workers,
        });
        let routes = routes(routing, live.is_some());
        let ends = FileEnds::default();
        let retry = retry.map(TimeSpan::duration);
        Ok(Self { options: meter_options, workers: packets.workers, files, ends, filter, live, retry, routes })
    }

    /// Whether packets come from interfaces, with the times of this system.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Whether packets come from files on a disk, at least some. What comes out of a pipe is of now, as of interfaces, for as long as
    /// it runs.
    pub(super) fn has_regular_files(&self) -> bool {
        !self.is_live() && self.files.iter().any(|path| is_regular(path, &io::stdin()))
    }

    /// The interfaces, for a line about them.
    pub(super) fn interfaces(&self) -> String {
        let names = self.live.as_ref().map(|live| live.interfaces.join(", ")).unwrap_or_default();
        format!("interface {names}")
    }

    /// Finds out whether what packets come from is there: interfaces. Files that cannot be read are counted once it runs.
    pub(super) fn check(&self) -> Result<(), SourceError> {
        self.live.as_ref().map_or(Ok(()), check_live)
    }

    /// Opens what packets come from.
    pub(super) fn open(&self) -> Result<Vec<Box<dyn PacketSource>>, SourceError> {
        let warn: WarningHandler = Arc::new(|line: &str| tracing::warn!("{line}"));
        if let Some(options) = &self.live {
            return open_live(options, &warn);
        }
        let options = FileOptions { paths: self.files.clone(), filter: self.filter.clone(), ends: self.ends.clone() };
        Ok(vec![open_files(&options, &warn)?])
    }

    /// The files that are read, by the flows that come of them.
    pub(super) fn open_files(&self) -> OpenFiles {
        OpenFiles::new(self.ends.clone())
    }

    /// Notes the files of which all that can be read is in flows. Of several files whose packets are merged, that may be
    /// some when metering was stopped.
    pub(super) fn note_files(&self, notices: &Notices) {
        for path in &self.files {
            match self.ends.end_of(path) {
                Some(CaptureEnd::Whole) => notices.file_ended(path, FileEnd::Whole),
                Some(CaptureEnd::Damaged) => notices.file_ended(path, FileEnd::Damaged),
                Some(CaptureEnd::Refused) | None => {}
            }
        }
    }
}

/// Whether a path is that of a file on a disk, or of none that is there; `-` is standard input, which may be such a file too.
fn is_regular(path: &Path, standard_input: &impl AsFd) -> bool {
    let found = if path.as_os_str() == "-" {
        standard_input.as_fd().try_clone_to_owned().and_then(|input| File::from(input).metadata())
    } else {
        path.metadata()
    };
    match found {
        Ok(found) => found.is_file(),
        Err(_) => true,
    }
}

fn routes(options: RouteOptions, is_live: bool) -> Option<RouteFiles> {
    let choice = match options.route_as {
        RouteAs::Origin => AsChoice::Origin,
        RouteAs::Peer => AsChoice::Peer,
    };
    let every = Some(options.routes_reload.duration()).filter(|every| is_live && !every.is_zero());
    (!options.routes.is_empty()).then_some(RouteFiles { paths: options.routes, choice, every })
}

fn meter_options(options: &MeterSourceOptions) -> Result<MeterOptions, OptionError> {
    let flows = &options.flows;
    let selection = match options.packets.sampling {
        Sampling::None => None,
        Sampling::Count => Some(Selection::CountBased),
        Sampling::Random => Some(Selection::Random),
        Sampling::Flow => Some(Selection::FlowHash),
    };
    Ok(MeterOptions {
        fields: fields(flows)?,
        is_biflow: flows.biflow,
        timeouts: timeouts(flows)?,
        flows_max: flows.flows_max,
        sampling: selection.map(|selection| (selection, options.packets.sampling_interval)),
        measures: measures(&options.measures()),
        exporter: Some(options.exporter),
        observation_domain: flows.domain,
        ..MeterOptions::default()
    })
}

fn timeouts(flows: &FlowOptions) -> Result<Timeouts, OptionError> {
    for (key, timeout) in [("active_timeout", flows.active_timeout), ("idle_timeout", flows.idle_timeout)] {
        if timeout.is_zero() {
            return Err(OptionError::new(key, "a flow would end before its second packet".to_owned()));
        }
    }
    let us = |span: weir_chain::TimeSpan| i64::try_from(span.duration().as_micros()).unwrap_or(i64::MAX);
    let fast = flows.fast_timeout.filter(|timeout| !timeout.is_zero());
    Ok(Timeouts {
        active_us: us(flows.active_timeout),
        idle_us: us(flows.idle_timeout),
        fast: fast.map(|fast| FastTimeout { idle_us: us(fast), packets_max: u64::from(flows.fast_packets_max) }),
        closed_us: us(flows.closed_timeout),
    })
}

fn measures(measures: &[Measure]) -> Measures {
    let has = |measure| measures.contains(&measure);
    Measures {
        application: has(Measure::Application),
        tcp: has(Measure::Tcp),
        macs: has(Measure::Mac),
        mpls: has(Measure::Mpls),
        microseconds: has(Measure::Microseconds),
    }
}

fn fields(flows: &FlowOptions) -> Result<KeyFields, OptionError> {
    let has = |key| flows.keys.contains(&key);
    let wrong = |text: &str| OptionError::new("keys", text.to_owned());
    let fields = KeyFields {
        src_addr: has(FlowKey::SrcAddr),
        dst_addr: has(FlowKey::DstAddr),
        src_port: has(FlowKey::SrcPort),
        dst_port: has(FlowKey::DstPort),
        protocol: has(FlowKey::Protocol),
        tos: has(FlowKey::Tos) && !flows.biflow,
        vlan: has(FlowKey::Vlan),
        interface: has(FlowKey::Interface),
        tunnel: has(FlowKey::Tunnel),
        tunnel_endpoints: has(FlowKey::TunnelEndpoints),
        headers: match flows.headers {
            Headers::Inner => KeyHeaders::Inner,
            Headers::Outer => KeyHeaders::Outer,
        },
    };
    if fields.tunnel_endpoints && fields.headers == KeyHeaders::Outer {
        let text = "'tunnel_endpoints' adds nothing to outer headers, whose addresses are those of the flow";
        return Err(wrong(text).with_hint("headers = \"inner\" has both"));
    }
    let pairs = [(fields.src_addr, fields.dst_addr), (fields.src_port, fields.dst_port)];
    if flows.biflow && pairs.iter().any(|(source, destination)| source != destination) {
        return Err(wrong("both directions make one flow only when source and destination are both keys, or neither"));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_may_be_a_file_on_a_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("one.pcap");
        std::fs::write(&path, "").expect("written");
        let file = File::open(&path).expect("a file");
        let (pipe, _writer) = io::pipe().expect("a pipe");
        let dash = Path::new("-");
        assert_eq!([is_regular(dash, &file), is_regular(dash, &pipe)], [true, false]);
        assert_eq!([is_regular(&path, &pipe), is_regular(folder.path(), &file)], [true, false]);
        assert!(is_regular(&folder.path().join("none"), &pipe));
    }
}
