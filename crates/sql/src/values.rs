//! Numbers and times written as tables print them.
//!
//! A table prints protocol 6 as `TCP`, flags as `...A..S.` and times in a zone, so that is what people write next to
//! these columns: `protocol = 'TCP'`, `tcp_flags = 'S'`, `dst_port = 'https'`, `start > 'yesterday 14:00'`. This rule runs
//! before types are coerced, and turns a literal text into the number or the moment, so that scans prune by it; a text that
//! is neither is an error that says what to write. Which column it is goes by name and type, as in what prints them.
//! Text that is computed is left to the coercion of the engine.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};
use datafusion::optimizer::AnalyzerRule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Zoned};
use weir_flow::{PROTOCOLS, SERVICES, service_port};
use weir_query::times;

use crate::compared::{align_compared, rewrite_expressions};
use crate::literals::{BadLiteral, Unfit, name_of, text_of};
use crate::mistake::phrases::time_hint;

/// Letters of the control bits of TCP, from the highest.
const FLAG_LETTERS: &[u8] = b"CEUAPRSF";

/// The rule.
#[derive(Debug)]
pub(crate) struct NamedValues {
    /// Zone of times without one, and of days.
    pub(crate) zone: TimeZone,
    /// Whether statements are asked again and again, about windows: then no time may be counted from now.
    pub(crate) is_standing: bool,
}

/// What the times of a statement are read by.
#[derive(Debug)]
struct Clock {
    now: Zoned,
    is_standing: bool,
}

impl Clock {
    fn time_zone(&self) -> &TimeZone {
        self.now.time_zone()
    }

    /// The moment that a text is.
    fn moment(&self, text: &str) -> Option<i64> {
        times::moment(text, &self.now).ok()
    }

    /// Refuses a text that is another moment when it is read at another time, in a statement that is asked again and again: it
    /// would stay what it was when the statement was planned.
    fn check(&self, text: &str) -> Result<()> {
        // on another day of the week, and at another time of it
        let later = self.now.checked_add(SignedDuration::from_hours(400 * 24 + 5));
        let is_counted = || later.is_ok_and(|later| times::moment(text, &later).ok() != self.moment(text));
        if self.is_standing && is_counted() { Err(Unfit::counted_from_now(text)) } else { Ok(()) }
    }
}

/// What the values of an expression mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Protocol,
    Flags,
    Port,
    Number,
    Time,
}

impl Meaning {
    /// Finds the meaning by name and type: a column with the name of one of ours means the same.
    fn of(value: &Expr, schema: &DFSchema) -> Option<Self> {
        let (_, field) = value.to_field(schema).ok()?;
        let name = if let Expr::Column(column) = value { column.name.as_str() } else { "" };
        match (name, field.data_type()) {
            (_, DataType::Timestamp(..)) => Some(Self::Time),
            ("protocol", DataType::UInt8) => Some(Self::Protocol),
            ("tcp_flags" | "tcp_flags_reverse", DataType::UInt8 | DataType::UInt16) => Some(Self::Flags),
            ("src_port" | "dst_port", DataType::UInt16) => Some(Self::Port),
            (_, number) if number.is_numeric() => Some(Self::Number),
            _ => None,
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Flags => "set of TCP flags",
            Self::Port => "port",
            Self::Number => "number",
            Self::Time => "time",
        }
    }

    fn hint(self, name: &str, text: &str) -> String {
        match self {
            Self::Protocol => crate::mistake::nearest(text, PROTOCOLS.iter().filter_map(|one| one.keyword))
                .unwrap_or_else(|| format!("write its name or number, as in {name} = 'TCP' or {name} = 6")),
            Self::Flags => format!("write the letters CEUAPRSF of the bits that are set, as in {name} = 'SA'"),
            Self::Port => crate::mistake::nearest(text, SERVICES.iter().map(|(_, name)| *name)).unwrap_or_else(|| {
                format!("write the number or the name of a service, as in {name} = 443 or {name} = 'https'")
            }),
            Self::Number if in_octets(text).is_some() => {
                format!("write the number in full, as in {name} > {}", in_octets(text).unwrap_or_default())
            }
            Self::Number => format!("{name} holds numbers, which are written without quotes"),
            Self::Time => time_hint(text),
        }
    }
}

