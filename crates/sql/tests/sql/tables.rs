//! Files of whoever asks, joined with flows.

use std::fs::File;
use std::path::Path;

use datafusion::parquet::arrow::ArrowWriter;
use weir_sql::{Engine, EngineError, EngineOptions, UserTable};

use crate::rows::{lines, sealed, try_small_engine};

fn engine_beside(folder: &Path, files: &[(&str, &str)]) -> Result<Engine, EngineError> {
    let mut tables = Vec::new();
    for (file, text) in files {
        let path = folder.join(file);
        std::fs::write(&path, text).expect("written");
        tables.push(UserTable { name: path.file_stem().expect("a name").display().to_string(), path });
    }
    let options = EngineOptions { threads: 2, tables, ..EngineOptions::default() };
    try_small_engine(folder, &options)
}

const HOSTS: &str = "addr,name,room\n10.0.0.1,mail,7\n10.0.0.2,web,8\n2001:db8::1,six,\n";

#[test]
fn tables_of_each_kind_join_by_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let ndjson = "{\"addr\":\"10.0.0.1\",\"name\":\"mail\",\"room\":7}\n{\"addr\":\"10.0.0.2\",\"name\":\"web\",\"room\":8}\n{\"addr\":\"2001:db8::1\",\"name\":\"six\"}\n";
    let files = [("hosts.csv", HOSTS), ("tabbed.tsv", &HOSTS.replace(',', "\t")), ("json.ndjson", ndjson)];
    let engine = engine_beside(folder.path(), &files).expect("an engine");
    for table in ["hosts", "tabbed", "json"] {
        let joined = format!(
            "SELECT name, room, sum(bytes) FROM flows JOIN {table} ON src_addr = addr GROUP BY ALL ORDER BY name"
        );
        let expected = ["mail,7,1000", "six,,1500000", "web,8,680"];
        assert_eq!(lines(engine.sql(&joined)).expect("an answer"), expected, "{table}");
        // A key of a join by name has one type on both sides.
        let using =
            format!("SELECT count(*) FROM flows JOIN (SELECT addr AS src_addr FROM {table}) AS h USING (src_addr)");
        assert_eq!(lines(engine.sql(&using)).expect("an answer"), ["4"], "{table}");
        let described = lines(engine.sql(&format!("DESCRIBE {table}"))).expect("an answer");
        assert_eq!(described, ["addr,address", "name,text", "room,bigint"], "{table}");
    }
    assert_eq!(lines(engine.sql("SHOW TABLES")).expect("an answer").len(), 9);
}

/// One value that is no address makes the column text; text beside an address is still read as one where it can be.
#[test]
fn a_column_with_other_text_stays_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let mixed = "addr,net\n10.0.0.1,10.0.0.0/24\nunknown,10.0.1.0/24\n,\n";
    let engine = engine_beside(folder.path(), &[("mixed.csv", mixed)]).expect("an engine");
    assert_eq!(lines(engine.sql("DESCRIBE mixed")).expect("an answer"), ["addr,text", "net,text"]);
    let joined = "SELECT bytes FROM flows JOIN mixed ON src_addr = addr";
    assert_eq!(lines(engine.sql(joined)).expect("an answer"), ["1000"]);
    let by_network = "SELECT net, count(*) FROM flows JOIN mixed ON cidr(src_addr, net) GROUP BY net ORDER BY net";
    assert_eq!(lines(engine.sql(by_network)).expect("an answer"), ["10.0.0.0/24,3", "10.0.1.0/24,1"]);
}

/// What one question wrote as Parquet, another reads.
#[test]
fn a_parquet_file_is_a_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.parquet");
    let rows = sealed().to_full();
    let mut writer = ArrowWriter::try_new(File::create(&path).expect("a file"), rows.schema(), None).expect("a writer");
    writer.write(&rows).expect("written");
    writer.close().expect("closed");
    let tables = vec![UserTable { name: "earlier".to_owned(), path }];
    let engine = try_small_engine(folder.path(), &EngineOptions { threads: 2, tables, ..EngineOptions::default() });
    let asked = "SELECT count(*) FROM flows JOIN earlier USING (src_addr, src_port, dst_addr, bytes)";
    assert_eq!(lines(engine.expect("an engine").sql(asked)).expect("an answer"), ["4"]);
}

#[test]
fn files_that_are_no_tables_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |file, text| match engine_beside(folder.path(), &[(file, text)]) {
        Ok(_) => panic!("{file} is a table"),
        Err(error) => error.to_string(),
    };
    assert!(refused("flows.csv", HOSTS).starts_with("table 'flows' is a table of the archive\nhint: "));
    let told = refused("hosts.xls", HOSTS);
    assert!(told.starts_with("table 'hosts' is of no known kind: ") && told.contains("\nhint: "), "{told}");
    assert!(refused("broken.parquet", HOSTS).starts_with("cannot read '"));
    let tables = vec![UserTable { name: "gone".to_owned(), path: folder.path().join("gone.csv") }];
    let options = EngineOptions { threads: 1, tables, ..EngineOptions::default() };
    assert!(matches!(try_small_engine(folder.path(), &options), Err(EngineError::UserTable { .. })));
}
