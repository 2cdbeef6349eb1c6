//! What the documentation says, in plain loops over plain lists.

use super::{HandedOnRow, Row};

pub(super) struct Model {
    pub(super) window_ms: i64,
    pub(super) tolerance_ms: i64,
    pub(super) future_ms: i64,
    pub(super) rows_max: usize,
    pub(super) keeps_most: bool,
    pub(super) sheds: bool,
    pub(super) drops_late: bool,
}

/// Rows handed on, and counts: late, shed, early, without start, duplicate.
#[derive(Default)]
pub(super) struct Expected {
    pub(super) rows: Vec<HandedOnRow>,
    pub(super) counts: [u64; 5],
}

/// Rows of one flow, by number and start, in the order in which they came.
type Group = Vec<(usize, i64)>;

fn earliest(group: &Group) -> (i64, usize) {
    (group.iter().map(|(_, start)| *start).min().unwrap_or_default(), group[0].0)
}

fn exporter(row: &Row) -> String {
    row.exporter.clone().unwrap_or("-".to_owned())
}

impl Model {
    pub(super) fn options(&self) -> String {
        format!(
            "window = '{}ms'\ntolerance = '{}ms'\nfuture = '{}ms'\nwindow_rows_max = {}\nkeep = '{}'\nwhen_full = '{}'\n\
             late = '{}'",
            self.window_ms,
            self.tolerance_ms,
            self.future_ms,
            self.rows_max,
            if self.keeps_most { "most" } else { "first" },
            if self.sheds { "shed" } else { "hand-on" },
            if self.drops_late { "drop" } else { "pass" },
        )
    }

    pub(super) fn run(&self, rows: &[Row]) -> Expected {
        let mut expected = Expected::default();
        let mut groups: Vec<Group> = Vec::new();
        let mut edge = i64::MIN;
        for (number, row) in rows.iter().enumerate() {
            let from_future = |start| row.received.is_some_and(|received| start > received + self.future_ms);
            let Some(start) = row.start.filter(|start| !from_future(*start)) else {
                expected.counts[3] += 1;
                expected.rows.push((number, exporter(row), 1));
                continue;
            };
            if start < edge {
                expected.counts[0] += 1;
                if !self.drops_late {
                    expected.rows.push((number, exporter(row), 1));
                }
                continue;
            }
            edge = edge.max(start - self.window_ms);
            while self.hand_on_first(&mut groups, Some(edge), rows, &mut expected).is_some() {}
            if self.sheds && groups.iter().map(Vec::len).sum::<usize>() >= self.rows_max {
                expected.counts[1] += 1;
                continue;
            }
            match self.nearest(&groups, number, start, rows) {
                Some(group) => groups[group].push((number, start)),
                None => groups.push(vec![(number, start)]),
            }
            while groups.iter().map(Vec::len).sum::<usize>() > self.rows_max {
                let early = self.hand_on_first(&mut groups, None, rows, &mut expected);
                edge = edge.max(early.expect("a group"));
                expected.counts[2] += 1;
            }
        }
        while self.hand_on_first(&mut groups, None, rows, &mut expected).is_some() {}
        expected
    }

    fn nearest(&self, groups: &[Group], number: usize, start: i64, rows: &[Row]) -> Option<usize> {
        let row = &rows[number];
        let fits = |group: &Group| {
            group.iter().all(|(other, other_start)| {
                rows[*other].src_port == row.src_port
                    && rows[*other].exporter != row.exporter
                    && (other_start - start).abs() <= self.tolerance_ms
            })
        };
        let fitting = (0..groups.len()).filter(|group| fits(&groups[*group]));
        fitting.min_by_key(|group| {
            let (first, first_start) = groups[*group][0];
            ((first_start - start).abs(), first_start, first)
        })
    }

    /// Hands on the group that started first, when it started before `edge`; returns its start.
    fn hand_on_first(
        &self,
        groups: &mut Vec<Group>,
        edge: Option<i64>,
        rows: &[Row],
        expected: &mut Expected,
    ) -> Option<i64> {
        let first = (0..groups.len()).min_by_key(|group| earliest(&groups[*group]))?;
        let (start, _) = earliest(&groups[first]);
        if edge.is_some_and(|edge| start >= edge) {
            return None;
        }
        let mut group = groups.remove(first);
        group.sort_by_key(|(number, start)| (*start, *number));
        let packets = |number: usize| rows[number].packets.unwrap_or(0);
        let most = group.iter().map(|(number, _)| packets(*number)).max()?;
        let kept = group.iter().find(|(number, _)| !self.keeps_most || packets(*number) == most)?;
        let path: Vec<String> = group.iter().map(|(number, _)| exporter(&rows[*number])).collect();
        expected.rows.push((kept.0, path.join(" "), group.len() as u32));
        expected.counts[4] += group.len() as u64 - 1;
        Some(start)
    }
}
