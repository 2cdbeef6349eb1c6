//! The archive from outside: what it promises, under every fault that can be made.

mod crash;
mod damage;
mod full_disk;
mod numbered;
mod readers;
mod round_trip;
mod writing;