/// A number with a unit of 1000 behind it, as nfdump's filters have them.
fn in_octets(text: &str) -> Option<u64> {
    let (digits, unit) = text.trim().split_at_checked(text.trim().len().checked_sub(1)?)?;
    let factor = match unit {
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(factor)
}

impl AnalyzerRule for NamedValues {
    fn name(&self) -> &'static str {
        "named_values"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // of a machine that does not say where it is, which the engine does not know as a zone
        let zone = if self.zone.is_unknown() { TimeZone::UTC } else { self.zone.clone() };
        let clock = Clock { now: Zoned::now().with_time_zone(zone), is_standing: self.is_standing };
        let rewrite_plan = |plan| rewrite_expressions(plan, |expression, schema| rewrite(expression, schema, &clock));
        Ok(plan.transform_up_with_subqueries(rewrite_plan)?.data)
    }
}

fn rewrite(expression: Expr, schema: &DFSchema, clock: &Clock) -> Result<Transformed<Expr>> {
    match expression {
        // TIMESTAMP '2026-11-21 08:30'
        Expr::Cast(Cast { expr, field }) if matches!(field.data_type(), DataType::Timestamp(..)) => {
            text_of(&expr).map_or(Ok(()), |text| clock.check(text))?;
            match text_of(&expr).and_then(|text| clock.moment(text)) {
                Some(ms) => Ok(Transformed::yes(moment_literal(
                    ms,
                    &DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
                ))),
                None => Ok(Transformed::no(Expr::Cast(Cast { expr, field }))),
            }
        }
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Date32 && is_time(&expr, schema) => {
            Ok(in_zone(*expr, clock).update_data(|expr| Expr::Cast(Cast { expr: Box::new(expr), field })))
        }
        Expr::ScalarFunction(call) => {
            check_pattern(&call)?;
            Ok(by_local_days(call, schema, clock))
        }
        other => align_compared(other, |values| align(values, schema, clock)),
    }
}

fn is_time(value: &Expr, schema: &DFSchema) -> bool {
    Meaning::of(value, schema) == Some(Meaning::Time)
}

/// A pattern of Postgres has no sign of strftime, and would be the answer of every row.
fn check_pattern(call: &ScalarFunction) -> Result<()> {
    let pattern = call.args.get(1).and_then(text_of).filter(|_| matches!(call.name(), "to_char" | "date_format"));
    match pattern.filter(|pattern| !pattern.contains('%') && pattern.contains(char::is_alphabetic)) {
        Some(pattern) => plan_err!(
            "{} takes a pattern of strftime, and '{pattern}' has none of its signs\nhint: '%Y-%m-%d %H:%M' is the pattern that \
             PostgreSQL writes 'YYYY-MM-DD HH24:MI'",
            call.name()
        ),
        None => Ok(()),
    }
}

/// Functions of days and hours go by those of the zone.
fn by_local_days(mut call: ScalarFunction, schema: &DFSchema, clock: &Clock) -> Transformed<Expr> {
    let is_meant = matches!(call.name(), "date_trunc" | "date_part" | "to_char") || call.name() == "time_bucket";
    let place = usize::from(call.name() != "to_char");
    let is_utc = *clock.time_zone() == TimeZone::UTC;
    if !is_meant || is_utc || call.args.len() != 2 || !call.args.get(place).is_some_and(|time| is_time(time, schema)) {
        return Transformed::no(Expr::ScalarFunction(call));
    }
    if call.name() == "time_bucket" {
        call.args.extend(zone_name(clock).map(lit));
    } else if let Some(time) = call.args.get_mut(place) {
        *time = in_zone(std::mem::take(time), clock).data;
    }
    Transformed::yes(Expr::ScalarFunction(call))
}

fn zone_name(clock: &Clock) -> Option<String> {
    clock.time_zone().iana_name().map(str::to_owned)
}

/// The same moments, as those of a zone.
fn in_zone(time: Expr, clock: &Clock) -> Transformed<Expr> {
    match zone_name(clock).filter(|_| *clock.time_zone() != TimeZone::UTC) {
        Some(zone) => {
            let to = DataType::Timestamp(TimeUnit::Millisecond, Some(zone.into()));
            Transformed::yes(Expr::Cast(Cast::new(Box::new(time), to)))
        }
        None => Transformed::no(time),
    }
}

