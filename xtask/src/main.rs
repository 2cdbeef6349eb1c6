//! Checks and generators of the workspace.
fn main() {}
