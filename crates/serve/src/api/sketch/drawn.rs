//! A sketch of a part of the flows, drawn evenly.

use jiff::tz::TimeZone;
use weir_flow::Column;
use weir_print::plot::RateChart;
use weir_sql::TimeLine;

use super::{By, Picture, STEPS, Wish, list};
use crate::api::parameters::{MeasureParam, ranking};
use crate::api::timeline::{SeriesBody, known_rate};
use crate::moment::now_ms;
use crate::problem::Answered;
use crate::sampling::SamplingCounts;
use crate::service::Question;
use crate::view::View;

/// Flows that are read for the lines, about: some tenths of a second.
pub(super) const ROWS_MAX: u64 = 3_500_000;
/// Flows that are read to find the values with a series of their own.
const RANKED_ROWS_MAX: u64 = 500_000;

/// Whether it can be, but for what the archive says. How much is to be read is about all flows, which who sees a part of them is
/// not told.
pub(super) fn is_possible(wish: &Wish, view: &View) -> bool {
    view.is_whole() && !wish.which.is_scaled()
}

/// What is to be drawn, of a part of the flows; `None` where the archive draws none.
pub(super) fn picture(question: &Question<'_>, wish: &Wish) -> Answered<Option<Picture>> {
    if !is_possible(wish, question.view) {
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
    let (times, series) = drawn(&chart, sample.one_of as f64, now_ms());
    let share = 1.0 / sample.one_of as f64;
    Ok(Some(Picture { step_ms: chart.step_ms, times, series, share, rows, counts }))
}

/// When each step begins, and the lines, where each flow stands for `one_of`.
fn drawn(chart: &RateChart, one_of: f64, now_ms: i64) -> (Vec<i64>, Vec<SeriesBody>) {
    let times: Vec<i64> = (0..chart.steps() as i64).map(|step| chart.from_ms + step * chart.step_ms).collect();
    let values = |rates: &[f64]| {
        let rates = times.iter().zip(rates);
        rates.map(|(time, rate)| known_rate(rate * one_of, *time, chart.step_ms, now_ms)).collect()
    };
    let series = chart.series.iter().map(|line| SeriesBody { name: line.label.clone(), values: values(&line.rates) });
    let series = series.collect();
    (times, series)
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

#[cfg(test)]
mod tests {
    use weir_print::plot::{Measure, Series};

    use super::*;

    #[test]
    fn each_flow_stands_for_those_that_were_not_read() {
        let series = vec![Series { label: "all".to_owned(), rates: vec![8.0, 0.0, 2.0] }];
        let (title, zone) = (String::new(), TimeZone::UTC);
        let chart =
            RateChart { title, measure: Measure::Bits, zone, from_ms: 0, step_ms: 1000, series, gaps: Vec::new() };
        let (times, series) = drawn(&chart, 30.0, 3000);
        assert_eq!((times, &series[0].values), (vec![0, 1000, 2000], &vec![Some(240.0), Some(0.0), Some(60.0)]));
    }
}
