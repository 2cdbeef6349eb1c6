//! Programs of the classic BSD Packet Filter (`McCanne` and Jacobson, 1993), checked and run.
//!
//! The instructions are those that libpcap's compiler gives and the kernel takes. A program is checked once, so that
//! running it ends after as many steps as it has instructions: jumps go forward, and the last instruction returns.

/// Words of memory that a program has.
const MEMORY_WORDS: usize = 16;
/// Loads from here on are not of the frame but of what the kernel knows about it (`SKF_AD_OFF`).
const ANCILLARY: u32 = -0x1000_i32 as u32;
/// The tag that the kernel took out of a frame, whether there is one, and its TPID (`SKF_AD_VLAN_TAG` and so on).
const ANCILLARY_VLAN: [u32; 3] = [ANCILLARY + 44, ANCILLARY + 48, ANCILLARY + 60];

// The lowest three bits of a code are its class.
const LOAD: u16 = 0;
const LOAD_X: u16 = 1;
const STORE: u16 = 2;
const STORE_X: u16 = 3;
const ALU: u16 = 4;
const JUMP: u16 = 5;
const RETURN: u16 = 6;
const MISC: u16 = 7;
/// The operand is register X, not the constant.
const OF_X: u16 = 0x08;
const JUMP_ALWAYS: u16 = JUMP;
const RETURN_A: u16 = RETURN | 0x10;
const A_TO_X: u16 = MISC;
const X_TO_A: u16 = MISC | 0x80;

// How much is loaded, and from where.
const HALF: u16 = 0x08;
const OCTET: u16 = 0x10;
const IMMEDIATE: u16 = 0;
const ABSOLUTE: u16 = 0x20;
const INDIRECT: u16 = 0x40;
const MEMORY: u16 = 0x60;
const LENGTH: u16 = 0x80;
/// Four times the lower half of an octet: the length of an IPv4 header.
const HEADER_LENGTH: u16 = 0xa0;

/// One instruction, as libpcap and the kernel lay it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    /// Instructions to pass over when a condition holds, and when it does not.
    pub(crate) jump_true: u8,
    pub(crate) jump_false: u8,
    pub(crate) constant: u32,
}

/// A program that ends for every frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    instructions: Vec<Instruction>,
}

/// Why a program cannot be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadProgram {
    /// It has no end.
    #[error("the program of the filter does not return")]
    NoReturn,
    /// An instruction is none, leads out of the program, or divides by 0.
    #[error("instruction {at} of the filter's program is not valid: code {code:#x}")]
    Instruction {
        /// Its position.
        at: usize,
        /// Its code.
        code: u16,
    },
}

impl Program {
    /// Checks a program.
    pub(crate) fn new(instructions: Vec<Instruction>) -> Result<Self, BadProgram> {
        for (at, instruction) in instructions.iter().enumerate() {
            if !instruction.is_valid(instructions.len() - at - 1) {
                return Err(BadProgram::Instruction { at, code: instruction.code });
            }
        }
        match instructions.last() {
            Some(last) if last.code & 7 == RETURN => Ok(Self { instructions }),
            _ => Err(BadProgram::NoReturn),
        }
    }

    /// A program that takes this many octets of every frame.
    pub(crate) fn returning(octets: u32) -> Self {
        Self { instructions: vec![Instruction { code: RETURN, jump_true: 0, jump_false: 0, constant: octets }] }
    }

    /// The same, but it takes this many octets of the frames that it takes.
    #[must_use]
    pub(crate) fn with_octets(&self, octets: u32) -> Self {
        let with = |one: &Instruction| match one.code {
            RETURN if one.constant > 0 => Instruction { constant: octets, ..*one },
            _ => *one,
        };
        Self { instructions: self.instructions.iter().map(with).collect() }
    }

    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Whether a frame is taken, which had `length` octets on the wire.
    pub(crate) fn takes(&self, frame: &[u8], length: u32) -> bool {
        self.run(frame, length).is_some_and(|octets| octets > 0)
    }

    /// What the program returns; `None` when it reads behind the end of the frame or divides by 0, which ends it.
    fn run(&self, frame: &[u8], length: u32) -> Option<u32> {
        let mut registers = Registers { a: 0, x: 0, memory: [0; MEMORY_WORDS] };
        let mut at = 0;
        loop {
            let instruction = *self.instructions.get(at)?;
            let Instruction { code, constant, .. } = instruction;
            at += 1;
            match code & 7 {
                LOAD => registers.a = registers.load(code, constant, frame, length)?,
                LOAD_X => registers.x = registers.load(code, constant, frame, length)?,
                STORE => *registers.memory.get_mut(constant as usize)? = registers.a,
                STORE_X => *registers.memory.get_mut(constant as usize)? = registers.x,
                ALU => registers.a = registers.compute(code, constant)?,
                JUMP => at += registers.jump(instruction),
                RETURN => return Some(if code == RETURN_A { registers.a } else { constant }),
                _ if code == X_TO_A => registers.a = registers.x,
                _ => registers.x = registers.a,
            }
        }
    }
}

