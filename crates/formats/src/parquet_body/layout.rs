//! The structures of Parquet that are read here, by the numbers of their fields.
//!
//! Source: `parquet.thrift` of <https://github.com/apache/parquet-format>, release 2.11. Left out are other files that a chunk may be in
//! (`file_path`), encryption, and types of geography.

use super::thrift::Kind::{Bool, Byte, Int, List, Octets, Struct};
use super::thrift::{Kind, Layout};

const NOTHING: Kind = Struct(&[]);

const STATISTICS: Layout =
    &[(1, Octets), (2, Octets), (3, Int), (4, Int), (5, Octets), (6, Octets), (7, Bool), (8, Bool)];

const TIME_UNIT: Layout = &[(1, NOTHING), (2, NOTHING), (3, NOTHING)];

const LOGICAL_TYPE: Layout = &[
    (1, NOTHING),
    (2, NOTHING),
    (3, NOTHING),
    (4, NOTHING),
    (5, Struct(&[(1, Int), (2, Int)])),
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
    (1, Int),
    (2, Int),
    (3, Int),
    (4, Octets),
    (5, Int),
    (6, Int),
    (7, Int),
    (8, Int),
    (9, Int),
    (10, Struct(LOGICAL_TYPE)),
];

const KEY_VALUE: Layout = &[(1, Octets), (2, Octets)];

const COLUMN_META_DATA: Layout = &[
    (1, Int),
    (2, List(&Int)),
    (3, List(&Octets)),
    (4, Int),
    (5, Int),
    (6, Int),
    (7, Int),
    (8, List(&Struct(KEY_VALUE))),
    (9, Int),
    (10, Int),
    (11, Int),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, Int), (2, Int), (3, Int)]))),
    (14, Int),
    (15, Int),
    (16, Struct(&[(1, Int), (2, List(&Int)), (3, List(&Int))])),
];

const COLUMN_CHUNK: Layout = &[(2, Int), (3, Struct(COLUMN_META_DATA)), (4, Int), (5, Int), (6, Int), (7, Int)];

const ROW_GROUP: Layout = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, Int),
    (3, Int),
    (4, List(&Struct(&[(1, Int), (2, Bool), (3, Bool)]))),
    (5, Int),
    (6, Int),
    (7, Int),
];

/// `FileMetaData`, the footer.
pub(super) const FILE_META_DATA: Layout = &[
    (1, Int),
    (2, List(&Struct(SCHEMA_ELEMENT))),
    (3, Int),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Octets),
    (7, List(&Struct(&[(1, NOTHING)]))),
];

/// `PageHeader`.
pub(super) const PAGE_HEADER: Layout = &[
    (1, Int),
    (2, Int),
    (3, Int),
    (4, Int),
    (5, Struct(&[(1, Int), (2, Int), (3, Int), (4, Int), (5, Struct(STATISTICS))])),
    (7, Struct(&[(1, Int), (2, Int), (3, Bool)])),
    (8, Struct(&[(1, Int), (2, Int), (3, Int), (4, Int), (5, Int), (6, Int), (7, Bool), (8, Struct(STATISTICS))])),
];
