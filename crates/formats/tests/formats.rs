//! Files of other programs, compared with what those programs say.

#[path = "formats/damaged_parquet.rs"]
mod damaged_parquet;
#[path = "formats/flow_tools.rs"]
mod flow_tools;
#[path = "formats/nfcapd.rs"]
mod nfcapd;
#[path = "formats/oracle.rs"]
mod oracle;
#[path = "formats/text.rs"]
mod text;