impl Instruction {
    /// Whether it is valid with `after` others behind it.
    fn is_valid(self, after: usize) -> bool {
        let Self { code, constant, .. } = self;
        let in_memory = (constant as usize) < MEMORY_WORDS;
        match code & 7 {
            LOAD => match code & !7 {
                MEMORY => in_memory,
                mode => {
                    matches!(mode & !(HALF | OCTET), ABSOLUTE | INDIRECT) && mode & (HALF | OCTET) != HALF | OCTET
                        || matches!(mode, IMMEDIATE | LENGTH)
                }
            },
            LOAD_X => match code & !7 {
                MEMORY => in_memory,
                mode => matches!(mode, IMMEDIATE | LENGTH) || mode == HEADER_LENGTH | OCTET,
            },
            STORE | STORE_X => code & !7 == 0 && in_memory,
            ALU => match code & !7 {
                // by a constant 0
                0x30 | 0x90 => constant != 0,
                operation => operation & !OF_X <= 0xa0 && (operation != 0x88),
            },
            JUMP => match code {
                JUMP_ALWAYS => (constant as usize) < after,
                _ => {
                    matches!(code & !(7 | OF_X), 0x10 | 0x20 | 0x30 | 0x40)
                        && usize::from(self.jump_true.max(self.jump_false)) < after
                }
            },
            RETURN => matches!(code, RETURN | RETURN_A),
            _ => matches!(code, A_TO_X | X_TO_A),
        }
    }
}

struct Registers {
    a: u32,
    x: u32,
    memory: [u32; MEMORY_WORDS],
}

impl Registers {
    #[inline]
    fn load(&self, code: u16, constant: u32, frame: &[u8], length: u32) -> Option<u32> {
        match code & 0xe0 {
            ABSOLUTE if constant >= ANCILLARY => ancillary(constant),
            ABSOLUTE => load(code, constant, frame),
            INDIRECT => load(code, self.x.checked_add(constant)?, frame),
            MEMORY => self.memory.get(constant as usize).copied(),
            LENGTH => Some(length),
            HEADER_LENGTH => Some(u32::from(frame.get(constant as usize)? & 0x0f) * 4),
            _ => Some(constant),
        }
    }

    #[inline]
    fn compute(&self, code: u16, constant: u32) -> Option<u32> {
        let (a, b) = (self.a, if code & OF_X == 0 { constant } else { self.x });
        match code & 0xf0 {
            0x00 => Some(a.wrapping_add(b)),
            0x10 => Some(a.wrapping_sub(b)),
            0x20 => Some(a.wrapping_mul(b)),
            0x30 => a.checked_div(b),
            0x40 => Some(a | b),
            0x50 => Some(a & b),
            // as libpcap does: nothing is left
            0x60 => Some(a.checked_shl(b).unwrap_or(0)),
            0x70 => Some(a.checked_shr(b).unwrap_or(0)),
            0x80 => Some(a.wrapping_neg()),
            0x90 => a.checked_rem(b),
            _ => Some(a ^ b),
        }
    }

    /// Instructions to pass over.
    #[inline]
    fn jump(&self, instruction: Instruction) -> usize {
        let Instruction { code, constant, .. } = instruction;
        let (a, b) = (self.a, if code & OF_X == 0 { constant } else { self.x });
        let holds = match code & 0xf0 {
            0x00 => return constant as usize,
            0x10 => a == b,
            0x20 => a > b,
            0x30 => a >= b,
            _ => a & b != 0,
        };
        usize::from(if holds { instruction.jump_true } else { instruction.jump_false })
    }
}

/// A number of the frame, in network byte order.
#[inline]
fn load(code: u16, at: u32, frame: &[u8]) -> Option<u32> {
    let rest = frame.get(at as usize..)?;
    match code & (HALF | OCTET) {
        HALF => rest.first_chunk().map(|octets| u32::from(u16::from_be_bytes(*octets))),
        OCTET => rest.first().map(|octet| u32::from(*octet)),
        _ => rest.first_chunk().map(|octets| u32::from_be_bytes(*octets)),
    }
}

