//! Corrections of sampling intervals, applied when flows are read.
//!
//! Counts are kept as measured, with the interval that the exporter reported. Exporters report a wrong one, or none; a
//! table of corrections says what was true, and since nothing is multiplied when flows are stored, it holds for the
//! past too. The first line that fits a flow counts, as in a table of rules. What speaks against it is that the order
//! of the lines matters; what speaks for it is that nobody has to guess which of two lines is the more special one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow::array::{Array, BinaryArray, Float64Array, TimestampMillisecondArray, UInt32Array};
use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;

use crate::address::parse_address;

/// The first line of a table of corrections.
pub const HEADER: &str = "exporter,domain,sampler,in_if,from,to,interval";

/// Most lines of a table.
pub const LINES_MAX: usize = 65_536;

/// Why a table of corrections cannot be read. Lines count from 1, the header included.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScalingError {
    /// The first line is another.
    #[error("the first line is not the header\nhint: it is '{HEADER}'")]
    Header,
    /// A line with too few or too many fields.
    #[error("line {line} has {found} fields, not 7\nhint: the header is '{HEADER}'")]
    Fields {
        /// The line.
        line: usize,
        /// Its fields.
        found: usize,
    },
    /// A field that is not what it should be.
    #[error("line {line}: '{value}' is no {what}\nhint: {hint}")]
    Value {
        /// The line.
        line: usize,
        /// The field's name.
        what: &'static str,
        /// What was found there.
        value: String,
        /// What may be there.
        hint: &'static str,
    },
    /// A period that ends before it begins.
    #[error("line {line}: 'to' is not after 'from'")]
    Period {
        /// The line.
        line: usize,
    },
    /// More than [`LINES_MAX`] lines.
    #[error("more than {LINES_MAX} lines")]
    TooLong,
}

/// Why a file of corrections cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CorrectionsFileError {
    /// The file.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What it says.
    #[error("cannot read {}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ScalingError,
    },
}

/// One line: what a flow must be for it to count; `None` fits all flows.
#[derive(Debug, Clone, PartialEq)]
struct Correction {
    exporter: Option<Vec<u8>>,
    domain: Option<u32>,
    sampler: Option<u32>,
    in_if: Option<u32>,
    /// First millisecond since the epoch.
    from_ms: i64,
    /// First millisecond after.
    to_ms: i64,
    interval: f64,
}

/// A table of corrections.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Corrections {
    lines: Vec<Correction>,
    /// Lines that name an exporter, by its address, in order.
    by_exporter: HashMap<Vec<u8>, Vec<u32>>,
    /// Lines that name no exporter.
    for_all: Vec<u32>,
}

/// The columns of flows that decide about their factor; each as long as the others, or absent.
#[derive(Debug, Clone, Copy)]
pub struct ScalingColumns<'a> {
    /// `exporter`.
    pub exporter: Option<&'a BinaryArray>,
    /// `observation_domain`.
    pub domain: Option<&'a UInt32Array>,
    /// `sampler_id`.
    pub sampler: Option<&'a UInt32Array>,
    /// `in_if`.
    pub in_if: Option<&'a UInt32Array>,
    /// `received`, by which a flow falls into a period.
    pub received: Option<&'a TimestampMillisecondArray>,
    /// `sampling_interval`, what the exporter reported.
    pub interval: Option<&'a UInt32Array>,
}

impl Corrections {
    /// Reads a table: the header [`HEADER`], then lines of seven fields parted by commas, of which any but the last may
    /// be empty. Empty lines and lines that begin with `#` say nothing.
    pub fn parse(text: &str) -> Result<Self, ScalingError> {
        let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        let mut said = lines.by_ref().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        if said.next().is_none_or(|(_, line)| line != HEADER) {
            return Err(ScalingError::Header);
        }
        let mut corrections = Vec::new();
        for (number, line) in said {
            if corrections.len() == LINES_MAX {
                return Err(ScalingError::TooLong);
            }
            corrections.push(correction(number, line)?);
        }
        Ok(Self::new(corrections))
    }

