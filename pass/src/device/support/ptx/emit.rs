//! Writing LLVM IR for PTX statements: registers as stack slots, which the optimiser takes away again.
use std::collections::BTreeSet;
use std::fmt::Write;

use super::super::body::{ForeignFunction, definition};
use super::super::functions::function;
use super::parse::{AssemblyText, Operand, number};
use super::types::{PREDICATE, ScalarKind, Type, bits};

/// The function that one assembly text becomes, as far as it is written.
pub struct Emitter {
    allocas: String,
    code: String,
    registers: Vec<Type>,
    /// The type of each operand of the assembly, in LLVM's words; a tied input is its output.
    outer: Vec<String>,
    /// How the special functions that the text calls are written out.
    pub helpers: BTreeSet<String>,
    values: usize,
    blocks: usize,
    /// Whether the present block has its terminator.
    ended: bool,
}

/// Bits of a value of one of LLVM's types, in a register.
fn width(ty: &str) -> Option<u32> {
    match ty {
        "ptr" | "double" => Some(64),
        "float" => Some(32),
        "half" | "bfloat" => Some(16),
        _ => ty.strip_prefix('i')?.parse().ok(),
    }
}

/// How a value of one of LLVM's types becomes the integer of its register, or back.
fn cast(ty: &str, inward: bool) -> &'static str {
    match (ty.starts_with('i'), ty == "ptr", inward) {
        (true, ..) => "",
        (_, true, true) => "ptrtoint",
        (_, true, false) => "inttoptr",
        _ => "bitcast",
    }
}

impl Emitter {
    /// Starts a function with `outputs` results; `tied` gives, for each parameter, the output that it
    /// initialises.
    pub fn new(
        foreign: &ForeignFunction,
        program: &AssemblyText,
        outputs: usize,
        tied: &[Option<usize>],
    ) -> Option<Self> {
        let results = if outputs == 0 {
            Vec::new()
        } else {
            foreign.result_types()
        };
        if results.len() != outputs || tied.len() != foreign.takes.len() {
            return None;
        }
        let outer = results
            .into_iter()
            .map(str::to_owned)
            .chain(foreign.takes.iter().cloned())
            .collect();
        let mut emitter = Self {
            allocas: String::new(),
            code: String::new(),
            registers: program.registers.clone(),
            outer,
            helpers: BTreeSet::new(),
            values: 0,
            blocks: 0,
            ended: false,
        };
        for (at, ty) in emitter.outer.iter().enumerate() {
            let _ = writeln!(emitter.allocas, "%o{at} = alloca i{}", width(ty)?);
        }
        for (at, ty) in emitter.registers.iter().enumerate() {
            let _ = writeln!(emitter.allocas, "%r{at} = alloca {}", ty.register());
        }
        emitter.allocas += "%carry = alloca i1\n";
        for (at, ty) in foreign.takes.iter().enumerate() {
            let value = match cast(ty, true) {
                "" => format!("%a{at}"),
                cast => emitter.value(format!("{cast} {ty} %a{at} to i{}", width(ty)?)),
            };
            let place = tied[at].unwrap_or(outputs + at);
            if width(ty)? == width(&emitter.outer[place])? {
                emitter.line(format!("store i{} {value}, ptr %o{place}", width(ty)?));
            }
        }
        Some(emitter)
    }

    /// Ends the function: its text.
    pub fn finish(mut self, foreign: &ForeignFunction, outputs: usize) -> (String, BTreeSet<String>) {
        let mut whole = "poison".to_owned();
        for at in 0..outputs {
            let ty = self.outer[at].clone();
            let bits = width(&ty).unwrap_or(32);
            let mut value = self.value(format!("load i{bits}, ptr %o{at}"));
            if !cast(&ty, false).is_empty() {
                value = self.value(format!("{} i{bits} {value} to {ty}", cast(&ty, false)));
            }
            whole = if foreign.returns.starts_with('{') {
                self.value(format!(
                    "insertvalue {} {whole}, {ty} {value}, {at}",
                    foreign.returns
                ))
            } else {
                value
            };
        }
        match outputs {
            0 => self.line("ret void"),
            _ => self.line(format!("ret {} {whole}", foreign.returns)),
        }
        (self.allocas + &self.code, self.helpers)
    }

    /// Writes an instruction without a value.
    pub fn line(&mut self, text: impl AsRef<str>) {
        if self.ended {
            // What follows a jump without a label is never reached.
            let block = self.block();
            self.start(&block);
        }
        self.code += text.as_ref();
        self.code.push('\n');
    }

