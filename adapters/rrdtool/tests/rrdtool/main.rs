//! Statistics into files of the real rrdtool: what they have is what the store of series has, whatever happened to rrdtool, to
//! this program and to the files meanwhile.

mod failures;
mod files;
mod mends;
mod updates;
