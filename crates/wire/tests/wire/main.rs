//! The wire crate against standards, other implementations' outputs, and malformed input.

mod capture;
mod captures;
mod dissected;
mod fixed;
mod golden;
mod labels;
mod malformed;
mod mutation;
mod round_trip;
mod sampled;
mod sampled_walk;
mod standard;
mod structured;
mod template_limits;
mod tshark;
mod value;
mod walk;
