//! Progress as text: a table for people, JSON for programs.

use std::fmt::Write;
use std::time::Duration;

use crate::run::{ComponentProgress, Progress};

/// Names of the columns of the table.
const HEADINGS: [&str; 8] = ["component", "thread", "rows in", "rows out", "rows/s", "busy", "queue", "state"];

impl Progress {
    /// A table with a line for each component. Rates are those since `before`, or since the start without it.
    pub fn table(&self, before: Option<&Self>) -> String {
        let lines: Vec<[String; 8]> =
            self.components.iter().enumerate().map(|(index, _)| self.line(index, before)).collect();
        let mut widths = HEADINGS.map(|heading| heading.chars().count());
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = format!("{}: {:.1} s\n", self.chain, self.elapsed.as_secs_f64());
        let headings = HEADINGS.map(str::to_owned);
        for (number, cells) in std::iter::once(&headings).chain(&lines).enumerate() {
            for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                // names to the left, numbers to the right
                let _ = if column < 2 { write!(text, "{cell:<width$}  ") } else { write!(text, "{cell:>width$}  ") };
            }
            let counters =
                number.checked_sub(1).map(|component| counters(&self.components[component])).unwrap_or_default();
            text.push_str(&counters);
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }

    fn line(&self, index: usize, before: Option<&Self>) -> [String; 8] {
        let component = &self.components[index];
        let old = before.and_then(|before| before.components.get(index));
        let time = self.elapsed.saturating_sub(before.map_or(Duration::ZERO, |before| before.elapsed));
        let rows = component.rows_in.max(component.rows_out);
        let since = rows - old.map_or(0, |old| old.rows_in.max(old.rows_out));
        let busy = component.busy.saturating_sub(old.map_or(Duration::ZERO, |old| old.busy));
        let seconds = time.as_secs_f64().max(1e-9);
        let queues = self.queues.iter().filter(|queue| queue.to == index);
        let fill: Vec<_> = queues.map(|queue| format!("{}/{}", queue.held, queue.queue.queue_bursts)).collect();
        let state = if component.ended { component.state_rows_max } else { component.state.rows };
        [
            component.name.clone(),
            self.threads[component.thread].name.clone(),
            component.rows_in.to_string(),
            component.rows_out.to_string(),
            format!("{:.0}", since as f64 / seconds),
            format!("{:.0} %", 100.0 * busy.as_secs_f64() / seconds),
            fill.join(" "),
            if state == 0 { String::new() } else { state.to_string() },
        ]
    }

    /// Everything as one JSON object; times are in seconds.
    pub fn json(&self) -> String {
        let mut json =
            format!("{{\"chain\":{},\"elapsed_secs\":{:.6}", quoted(&self.chain), self.elapsed.as_secs_f64());
        let components: Vec<_> = self.components.iter().map(|component| self.component_json(component)).collect();
        let queues: Vec<_> = self
            .queues
            .iter()
            .map(|queue| {
                format!(
                    "{{\"from\":{},\"to\":{},\"burst_records\":{},\"queue_bursts\":{},\"bursts\":{},\"rows\":{},\
                     \"full_secs\":{:.6}}}",
                    quoted(&self.components[queue.from].name),
                    quoted(&self.components[queue.to].name),
                    queue.queue.burst_records,
                    queue.queue.queue_bursts,
                    queue.bursts,
                    queue.rows,
                    queue.full.as_secs_f64()
                )
            })
            .collect();
        let threads: Vec<_> = self
            .threads
            .iter()
            .map(|thread| format!("{{\"name\":{},\"cpu_secs\":{:.6}}}", quoted(&thread.name), thread.cpu.as_secs_f64()))
            .collect();
        let _ = write!(
            json,
            ",\"components\":[{}],\"queues\":[{}],\"threads\":[{}]}}",
            components.join(","),
            queues.join(","),
            threads.join(",")
        );
        json
    }

    fn component_json(&self, component: &ComponentProgress) -> String {
        let counters: Vec<_> =
            component.counters.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
        format!(
            "{{\"name\":{},\"type\":{},\"thread\":{},\"rows_in\":{},\"rows_out\":{},\"bursts_in\":{},\
             \"rows_discarded\":{},\"busy_secs\":{:.6},\"state_rows_max\":{},\"counters\":{{{}}}}}",
            quoted(&component.name),
            quoted(component.kind),
            quoted(&self.threads[component.thread].name),
            component.rows_in,
            component.rows_out,
            component.bursts_in,
            component.rows_discarded,
            component.busy.as_secs_f64(),
            component.state_rows_max,
            counters.join(",")
        )
    }
}

/// The counters of a component that are not 0.
fn counters(component: &ComponentProgress) -> String {
    let discarded = ("rows_discarded", component.rows_discarded);
    let all = component.counters.iter().copied().chain([discarded]).filter(|(_, value)| *value > 0);
    let told: Vec<_> = all.map(|(name, value)| format!("{name} {value}")).collect();
    told.join(", ")
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", letter as u32);
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
