//! The structures of Parquet that are read here, by the numbers of their fields.
//!
//! Source: `parquet.thrift` of <https://github.com/apache/parquet-format>, release 2.11. Left out are other files that a chunk may be in
//! (`file_path`), encryption, and types of geography.

use super::thrift::Kind::{Bool, Byte, Int, List, Name, Octets, Struct};
use super::thrift::{Kind, Layout};

const NOTHING: Kind = Struct(&[]);
const I16: Kind = Int(16);
/// Those of an enumeration, too.
const I32: Kind = Int(32);
const I64: Kind = Int(64);

const STATISTICS: Layout =
    &[(1, Octets), (2, Octets), (3, I64), (4, I64), (5, Octets), (6, Octets), (7, Bool), (8, Bool)];

const TIME_UNIT: Layout = &[(1, NOTHING), (2, NOTHING), (3, NOTHING)];

const LOGICAL_TYPE: Layout = &[
    (1, NOTHING),
    (2, NOTHING),
    (3, NOTHING),
    (4, NOTHING),
    (5, Struct(&[(1, I32), (2, I32)])),
    (6, NOTHING),
    (7, Struct(&[(1, Bool), (2, Struct(TIME_UNIT))])),
    (8, Struct(&[(1, Bool), (2, Struct(TIME_UNIT))])),
    (10, Struct(&[(1, Byte), (2, Bool)])),
    (11, NOTHING),
    (12, NOTHING),
    (13, NOTHING),
    (14, NOTHING),
    (15, NOTHING),
];

const SCHEMA_ELEMENT: Layout = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Name),
    (5, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, Struct(LOGICAL_TYPE)),
];

const KEY_VALUE: Layout = &[(1, Octets), (2, Octets)];

const COLUMN_META_DATA: Layout = &[
    (1, I32),
    (2, List(&I32)),
    (3, List(&Octets)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, List(&Struct(KEY_VALUE))),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, I32), (2, I32), (3, I32)]))),
    (14, I64),
    (15, I32),
    (16, Struct(&[(1, I64), (2, List(&I64)), (3, List(&I64))])),
];

const COLUMN_CHUNK: Layout = &[(2, I64), (3, Struct(COLUMN_META_DATA)), (4, I64), (5, I32), (6, I64), (7, I32)];

const ROW_GROUP: Layout = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, I64),
    (3, I64),
    (4, List(&Struct(&[(1, I32), (2, Bool), (3, Bool)]))),
    (5, I64),
    (6, I64),
    (7, I16),
];

/// `FileMetaData`, the footer.
pub(super) const FILE_META_DATA: Layout = &[
    (1, I32),
    (2, List(&Struct(SCHEMA_ELEMENT))),
    (3, I64),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Octets),
    (7, List(&Struct(&[(1, NOTHING)]))),
];

/// `PageHeader`.
pub(super) const PAGE_HEADER: Layout = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, I32),
    (5, Struct(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, Struct(STATISTICS))])),
    (7, Struct(&[(1, I32), (2, I32), (3, Bool)])),
    (8, Struct(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, I32), (6, I32), (7, Bool), (8, Struct(STATISTICS))])),
];
