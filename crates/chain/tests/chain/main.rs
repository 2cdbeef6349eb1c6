//! The framework, with components made for tests.

mod builder;
mod components;
mod config;
mod drawing;
mod run;
mod shutdown;
