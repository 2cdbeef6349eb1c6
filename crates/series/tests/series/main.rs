//! A store of statistics from outside: what was written is read, at any age.

mod damage;
mod killed;
mod largest;
mod model;
mod power_loss;
mod rrdtool;
mod sketches;
mod store;
mod versions;
