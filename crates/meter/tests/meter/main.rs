//! The Metering Process against captures of others, and what other programs say of them.

mod captures;
mod filters;
mod live;
mod routes;
