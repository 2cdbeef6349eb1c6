//! What files know about addresses and interfaces: functions of SQL.
//!
//! Flows keep addresses; countries, autonomous systems and labels are looked up when they are asked for. Each version
//! of a file that `weir serve` had is kept with its archive (module `versions`), and a function with a time looks into
//! the one that was valid then; `times_of_flows` adds the time of the flow where a statement gives none. What speaks
//! against looking up at all is that a version which nobody kept is gone: the transform `enrich` keeps what was known
//! in the flows themselves. Names of interfaces come from a file, and where that has none from what exporters reported:
//! the newest name of each, or that of a time. Autonomous systems come from a database, and where that has none from
//! routes. Of these no versions are kept, because a dump of all routes is large and there is one every few hours; whoever
//! keeps systems with the flows looks into the same tables.

mod versions;

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StringArray, StringBuilder, UInt32Array};
use arrow::datatypes::{DataType, Field, FieldRef, TimestampMillisecondType, UInt32Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use weir_flow::schema::arrow_type;
use weir_flow::{ColumnType, parse_address};
use weir_routes::{
    Database, InterfaceNames, PrefixMap, RouteFile, RouteTable, VersionLimits, autonomous_system, read_labels,
};

use crate::EngineError;
use crate::functions::LOOK_UPS;
use crate::reported_names::ReportedNames;

pub(crate) use self::versions::{LoadTable, VersionedFile, VersionedTable, time_text};
use self::versions::{TablesByRow, UnkeptVersion};

/// The folder of versions within an archive.
pub const VERSIONS_FOLDER: &str = "enrichment";
/// Folders of the versions of each file.
pub(crate) const ASN: &str = "asn";
const COUNTRIES: &str = "countries";
const LABELS: &str = "labels";
pub(crate) const INTERFACES: &str = "interfaces";

/// The files, those that are configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnrichmentFiles {
    /// Autonomous systems: a `MaxMind` DB file.
    pub asn_mmdb: Option<PathBuf>,
    /// Autonomous systems of addresses that this one does not have: MRT dumps of routing tables, or lines of prefixes.
    pub routes: Vec<PathBuf>,
    /// Countries: a `MaxMind` DB file.
    pub geo_mmdb: Option<PathBuf>,
    /// Labels: lines `prefix,label`.
    pub labels: Option<PathBuf>,
    /// Names of interfaces: lines `exporter,if_index,name`.
    pub interfaces: Option<PathBuf>,
    /// The folder of versions of these files.
    pub versions: Option<PathBuf>,
    /// How many versions are kept there; `None` when they are read and none is added.
    pub limits: Option<VersionLimits>,
}

impl EnrichmentFiles {
    /// The same, with the versions that are kept with an archive.
    #[must_use]
    pub fn with_versions_of(&self, archive: &Path) -> Self {
        Self { versions: Some(archive.join(VERSIONS_FOLDER)), ..self.clone() }
    }

    fn file(&self, name: &'static str, path: Option<&PathBuf>) -> VersionedFile {
        let folder = self.versions.as_ref().map(|folder| folder.join(name));
        VersionedFile { name, path: path.cloned(), folder, limits: self.limits }
    }
}

/// The tables made of them.
#[derive(Debug, Default)]
pub struct Enrichment {
    asn: Option<VersionedTable<PrefixMap<u32>>>,
    routes: Vec<Arc<RouteTable>>,
    countries: Option<VersionedTable<PrefixMap<String>>>,
    labels: Option<VersionedTable<PrefixMap<String>>>,
    interfaces: Option<VersionedTable<InterfaceNames>>,
}

impl Enrichment {
    /// Reads the files, and which versions of them there are.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or is not what it should be. Versions that cannot be used are none: the log has them.
    pub fn load(files: &EnrichmentFiles) -> Result<Self, EngineError> {
        Ok(Self {
            asn: VersionedTable::load(&files.file(ASN, files.asn_mmdb.as_ref()), |path| {
                open(path)?.autonomous_systems().map_err(EngineError::enrichment)
            })?,
            routes: files.routes.iter().map(|path| routes_of(path)).collect::<Result<_, _>>()?,
            countries: VersionedTable::load(&files.file(COUNTRIES, files.geo_mmdb.as_ref()), |path| {
                open(path)?.countries().map_err(EngineError::enrichment)
            })?,
            labels: VersionedTable::load(&files.file(LABELS, files.labels.as_ref()), |path| {
                read_labels(path).map_err(EngineError::enrichment)
            })?,
            interfaces: VersionedTable::load(&files.file(INTERFACES, files.interfaces.as_ref()), interface_names)?,
        })
    }

