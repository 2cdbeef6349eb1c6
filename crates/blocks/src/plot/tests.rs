use std::sync::Arc;

use arrow::array::{BinaryArray, Int64Array, StringArray, TimestampMillisecondArray, UInt8Array, UInt64Array};

use super::*;

/// 2026-01-01T00:00:00Z
const MIDNIGHT_MS: i64 = 1_767_225_600_000;

fn plan(x: &str, y: &[&str], style: Style) -> PlotPlan {
    let y = y.iter().map(|name| (*name).to_owned()).collect();
    PlotPlan {
        x: x.to_owned(),
        y,
        series: None,
        style,
        title: Some("a <b> & \"c\"\u{1b}".to_owned()),
        points_max: 1000,
    }
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, values)| (name, values, true)))
        .expect("a batch")
}

/// One row a second: `start`, `bytes` (null in every tenth row), `protocol` in turn 6, 17 and 1.
fn seconds(count: i64) -> RecordBatch {
    let bytes = (0..count).map(|row| (row % 10 != 9).then_some((row * row % 977 + 10) as u64 * 1000));
    rows(vec![
        (
            "start",
            Arc::new(TimestampMillisecondArray::from_iter_values((0..count).map(|row| MIDNIGHT_MS + row * 1000))),
        ),
        ("bytes", Arc::new(bytes.collect::<UInt64Array>())),
        ("protocol", Arc::new(UInt8Array::from_iter_values((0..count).map(|row| [6, 17, 1][row as usize % 3])))),
    ])
}

fn drawn(plan: PlotPlan, batches: &[RecordBatch]) -> (String, Counters) {
    let meter = Counters::new();
    let mut plot = Plot::new(plan, &meter);
    for batch in batches {
        plot.rows(batch).expect("points");
    }
    let svg = plot.draw().expect("a picture");
    check_well_formed(&svg);
    (svg, meter)
}

/// Opening and closing tags match, attributes are quoted, and only XML's own entities and characters are there.
fn check_well_formed(svg: &str) {
    assert!(!svg.chars().any(|letter| letter.is_control() && letter != '\n'), "control characters");
    let mut open = Vec::new();
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        for (entity, _) in tag.split('&').chain(text.split('&')).skip(1).filter_map(|rest| rest.split_once(';')) {
            assert!(["lt", "gt", "amp", "quot", "apos"].contains(&entity) || !entity.is_ascii(), "&{entity};");
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closing tag");
            continue;
        }
        let (body, is_empty) = tag.strip_suffix('/').map_or((tag, false), |body| (body, true));
        assert_eq!(body.matches('"').count() % 2, 0, "quotes of {body}");
        if !is_empty {
            open.push(body.split(' ').next().expect("a name"));
        }
    }
    assert!(open.is_empty(), "still open: {open:?}");
}

fn count(svg: &str, tag: &str) -> usize {
    svg.matches(&format!("<{tag} ")).count()
}

/// Points of the polylines that are not grid or axes, which have two.
fn points_of_lines(svg: &str) -> Vec<usize> {
    let lines = svg.lines().filter(|line| line.starts_with("<polyline"));
    let points = lines.filter_map(|line| line.split_once("points=\"")?.1.split('"').next());
    points.map(|points| points.split_whitespace().count()).filter(|points| *points > 2).collect()
}

fn texts(svg: &str) -> Vec<&str> {
    let mut lines = svg.lines();
    let mut texts = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with("<text") {
            texts.extend(lines.next());
        }
    }
    texts
}

#[test]
fn a_line_has_as_many_points_as_rows_with_values() {
    let (svg, meter) = drawn(plan("start", &["bytes"], Style::Line), &[seconds(200), seconds(0)]);
    assert_eq!(points_of_lines(&svg), [180]);
    assert_eq!(
        meter.read(),
        [("points_thinned", 0), ("points_drawn", 180), ("points_null", 20), ("points_series_dropped", 0)]
    );
    let texts = texts(&svg);
    assert!(texts.contains(&"start, UTC, 2026-01-01") && texts.contains(&"bytes (octets)"), "{texts:?}");
    assert!(texts.contains(&"00:01:00") && texts.contains(&"a &lt;b&gt; &amp; &quot;c&quot;"), "{texts:?}");
}

