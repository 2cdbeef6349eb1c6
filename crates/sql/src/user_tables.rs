//! Files of the caller as tables next to those of the archive.
//!
//! A file is read by the engine when a question needs it, so it may be large. The ending of its name says which kind it is. A column
//! of text that holds nothing but addresses becomes a column of addresses, so that it joins with those of flows,
//! `USING` included, and sorts like them; to be sure of "nothing but", every value is looked at when the table is
//! registered, which costs a pass over the file and never a surprise in an answer.

use std::path::{Path, PathBuf};

use datafusion::common::{DataFusionError, Result};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::file_format::options::JsonReadOptions;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Expr, cast, ident};
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionContext};
use weir_flow::Table;

use crate::{EngineError, functions};

/// A file that is a table next to those of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserTable {
    /// Name in SQL.
    pub name: String,
    /// The file: `.csv` or `.tsv` with a header line, `.ndjson` (or `.jsonl`, `.json`) with one object a line, or
    /// `.parquet`.
    pub path: PathBuf,
}

impl UserTable {
    fn refused(&self, reason: impl Into<String>) -> EngineError {
        EngineError::UserTableRefused { name: self.name.clone(), reason: reason.into() }
    }

    fn unreadable(&self, error: DataFusionError) -> EngineError {
        let path = self.path.display().to_string();
        EngineError::UserTable { name: self.name.clone(), path, source: Box::new(error) }
    }
}

/// Registers a file as a table.
pub(crate) async fn register(context: &SessionContext, table: &UserTable) -> Result<(), EngineError> {
    if Table::ALL.iter().any(|ours| ours.name() == table.name) {
        return Err(table.refused("is a table of the archive\nhint: give the file another name"));
    }
    if let Err(error) = std::fs::File::open(&table.path) {
        return Err(table.unreadable(error.into()));
    }
    let read = read(context, table).await?;
    let with_addresses = recognised(read).await.map_err(|error| table.unreadable(error))?;
    context
        .register_table(table.name.as_str(), with_addresses.into_view())
        .map(drop)
        .map_err(|error| table.unreadable(error))
}

async fn read(context: &SessionContext, table: &UserTable) -> Result<DataFrame, EngineError> {
    let path = path_text(&table.path);
    let ending = table.path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_owned();
    let suffix = format!(".{ending}");
    let read = match ending.to_ascii_lowercase().as_str() {
        "csv" => context.read_csv(path, CsvReadOptions::new().file_extension(&suffix)).await,
        "tsv" => context.read_csv(path, CsvReadOptions::new().file_extension(&suffix).delimiter(b'\t')).await,
        "ndjson" | "jsonl" | "json" => {
            context.read_json(path, JsonReadOptions::default().file_extension(&suffix)).await
        }
        "parquet" => {
            let options = ParquetReadOptions { file_extension: &suffix, ..ParquetReadOptions::default() };
            context.read_parquet(path, options).await
        }
        _ => {
            let path = table.path.display();
            let hint = "hint: the name must end in .csv, .tsv, .ndjson, .jsonl, .json or .parquet";
            return Err(table.refused(format!("is of no known kind: {path}\n{hint}")));
        }
    };
    read.map_err(|error| table.unreadable(error))
}

/// The path as the engine takes it, which reads it as a pattern.
fn path_text(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.to_string_lossy().into_owned()
}

/// The table with its columns of addresses as such.
async fn recognised(table: DataFrame) -> Result<DataFrame> {
    let fields = table.schema().fields().clone();
    let texts = fields.iter().filter(|field| field.data_type().is_string());
    let texts: Vec<_> = texts.map(|field| field.name().clone()).collect();
    if texts.is_empty() {
        return Ok(table);
    }
    let tests = texts.iter().flat_map(|name| {
        let address = address_of(name);
        [count(ident(name)).alias(format!("{name} values")), count(address).alias(format!("{name} addresses"))]
    });
    let counts = table.clone().aggregate(Vec::new(), tests.collect())?.collect().await?;
    let counted = |position: usize| {
        let array = counts.first()?.columns().get(position)?;
        let numbers: &arrow::array::Int64Array = array.as_any().downcast_ref()?;
        numbers.values().first().copied()
    };
    let is_address = |name: &str| {
        let position = texts.iter().position(|text| text == name)?;
        let (values, addresses) = (counted(2 * position)?, counted(2 * position + 1)?);
        Some(values > 0 && values == addresses)
    };
    let columns = fields.iter().map(|field| {
        let name = field.name();
        if is_address(name) == Some(true) { address_of(name).alias(name) } else { ident(name) }
    });
    table.select(columns.collect::<Vec<_>>())
}

fn address_of(name: &str) -> Expr {
    functions::call("address", vec![cast(ident(name), arrow::datatypes::DataType::Utf8)])
}
