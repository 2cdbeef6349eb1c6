//! Functions that statements about the catalogue call.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::input::{CLASS_OID, CatalogueInput};
use crate::kinds::PgKind;

/// Functions that say nothing about anything: what they are about is not here.
const NOTHING: &[&str] = &[
    "pg_get_expr",
    "pg_get_indexdef",
    "pg_get_constraintdef",
    "pg_get_viewdef",
    "pg_get_partkeydef",
    "pg_get_ruledef",
    "pg_get_triggerdef",
    "pg_get_functiondef",
    "pg_get_function_arguments",
    "pg_get_function_result",
    "pg_get_function_identity_arguments",
    "pg_get_serial_sequence",
    "pg_get_statisticsobjdef_columns",
    "pg_tablespace_location",
    "shobj_description",
    "inet_server_addr",
    "inet_client_addr",
    "pg_relation_filepath",
];
/// Functions that say yes.
const YES: &[&str] =
    &["pg_table_is_visible", "pg_type_is_visible", "pg_function_is_visible", "pg_collation_is_visible"];
/// Functions that say no.
const NO: &[&str] = &["pg_is_in_recovery", "pg_is_other_temp_schema", "pg_has_role"];
/// Functions that ask for a privilege by its last argument.
const PRIVILEGES: &[&str] = &[
    "has_table_privilege",
    "has_schema_privilege",
    "has_database_privilege",
    "has_column_privilege",
    "has_any_column_privilege",
    "has_function_privilege",
    "has_sequence_privilege",
    "has_type_privilege",
];
/// Functions that count something that is not counted.
const ZERO: &[&str] = &[
    "pg_my_temp_schema",
    "pg_relation_size",
    "pg_total_relation_size",
    "pg_table_size",
    "pg_indexes_size",
    "pg_database_size",
    "txid_current",
    "pg_relation_is_updatable",
    "pg_backend_pid",
];

type Compute = fn(&CatalogueInput, &[ArrayRef], usize) -> Result<ArrayRef>;

/// A function of the catalogue, which takes anything.
struct CatalogueFunction {
    name: &'static str,
    signature: Signature,
    returns: DataType,
    input: Arc<CatalogueInput>,
    compute: Compute,
}

impl std::fmt::Debug for CatalogueFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CatalogueFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for CatalogueFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for CatalogueFunction {}

impl Hash for CatalogueFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for CatalogueFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let arrays = arguments.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array((self.compute)(&self.input, &arrays, rows)?))
    }
}