/// Here frames are as on the wire, so no tag was taken out. Nothing else about them is known.
fn ancillary(constant: u32) -> Option<u32> {
    ANCILLARY_VLAN.contains(&constant).then_some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u16, jump_true: u8, jump_false: u8, constant: u32) -> Instruction {
        Instruction { code, jump_true, jump_false, constant }
    }

    fn run(instructions: &[(u16, u32)], frame: &[u8]) -> Option<u32> {
        let instructions = instructions.iter().map(|(code, constant)| instruction(*code, 0, 0, *constant));
        Program::new(instructions.chain([instruction(0x16, 0, 0, 0)]).collect()).expect("a program").run(frame, 1500)
    }

    /// Worked out from the semantics in `McCanne` and Jacobson's table 1.
    #[test]
    fn each_instruction_does_what_it_says() {
        let frame = [0x45, 1, 2, 3, 0x80, 5];
        for (instructions, expected) in [
            (&[(0x20, 0)][..], Some(0x4501_0203)),
            (&[(0x28, 4)], Some(0x8005)),
            (&[(0x30, 5)], Some(5)),
            (&[(0x30, 6)], None),
            (&[(0x20, 3)], None),
            (&[(0x20, u32::MAX - 2)], None),
            (&[(0x80, 0)], Some(1500)),
            (&[(0x81, 0), (0x87, 0)], Some(1500)),
            (&[(0x00, 7)], Some(7)),
            // X = 4 * 5, then what is loaded 16 before
            (&[(0xb1, 0), (0x87, 0)], Some(20)),
            (&[(0x01, 1), (0x50, 1)], Some(2)),
            (&[(0x01, 1), (0x48, 1)], Some(0x0203)),
            (&[(0x01, 1), (0x40, 0)], Some(0x0102_0380)),
            (&[(0x01, u32::MAX), (0x50, 1)], None),
            (&[(0x00, 9), (0x02, 15), (0x00, 0), (0x60, 15)], Some(9)),
            (&[(0x01, 9), (0x03, 0), (0x61, 0), (0x87, 0)], Some(9)),
            (&[(0x00, 9), (0x07, 0), (0x0c, 0)], Some(18)),
            (&[(0x00, 1), (0x14, 2)], Some(u32::MAX)),
            (&[(0x00, 7), (0x24, 3)], Some(21)),
            (&[(0x00, 7), (0x34, 2)], Some(3)),
            (&[(0x00, 7), (0x94, 4)], Some(3)),
            (&[(0x00, 7), (0x3c, 0)], None),
            (&[(0x00, 7), (0x9c, 0)], None),
            (&[(0x00, 6), (0x44, 1)], Some(7)),
            (&[(0x00, 6), (0x54, 3)], Some(2)),
            (&[(0x00, 6), (0xa4, 3)], Some(5)),
            (&[(0x00, 6), (0x64, 2)], Some(24)),
            (&[(0x00, 6), (0x64, 32)], Some(0)),
            (&[(0x00, 6), (0x74, 1)], Some(3)),
            (&[(0x00, 1), (0x84, 0)], Some(u32::MAX)),
            (&[(0x20, ANCILLARY + 48)], Some(0)),
            (&[(0x20, ANCILLARY + 8)], None),
        ] {
            assert_eq!(run(instructions, &frame), expected, "{instructions:x?}");
        }
    }

    #[test]
    fn jumps_go_where_the_condition_says() {
        for (code, a, expected) in [
            (0x15, 5, 1),
            (0x15, 6, 2),
            (0x25, 6, 1),
            (0x25, 5, 2),
            (0x35, 5, 1),
            (0x35, 4, 2),
            (0x45, 4, 1),
            (0x45, 2, 2),
        ] {
            let program =
                [(0x00, 0, 0, a), (code, 0, 1, 5), (0x06, 0, 0, 1), (0x05, 0, 0, 1), (0x06, 0, 0, 9), (0x06, 0, 0, 2)];
            let program = program.map(|(code, yes, no, constant)| instruction(code, yes, no, constant));
            assert_eq!(Program::new(program.to_vec()).expect("a program").run(&[], 0), Some(expected), "{code:#x} {a}");
        }
    }

    #[test]
    fn programs_that_might_not_end_are_refused() {
        assert_eq!(Program::new(vec![]), Err(BadProgram::NoReturn));
        assert_eq!(Program::new(vec![instruction(0x00, 0, 0, 1)]), Err(BadProgram::NoReturn));
        for (code, jump_true, jump_false, constant) in [
            (0x05, 0, 0, 1),
            (0x05, 0, 0, u32::MAX),
            (0x15, 1, 0, 0),
            (0x15, 0, 1, 0),
            (0x02, 0, 0, 16),
            (0x60, 0, 0, 16),
            (0x34, 0, 0, 0),
            (0x94, 0, 0, 0),
            (0xb4, 0, 0, 0),
            (0x38, 0, 0, 0),
            (0x26, 0, 0, 0),
            (0x17, 0, 0, 0),
            (0x55, 0, 0, 0),
            (0xff20, 0, 0, 0),
        ] {
            let program = vec![instruction(code, jump_true, jump_false, constant), instruction(0x06, 0, 0, 1)];
            assert_eq!(Program::new(program), Err(BadProgram::Instruction { at: 0, code }), "{code:#x}");
        }
    }
}
