//! Messages through a whole decoder.

mod parts;
mod records;
mod sampling;
mod times;
