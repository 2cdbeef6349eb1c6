//! The wire crate against standards, other implementations' outputs, and malformed input.

mod capture;
mod golden;
mod labels;
mod malformed;
mod mutation;
mod round_trip;
mod standard;
mod template_limits;
mod value;
mod walk;
