//! Records of counters samples: rows of numbers, of which only the lengths are needed to find each.
//!
//! All of them but the description of a host are fields of 32 or 64 bits one after the other, so a caller that reads
//! them needs no structure: [`number`] takes a field by its place. All ones mean that the agent does not know.

use super::Format;
use super::record::Record;
use super::xdr::Xdr;
use crate::WireError;

/// Structures that are known, with their length in octets ("sFlow Version 5" section 5.4, "sFlow Host Structures").
const LENGTHS: &[(u32, usize)] = &[
    (1, 88),
    (2, 52),
    (3, 72),
    (5, 28),
    (1001, 28),
    (2000, 36),
    (2001, 4),
    (2002, 8),
    (2003, 68),
    (2004, 72),
    (2005, 52),
    (2006, 40),
    (2100, 28),
    (2101, 12),
    (2102, 16),
    (2103, 52),
    (2104, 40),
];

/// Octets that a structure has at least, `None` when it is not known.
pub fn length(format: Format) -> Option<usize> {
    LENGTHS.iter().find(|(number, _)| *number == format.0).map(|(_, length)| *length)
}

/// The number of `width` octets at `offset` of a record; `None` when it is not there or unknown to the agent.
#[inline]
pub fn number(body: &[u8], offset: usize, width: usize) -> Option<u64> {
    let field = body.get(offset..)?.get(..width)?;
    let value = crate::value::be_uint(field)?;
    let unknown = if width == 8 { u64::MAX } else { u32::MAX.into() };
    (value != unknown).then_some(value)
}

/// 2000, `host_descr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostDescription<'a> {
    /// Name of the host.
    pub hostname: &'a [u8],
    /// UUID of the host (RFC 4122), all zeros when unknown.
    pub uuid: &'a [u8; 16],
    /// Kind of machine: 1 other, 2 x86, 3 `x86_64`, 4 ia64, 5 SPARC, 6 Alpha, 7 `PowerPC`, 8 m68k, 9 MIPS, 10 ARM,
    /// 11 HPPA, 12 s390.
    pub machine_type: u32,
    /// Operating system: 1 other, 2 Linux, 3 Windows, 4 Darwin, 5 HP-UX, 6 AIX, 7 `DragonFly`, 8 FreeBSD, 9 NetBSD,
    /// 10 OpenBSD, 11 OSF, 12 Solaris, 13 Java.
    pub os_name: u32,
    /// Release of the operating system.
    pub os_release: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads a `host_descr`.
    ///
    /// # Errors
    ///
    /// [`WireError::StructureTooShort`].
    pub fn host_description(&self) -> Result<HostDescription<'a>, WireError> {
        let mut xdr = Xdr::new(self.body);
        let mut read = || {
            Some(HostDescription {
                hostname: xdr.variable()?,
                uuid: xdr.fixed()?,
                machine_type: xdr.u32()?,
                os_name: xdr.u32()?,
                os_release: xdr.variable()?,
            })
        };
        read().ok_or_else(|| self.too_short())
    }
}
