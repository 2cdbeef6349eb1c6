//! Messages through a whole decoder.

mod choices;
mod parts;
mod records;
mod sampling;
mod times;
