//! Messages through a whole decoder.

mod choices;
mod limits;
mod parts;
mod records;
mod sampling;
mod times;
