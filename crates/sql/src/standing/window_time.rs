//! Which windows a time is in, and the functions that say when they begin and end.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMillisecondType};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use weir_flow::Column;

use super::slot::{Place, Window};

/// Windows that follow one another: each begins a slide after the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowKind {
    /// How long a window is, in milliseconds.
    pub size_ms: i64,
    /// From the begin of one window to that of the next, in milliseconds: the size, when windows do not overlap.
    pub slide_ms: i64,
    /// Windows begin at multiples of the slide since the epoch, plus this.
    pub offset_ms: i64,
}

impl WindowKind {
    /// The end of the first window that ends after `time_ms`, for a row at that time.
    pub fn first_end_after(&self, time_ms: i64) -> i64 {
        let phase = (self.offset_ms + self.size_ms).rem_euclid(self.slide_ms);
        let before = time_ms.saturating_sub(phase).div_euclid(self.slide_ms);
        before.saturating_mul(self.slide_ms).saturating_add(phase).saturating_add(self.slide_ms)
    }

    /// The window that ends then.
    pub fn ending_at(&self, end_ms: i64) -> Window {
        Window { start_ms: end_ms.saturating_sub(self.size_ms), end_ms }
    }

    /// When the last window begins that `time_ms` is in.
    fn last_start(&self, time_ms: i64) -> i64 {
        let since = time_ms.saturating_sub(self.offset_ms);
        since.div_euclid(self.slide_ms).saturating_mul(self.slide_ms).saturating_add(self.offset_ms)
    }
}

/// A window relation of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSpec {
    /// Its windows.
    pub kind: WindowKind,
    /// The time of a row that decides.
    pub time: Column,
}

/// When the window of a row begins or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WindowTime {
    pub(crate) kind: WindowKind,
    pub(crate) is_end: bool,
    /// The window of a slot; computed of the row's time without.
    pub(crate) place: Option<Place>,
}

impl WindowTime {
    pub(crate) fn computed(kind: WindowKind, is_end: bool) -> Self {
        Self { kind, is_end, place: None }
    }
}

impl Hash for WindowTime {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.kind.size_ms, self.kind.slide_ms, self.kind.offset_ms, self.is_end).hash(state);
        self.place.hash(state);
    }
}

impl ScalarUDFImpl for WindowTime {
    fn name(&self) -> &str {
        if self.is_end { "time_of_window_end" } else { "time_of_window_start" }
    }

    fn signature(&self) -> &Signature {
        static ANY: LazyLock<Signature> = LazyLock::new(|| Signature::any(1, Volatility::Stable));
        &ANY
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(Place { slot, relation }) = &self.place {
            let window = slot.window(*relation);
            let ms = if self.is_end { window.end_ms } else { window.start_ms };
            return Ok(ColumnarValue::Scalar(ScalarValue::TimestampMillisecond(Some(ms), Some("UTC".into()))));
        }
        let times = arguments.args.first().map(|times| times.to_array(arguments.number_rows)).transpose()?;
        let times = times.as_ref().and_then(|times| times.as_primitive_opt::<TimestampMillisecondType>());
        let Some(times) = times else { return plan_err!("windows are of times in milliseconds") };
        let kind = &self.kind;
        let plus_ms = if self.is_end { kind.size_ms } else { 0 };
        let bounds: TimestampMillisecondArray = times.unary(|ms| kind.last_start(ms).saturating_add(plus_ms));
        Ok(ColumnarValue::Array(Arc::new(bounds.with_timezone("UTC"))))
    }
}