    /// Reads the table of a file, see [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self, CorrectionsFileError> {
        let named = || path.to_owned();
        let text =
            std::fs::read_to_string(path).map_err(|source| CorrectionsFileError::Read { path: named(), source })?;
        Self::parse(&text).map_err(|source| CorrectionsFileError::Parse { path: named(), source })
    }

    fn new(lines: Vec<Correction>) -> Self {
        let (mut by_exporter, mut for_all) = (HashMap::<Vec<u8>, Vec<u32>>::new(), Vec::new());
        for (number, line) in lines.iter().enumerate() {
            match &line.exporter {
                Some(exporter) => by_exporter.entry(exporter.clone()).or_default().push(number as u32),
                None => for_all.push(number as u32),
            }
        }
        Self { lines, by_exporter, for_all }
    }

    /// The same for exporters that are named otherwise: `rename` replaces the octets of their addresses.
    #[must_use]
    pub fn with_exporters(self, mut rename: impl FnMut(&mut [u8])) -> Self {
        let mut lines = self.lines;
        for exporter in lines.iter_mut().filter_map(|line| line.exporter.as_mut()) {
            rename(exporter);
        }
        Self::new(lines)
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// What the counts of each flow are to be multiplied with: the interval of the first line that fits it, else the
    /// interval that its exporter reported, else 1.
    pub fn factors(&self, rows: usize, columns: &ScalingColumns<'_>) -> Float64Array {
        let number = |array: Option<&UInt32Array>, row| array.filter(|a| a.is_valid(row)).map(|a| a.value(row));
        let mut last: (&[u8], &[u32]) = (&[], &[]);
        let factor = |row| {
            let exporter =
                columns.exporter.filter(|array| array.is_valid(row)).map_or(&[][..], |array| array.value(row));
            if exporter != last.0 {
                last = (exporter, self.by_exporter.get(exporter).map_or(&[], Vec::as_slice));
            }
            let told = || number(columns.interval, row).filter(|interval| *interval > 0).map_or(1.0, f64::from);
            if last.1.is_empty() && self.for_all.is_empty() {
                return told();
            }
            let received = columns.received.filter(|array| array.is_valid(row)).map(|array| array.value(row));
            let (domain, sampler, in_if) =
                (number(columns.domain, row), number(columns.sampler, row), number(columns.in_if, row));
            let is = |wanted: Option<u32>, found: Option<u32>| wanted.is_none() || wanted == found;
            let fits = |number: &&u32| {
                self.lines.get(**number as usize).is_some_and(|line| {
                    is(line.domain, domain)
                        && is(line.sampler, sampler)
                        && is(line.in_if, in_if)
                        && received.map_or(line.from_ms == i64::MIN && line.to_ms == i64::MAX, |at| {
                            (line.from_ms..line.to_ms).contains(&at)
                        })
                })
            };
            let first = [last.1.iter().find(fits), self.for_all.iter().find(fits)].into_iter().flatten().min();
            first.and_then(|&number| self.lines.get(number as usize)).map_or_else(told, |line| line.interval)
        };
        (0..rows).map(factor).collect::<Vec<_>>().into()
    }
}

