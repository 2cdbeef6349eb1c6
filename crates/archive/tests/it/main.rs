//! The archive from outside: what it promises, under every fault that can be made.

mod books;
mod check;
mod crash;
mod damage;
mod format;
mod full_disk;
mod index;
mod numbered;
mod portable;
mod readers;
mod rollup;
mod round_trip;
mod summaries;
mod upkeep;
mod writing;
