//! The typed predicate tree.

use std::collections::BTreeSet;

use weir_flow::Column;

use crate::{AddressSet, NumberSet, TextCondition};

/// A condition on one flow: true or false, never null.
///
/// The parser builds trees in *normal form*, and [`Predicate::and`], [`Predicate::or`] and [`Predicate::not`] keep it:
/// no `And` directly in an `And` nor `Or` in an `Or`, at least two parts in each, no constant below the root, no `Not`
/// in a `Not`. The printed text of a tree in normal form parses back to an equal tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicate {
    /// Every flow.
    True,
    /// No flow.
    False,
    /// The flows that the inner predicate leaves out, those included whose fields are null.
    Not(Box<Predicate>),
    /// The flows that every part takes; all flows when there is no part.
    And(Vec<Predicate>),
    /// The flows that some part takes; none when there is no part.
    Or(Vec<Predicate>),
    /// A test of one field.
    Test(Test),
}

/// A test of one field of a flow. It is false when the field is null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// A number compares with a constant.
    Number {
        /// What is compared.
        operand: Operand,
        /// How: `operand comparison value`.
        comparison: Comparison,
        /// The constant, in the operand's unit.
        value: u64,
    },
    /// A number is one of a set.
    NumberIn {
        /// What is looked up.
        operand: Operand,
        /// The set.
        values: NumberSet,
    },
    /// An address is one of a set. An address of the other family is not.
    Address {
        /// A column of addresses.
        column: Column,
        /// The set.
        set: AddressSet,
    },
    /// TCP control bits: `protocol = 6`, and `tcp_flags & mask = mask`, or `tcp_flags = mask` when `exact`.
    Flags {
        /// The bits, at least one, of the low eight: F 1, S 2, R 4, P 8, A 16, U 32, E 64, C 128.
        mask: u16,
        /// No other bit may be set.
        exact: bool,
    },
    /// The source or destination address is of this family.
    Family {
        /// IPv6 (16 octets) rather than IPv4 (4 octets).
        v6: bool,
    },
    /// A time compares with a constant.
    Time {
        /// A column of times.
        column: Column,
        /// How: `column comparison ms`.
        comparison: Comparison,
        /// The constant, milliseconds since the epoch, UTC.
        ms: i64,
    },
    /// A MAC address is this one.
    Mac {
        /// A column of MAC addresses.
        column: Column,
        /// The address in network order.
        mac: [u8; 6],
    },
    /// A text meets a condition.
    Text {
        /// A column of text.
        column: Column,
        /// The condition.
        condition: TextCondition,
    },
    /// A text in an element without a column of its own, the first of these that the flow has, meets a condition. Octets of
    /// zero at its end do not count, and a value that is no UTF-8 meets none.
    ElementText {
        /// Enterprise and number of the elements.
        elements: &'static [(u32, u16)],
        /// The condition.
        condition: TextCondition,
    },
    /// A port is in the block of ports of a NAT event: `port_range_start <= port <= port_range_end`.
    PortInBlock {
        /// A column of ports.
        column: Column,
    },
    /// The user name, the first of [`USER_NAME_ELEMENTS`] that the flow has, is this text. Octets of zero at its end
    /// do not count.
    UserName(String),
    /// The flow was read from a file of this ident, see [`FileRecords`](crate::FileRecords).
    Ident(String),
}

/// Elements that hold a user name: of IANA, and of Cisco's NSEL.
pub const USER_NAME_ELEMENTS: &[(u32, u16)] = &[(0, 371), (0, 40000)];

/// A number in the octets of an Information Element that has no column of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ElementNumber {
    /// Enterprise and number of the elements that hold it; the first that a flow has counts, and of an element that
    /// it has more than once the first value.
    pub elements: &'static [(u32, u16)],
    /// Bits below it. A value has at most 16 octets, of a longer one the last 16 count.
    pub shift: u8,
    /// Its bits, at most 64.
    pub bits: u8,
}

/// Numbers that tests compare. All are unsigned; where a part is null, the whole is null unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operand {
    /// The value of a column of numbers. The parser never builds it for [`Column::Flows`], see [`Operand::Flows`].
    Column(Column),
    /// `flows`, where null counts as 1: a record that stands for itself.
    Flows,
    /// `tcp_flags` where `protocol` is 6, else null.
    TcpFlags,
    /// ICMP or ICMPv6 type, null unless `protocol` is 1 or 58: the first that is not null of `icmp_type`,
    /// `icmp_type_code / 256` and `dst_port / 256`, where NetFlow v5 and many v9 exporters put it.
    IcmpType,
    /// ICMP or ICMPv6 code, as [`Operand::IcmpType`]: `icmp_code`, `icmp_type_code % 256`, `dst_port % 256`.
    IcmpCode,
    /// `end - start` in milliseconds; null when `end` is before `start`.
    DurationMs,
    /// `packets * 1000 / DurationMs`, rounded down; 0 when the duration is 0.
    PacketsPerSecond,
    /// `bytes * 8000 / DurationMs`, rounded down, at most `u64::MAX`; 0 when the duration is 0.
    BitsPerSecond,
    /// `bytes / packets`, rounded down; 0 when there are no packets.
    BytesPerPacket,
    /// `max_ttl - min_ttl`; null when the largest is below the smallest.
    TtlSpread,
    /// A number in an element without a column of its own; null where the flow has no such element.
    Element(ElementNumber),
    /// Label of the first entry of the MPLS stack, elements 70 to 79, whose bottom-of-stack bit is set.
    MplsBottom,
    /// Number of the record in order of reading, from 1, see [`FileRecords`](crate::FileRecords).
    RecordNumber,
}

