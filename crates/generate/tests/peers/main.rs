//! Other programs read what we write: tshark from capture files, nfcapd and nfdump from the network.

mod nfdump;
mod tshark;