    /// Writes an instruction; the name of its value.
    pub fn value(&mut self, text: impl AsRef<str>) -> String {
        let name = format!("%v{}", self.values);
        self.values += 1;
        self.line(format!("{name} = {}", text.as_ref()));
        name
    }

    /// Room on the stack.
    pub fn room(&mut self, ty: &str) -> String {
        let name = format!("%v{}", self.values);
        self.values += 1;
        let _ = writeln!(self.allocas, "{name} = alloca {ty}");
        name
    }

    /// A new block's name.
    pub fn block(&mut self) -> String {
        self.blocks += 1;
        format!("b{}", self.blocks)
    }

    /// Jumps to a block.
    pub fn jump(&mut self, block: &str) {
        self.line(format!("br label %{block}"));
        self.ended = true;
    }

    /// Jumps to one of two blocks.
    pub fn branch(&mut self, condition: &str, yes: &str, no: &str) {
        self.line(format!("br i1 {condition}, label %{yes}, label %{no}"));
        self.ended = true;
    }

    /// Ends the function here.
    pub fn unreachable(&mut self) {
        self.line("unreachable");
        self.ended = true;
    }

    /// Begins a block; the previous one falls through into it.
    pub fn start(&mut self, block: &str) {
        if !self.ended {
            let _ = writeln!(self.code, "br label %{block}");
        }
        let _ = writeln!(self.code, "{block}:");
        self.ended = false;
    }

    /// The type and the slot of a register.
    fn slot(&self, operand: &Operand) -> Option<(u32, String)> {
        match *operand {
            Operand::Register(at) => Some((self.registers[at].width(), format!("%r{at}"))),
            Operand::Outer(at) => Some((width(self.outer.get(at)?)?, format!("%o{at}"))),
            _ => None,
        }
    }

    /// Reads an operand as a value of a type, in the form [`Type::llvm`] says.
    pub fn read(&mut self, operand: &Operand, ty: Type) -> Option<String> {
        if ty == PREDICATE
            && let Operand::Not(inner) = operand
        {
            let value = self.read(inner, ty)?;
            return Some(self.value(format!("xor i1 {value}, true")));
        }
        let register = ty.register();
        let value = match operand {
            Operand::Word(text) => self.word(text, ty)?,
            Operand::Vector(parts) => self.joined(parts, ty)?,
            _ => {
                let (bits, slot) = self.slot(operand)?;
                let value = self.value(format!("load i{bits}, ptr {slot}"));
                self.resized(&value, bits, ty.width(), ty.kind == ScalarKind::Signed)
            }
        };
        Some(if ty.llvm() == register {
            value
        } else {
            self.value(format!("bitcast {register} {value} to {}", ty.llvm()))
        })
    }

    /// Brings an integer to another width.
    pub fn resized(&mut self, value: &str, from: u32, to: u32, signed: bool) -> String {
        match to.cmp(&from) {
            std::cmp::Ordering::Equal => value.to_owned(),
            std::cmp::Ordering::Less => self.value(format!("trunc i{from} {value} to i{to}")),
            std::cmp::Ordering::Greater => {
                let extend = if signed { "sext" } else { "zext" };
                self.value(format!("{extend} i{from} {value} to i{to}"))
            }
        }
    }

