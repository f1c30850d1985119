//! The device's `printf`: formatting, and getting the text out in one piece.
//!
//! Arguments come as a device's `vprintf` gets them: one after another, each aligned to its size.
//! Text is kept until its kernel has ended, and then written to the C library's `stdout`, so that
//! it stands in order with what the program prints. Of what a kernel prints, the last
//! `LIMIT` bytes are kept, as a device's buffer would.

use std::ffi::{CString, c_char, c_int, c_void};

/// Bytes kept per kernel: the default of `cudaLimitPrintfFifoSize`, eightfold, since a record there
/// is larger than its text here.
const LIMIT: usize = 8 << 20;

/// What a kernel, or a part of it, has printed.
#[derive(Debug, Default)]
pub struct KernelOutput {
    text: Vec<u8>,
}

unsafe extern "C" {
    static stdout: *mut libc::FILE;
}

impl KernelOutput {
    /// Adds text to the output.
    pub fn push(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        if self.text.len() > LIMIT {
            self.text.drain(..self.text.len() - LIMIT);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds another's text.
    pub fn append(&mut self, other: KernelOutput) {
        if self.text.is_empty() {
            *self = other;
        } else {
            self.push(&other.text);
        }
    }

    /// Writes everything to `stdout`.
    pub fn write(&self) {
        if !self.text.is_empty() {
            // SAFETY: the C library's stream, and bytes that outlive the call.
            unsafe { libc::fwrite(self.text.as_ptr().cast::<c_void>(), 1, self.text.len(), stdout) };
        }
    }
}

/// The packed arguments of one call.
struct Packed {
    start: *const u8,
    offset: usize,
}

impl Packed {
    /// The next argument of 4 or 8 bytes.
    ///
    /// # Safety
    /// There is one.
    unsafe fn next<T: Copy>(&mut self) -> T {
        self.offset = self.offset.next_multiple_of(size_of::<T>());
        // SAFETY: the next argument is there and has this type: contract of `next`.
        let value = unsafe { self.start.add(self.offset).cast::<T>().read_unaligned() };
        self.offset += size_of::<T>();
        value
    }
}

/// Formats one call; returns the text and the number of arguments used.
///
/// # Safety
/// `arguments` holds what `format` asks for, packed; strings among them are null-terminated.
pub unsafe fn format(format: &[u8], arguments: *const u8) -> (Vec<u8>, i32) {
    let mut packed = Packed {
        start: arguments,
        offset: 0,
    };
    let mut text = Vec::with_capacity(format.len() + 32);
    let mut used = 0;
    let mut rest = format;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        text.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let Some(length) = rest[1..]
            .iter()
            .position(|byte| byte.is_ascii_alphabetic() && !b"hlLqjzt".contains(byte) || *byte == b'%')
        else {
            break;
        };
        let (directive, after) = rest.split_at(length + 2);
        rest = after;
        if directive.ends_with(b"%") {
            text.push(b'%');
            continue;
        }
        // SAFETY: the packed arguments are those that the format asks for: contract of `format`.
        used += unsafe { convert(directive, &mut packed, &mut text) };
    }
    text.extend_from_slice(rest);
    (text, used)
}

/// Formats one argument with the C library, widths given as `*` included.
///
/// # Safety
/// As for [`format()`].
unsafe fn convert(directive: &[u8], packed: &mut Packed, text: &mut Vec<u8>) -> i32 {
    let mut spec = Vec::with_capacity(directive.len() + 8);
    let mut used = 1;
    for &byte in &directive[..directive.len() - 1] {
        match byte {
            b'*' => {
                // SAFETY: a star takes an `int`, and the arguments are those that the format asks for:
                // contract of `convert`.
                spec.extend_from_slice(unsafe { packed.next::<i32>() }.to_string().as_bytes());
                used += 1;
            }
            b'h' | b'l' | b'L' | b'q' | b'j' | b'z' | b't' => {}
            _ => spec.push(byte),
        }
    }
    let conversion = directive[directive.len() - 1];
    let wide = directive.iter().any(|byte| b"lqjzt".contains(byte));
    let narrowing = directive.iter().filter(|&&byte| byte == b'h').count();
    // SAFETY: the arguments are those that the format asks for (contract of `convert`), and each `print` gets
    // the type that its conversion asks for.
    unsafe {
        match conversion {
            b'd' | b'i' => {
                let value = if wide {
                    packed.next::<i64>()
                } else {
                    packed.next::<i32>().into()
                };
                let value = match narrowing {
                    0 => value,
                    1 => (value as i16).into(),
                    _ => (value as i8).into(),
                };
                print(text, &spec, b"lld", |to, size, spec| {
                    libc::snprintf(to, size, spec, value)
                });
            }
            b'u' | b'x' | b'X' | b'o' => {
                let value = if wide {
                    packed.next::<u64>()
                } else {
                    packed.next::<u32>().into()
                };
                let value = match narrowing {
                    0 => value,
                    1 => (value as u16).into(),
                    _ => (value as u8).into(),
                };
                let suffix = [b'l', b'l', conversion];
                print(text, &spec, &suffix, |to, size, spec| {
                    libc::snprintf(to, size, spec, value)
                });
            }
            b'c' => {
                let value = packed.next::<i32>();
                print(text, &spec, b"c", |to, size, spec| {
                    libc::snprintf(to, size, spec, value)
                });
            }
            b's' => {
                let value = packed.next::<*const c_char>();
                let value = if value.is_null() {
                    c"(null)".as_ptr()
                } else {
                    value
                };
                print(text, &spec, b"s", |to, size, spec| {
                    libc::snprintf(to, size, spec, value)
                });
            }
            b'p' => {
                let value = packed.next::<*const c_void>();
                print(text, &spec, b"p", |to, size, spec| {
                    libc::snprintf(to, size, spec, value)
                });
            }
            b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => {
                let value = packed.next::<f64>();
                print(text, &spec, &[conversion], |to, size, spec| {
                    libc::snprintf(to, size, spec, value)
                });
            }
            // As the device does: what is not known is printed as it stands.
            _ => {
                text.extend_from_slice(directive);
                return 0;
            }
        }
    }
    used
}

/// Appends what `snprintf` makes of one directive.
fn print(
    text: &mut Vec<u8>,
    spec: &[u8],
    suffix: &[u8],
    snprintf: impl Fn(*mut c_char, usize, *const c_char) -> c_int,
) {
    let Ok(spec) = CString::new([spec, suffix].concat()) else {
        return;
    };
    let start = text.len();
    let mut room = 64;
    loop {
        text.resize(start + room, 0);
        let written = snprintf(text[start..].as_mut_ptr().cast(), room, spec.as_ptr());
        match usize::try_from(written) {
            Ok(length) if length < room => return text.truncate(start + length),
            Ok(length) => room = length + 1,
            Err(_) => return text.truncate(start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(text: &str, arguments: &[u64]) -> (String, i32) {
        // SAFETY: the tests pass what their formats ask for.
        let (text, used) = unsafe { format(text.as_bytes(), arguments.as_ptr().cast()) };
        (String::from_utf8(text).unwrap(), used)
    }

    #[test]
    fn integers_floats_and_strings() {
        let two = u64::from((-7i32) as u32) | 42 << 32;
        assert_eq!(formatted("a %d b %u%%\n", &[two]), ("a -7 b 42%\n".into(), 2));
        assert_eq!(
            formatted(
                "%5.2f|%lld|%-4s|",
                &[1.5f64.to_bits(), u64::MAX, c"xy".as_ptr() as u64]
            )
            .0,
            " 1.50|-1|xy  |"
        );
        assert_eq!(formatted("%*d", &[5 | 3 << 32]), ("    3".into(), 2));
        assert_eq!(formatted("%hhx %c", &[0x1ff | 65 << 32]).0, "ff A");
        assert_eq!(formatted("%s", &[0]).0, "(null)");
        assert_eq!(formatted("plain", &[]), ("plain".into(), 0));
        assert_eq!(formatted("100%", &[]).0, "100%");
    }

    #[test]
    fn long_text_fits() {
        let long = CString::new("x".repeat(500)).unwrap();
        assert_eq!(formatted("%s", &[long.as_ptr() as u64]).0.len(), 500);
    }
}
