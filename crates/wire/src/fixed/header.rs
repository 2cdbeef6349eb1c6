//! The headers of packets.

use crate::cursor::Cursor;

/// Octets of the fields that all headers begin with: version, count, uptime, seconds and nanoseconds.
pub(super) const COMMON_LEN: usize = 16;

/// Header of a packet, without the version. All versions have the first four fields; the others are 0 in versions
/// whose [`super::FixedFormat::header`] does not list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Records in the packet.
    pub count: u16,
    /// Milliseconds since the exporter started; wraps after 49.7 days. Records count their times on it.
    pub sys_uptime_ms: u32,
    /// Time of export in seconds since 1970.
    pub unix_secs: u32,
    /// Nanoseconds of that second.
    pub unix_nsecs: u32,
    /// Number of flows that this engine had sent before, modulo 2^32.
    pub flow_sequence: u32,
    /// Type of the engine that switched the flows.
    pub engine_type: u8,
    /// Slot of that engine.
    pub engine_id: u8,
    /// Sampling mode in the two highest bits, interval in the other 14.
    pub sampling: u16,
}

/// A field that some headers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderField {
    /// [`Header::flow_sequence`].
    FlowSequence,
    /// [`Header::engine_type`].
    EngineType,
    /// [`Header::engine_id`].
    EngineId,
    /// [`Header::sampling`].
    Sampling,
    /// Four octets that mean nothing.
    Reserved,
}

impl HeaderField {
    pub(super) const fn octets(self) -> usize {
        match self {
            Self::EngineType | Self::EngineId => 1,
            Self::Sampling => 2,
            Self::FlowSequence | Self::Reserved => 4,
        }
    }
}

impl Header {
    /// Reads a header from after its version on.
    pub(super) fn read(cursor: &mut Cursor<'_>, fields: &[HeaderField]) -> Option<Self> {
        let mut header = Self {
            count: cursor.u16()?,
            sys_uptime_ms: cursor.u32()?,
            unix_secs: cursor.u32()?,
            unix_nsecs: cursor.u32()?,
            ..Self::default()
        };
        for field in fields {
            match field {
                HeaderField::FlowSequence => header.flow_sequence = cursor.u32()?,
                HeaderField::EngineType => header.engine_type = cursor.u8()?,
                HeaderField::EngineId => header.engine_id = cursor.u8()?,
                HeaderField::Sampling => header.sampling = cursor.u16()?,
                HeaderField::Reserved => {
                    cursor.u32()?;
                }
            }
        }
        Some(header)
    }

    /// Appends the header as it goes onto the wire.
    pub(super) fn write(&self, out: &mut Vec<u8>, version: u16, fields: &[HeaderField]) {
        out.extend(version.to_be_bytes());
        out.extend(self.count.to_be_bytes());
        out.extend(self.sys_uptime_ms.to_be_bytes());
        out.extend(self.unix_secs.to_be_bytes());
        out.extend(self.unix_nsecs.to_be_bytes());
        for field in fields {
            match field {
                HeaderField::FlowSequence => out.extend(self.flow_sequence.to_be_bytes()),
                HeaderField::EngineType => out.push(self.engine_type),
                HeaderField::EngineId => out.push(self.engine_id),
                HeaderField::Sampling => out.extend(self.sampling.to_be_bytes()),
                HeaderField::Reserved => out.extend([0; 4]),
            }
        }
    }

    /// How packets were selected: 0 not at all, 1 one in every interval, 2 at random; 3 is not defined.
    pub fn sampling_mode(&self) -> u8 {
        (self.sampling >> 14) as u8
    }

    /// One packet in this number was selected; 0 when the exporter reports none.
    pub fn sampling_interval(&self) -> u16 {
        self.sampling & 0x3fff
    }
}
