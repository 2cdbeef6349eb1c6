//! Writes seeds: files of every format with a few flows, and inputs of the targets of sessions.
//!
//! `cargo run --bin seeds -- FOLDER`, a folder for each target in it.

use std::error::Error;
use std::fs;
use std::path::Path;

use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_formats::nfcapd::{Compression, Writer, WriterOptions};
use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, ipfix};

const FLOWS: usize = 40;

const ZEEK: &str = "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n\
#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\tduration\torig_bytes\tresp_bytes\n\
#types\ttime\tstring\taddr\tport\taddr\tport\tenum\tstring\tinterval\tcount\tcount\n\
1767225600.123456\tCa1\t192.0.2.1\t40000\t198.51.100.7\t53\tudp\tdns\t0.012\t45\t120\n\
1767225601.5\tCa2\t2001:db8::1\t129\t2001:db8::2\t0\ticmp\t-\t-\t-\t-\n";

const JSON: &str = "{\"ts\":1767225600.5,\"id.orig_h\":\"192.0.2.1\",\"id.orig_p\":1,\"id.resp_h\":\"192.0.2.2\",\
\"id.resp_p\":443,\"proto\":\"tcp\",\"orig_bytes\":7,\"history\":\"ShAdDaFf\"}\n";

const SILK: &str = "            sIP|            dIP|sPort|dPort|pro|   packets|     bytes|   flags|              sTime| duration|              eTime|sen|\n\
      192.0.2.1|   198.51.100.7|40000|   53| 17|         1|        45|        |2026/01/01T00:00:00.123|    0.012|2026/01/01T00:00:00.135| S0|\n\
    2001:db8::1|    2001:db8::2|    0|  128| 58|         2|       208| FS PA  |2026/01/01T00:00:01.000|    1.000|2026/01/01T00:00:02.000| S1|\n";

const CSV: &str = "start,end,src_addr,dst_addr,src_port,dst_port,protocol,packets,bytes,tcp_flags\n\
2026-01-01T00:00:00.123Z,2026-01-01T00:00:01Z,192.0.2.1,198.51.100.7,40000,53,17,1,45,\n\
2026-01-01T00:00:00Z,2026-01-01T00:00:02Z,2001:db8::1,2001:db8::2,1,2,\"6\",\"2\",3,0x12\n";

fn flows() -> FlowBatch {
    let rows = FLOWS;
    let mut builder = FlowBatchBuilder::new(rows);
    builder.begin_rows(rows);
    builder.time(Column::Received).extend((0..rows).map(|row| 1_767_225_600_000 + row as i64));
    builder.time(Column::Start).extend((0..rows).map(|row| 1_767_225_600_000 - row as i64 % 7));
    builder.time(Column::End).extend((0..rows).map(|row| 1_767_225_600_000 + row as i64 % 7));
    builder.address(Column::SrcAddr).extend_fixed((0..rows as u32).map(|row| (row * 77).to_be_bytes()));
    builder.address(Column::DstAddr).extend_fixed((0..rows as u32).map(|row| (row * 99).to_be_bytes()));
    builder.u64(Column::Bytes).extend((0..rows).map(|row| (row * row) as u64));
    builder.u64(Column::Packets).extend((0..rows).map(|row| row as u64));
    builder.u16(Column::DstPort).extend((0..rows as u16).map(|row| row % 9));
    builder.u8(Column::Protocol).extend((0..rows).map(|row| if row % 3 == 0 { 6 } else { 17 }));
    builder.finish()
}

fn message() -> Result<Vec<u8>, Box<dyn Error>> {
    let template = Template::new(TemplateId::new(256)?, vec![FieldSpecifier::iana(1, 8); 2], 0)?;
    let header =
        ipfix::Header { length: 0, export_time_secs: 1_767_225_600, sequence: 0, domain: ObservationDomainId(1) };
    let mut octets = Vec::new();
    let mut message = ipfix::MessageBuilder::new(&mut octets, &header);
    message.template(&template)?;
    for _ in 0..3 {
        message.record(&template, |out| out.extend([7; 16]))?;
    }
    message.finish();
    Ok(octets)
}

fn write(folder: &Path, target: &str, name: &str, octets: &[u8]) -> Result<(), Box<dyn Error>> {
    let folder = folder.join(target);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join(name), octets)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: seeds FOLDER")?;
    let (folder, flows) = (Path::new(&folder), flows());
    for (name, compression) in [
        ("none", Compression::None),
        ("lzo", Compression::Lzo),
        ("bzip2", Compression::Bzip2),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ] {
        fs::create_dir_all(folder.join("nfcapd2"))?;
        let path = folder.join("nfcapd2").join(name);
        let options = WriterOptions { compression, ident: "seed".to_owned() };
        let written = Writer::create(&path, options).and_then(|mut writer| {
            writer.write(&flows)?;
            writer.finish()
        });
        if written.is_err() {
            // what is not written by us is read all the same
            fs::remove_file(&path)?;
        }
    }
    let batch = flows.record_batch();
    let mut octets = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut octets, batch.schema(), None)?;
    writer.write(batch)?;
    writer.close()?;
    for target in ["parquet", "parquet_body"] {
        write(folder, target, "flows", &octets)?;
    }
    write(folder, "zeek", "tabs", ZEEK.as_bytes())?;
    write(folder, "zeek", "json", JSON.as_bytes())?;
    write(folder, "silk", "rwcut", SILK.as_bytes())?;
    write(folder, "csv", "flows", CSV.as_bytes())?;
    let message = message()?;
    for how in [0, 2, 8, 255 - 5] {
        let input = [&[how, 0][..], &message].concat();
        for target in ["tls", "dtls", "session"] {
            write(folder, target, &how.to_string(), &input)?;
        }
        for kind in 0..6 {
            // a change in the first flight, one in the last, and one among the data
            let changes = [[kind, 0, 20, 1], [kind, 2, 60, 255], [kind, 5, 3, 7]].concat();
            let input = [&[how, 3][..], &changes, &message].concat();
            write(folder, "tls", &format!("{how}-{kind}"), &input)?;
            write(folder, "dtls", &format!("{how}-{kind}"), &input)?;
        }
    }
    Ok(())
}