    /// Keeps the versions that are new, when there are limits for them. What cannot be kept is in the log.
    pub fn keep_versions(&self) {
        fn unkept<T>(table: Option<&VersionedTable<T>>) -> Option<&UnkeptVersion> {
            table.and_then(VersionedTable::unkept)
        }
        let all = [
            unkept(self.asn.as_ref()),
            unkept(self.countries.as_ref()),
            unkept(self.labels.as_ref()),
            unkept(self.interfaces.as_ref()),
        ];
        all.into_iter().flatten().for_each(UnkeptVersion::keep);
    }

    /// Whether anything that is known about addresses changed.
    pub(crate) fn has_versions(&self) -> bool {
        LOOK_UPS.iter().any(|function| self.changes(function))
    }

    /// Whether what a function of one address gives may depend on the time.
    pub(crate) fn changes(&self, function: &str) -> bool {
        fn several<T>(table: Option<&VersionedTable<T>>) -> bool {
            table.is_some_and(VersionedTable::has_several)
        }
        match What::ALL.into_iter().find(|what| what.name() == function) {
            Some(What::Country) => several(self.countries.as_ref()),
            Some(What::Asn) => several(self.asn.as_ref()),
            Some(What::Label) => several(self.labels.as_ref()),
            Some(What::IfName) | None => false,
        }
    }
}

/// The routes of a file. What could not be used of it is in the log.
fn routes_of(path: &Path) -> Result<Arc<RouteTable>, EngineError> {
    let file = RouteFile::open(path).map_err(EngineError::enrichment)?;
    if let Some(warning) = file.warning {
        tracing::warn!("{warning}");
    }
    Ok(file.table)
}

fn open(path: &Path) -> Result<Database, EngineError> {
    Database::open(path).map_err(EngineError::enrichment)
}

/// Names of interfaces by a file.
pub(crate) fn interface_names(path: &Path) -> Result<InterfaceNames, EngineError> {
    InterfaceNames::read(path).map_err(EngineError::enrichment)
}

/// What files know about an address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownAddress {
    /// Number of the autonomous system.
    pub asn: Option<u32>,
    /// Code of the country.
    pub country: Option<String>,
    /// The label.
    pub label: Option<String>,
}

impl Enrichment {
    /// What is known about an address, 4 or 16 octets in network order, at a time in milliseconds since the epoch; by
    /// the newest versions without one.
    pub fn address(&self, octets: &[u8], at_ms: Option<i64>) -> KnownAddress {
        fn find<V: Clone>(
            table: Option<&VersionedTable<PrefixMap<V>>>,
            octets: &[u8],
            at_ms: Option<i64>,
        ) -> Option<V> {
            table?.at(at_ms)?.find_octets(octets).cloned()
        }
        KnownAddress {
            asn: find(self.asn.as_ref(), octets, at_ms).or_else(|| self.system_by_route(octets)),
            country: find(self.countries.as_ref(), octets, at_ms),
            label: find(self.labels.as_ref(), octets, at_ms),
        }
    }

    /// The autonomous system of the route of an address, 4 or 16 octets in network order.
    fn system_by_route(&self, octets: &[u8]) -> Option<u32> {
        if self.routes.is_empty() {
            return None;
        }
        autonomous_system(self.routes.iter().map(|table| &**table), ip(octets)?)
    }

    /// The name of an interface by the file, at a time or by the newest version; exporters may have reported another.
    pub fn interface(&self, exporter: &[u8], index: u32, at_ms: Option<i64>) -> Option<String> {
        self.interfaces.as_ref()?.at(at_ms)?.name(exporter, index).map(str::to_owned)
    }
}

/// Names of interfaces that exporters reported, once they were looked up.
pub(crate) type LoadedNames = Arc<OnceLock<ReportedNames>>;

/// Whether a statement may need the names that exporters reported.
pub(crate) fn needs_reported(statement: &str) -> bool {
    statement.to_ascii_lowercase().contains("if_name")
}

/// An address of 4 or 16 octets.
pub(crate) fn ip(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(octets).ok().map(IpAddr::from)
}

/// What is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Country,
    Asn,
    Label,
    IfName,
}

impl What {
    const ALL: [Self; 4] = [Self::Country, Self::Asn, Self::Label, Self::IfName];

    fn name(self) -> &'static str {
        LOOK_UPS[self as usize]
    }

    fn option(self) -> &'static str {
        match self {
            Self::Country => "--geo-mmdb",
            Self::Asn => "--asn-mmdb",
            Self::Label => "--labels",
            Self::IfName => "--interfaces",
        }
    }
}

