//! Files of other programs, compared with what those programs say.

#[path = "foreign/flow_tools.rs"]
mod flow_tools;
#[path = "foreign/nfcapd.rs"]
mod nfcapd;
#[path = "foreign/oracle.rs"]
mod oracle;
#[path = "foreign/text.rs"]
mod text;