/// How a value compares with a constant. `!=` is no comparison of its own: it parses as `not (… = …)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `>`
    Greater,
    /// `<`
    Less,
    /// `>=`
    GreaterOrEqual,
    /// `<=`
    LessOrEqual,
}

impl Comparison {
    /// The sign in canonical text.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::GreaterOrEqual => ">=",
            Self::LessOrEqual => "<=",
        }
    }

    /// The inclusive range of numbers that compare so with `value`; `None` when there is no such number.
    pub fn range(self, value: u64) -> Option<(u64, u64)> {
        match self {
            Self::Equal => Some((value, value)),
            Self::Greater => value.checked_add(1).map(|first| (first, u64::MAX)),
            Self::Less => value.checked_sub(1).map(|last| (0, last)),
            Self::GreaterOrEqual => Some((value, u64::MAX)),
            Self::LessOrEqual => Some((0, value)),
        }
    }

    /// The inclusive range of times that compare so with `ms`; `None` when there is no such time.
    pub fn time_range(self, ms: i64) -> Option<(i64, i64)> {
        match self {
            Self::Equal => Some((ms, ms)),
            Self::Greater => ms.checked_add(1).map(|first| (first, i64::MAX)),
            Self::Less => ms.checked_sub(1).map(|last| (i64::MIN, last)),
            Self::GreaterOrEqual => Some((ms, i64::MAX)),
            Self::LessOrEqual => Some((i64::MIN, ms)),
        }
    }
}

impl Operand {
    /// The columns that the operand reads.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Column(column) => std::slice::from_ref(&Column::ALL[column as usize]),
            Self::Flows => &[Column::Flows],
            Self::TcpFlags => &[Column::Protocol, Column::TcpFlags],
            Self::IcmpType => &[Column::Protocol, Column::IcmpType, Column::IcmpTypeCode, Column::DstPort],
            Self::IcmpCode => &[Column::Protocol, Column::IcmpCode, Column::IcmpTypeCode, Column::DstPort],
            Self::DurationMs => &[Column::Start, Column::End],
            Self::PacketsPerSecond => &[Column::Start, Column::End, Column::Packets],
            Self::BitsPerSecond => &[Column::Start, Column::End, Column::Bytes],
            Self::BytesPerPacket => &[Column::Packets, Column::Bytes],
            Self::TtlSpread => &[Column::MinTtl, Column::MaxTtl],
            Self::Element(_) | Self::MplsBottom => &[Column::Elements],
            Self::RecordNumber => &[],
        }
    }
}

impl Test {
    /// The columns that the test reads.
    pub fn columns(&self) -> &[Column] {
        match self {
            Self::Number { operand, .. } | Self::NumberIn { operand, .. } => operand.columns(),
            Self::Address { column, .. }
            | Self::Time { column, .. }
            | Self::Mac { column, .. }
            | Self::Text { column, .. } => std::slice::from_ref(column),
            Self::Flags { .. } => Operand::TcpFlags.columns(),
            Self::Family { .. } => &[Column::SrcAddr, Column::DstAddr],
            Self::PortInBlock { column: Column::SrcPort } => {
                &[Column::SrcPort, Column::PortRangeStart, Column::PortRangeEnd]
            }
            Self::PortInBlock { .. } => &[Column::DstPort, Column::PortRangeStart, Column::PortRangeEnd],
            Self::UserName(_) | Self::ElementText { .. } => &[Column::Elements],
            Self::Ident(_) => &[],
        }
    }
}

impl From<Test> for Predicate {
    fn from(test: Test) -> Self {
        Self::Test(test)
    }
}

impl Predicate {
    /// All of the parts, in normal form when the parts are.
    pub fn and(parts: impl IntoIterator<Item = Predicate>) -> Self {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Self::True => {}
                Self::False => return Self::False,
                Self::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Self::True,
            1 => flat.remove(0),
            _ => Self::And(flat),
        }
    }

    /// Some of the parts, in normal form when the parts are.
    pub fn or(parts: impl IntoIterator<Item = Predicate>) -> Self {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Self::False => {}
                Self::True => return Self::True,
                Self::Or(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Self::False,
            1 => flat.remove(0),
            _ => Self::Or(flat),
        }
    }

    /// The opposite, in normal form when the part is.
    #[expect(clippy::should_implement_trait, reason = "belongs to `and` and `or`, which no operator trait offers")]
    pub fn not(part: Predicate) -> Self {
        match part {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// The columns that the predicate reads.
    pub fn columns(&self) -> BTreeSet<Column> {
        let mut columns = BTreeSet::new();
        self.collect_columns(&mut columns);
        columns
    }

    fn collect_columns(&self, columns: &mut BTreeSet<Column>) {
        match self {
            Self::True | Self::False => {}
            Self::Not(part) => part.collect_columns(columns),
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.collect_columns(columns)),
            Self::Test(test) => columns.extend(test.columns()),
        }
    }
}