    /// A literal or a special register, as the integer of its register.
    fn word(&mut self, text: &str, ty: Type) -> Option<String> {
        let width = ty.width();
        if text == "WARP_SZ" {
            return Some("32".into());
        }
        if let Some(special) = text.strip_prefix('%') {
            let name = special
                .trim_start_matches('%')
                .replace("lanemask_", "lanemask.")
                .replace('_', ".");
            let returns = if name.ends_with("64") || name == "globaltimer" {
                "i64"
            } else {
                "i32"
            };
            let value = self.intrinsic(&format!("read.ptx.sreg.{name}"), returns, &[])?;
            let from = if returns == "i64" { 64 } else { 32 };
            return Some(self.resized(&value, from, width, false));
        }
        let literal = |prefixes: [&str; 2]| {
            let digits = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix))?;
            u64::from_str_radix(digits, 16).ok()
        };
        if let Some(found) = literal(["0f", "0F"]).filter(|_| text.len() == 10) {
            let value = if ty.bits == 64 && ty.is_float() {
                f64::from(f32::from_bits(found as u32)).to_bits()
            } else {
                found
            };
            return Some(value.to_string());
        }
        if let Some(found) = literal(["0d", "0D"]).filter(|_| text.len() == 18) {
            return Some(match (ty.is_float(), ty.bits) {
                (true, 32) => (f64::from_bits(found) as f32).to_bits().to_string(),
                _ => found.to_string(),
            });
        }
        if ty == PREDICATE {
            return number(text).map(|value| (value != 0).to_string());
        }
        if ty.kind == ScalarKind::Float && text.contains('.') {
            let value: f64 = text.parse().ok()?;
            return match ty.bits {
                64 => Some(value.to_bits().to_string()),
                32 => Some((value as f32).to_bits().to_string()),
                _ => None,
            };
        }
        let value = number(text)?;
        // LLVM wants a literal that fits; PTX takes the low bits.
        let mask = if width == 128 { u128::MAX } else { (1 << width) - 1 };
        Some((value as u128 & mask).to_string())
    }

    /// `{a, b}` as one integer, the first element lowest.
    fn joined(&mut self, parts: &[Operand], ty: Type) -> Option<String> {
        let each = ty.width() / parts.len() as u32;
        let mut whole = "0".to_owned();
        for (at, part) in parts.iter().enumerate() {
            let value = self.read(part, bits(each))?;
            let wide = self.resized(&value, each, ty.width(), false);
            let up = self.value(format!("shl i{} {wide}, {}", ty.width(), at as u32 * each));
            whole = self.value(format!("or i{} {whole}, {up}", ty.width()));
        }
        Some(whole)
    }

    /// Writes a value of a type to an operand.
    pub fn write(&mut self, operand: &Operand, ty: Type, value: &str) -> Option<()> {
        let register = ty.register();
        let value = if ty.llvm() == register {
            value.to_owned()
        } else {
            self.value(format!("bitcast {} {value} to {register}", ty.llvm()))
        };
        match operand {
            Operand::Word(text) if text == "_" => Some(()),
            Operand::Vector(parts) => {
                let each = ty.width() / parts.len() as u32;
                for (at, part) in parts.iter().enumerate() {
                    let down = self.value(format!("lshr {register} {value}, {}", at as u32 * each));
                    let element = self.resized(&down, ty.width(), each, false);
                    self.write(part, bits(each), &element)?;
                }
                Some(())
            }
            _ => {
                let (bits, slot) = self.slot(operand)?;
                let value = self.resized(&value, ty.width(), bits, ty.kind == ScalarKind::Signed);
                self.line(format!("store i{bits} {value}, ptr {slot}"));
                Some(())
            }
        }
    }

    /// An address operand as a pointer.
    pub fn pointer(&mut self, operand: &Operand) -> Option<String> {
        let Operand::Address(base, offset) = operand else {
            return None;
        };
        let value = self.read(base, bits(64))?;
        let pointer = self.value(format!("inttoptr i64 {value} to ptr"));
        Some(match offset {
            0 => pointer,
            offset => self.value(format!("getelementptr i8, ptr {pointer}, i64 {offset}")),
        })
    }

    /// Calls the replacement of one of the NVVM intrinsics, `name` without its `llvm.nvvm.`.
    pub fn intrinsic(&mut self, name: &str, returns: &str, arguments: &[(&str, &str)]) -> Option<String> {
        let symbol = format!("softgpu.ptx.{name}.{}", returns.replace(['{', '}', ' ', ','], ""));
        let full = format!("llvm.nvvm.{name}");
        let foreign = ForeignFunction {
            name: &full,
            returns: returns.to_owned(),
            takes: arguments.iter().map(|(ty, _)| (*ty).to_owned()).collect(),
        };
        let body = function(&foreign)?;
        self.helpers.insert(definition(&symbol, &foreign, &body));
        self.helpers.extend(body.declarations);
        Some(self.call(&format!("\"{symbol}\""), returns, arguments))
    }

    /// Calls one of LLVM's own intrinsics, or a function of the prelude.
    pub fn call(&mut self, name: &str, returns: &str, arguments: &[(&str, &str)]) -> String {
        let arguments: Vec<String> = arguments
            .iter()
            .map(|(ty, value)| format!("{ty} {value}"))
            .collect();
        let call = format!("call {returns} @{name}({})", arguments.join(", "));
        if returns == "void" {
            self.line(call);
            return String::new();
        }
        self.value(call)
    }

    /// Writes the carry flag.
    pub fn set_carry(&mut self, value: &str) {
        self.line(format!("store i1 {value}, ptr %carry"));
    }

    /// Reads the carry flag, as an integer of `bits` bits.
    pub fn carry(&mut self, bits: u32) -> String {
        let flag = self.value("load i1, ptr %carry");
        self.value(format!("zext i1 {flag} to i{bits}"))
    }
}