/// The functions over these tables.
pub(crate) fn functions(tables: &Arc<Enrichment>, reported: &LoadedNames) -> Vec<Arc<ScalarUDF>> {
    let function = |what: What| {
        let address = |rest: &[DataType]| {
            let form = |of| TypeSignature::Exact(std::iter::once(of).chain(rest.iter().cloned()).collect());
            vec![form(DataType::Binary), form(DataType::Utf8)]
        };
        let time = arrow_type(ColumnType::Time);
        let forms = match what {
            What::IfName => [address(&[DataType::UInt32]), address(&[DataType::UInt32, time])].concat(),
            _ => [address(&[]), address(&[time])].concat(),
        };
        let signature = Signature::one_of(forms, Volatility::Stable);
        let (tables, reported) = (Arc::clone(tables), Arc::clone(reported));
        Arc::new(ScalarUDF::from(LookUp { what, signature, tables, reported }))
    };
    What::ALL.into_iter().map(function).collect()
}

/// A function that looks up what files know.
#[derive(Debug)]
struct LookUp {
    what: What,
    signature: Signature,
    tables: Arc<Enrichment>,
    reported: LoadedNames,
}

/// An engine has one of each.
impl PartialEq for LookUp {
    fn eq(&self, other: &Self) -> bool {
        self.what == other.what
    }
}

impl Eq for LookUp {}

impl Hash for LookUp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.what.hash(state);
    }
}

impl LookUp {
    fn is_configured(&self) -> bool {
        match self.what {
            What::Country => self.tables.countries.is_some(),
            What::Asn => self.tables.asn.is_some() || !self.tables.routes.is_empty(),
            What::Label => self.tables.labels.is_some(),
            What::IfName => true,
        }
    }

    fn look_up(&self, arguments: &[ArrayRef]) -> ArrayRef {
        let parsed;
        let addresses = if arguments[0].data_type() == &DataType::Binary {
            arguments[0].as_binary::<i32>()
        } else {
            parsed = parsed_addresses(arguments[0].as_string());
            &parsed
        };
        let addresses = addresses.iter();
        let times = arguments.get(if self.what == What::IfName { 2 } else { 1 });
        let times = times.map(AsArray::as_primitive::<TimestampMillisecondType>);
        match self.what {
            What::Asn => {
                let mut tables = TablesByRow::new(self.tables.asn.as_ref(), times);
                let find = |(row, octets): (usize, Option<&[u8]>)| {
                    let octets = octets?;
                    let known = tables.table(row).and_then(|table| table.find_octets(octets)).copied();
                    known.or_else(|| self.tables.system_by_route(octets))
                };
                Arc::new(addresses.enumerate().map(find).collect::<UInt32Array>())
            }
            What::Country => texts(addresses, TablesByRow::new(self.tables.countries.as_ref(), times)),
            What::Label => texts(addresses, TablesByRow::new(self.tables.labels.as_ref(), times)),
            What::IfName => {
                let indexes = arguments[1].as_primitive::<UInt32Type>();
                let mut tables = TablesByRow::new(self.tables.interfaces.as_ref(), times);
                let mut names = StringBuilder::new();
                for (row, (exporter, index)) in addresses.zip(indexes).enumerate() {
                    let at_ms = times.filter(|times| times.is_valid(row)).map(|times| times.value(row));
                    let Some((exporter, index)) = exporter.zip(index) else {
                        names.append_null();
                        continue;
                    };
                    let file = tables.table(row).and_then(|names| names.name(exporter, index));
                    let reported = || self.reported.get().and_then(|names| names.name(exporter, index, at_ms));
                    names.append_option(file.or_else(reported));
                }
                Arc::new(names.finish())
            }
        }
    }
}

/// Addresses that are text.
fn parsed_addresses(texts: &StringArray) -> BinaryArray {
    texts.iter().map(|text| text.and_then(parse_address)).collect()
}

fn texts<'a>(
    addresses: impl Iterator<Item = Option<&'a [u8]>>,
    mut tables: TablesByRow<'_, PrefixMap<String>>,
) -> ArrayRef {
    let mut texts = StringBuilder::new();
    for (row, address) in addresses.enumerate() {
        let known = match address {
            Some(octets) => tables.table(row).and_then(|table| table.find_octets(octets)),
            None => None,
        };
        texts.append_option(known);
    }
    Arc::new(texts.finish())
}

impl ScalarUDFImpl for LookUp {
    fn name(&self) -> &str {
        self.what.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(if self.what == What::Asn { DataType::UInt32 } else { DataType::Utf8 })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        if !self.is_configured() {
            let (name, option) = (self.what.name(), self.what.option());
            return plan_err!("there is no file for {name}()\nhint: name it with {option} FILE");
        }
        let types: Vec<DataType> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.what.name(), self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let arrays =
            arguments.args.iter().map(|one| one.to_array(rows)).collect::<Result<Vec<_>, DataFusionError>>()?;
        let result = self.look_up(&arrays);
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}
