//! The framework, with blocks made for tests.

mod blocks;
mod config;
mod drawing;
mod run;
mod shutdown;
