//! Attacks and failures planted into traffic, so that whatever looks for them can be judged by what is there.
//!
//! A [`Scene`] is a kind and a time. Its flows come on top of those of the model, which stay the same. Addresses of
//! attackers are of networks that the model has none of, so that a scene is the only thing that they do; those attacked
//! are ordinary hosts inside. What speaks against fixed shapes is that they are easy to find: they show that a question
//! finds what it is for and not how well an attacker can hide.

mod planter;
mod script;

pub(crate) use planter::Planter;

/// What can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SceneKind {
    /// One source tries one port of a thousand hosts.
    PortscanHorizontal,
    /// One source tries a thousand ports of one host, which answers with resets.
    PortscanVertical,
    /// A host inside calls a service outside each minute, give or take three seconds.
    Beaconing,
    /// Name servers, time servers and directories send what a host did not ask for.
    DdosAmplification,
    /// Thousands of sources begin connections to one port and do not go on.
    DdosSyn,
    /// A host inside sends 1.2 GB to an address outside.
    Exfiltration,
    /// One source tries a hundred logins by SSH.
    BruteForce,
    /// A host inside answers at a port at which nothing was.
    NewService,
    /// A host inside sends to an address that nobody talked to.
    FirstContact,
    /// Flows from sources that are not routed on the Internet.
    Spoofed,
    /// The exporter sends nothing for fifteen minutes of simulated time.
    ExporterSilent,
    /// The exporter samples one packet of ten for ten minutes.
    SamplingChanged,
}

/// What is known of a kind.
struct SceneSpec {
    name: &'static str,
    watch: &'static str,
    duration_secs: u32,
}

const fn spec(name: &'static str, watch: &'static str, duration_secs: u32) -> SceneSpec {
    SceneSpec { name, watch, duration_secs }
}

impl SceneKind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::PortscanHorizontal,
        Self::PortscanVertical,
        Self::Beaconing,
        Self::DdosAmplification,
        Self::DdosSyn,
        Self::Exfiltration,
        Self::BruteForce,
        Self::NewService,
        Self::FirstContact,
        Self::Spoofed,
        Self::ExporterSilent,
        Self::SamplingChanged,
    ];

    fn spec(self) -> SceneSpec {
        match self {
            Self::PortscanHorizontal => spec("portscan-horizontal", "portscan", 120),
            Self::PortscanVertical => spec("portscan-vertical", "portscan", 120),
            Self::Beaconing => spec("beaconing", "beaconing", 3_600),
            Self::DdosAmplification => spec("ddos-amplification", "ddos", 60),
            Self::DdosSyn => spec("ddos-syn", "ddos", 60),
            Self::Exfiltration => spec("exfiltration", "exfiltration", 60),
            Self::BruteForce => spec("brute-force", "brute-force", 90),
            Self::NewService => spec("new-service", "new-service", 30),
            Self::FirstContact => spec("first-contact", "first-contact", 9),
            Self::Spoofed => spec("spoofed", "bogons", 60),
            Self::ExporterSilent => spec("exporter-silent", "exporter-silent", 900),
            Self::SamplingChanged => spec("sampling-changed", "sampling-changed", 600),
        }
    }

    /// Its name, such as `portscan-vertical`.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The watch that comes with weir and is for it.
    pub fn watch(self) -> &'static str {
        self.spec().watch
    }

    /// How long it takes, in milliseconds of simulated time.
    pub fn duration_ms(self) -> i64 {
        i64::from(self.spec().duration_secs) * 1000
    }
}

/// Something to plant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scene {
    /// What.
    pub kind: SceneKind,
    /// When it begins, in milliseconds since the epoch; not before the model does.
    pub at_ms: i64,
}

impl Scene {
    /// When it ends, in milliseconds since the epoch.
    pub fn end_ms(&self) -> i64 {
        self.at_ms.saturating_add(self.kind.duration_ms())
    }
}

/// A scene in the flows so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlantedScene {
    /// The scene.
    pub scene: Scene,
    /// Who takes part, by columns of the report that the watch for it makes. What the flows do not know, such as the address
    /// of the exporter, is absent.
    pub key: Vec<(&'static str, String)>,
    /// Flows of it, which come on top of those of the model.
    pub flows: u64,
    /// How many of them are out.
    pub flows_out: u64,
    /// Whether it is over by the simulated clock.
    pub is_over: bool,
}
