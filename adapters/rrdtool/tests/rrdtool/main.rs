//! Statistics into files of the real rrdtool: what they have is what the store of series has, whatever became of rrdtool, of
//! this program and of the files meanwhile.

mod failures;
mod files;
mod updates;
