//! The one door to libpcap, whose compiler knows what filter expressions mean.
//!
//! Expressions are libpcap's language, so libpcap compiles them and no other compiler is trusted to agree with it.
//! The library is opened when a filter is first used: without filters it is not needed, and building needs no headers.
//! What comes back is copied into a [program](super::program) of our own at once, so that nothing of the library is
//! used afterwards.
#![expect(unsafe_code, reason = "functions of a C library are called; each call says why it may be")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::OnceLock;

use libloading::Library;

use super::FilterError;
use super::program::Instruction;

/// Names of the library: Debian's, everybody else's, and that of its headers' package.
const NAMES: [&str; 3] = ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so"];
/// The program is made for any netmask (`PCAP_NETMASK_UNKNOWN`).
const NETMASK_UNKNOWN: u32 = u32::MAX;
const OPTIMIZE: c_int = 1;
/// Octets of the text of an error (`PCAP_ERRBUF_SIZE`).
const ERROR_OCTETS: usize = 256;

/// `pcap_t`, which only the library looks into.
#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

/// `struct bpf_program`.
#[repr(C)]
struct RawProgram {
    length: c_uint,
    instructions: *mut Instruction,
}

/// The functions that are used, with the signatures of `pcap/pcap.h`; all have been there since libpcap 0.9.
struct Functions {
    open: unsafe extern "C" fn(*mut libc::FILE, *mut c_char) -> *mut Handle,
    compile: unsafe extern "C" fn(*mut Handle, *mut RawProgram, *const c_char, c_int, u32) -> c_int,
    geterr: unsafe extern "C" fn(*mut Handle) -> *mut c_char,
    freecode: unsafe extern "C" fn(*mut RawProgram),
    close: unsafe extern "C" fn(*mut Handle),
    /// Kept open, since the functions are in it.
    _library: Library,
}

/// Compiles an expression for frames of a link type (`LINKTYPE_`) in a file of that order of octets, of which at most
/// `snap_octets` are captured.
pub(super) fn compile(
    expression: &str,
    link: u16,
    big_endian: bool,
    snap_octets: u32,
) -> Result<Vec<Instruction>, FilterError> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    let functions = FUNCTIONS.get_or_init(load).as_ref();
    let functions = functions.map_err(|reason| FilterError::NoLibrary(reason.clone()))?;
    let wrong = |reason: &str| FilterError::Expression { expression: expression.to_owned(), reason: reason.to_owned() };
    let text = CString::new(expression).map_err(|_| wrong("it has an octet 0 in it"))?;
    let mut file = header(link, big_endian, snap_octets);
    let handle = open_file(functions, &mut file).map_err(|reason| wrong(&reason))?;
    let mut raw = RawProgram { length: 0, instructions: std::ptr::null_mut() };
    // SAFETY: the handle is open, the program is ours to be written to, the text ends with 0 and outlives the call.
    let status =
        unsafe { (functions.compile)(handle.as_ptr(), &raw mut raw, text.as_ptr(), OPTIMIZE, NETMASK_UNKNOWN) };
    let result = if status == 0 {
        // SAFETY: `compile` succeeded, so the program has `length` instructions, whose layout is that of `bpf_insn`; they
        // are copied before it is freed.
        let instructions = unsafe { instructions_of(&raw) }.to_vec();
        // SAFETY: the program was made by `compile`, and nothing of it is used any more.
        unsafe { (functions.freecode)(&raw mut raw) };
        Ok(instructions)
    } else {
        // SAFETY: the handle is open; the text is in it, ends with 0, and is copied before the handle is closed.
        let reason = unsafe { CStr::from_ptr((functions.geterr)(handle.as_ptr())) }.to_string_lossy().into_owned();
        Err(wrong(&reason))
    };
    // SAFETY: the handle was opened above and is used no more; its file is closed with it.
    unsafe { (functions.close)(handle.as_ptr()) };
    result
}

/// A capture file without packets. The library compiles for what it reads from, and a file says more than a link type:
/// BSD's loopback has numbers in the order of octets of the machine that wrote the file.
fn header(link: u16, big_endian: bool, snap_octets: u32) -> [u8; 24] {
    let octets = |number: u32| if big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
    let version = if big_endian { 0x0002_0004 } else { 0x0004_0002 };
    let numbers = [0xa1b2_c3d4, version, 0, 0, snap_octets, u32::from(link)];
    let mut header = [0; 24];
    for (place, number) in header.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&octets(number));
    }
    header
}

/// Opens a file that is in memory, which the handle refers to until it is closed.
fn open_file(functions: &Functions, file: &mut [u8; 24]) -> Result<NonNull<Handle>, String> {
    // SAFETY: the memory is valid for its length; the stream is closed with the handle, before the memory goes.
    let stream = unsafe { libc::fmemopen(file.as_mut_ptr().cast(), file.len(), c"r".as_ptr()) };
    if stream.is_null() {
        return Err(io::Error::last_os_error().to_string());
    }
    let mut reason: [c_char; ERROR_OCTETS] = [0; ERROR_OCTETS];
    // SAFETY: the stream is open, and the text has as many octets as the library may write.
    let handle = unsafe { (functions.open)(stream, reason.as_mut_ptr()) };
    NonNull::new(handle).ok_or_else(|| {
        // SAFETY: without a handle the stream is still ours, and is used no more.
        unsafe { libc::fclose(stream) };
        // SAFETY: the library ended the text with 0, within its octets.
        unsafe { CStr::from_ptr(reason.as_ptr()) }.to_string_lossy().into_owned()
    })
}

/// The instructions of a program.
///
/// # Safety
/// `instructions` is null or points to `length` of them.
unsafe fn instructions_of(raw: &RawProgram) -> &[Instruction] {
    if raw.instructions.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts(raw.instructions, raw.length as usize) }
}

fn load() -> Result<Functions, String> {
    let mut reasons = Vec::new();
    for name in NAMES {
        match open(name) {
            Ok(functions) => return Ok(functions),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(reasons.join("; "))
}

fn open(name: &str) -> Result<Functions, libloading::Error> {
    // SAFETY: libpcap does nothing when it is opened and closed, and the symbols have the types that its header says.
    unsafe {
        let library = Library::new(name)?;
        Ok(Functions {
            open: *library.get(b"pcap_fopen_offline\0")?,
            compile: *library.get(b"pcap_compile\0")?,
            geterr: *library.get(b"pcap_geterr\0")?,
            freecode: *library.get(b"pcap_freecode\0")?,
            close: *library.get(b"pcap_close\0")?,
            _library: library,
        })
    }
}
