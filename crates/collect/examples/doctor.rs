//! Examines capture files: `cargo run -p weir-collect --example doctor -- FILE...`

use std::fs::File;
use std::io::Write;

use weir_collect::Limits;
use weir_collect::doctor::examine_capture;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for path in std::env::args_os().skip(1) {
        let (report, outcome) = examine_capture(File::open(&path)?, Limits::default());
        writeln!(out, "== {}\n{report}", path.display())?;
        if let Err(error) = outcome {
            writeln!(out, "{error}")?;
        }
    }
    Ok(())
}
