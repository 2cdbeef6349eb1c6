//! Bars next to the rows of a table: each row's share of the whole.
//!
//! A bar is made of block characters, eight levels to a cell, with the share as a number after it. The whole is
//! given by the caller: a ranking is cut after some rows, so the rows that are printed do not add up to it.

/// Bars next to the rows of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// The column whose values are shown.
    pub column: String,
    /// What all of it together is.
    pub total: u64,
    /// Columns of the terminal, if there is one: bars take what the table leaves, and go without cells when that is
    /// too little.
    pub terminal_width: Option<usize>,
}

/// Most and fewest cells of a bar; with fewer there is only the share.
const CELLS_MAX: usize = 30;
const CELLS_MIN: usize = 6;
/// Cells of ` 100.0 %`.
const SHARE_CELLS: usize = 8;
/// Blocks by eighths from the left.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

impl Bars {
    /// Cells of a bar next to a table of this width.
    pub(crate) fn cells(&self, table_width: usize) -> usize {
        let left = self.terminal_width.unwrap_or(usize::MAX).saturating_sub(table_width + SHARE_CELLS);
        if left < CELLS_MIN { 0 } else { left.min(CELLS_MAX) }
    }

    /// The share of a value, from 0 to 1.
    pub(crate) fn share(&self, value: u64) -> f64 {
        if self.total == 0 { 0.0 } else { (value as f64 / self.total as f64).min(1.0) }
    }
}

/// Appends a bar and its number. `longest` is the share that fills all cells.
pub(crate) fn push_bar(text: &mut Vec<u8>, share: f64, longest: f64, cells: usize) {
    if cells > 0 {
        let eighths = if longest > 0.0 { (share / longest * (cells * 8) as f64).round() as usize } else { 0 };
        // What is not nothing is seen.
        let eighths = eighths.clamp(usize::from(share > 0.0), cells * 8);
        let (full, rest) = (eighths / 8, eighths % 8);
        text.extend_from_slice("█".repeat(full).as_bytes());
        text.extend_from_slice(EIGHTHS[rest].as_bytes());
        text.resize(text.len() + cells - full - usize::from(rest > 0), b' ');
        text.push(b' ');
    }
    text.extend_from_slice(format!("{:>5.1} %", share * 100.0).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(share: f64, longest: f64, cells: usize) -> String {
        let mut text = Vec::new();
        push_bar(&mut text, share, longest, cells);
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(0.5, 0.5, 4), "████  50.0 %");
        assert_eq!(bar(0.25, 0.5, 4), "██    25.0 %");
        assert_eq!(bar(0.2, 0.5, 4), "█▋    20.0 %");
        assert_eq!(bar(0.0001, 0.5, 4), "▏      0.0 %");
        assert_eq!(bar(0.0, 0.5, 4), "       0.0 %");
        assert_eq!(bar(1.0, 1.0, 0), "100.0 %");
    }

    #[test]
    fn bars_take_what_the_table_leaves() {
        let bars = |terminal_width| Bars { column: "bytes".to_owned(), total: 10, terminal_width };
        assert_eq!(bars(None).cells(100), CELLS_MAX);
        assert_eq!(bars(Some(120)).cells(100), 12);
        assert_eq!(bars(Some(112)).cells(100), 0);
        assert_eq!(bars(Some(80)).cells(100), 0);
        assert_eq!((bars(None).share(5), bars(None).share(20)), (0.5, 1.0));
    }
}
