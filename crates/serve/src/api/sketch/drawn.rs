//! A sketch of a part of the flows, drawn evenly.

use jiff::tz::TimeZone;
use weir_flow::Column;
use weir_print::plot::RateChart;
use weir_sql::TimeLine;

use super::size::{Size, Sizes};
use super::{By, Picture, STEPS, Wish, list};
use crate::api::parameters::{MeasureParam, ranking};
use crate::api::timeline::{SeriesBody, known_rate};
use crate::moment::now_ms;
use crate::problem::Answered;
use crate::sampling::SamplingCounts;
use crate::service::Question;

/// What is to be drawn, of a part of the flows; nothing where that would be too small a part.
pub(super) fn picture(question: &Question<'_>, wish: &Wish, size: Size) -> Answered<Picture> {
    let Wish { which, by, measure, .. } = wish;
    let sizes = match size {
        Size::Enough(sizes) => sizes,
        Size::TooLittle { one_of, rows } => return Ok(nothing(one_of, rows)),
    };
    let line = TimeLine::new(measure.rate(), which.window, TimeZone::UTC);
    let line = match by {
        None => line,
        Some(by) => line.by(by.column, largest(question, wish, by, sizes)?),
    };
    let columns = SamplingCounts::with_columns(line.columns());
    let sample = question.answers.sample(&which.query(list(&columns)), sizes.lines)?;
    let one_of = sample.one_of() as f64;
    let (mut line, mut counts, mut rows) = (line, SamplingCounts::default(), 0);
    for batch in sample {
        let batch = batch?;
        rows += batch.num_rows();
        line.add(&batch);
        counts.add(&batch);
    }
    let chart = line.chart(String::new(), STEPS);
    let (times, series) = drawn(&chart, one_of, now_ms());
    Ok(Picture { step_ms: chart.step_ms, times, series, share: 1.0 / one_of, rows, counts, is_too_little: false })
}

/// A picture without lines.
fn nothing(one_of: u64, rows: usize) -> Picture {
    Picture {
        step_ms: 0,
        times: Vec::new(),
        series: Vec::new(),
        share: 1.0 / one_of as f64,
        rows,
        counts: SamplingCounts::default(),
        is_too_little: true,
    }
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
fn largest(question: &Question<'_>, wish: &Wish, by: &By, sizes: Sizes) -> Answered<Vec<String>> {
    let Wish { which, top, measure, .. } = wish;
    let amount = match measure {
        MeasureParam::Flows => Column::Flows,
        MeasureParam::Packets => Column::Packets,
        MeasureParam::Bytes => Column::Bytes,
    };
    let mut columns = vec![by.column];
    columns.extend((amount != by.column).then_some(amount));
    let sample = question.answers.sample(&which.query(list(&columns)), sizes.ranked)?;
    let ranked = which.query(ranking(&by.name, *measure, *top)?);
    Ok(question.answers.labels_among(&ranked, sample)?)
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
