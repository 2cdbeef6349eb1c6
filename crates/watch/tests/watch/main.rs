//! Watches against plain SQL over the same flows, and against models.

mod detections;
mod following;
mod found;
mod oracle;
mod page;
mod panes;
mod paper;
mod scene;