#[test]
fn python_reads_it_as_xml() {
    let Some(python) = weir_testkit::program("python3") else { return };
    let (svg, _) = drawn(
        PlotPlan { series: Some("protocol".to_owned()), ..plan("start", &["bytes"], Style::Scatter) },
        &[seconds(60)],
    );
    let script =
        "import sys, xml.dom.minidom as m; print(len(m.parseString(sys.argv[1]).getElementsByTagName('circle')))";
    let output = std::process::Command::new(python).args(["-c", script, &svg]).output().expect("python");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "54", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn each_value_of_the_column_makes_a_series() {
    let of_protocols = PlotPlan { series: Some("protocol".to_owned()), ..plan("start", &["bytes"], Style::Line) };
    let (svg, _) = drawn(of_protocols.clone(), &[seconds(500)]);
    assert_eq!(points_of_lines(&svg), [150, 150, 150]);
    assert!(["TCP", "UDP", "ICMP"].iter().all(|name| texts(&svg).contains(name)));
    // Two columns make two series each.
    let two = PlotPlan { y: vec!["bytes".to_owned(), "protocol".to_owned()], ..of_protocols };
    let (svg, _) = drawn(two, &[seconds(600)]);
    assert_eq!(points_of_lines(&svg).len(), 6);
    assert!(texts(&svg).contains(&"UDP: protocol"));
}

#[test]
fn series_over_the_limit_are_counted() {
    let numbers = || (0..200_u8).map(|row| row / 2);
    let many = rows(vec![
        ("x", Arc::new(UInt8Array::from_iter_values(numbers()))),
        ("y", Arc::new(UInt8Array::from_iter_values(numbers()))),
        ("name", Arc::new(StringArray::from_iter_values(numbers().map(|number| format!("n{number}"))))),
    ]);
    let named = PlotPlan { series: Some("name".to_owned()), ..plan("x", &["y"], Style::Scatter) };
    let (svg, meter) = drawn(named, &[many]);
    assert_eq!(count(&svg, "circle"), 2 * SERIES_MAX);
    assert_eq!(meter.read()[3], ("points_series_dropped", 200 - 2 * SERIES_MAX as u64));
}

#[test]
fn what_is_left_of_many_points_is_even_and_does_not_depend_on_bursts() {
    let plan =
        PlotPlan { points_max: 100, series: Some("protocol".to_owned()), ..plan("start", &["bytes"], Style::Scatter) };
    let batch = seconds(7000);
    let (whole, meter) = drawn(plan.clone(), std::slice::from_ref(&batch));
    let circles = count(&whole, "circle");
    assert!((50..=100).contains(&circles), "{circles}");
    assert_eq!(meter.read()[0], ("points_thinned", 6300 - circles as u64));
    for size in [1, 7, 1000] {
        let cuts: Vec<_> = (0..7000).step_by(size).map(|from| batch.slice(from, size.min(7000 - from))).collect();
        assert!(drawn(plan.clone(), &cuts).0 == whole, "bursts of {size}");
    }
    // No stretch without a point: positions along the axis are never far apart.
    let mut xs: Vec<i32> =
        whole.split("cx=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect();
    xs.sort_unstable();
    let (gap, span) = (xs.windows(2).map(|pair| pair[1] - pair[0]).max().expect("gaps"), xs[xs.len() - 1] - xs[0]);
    assert!(gap < span / 10, "{gap} of {span}");
}

#[test]
fn bars_may_have_names() {
    let addresses = [[192, 0, 2, 1], [192, 0, 2, 7], [198, 51, 100, 9]];
    let top = rows(vec![
        ("src_addr", Arc::new(BinaryArray::from_iter_values(addresses))),
        ("flows", Arc::new(UInt64Array::from(vec![300, 200, 100]))),
    ]);
    let (svg, _) = drawn(plan("src_addr", &["flows"], Style::Bars), std::slice::from_ref(&top));
    // The background is one more.
    assert_eq!(count(&svg, "rect"), 4);
    assert!(["192.0.2.1", "192.0.2.7", "198.51.100.9"].iter().all(|name| texts(&svg).contains(name)));
    let heights: Vec<i32> =
        svg.split("height=\"").skip(3).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect();
    assert!((heights[0] - 3 * heights[2]).abs() <= 3 && (heights[1] - 2 * heights[2]).abs() <= 3, "{heights:?}");
    let mut plot = Plot::new(plan("src_addr", &["flows"], Style::Line), &Counters::new());
    let error = plot.rows(&top).expect_err("an error").to_string();
    assert!(error.contains("a plot needs a time or a number\nhint: "), "{error}");
}

#[test]
fn columns_must_be_there_and_be_numbers() {
    let mut plot = Plot::new(plan("start", &["pakets"], Style::Line), &Counters::new());
    let error = plot.rows(&seconds(1)).expect_err("an error").to_string();
    assert_eq!(error, "input has no column 'pakets'; it has start, bytes, protocol");
    let mut plot = Plot::new(plan("bytes", &["start"], Style::Line), &Counters::new());
    let error = plot.rows(&seconds(1)).expect_err("an error").to_string();
    assert!(
        error.starts_with("column 'start' has type Timestamp") && error.ends_with("a plot needs numbers"),
        "{error}"
    );
    // A column of flows may be absent.
    let (svg, meter) = drawn(plan("start", &["packets"], Style::Line), &[seconds(5)]);
    assert_eq!(meter.read()[2], ("points_null", 5));
    assert!(texts(&svg).contains(&"no points"));
}

#[test]
fn one_point_and_equal_points_are_drawn() {
    for values in [vec![0], vec![5; 4], vec![-3, 3], vec![i64::MAX, i64::MIN]] {
        let count = values.len();
        let batch =
            rows(vec![("x", Arc::new(Int64Array::from(values.clone()))), ("y", Arc::new(Int64Array::from(values)))]);
        for style in [Style::Line, Style::Scatter, Style::Bars] {
            let (svg, meter) = drawn(plan("x", &["y"], style), std::slice::from_ref(&batch));
            assert_eq!(meter.read()[1], ("points_drawn", count as u64));
            assert!(!svg.contains("NaN") && texts(&svg).len() > 4, "{svg}");
        }
    }
}
