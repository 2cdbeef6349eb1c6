//! What files know about addresses and interfaces: functions of SQL.
//!
//! Flows keep addresses; countries, autonomous systems and labels are looked up when they are asked for, in the databases of
//! today. That is right for labels and for what is asked now, and wrong for who had an address a year ago: who needs that
//! keeps it with the flows, by the transform `enrich`. Names of interfaces come from a file, and where that has none from what
//! exporters reported: the newest name of each, or that of a time, such as the one of the flow.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::path::PathBuf;
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
use weir_routes::{Database, InterfaceNames, PrefixMap, read_labels};

use crate::EngineError;
use crate::functions::LOOK_UPS;
use crate::reported_names::ReportedNames;

/// The files, those that are configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnrichmentFiles {
    /// Autonomous systems: a `MaxMind` DB file.
    pub asn_mmdb: Option<PathBuf>,
    /// Countries: a `MaxMind` DB file.
    pub geo_mmdb: Option<PathBuf>,
    /// Labels: lines `prefix,label`.
    pub labels: Option<PathBuf>,
    /// Names of interfaces: lines `exporter,if_index,name`.
    pub interfaces: Option<PathBuf>,
}

/// The tables made of them.
#[derive(Debug, Default)]
pub struct Enrichment {
    asn: Option<PrefixMap<u32>>,
    countries: Option<PrefixMap<String>>,
    labels: Option<PrefixMap<String>>,
    interfaces: Option<InterfaceNames>,
}

impl Enrichment {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or is not what it should be.
    pub fn load(files: &EnrichmentFiles) -> Result<Self, EngineError> {
        let database = |path: &PathBuf| Database::open(path).map_err(EngineError::enrichment);
        let asn = files.asn_mmdb.as_ref().map(database).transpose()?;
        let countries = files.geo_mmdb.as_ref().map(database).transpose()?;
        let labels = files.labels.as_ref().map(|path| read_labels(path)).transpose();
        let interfaces = files.interfaces.as_ref().map(|path| InterfaceNames::read(path)).transpose();
        Ok(Self {
            asn: asn.map(|open| open.autonomous_systems()).transpose().map_err(EngineError::enrichment)?,
            countries: countries.map(|open| open.countries()).transpose().map_err(EngineError::enrichment)?,
            labels: labels.map_err(EngineError::enrichment)?,
            interfaces: interfaces.map_err(EngineError::enrichment)?,
        })
    }
}

/// What files know about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownAddress<'a> {
    /// Number of the autonomous system.
    pub asn: Option<u32>,
    /// Code of the country.
    pub country: Option<&'a str>,
    /// The label.
    pub label: Option<&'a str>,
}

impl Enrichment {
    /// What is known about an address, 4 or 16 octets in network order.
    pub fn address(&self, octets: &[u8]) -> KnownAddress<'_> {
        fn text<'a>(table: Option<&'a PrefixMap<String>>, octets: &[u8]) -> Option<&'a str> {
            table?.find_octets(octets).map(String::as_str)
        }
        KnownAddress {
            asn: self.asn.as_ref().and_then(|table| table.find_octets(octets)).copied(),
            country: text(self.countries.as_ref(), octets),
            label: text(self.labels.as_ref(), octets),
        }
    }

    /// The name of an interface by the file; exporters may have reported another.
    pub fn interface(&self, exporter: &[u8], index: u32) -> Option<&str> {
        self.interfaces.as_ref()?.name(exporter, index)
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
            _ => address(&[]),
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
            What::Asn => self.tables.asn.is_some(),
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
        match self.what {
            What::Asn => {
                let find =
                    |octets: &[u8]| self.tables.asn.as_ref().and_then(|table| table.find_octets(octets)).copied();
                Arc::new(addresses.map(|octets| octets.and_then(find)).collect::<UInt32Array>())
            }
            What::Country => texts(addresses, self.tables.countries.as_ref()),
            What::Label => texts(addresses, self.tables.labels.as_ref()),
            What::IfName => {
                let indexes = arguments[1].as_primitive::<UInt32Type>();
                let times = arguments.get(2).map(AsArray::as_primitive::<TimestampMillisecondType>);
                let mut names = StringBuilder::new();
                for (row, (exporter, index)) in addresses.zip(indexes).enumerate() {
                    let at_ms = times.filter(|times| times.is_valid(row)).map(|times| times.value(row));
                    let interface = exporter.zip(index);
                    names.append_option(interface.and_then(|(exporter, index)| self.if_name(exporter, index, at_ms)));
                }
                Arc::new(names.finish())
            }
        }
    }

    fn if_name(&self, exporter: &[u8], index: u32, at_ms: Option<i64>) -> Option<&str> {
        let file = self.tables.interfaces.as_ref().and_then(|names| names.name(exporter, index));
        file.or_else(|| self.reported.get().and_then(|names| names.name(exporter, index, at_ms)))
    }
}

/// Addresses that are text.
fn parsed_addresses(texts: &StringArray) -> BinaryArray {
    texts.iter().map(|text| text.and_then(parse_address)).collect()
}

fn texts<'a>(addresses: impl Iterator<Item = Option<&'a [u8]>>, table: Option<&PrefixMap<String>>) -> ArrayRef {
    let mut texts = StringBuilder::new();
    for address in addresses {
        texts.append_option(address.and_then(|octets| table?.find_octets(octets)));
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
