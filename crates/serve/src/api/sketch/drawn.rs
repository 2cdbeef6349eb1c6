//! A sketch of a part of the flows, drawn evenly.

use jiff::tz::TimeZone;
use weir_flow::Column;
use weir_sql::TimeLine;

use super::{By, Picture, STEPS, Wish, list};
use crate::api::parameters::{MeasureParam, ranking};
use crate::api::timeline::{SeriesBody, known_rate};
use crate::moment::now_ms;
use crate::problem::Answered;
use crate::sampling::SamplingCounts;
use crate::service::Question;

/// Flows that are read for the lines, about: some tenths of a second.
const ROWS_MAX: u64 = 3_500_000;
/// Flows that are read to find the values with a series of their own.
const RANKED_ROWS_MAX: u64 = 500_000;

/// What is to be drawn, of a part of the flows; `None` where the archive draws none.
pub(super) fn picture(question: &Question<'_>, wish: &Wish) -> Answered<Option<Picture>> {
    // how much is to be read is about all flows
    if !question.view.is_whole() {
        return Ok(None);
    }
    let Wish { which, by, measure, .. } = wish;
    let line = TimeLine::new(measure.rate(), which.window, TimeZone::UTC);
    let line = match by {
        None => line,
        Some(by) => match largest(question, wish, by)? {
            None => return Ok(None),
            Some(labels) => line.by(by.column, labels),
        },
    };
    let columns = SamplingCounts::with_columns(line.columns());
    let Some(sample) = question.answers.sample(&which.query(list(&columns)), ROWS_MAX)? else { return Ok(None) };
    let (mut line, mut counts, mut rows) = (line, SamplingCounts::default(), 0);
    for batch in sample.answer {
        let batch = batch?;
        rows += batch.num_rows();
        line.add(&batch);
        counts.add(&batch);
    }
    let chart = line.chart(String::new(), STEPS as usize);
    let times: Vec<i64> = (0..chart.steps() as i64).map(|step| chart.from_ms + step * chart.step_ms).collect();
    let (now, one_of) = (now_ms(), sample.one_of as f64);
    let values = |rates: &[f64]| {
        let rates = times.iter().zip(rates);
        rates.map(|(time, rate)| known_rate(rate * one_of, *time, chart.step_ms, now)).collect()
    };
    let series = chart.series.iter().map(|line| SeriesBody { name: line.label.clone(), values: values(&line.rates) });
    let series = series.collect();
    Ok(Some(Picture { step_ms: chart.step_ms, times, series, share: 1.0 / one_of, rows, counts }))
}

/// The values that have most in a smaller part of the flows, the largest first.
fn largest(question: &Question<'_>, wish: &Wish, by: &By) -> Answered<Option<Vec<String>>> {
    let Wish { which, top, measure, .. } = wish;
    let amount = match measure {
        MeasureParam::Flows => Column::Flows,
        MeasureParam::Packets => Column::Packets,
        MeasureParam::Bytes => Column::Bytes,
    };
    let mut columns = vec![by.column];
    columns.extend((amount != by.column).then_some(amount));
    let Some(sample) = question.answers.sample(&which.query(list(&columns)), RANKED_ROWS_MAX)? else {
        return Ok(None);
    };
    let ranked = which.query(ranking(&by.name, *measure, *top)?);
    Ok(Some(question.answers.labels_among(&ranked, sample)?))
}
