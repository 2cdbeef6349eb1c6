//! tmp
#![allow(dead_code)]
mod histogram;
mod moments;
mod quantiles;