/// All functions.
pub(super) fn all(input: &Arc<CatalogueInput>) -> Vec<ScalarUDF> {
    let signature = || Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Stable);
    let function = |name: &'static str, returns: DataType, compute: Compute| {
        let input = Arc::clone(input);
        ScalarUDF::from(CatalogueFunction { name, signature: signature(), returns, input, compute })
    };
    let mut all = vec![
        function("version", DataType::Utf8, |_, _, rows| Ok(same_text(Some(&version()), rows))),
        function("current_database", DataType::Utf8, |input, _, rows| {
            Ok(same_text(Some(&input.session.database), rows))
        }),
        function("current_catalog", DataType::Utf8, |input, _, rows| {
            Ok(same_text(Some(&input.session.database), rows))
        }),
        function("current_schema", DataType::Utf8, |_, _, rows| Ok(same_text(Some("public"), rows))),
        function("pg_encoding_to_char", DataType::Utf8, |_, _, rows| Ok(same_text(Some("UTF8"), rows))),
        function("current_schemas", text_list(), |_, _, rows| Ok(same_list(&["pg_catalog", "public"], rows))),
        function("current_setting", DataType::Utf8, current_setting),
        function("format_type", DataType::Utf8, |_, arguments, _| {
            each_number(arguments, |oid| Some(kind_of(oid)?.spoken().to_owned()))
        }),
        function("weir_regtype_name", DataType::Utf8, |_, arguments, _| {
            each_number(arguments, |oid| Some(kind_of(oid)?.spoken().to_owned()))
        }),
        function("weir_regclass_name", DataType::Utf8, |input, arguments, _| {
            each_number(arguments, |oid| Some(input.table_of(oid)?.name.clone()))
        }),
        function("weir_regclass_oid", DataType::Int64, |input, arguments, _| {
            let names = texts(arguments, 0)?;
            Ok(Arc::new(names.iter().map(|name| regclass(name?, input)).collect::<Int64Array>()))
        }),
        function("obj_description", DataType::Utf8, |input, arguments, _| {
            each_number(arguments, |oid| Some(input.table_of(oid)?.doc.to_owned()))
        }),
        function("col_description", DataType::Utf8, col_description),
        function("to_regclass", DataType::Utf8, |input, arguments, _| {
            each_text(arguments, |name| input.table_oid(name.trim_start_matches("public.")).map(|_| name.to_owned()))
        }),
        function("quote_ident", DataType::Utf8, |_, arguments, _| each_text(arguments, |text| Some(quoted_name(text)))),
        function("quote_literal", DataType::Utf8, |_, arguments, _| {
            each_text(arguments, |text| Some(format!("'{}'", text.replace('\'', "''"))))
        }),
        function("parse_ident", text_list(), parse_ident),
        function("array_to_string", DataType::Utf8, array_to_string),
        function("array_lower", DataType::Int64, |_, arguments, rows| bound(arguments, rows, |_| 1)),
        function("array_upper", DataType::Int64, |_, arguments, rows| bound(arguments, rows, |length| length)),
        function("pg_size_pretty", DataType::Utf8, |_, arguments, _| {
            each_number(arguments, |octets| Some(format!("{octets} bytes")))
        }),
    ];
    let user: Compute = |input, _, rows| Ok(same_text(Some(&input.session.user), rows));
    all.extend(
        ["current_user", "session_user", "current_role", "user"].map(|name| function(name, DataType::Utf8, user)),
    );
    all.push(function("pg_get_userbyid", DataType::Utf8, user));
    let nothing: Compute = |_, _, rows| Ok(same_text(None, rows));
    all.extend(NOTHING.iter().map(|name| function(name, DataType::Utf8, nothing)));
    let yes: Compute = |_, _, rows| Ok(Arc::new(BooleanArray::from(vec![true; rows])));
    all.extend(YES.iter().map(|name| function(name, DataType::Boolean, yes)));
    let no: Compute = |_, _, rows| Ok(Arc::new(BooleanArray::from(vec![false; rows])));
    all.extend(NO.iter().map(|name| function(name, DataType::Boolean, no)));
    all.extend(PRIVILEGES.iter().map(|name| function(name, DataType::Boolean, privilege)));
    let zero: Compute = |_, _, rows| Ok(Arc::new(Int64Array::from(vec![0; rows])));
    all.extend(ZERO.iter().map(|name| function(name, DataType::Int64, zero)));
    all
}

/// What `version()` says; drivers read the number behind the first word.
fn version() -> String {
    format!("PostgreSQL {} (weir {})", crate::settings::VERSION, env!("CARGO_PKG_VERSION"))
}

fn kind_of(oid: i64) -> Option<PgKind> {
    PgKind::by_oid(u32::try_from(oid).ok()?)
}

fn same_text(text: Option<&str>, rows: usize) -> ArrayRef {
    Arc::new(std::iter::repeat_n(text, rows).collect::<StringArray>())
}

fn same_list(items: &[&str], rows: usize) -> ArrayRef {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for _ in 0..rows {
        builder.append_value(items.iter().map(Some));
    }
    Arc::new(builder.finish())
}

fn missing() -> DataFusionError {
    DataFusionError::Plan("an argument is missing".to_owned())
}

fn texts(arguments: &[ArrayRef], position: usize) -> Result<StringArray> {
    let array = cast(arguments.get(position).ok_or_else(missing)?, &DataType::Utf8)?;
    Ok(array.as_string().clone())
}

fn each_text(arguments: &[ArrayRef], of: impl Fn(&str) -> Option<String>) -> Result<ArrayRef> {
    let texts = texts(arguments, 0)?;
    Ok(Arc::new(texts.iter().map(|text| text.and_then(&of)).collect::<StringArray>()))
}

