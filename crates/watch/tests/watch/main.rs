//! Watches against plain SQL over the same flows, and against models.

mod chain;
mod detections;
mod faults;
mod filtered;
mod following;
mod found;
mod golden;
mod kept;
mod kept_memory;
mod late;
mod oracle;
mod page;
mod panes;
mod paper;
mod saturated;
mod scene;
mod sessions;
mod threads;
mod told;
mod wrong_clocks;