fn correction(line: usize, text: &str) -> Result<Correction, ScalingError> {
    let fields: Vec<_> = text.split(',').map(str::trim).collect();
    let [exporter, domain, sampler, in_if, from, to, interval] = fields[..] else {
        return Err(ScalingError::Fields { line, found: fields.len() });
    };
    let wrong =
        |what, value: &str, hint| ScalingError::Value { line, what, value: value.escape_debug().to_string(), hint };
    let number = |what, value: &str| match value {
        "" => Ok(None),
        _ => value.parse().map(Some).map_err(|_| wrong(what, value, "write a number below 2^32, or nothing for any")),
    };
    let time = |what, value: &str, otherwise| match value {
        "" => Ok(otherwise),
        _ => string_to_timestamp_nanos(value)
            .map(|nanos| nanos.div_euclid(1_000_000))
            .map_err(|_| wrong(what, value, "write a time such as 2026-01-31T12:00:00Z, or nothing for any")),
    };
    let exporter = match exporter {
        "" => None,
        _ => Some(
            parse_address(exporter)
                .ok_or_else(|| wrong("exporter", exporter, "write an IPv4 or IPv6 address, or nothing for any"))?,
        ),
    };
    let (from_ms, to_ms) = (time("from", from, i64::MIN)?, time("to", to, i64::MAX)?);
    if from_ms >= to_ms {
        return Err(ScalingError::Period { line });
    }
    let parsed = interval.parse().ok().filter(|interval: &f64| interval.is_finite() && *interval > 0.0);
    let interval = parsed.ok_or_else(|| {
        wrong("interval", interval, "write one packet in how many, such as 1000 or 1.5; 1 where nothing is sampled")
    })?;
    Ok(Correction {
        exporter,
        domain: number("domain", domain)?,
        sampler: number("sampler", sampler)?,
        in_if: number("in_if", in_if)?,
        from_ms,
        to_ms,
        interval,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &str) -> Result<Corrections, ScalingError> {
        Corrections::parse(&format!("# what we know\n{HEADER}\n\n{lines}"))
    }

    /// One flow of 192.0.2.1, domain 7, sampler 3, interface 5, received at the given millisecond, told interval 100.
    fn factor(lines: &str, received_ms: i64) -> f64 {
        let exporter = BinaryArray::from_iter_values([[192, 0, 2, 1]]);
        let (domain, sampler, in_if) =
            (UInt32Array::from(vec![7]), UInt32Array::from(vec![3]), UInt32Array::from(vec![5]));
        let received = TimestampMillisecondArray::from(vec![received_ms]);
        let interval = UInt32Array::from(vec![100]);
        let columns = ScalingColumns {
            exporter: Some(&exporter),
            domain: Some(&domain),
            sampler: Some(&sampler),
            in_if: Some(&in_if),
            received: Some(&received),
            interval: Some(&interval),
        };
        parse(lines).expect("a table").factors(1, &columns).value(0)
    }

    fn check(lines: &str, expected: f64) {
        assert!((factor(lines, 1_000) - expected).abs() < 1e-9, "{lines}: {}", factor(lines, 1_000));
    }

    #[test]
    fn the_first_line_that_fits_counts() {
        check("", 100.0);
        check(",,,,,,1000", 1000.0);
        check("192.0.2.2,,,,,,1000", 100.0);
        check("192.0.2.1,,,,,,1.5\n,,,,,,2", 1.5);
        check(",,,,,,2\n192.0.2.1,,,,,,1.5", 2.0);
        check("192.0.2.1,8,,,,,10\n192.0.2.1,7,3,5,,,20\n,,,,,,30", 20.0);
        check(",,4,,,,10\n,,,6,,,10", 100.0);
    }

    #[test]
    fn periods_hold_from_their_first_to_before_their_last_moment() {
        let lines = ",,,,1970-01-01T00:00:01Z,1970-01-01T00:00:02Z,10\n,,,,1970-01-01T00:00:02Z,,20";
        let factors: Vec<_> = [999, 1_000, 1_999, 2_000].iter().map(|at| factor(lines, *at)).collect();
        assert_eq!(factors, [100.0, 10.0, 10.0, 20.0]);
    }

    #[test]
    fn exporters_may_be_named_otherwise() {
        let corrections = parse("192.0.2.9,,,,,,10\n,,,,,,30").expect("a table");
        let renamed = corrections.with_exporters(|octets| octets.copy_from_slice(&[192, 0, 2, 1]));
        assert_eq!(renamed, parse("192.0.2.1,,,,,,10\n,,,,,,30").expect("a table"));
    }

    #[test]
    fn columns_that_are_not_there() {
        let none =
            ScalingColumns { exporter: None, domain: None, sampler: None, in_if: None, received: None, interval: None };
        let corrections = parse("192.0.2.1,,,,,,5\n,1,,,,,6\n,,,,1970-01-01T00:00:00Z,,7\n,,,,,,8").expect("a table");
        assert_eq!(corrections.factors(2, &none).values().to_vec(), [8.0, 8.0]);
        assert_eq!(Corrections::default().factors(1, &none).values().to_vec(), [1.0]);
    }

    #[test]
    fn errors_name_the_line_and_what_may_stand_there() {
        let error = |lines: &str| parse(lines).expect_err("an error").to_string();
        assert_eq!(Corrections::parse("a,b\n"), Err(ScalingError::Header));
        assert_eq!(Corrections::parse(""), Err(ScalingError::Header));
        assert!(error("1,2").starts_with("line 4 has 2 fields, not 7\nhint: "));
        assert!(error("host,,,,,,1").starts_with("line 4: 'host' is no exporter\nhint: write an IPv4"));
        assert!(error(",-1,,,,,1").starts_with("line 4: '-1' is no domain"));
        assert!(error(",,,,soon,,1").starts_with("line 4: 'soon' is no from"));
        assert!(error(",,,,2026-01-02T00:00:00Z,2026-01-01T00:00:00Z,1").contains("'to' is not after 'from'"));
        for interval in ["0", "-3", "", "NaN", "inf"] {
            assert!(error(&format!(",,,,,,{interval}")).contains("is no interval"), "{interval}");
        }
    }
}