fn each_number(arguments: &[ArrayRef], of: impl Fn(i64) -> Option<String>) -> Result<ArrayRef> {
    let numbers = cast(arguments.first().ok_or_else(missing)?, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    Ok(Arc::new(numbers.iter().map(|number| number.and_then(&of)).collect::<StringArray>()))
}

fn current_setting(input: &CatalogueInput, arguments: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let is_lenient = arguments.len() > 1;
    let names = texts(arguments, 0)?;
    let values = names.iter().map(|name| {
        let Some(name) = name else { return Ok(None) };
        let found = input.session.settings.iter().find(|(setting, _)| setting.eq_ignore_ascii_case(name));
        match found {
            Some((_, value)) => Ok(Some(value.as_str())),
            None if is_lenient => Ok(None),
            None => Err(DataFusionError::Execution(format!("there is no setting '{}'", name.escape_debug()))),
        }
    });
    Ok(Arc::new(values.collect::<Result<StringArray>>()?))
}

fn col_description(input: &CatalogueInput, arguments: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let number = |position: usize| -> Result<Int64Array> {
        let array = cast(arguments.get(position).ok_or_else(missing)?, &DataType::Int64)?;
        Ok(array.as_primitive::<Int64Type>().clone())
    };
    let (oids, numbers) = (number(0)?, number(1)?);
    let doc = |(oid, number): (Option<i64>, Option<i64>)| {
        let position = usize::try_from(number?).ok()?.checked_sub(1)?;
        let column = input.table_of(oid?)?.columns.get(position)?;
        (!column.doc.is_empty()).then(|| column.doc.to_owned())
    };
    Ok(Arc::new(oids.iter().zip(numbers.iter()).map(doc).collect::<StringArray>()))
}

/// Everybody may read, and nobody may write.
fn privilege(_input: &CatalogueInput, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let Some(last) = arguments.len().checked_sub(1) else { return Err(missing()) };
    let privileges = texts(arguments, last)?;
    let may = |privilege: Option<&str>| {
        let upper = privilege?.to_uppercase();
        Some(["SELECT", "USAGE", "CONNECT", "EXECUTE"].iter().any(|word| upper.contains(word)))
    };
    debug_assert_eq!(privileges.len(), rows);
    Ok(Arc::new(privileges.iter().map(may).collect::<BooleanArray>()))
}

/// A name, in quotes where it needs them.
fn quoted_name(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && text.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
        && !["end", "user", "select", "table", "from", "order", "group", "limit"].contains(&text);
    if is_plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

/// The parts of a name with dots.
fn parse_ident(_input: &CatalogueInput, arguments: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for name in &texts(arguments, 0)? {
        let parts: Vec<_> = name.unwrap_or_default().split('.').map(|part| Some(part.trim_matches('"'))).collect();
        builder.append_value(parts);
    }
    Ok(Arc::new(builder.finish()))
}

fn array_to_string(_input: &CatalogueInput, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let list = arguments.first().ok_or_else(missing)?;
    let Some(list) = list.as_list_opt::<i32>() else { return Ok(same_text(None, rows)) };
    let separators = texts(arguments, 1)?;
    let joined = list.iter().zip(separators.iter()).map(|(items, separator)| -> Result<Option<String>> {
        let Some(items) = items else { return Ok(None) };
        let items = cast(&items, &DataType::Utf8)?;
        let items: Vec<&str> = items.as_string::<i32>().iter().flatten().collect();
        Ok(Some(items.join(separator.unwrap_or_default())))
    });
    Ok(Arc::new(joined.collect::<Result<StringArray>>()?))
}

/// A bound of a list of a length.
fn bound(arguments: &[ArrayRef], rows: usize, of: impl Fn(i64) -> i64) -> Result<ArrayRef> {
    let list = arguments.first().ok_or_else(missing)?;
    let Some(list) = list.as_list_opt::<i32>() else { return Ok(Arc::new(Int64Array::new_null(rows))) };
    let bounds = list.iter().map(|items| items.filter(|items| !items.is_empty()).map(|items| of(items.len() as i64)));
    Ok(Arc::new(bounds.collect::<Int64Array>()))
}

/// The number that the text of a cast to `regclass` stands for.
pub(super) fn regclass(text: &str, input: &CatalogueInput) -> Option<i64> {
    let plain = text.replace('"', "");
    let name = plain.strip_prefix("pg_catalog.").or_else(|| plain.strip_prefix("public.")).unwrap_or(&plain);
    match name {
        "pg_class" => Some(CLASS_OID),
        "pg_namespace" => Some(2615),
        "pg_type" => Some(1247),
        "pg_proc" => Some(1255),
        "pg_database" => Some(1262),
        "pg_constraint" => Some(2606),
        "pg_trigger" => Some(2620),
        "pg_attribute" => Some(1249),
        "pg_attrdef" => Some(2604),
        "pg_extension" => Some(3079),
        name if super::relations::is_empty(name) => Some(0),
        name => name.parse().ok().or_else(|| input.table_oid(name)),
    }
}

/// The type of lists of text.
fn text_list() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
}
