//! A store of statistics from outside: what was written is read, at any age.

mod damage;
mod killed;
mod largest;
mod model;
mod power_loss;
mod rrdtool;
mod sketches;
mod store;
mod versions;

use weir_series::{SeriesError, StatisticsWriter, StepRows};

/// Writes a step as soon as the thread that consolidates takes it: that a machine has much to do is no failure.
#[expect(clippy::needless_pass_by_value, reason = "as the function that it calls")]
fn write_step(writer: &mut StatisticsWriter, time_secs: i64, step: StepRows) {
    while let Err(error) = writer.write_step(time_secs, step.clone()) {
        assert!(matches!(error, SeriesError::Busy), "{error}");
    }
}