/// Values that are compared with each other: literal texts become what the others are.
fn align(values: Vec<Expr>, schema: &DFSchema, clock: &Clock) -> Result<Transformed<Vec<Expr>>> {
    if !values.iter().any(|value| compared_text(value).is_some()) {
        return Ok(Transformed::no(values));
    }
    let found = values.iter().find_map(|value| Some((value.clone(), Meaning::of(value, schema)?)));
    let Some((beside, meaning)) = found else { return Ok(Transformed::no(values)) };
    let (_, field) = beside.to_field(schema)?;
    let mut is_rewritten = false;
    let values = values.into_iter().map(|value| {
        let Some(text) = compared_text(&value) else { return Ok(value) };
        // a date next to a number is a mistake that the engine reports
        if meaning != Meaning::Time && text_of(&value).is_none() {
            return Ok(value);
        }
        if meaning == Meaning::Time {
            clock.check(text)?;
        }
        let name = || name_of(&beside);
        let literal = literal_of(text, meaning, field.data_type(), clock)
            .ok_or_else(|| BadLiteral::error(text, name(), meaning.wanted(), meaning.hint(&name(), text)))?;
        is_rewritten = true;
        Ok(literal)
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::new_transformed(values, is_rewritten))
}

/// The text of a literal, or of a `DATE '…'`.
fn compared_text(value: &Expr) -> Option<&str> {
    match value {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Date32 => text_of(expr),
        other => text_of(other),
    }
}

fn literal_of(text: &str, meaning: Meaning, of: &DataType, clock: &Clock) -> Option<Expr> {
    let number = text.trim().parse::<u16>().ok();
    match meaning {
        Meaning::Time => clock.moment(text).map(|ms| moment_literal(ms, of)),
        Meaning::Protocol => {
            let number = number.filter(|number| u8::try_from(*number).is_ok());
            number.map(|number| lit(i64::from(number))).or_else(|| protocol(text))
        }
        Meaning::Flags => number.map(i64::from).or_else(|| flags(text)).map(lit),
        Meaning::Port => number.or_else(|| service_port(text)).map(|port| lit(i64::from(port))),
        // kept as text, which the engine turns into the type of the column
        Meaning::Number => text.trim().parse::<f64>().is_ok().then(|| lit(text.trim())),
    }
}

fn protocol(text: &str) -> Option<Expr> {
    let name = text.trim();
    let is_meant = |known: &str| known.eq_ignore_ascii_case(name);
    let found = PROTOCOLS.iter().find(|one| one.keyword.is_some_and(is_meant));
    let found = found.or_else(|| PROTOCOLS.iter().find(|one| one.filter_names.iter().any(|known| is_meant(known))));
    found.map(|found| lit(i64::from(found.number)))
}

/// Flags by their letters in any order, where dots stand for bits that are not set, or by their names with commas between.
fn flags(text: &str) -> Option<i64> {
    const NAMES: [&str; 8] = ["CWR", "ECE", "URG", "ACK", "PSH", "RST", "SYN", "FIN"];
    let bit =
        |word: &str| NAMES.iter().position(|name| name.eq_ignore_ascii_case(word.trim())).map(|place| 0x80 >> place);
    if let Some(bits) = text.split([',', '|', '+']).map(bit).collect::<Option<Vec<i64>>>() {
        return Some(bits.into_iter().fold(0, |all, bit| all | bit));
    }
    let letters = || text.bytes().filter(|letter| *letter != b'.');
    let mut bits = 0;
    for letter in letters() {
        let place = FLAG_LETTERS.iter().position(|known| known.eq_ignore_ascii_case(&letter))?;
        bits |= 0x80 >> place;
    }
    (!text.is_empty()).then_some(bits)
}

fn moment_literal(ms: i64, of: &DataType) -> Expr {
    let DataType::Timestamp(unit, zone) = of else {
        return Expr::Literal(ScalarValue::TimestampMillisecond(Some(ms), Some("UTC".into())), None);
    };
    let zone = zone.as_ref().map(Arc::clone);
    Expr::Literal(
        match unit {
            TimeUnit::Second => ScalarValue::TimestampSecond(Some(ms.div_euclid(1000)), zone),
            TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(Some(ms), zone),
            TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(ms.checked_mul(1000), zone),
            TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(ms.checked_mul(1_000_000), zone),
        },
        None,
    )
}
