//! The Exporting Process: flows into NetFlow v5, v9 and IPFIX datagrams
