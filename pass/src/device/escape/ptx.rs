//! What instructions of PTX do with addresses: those of inline assembly, and those of whole modules.
//!
//! An instruction that is not known keeps everything that it is given.
use super::set::Token;
use super::solve::{EscapeRule, Solver, ValueId};

const NOT_FOLLOWED: &str = "uses it in assembly that is not followed";
const STORES: &str = "stores it in memory";
const EXCHANGES: &str = "puts it into memory by an atomic operation";
/// A mask below this leaves too little of an address to make one of it.
const FEW: i64 = 1 << 16;

/// Instructions whose first operand is a number that the others make; of an address, another one.
const COMPUTES: [&str; 50] = [
    "mov",
    "add",
    "sub",
    "mul",
    "mad",
    "mul24",
    "mad24",
    "fma",
    "cvta",
    "cvt",
    "selp",
    "slct",
    "shl",
    "shr",
    "shf",
    "and",
    "or",
    "xor",
    "not",
    "cnot",
    "neg",
    "abs",
    "min",
    "max",
    "prmt",
    "bfe",
    "bfi",
    "lop3",
    "addc",
    "subc",
    "madc",
    "div",
    "rem",
    "shfl",
    "mapa",
    "sqrt",
    "rsqrt",
    "rcp",
    "popc",
    "clz",
    "brev",
    "bfind",
    "fns",
    "sad",
    "redux",
    "match",
    "bmsk",
    "copysign",
    "getctarank",
    "mma",
];
/// Arithmetic on data alone.
const NUMBERS: [&str; 7] = ["sin", "cos", "ex2", "lg2", "tanh", "dp4a", "dp2a"];
/// Instructions that say a bit of what they are given, order others, or bring memory nearer.
const HARMLESS: [&str; 27] = [
    "setp",
    "set",
    "isspacep",
    "testp",
    "bra",
    "brx",
    "ret",
    "exit",
    "trap",
    "brkpt",
    "pmevent",
    "bar",
    "barrier",
    "membar",
    "fence",
    "nanosleep",
    "prefetch",
    "prefetchu",
    "discard",
    "applypriority",
    "createpolicy",
    "mbarrier",
    "vote",
    "activemask",
    "griddepcontrol",
    "elect",
    "setmaxnreg",
];

/// An operand of an assembly statement.
#[derive(Clone, Debug, Default)]
pub struct AssemblyOperand {
    /// What stands for its registers and names: of a list one for each, of a number none.
    pub nodes: Vec<ValueId>,
    /// Whether it is an address.
    pub is_address: bool,
    /// What is added to the address, in bytes; the number that it is. None where that is not known.
    pub number: Option<i64>,
}

/// The bytes of each element that a load or store moves; none where its type is not known.
pub fn bytes_of(parts: &[&str]) -> Option<i64> {
    let bits = parts.last()?.strip_prefix(['b', 'u', 's', 'f'])?;
    let digits = bits.split('x').next()?;
    Some(digits.parse::<i64>().ok()?.max(8) / 8)
}

impl Solver {
    /// Adds the rules of an instruction: its opcode, at the dots, and its operands.
    pub fn instruction(&mut self, parts: &[&str], operands: &[AssemblyOperand]) {
        let opcode = parts.first().copied().unwrap_or_default();
        let is_bulk = parts.iter().any(|part| part.contains("bulk"));
        match (opcode, operands) {
            _ if HARMLESS.contains(&opcode) => {}
            ("ld" | "ldu" | "ldmatrix", [results, address, ..]) if address.is_address => {
                self.read(parts, results, address);
            }
            ("st" | "stmatrix", [address, values @ ..]) if address.is_address => {
                self.write(parts, address, values, STORES);
            }
            ("red", [address, values @ ..]) if address.is_address => {
                self.write(parts, address, values, EXCHANGES);
            }
            ("atom", [results, address, values @ ..]) if address.is_address => {
                self.read(parts, results, address);
                self.write(parts, address, values, EXCHANGES);
            }
            // From global to shared memory; and the word that a group of such copies is complete.
            ("cp", [to, from, ..]) if to.is_address && from.is_address && !is_bulk => {
                let unknown = self.unknown();
                let value = AssemblyOperand {
                    nodes: vec![unknown],
                    ..AssemblyOperand::default()
                };
                self.write(&[], to, &[value], STORES);
            }
            ("cp", _) if operands.iter().all(|one| one.nodes.is_empty()) => {}
            (_, [result, sources @ ..])
                if !result.is_address && (COMPUTES.contains(&opcode) || NUMBERS.contains(&opcode)) =>
            {
                self.computed(parts, result, sources);
            }
            _ => {
                let how = self.way(NOT_FOLLOWED);
                for &from in operands.iter().flat_map(|one| &one.nodes) {
                    self.rule(EscapeRule::Publish { from, how });
                    self.hold(from, Token::Unknown);
                }
            }
        }
    }

    /// A value that is not followed.
    pub fn unknown(&mut self) -> ValueId {
        let node = self.node();
        self.hold(node, Token::Unknown);
        node
    }

    fn computed(&mut self, parts: &[&str], result: &AssemblyOperand, sources: &[AssemblyOperand]) {
        // A half of an address is a number.
        let is_whole = result.nodes.len() == 1 && sources.iter().all(|one| one.nodes.len() <= 1);
        let number = sources
            .iter()
            .find(|one| one.nodes.is_empty())
            .and_then(|one| one.number);
        let given: Vec<ValueId> = sources.iter().flat_map(|one| one.nodes.iter().copied()).collect();
        for &to in &result.nodes {
            match (parts[0], given.as_slice(), number) {
                ("add", &[from], Some(by)) => self.rule(EscapeRule::Move {
                    to,
                    from,
                    by: Some((by, 0)),
                }),
                ("sub", &[from], Some(by)) => self.rule(EscapeRule::Move {
                    to,
                    from,
                    by: by.checked_neg().map(|by| (by, 0)),
                }),
                ("add", &[one, other], _) => self.rule(EscapeRule::Sum { to, one, other }),
                ("and", &[from], Some(0..FEW)) => self.rule(EscapeRule::FewBits { to, from }),
                ("cvt", &[from], _) if makes(parts, &["u16", "s16", "u8", "s8"]) => {
                    self.rule(EscapeRule::FewBits { to, from });
                }
                ("cvt", &[from], _) if makes(parts, &["u32", "s32", "u64", "s64"]) => {
                    self.rule(EscapeRule::Copy { to, from });
                }
                ("mov" | "cvta" | "mapa" | "selp", all, _) if is_whole => {
                    all.iter()
                        .for_each(|&from| self.rule(EscapeRule::Copy { to, from }));
                }
                (_, all, _) => all
                    .iter()
                    .for_each(|&from| self.rule(EscapeRule::Compute { to, from })),
            }
        }
    }

    /// The place that an address operand names, `further` bytes on.
    fn place_of(&mut self, address: &AssemblyOperand, further: Option<i64>) -> Vec<ValueId> {
        let by = address
            .number
            .zip(further)
            .and_then(|(one, other)| one.checked_add(other));
        let moved = |&from: &ValueId| {
            let to = self.node();
            let by = by.map(|by| (by, 0));
            self.rule(EscapeRule::Move { to, from, by });
            to
        };
        let places: Vec<ValueId> = address.nodes.iter().map(moved).collect();
        match places.is_empty() {
            true => vec![self.unknown()],
            false => places,
        }
    }

    fn read(&mut self, parts: &[&str], results: &AssemblyOperand, address: &AssemblyOperand) {
        let size = bytes_of(parts).filter(|_| parts[0] != "ldmatrix");
        for (at, &to) in results.nodes.iter().enumerate() {
            for place in self.place_of(address, size.map(|size| size * at as i64)) {
                self.rule(EscapeRule::Load { to, at: place, size });
            }
        }
    }

    fn write(&mut self, parts: &[&str], address: &AssemblyOperand, values: &[AssemblyOperand], how: &str) {
        let size = bytes_of(parts).filter(|_| !matches!(parts.first(), Some(&"stmatrix")));
        let how = self.way(how);
        for (at, &from) in values.iter().flat_map(|one| one.nodes.iter().enumerate()) {
            for place in self.place_of(address, size.map(|size| size * at as i64)) {
                self.rule(EscapeRule::Store {
                    at: place,
                    from,
                    size,
                    how,
                });
            }
        }
    }
}

/// Whether a conversion's result has one of these types.
fn makes(parts: &[&str], types: &[&str]) -> bool {
    let found = parts.iter().skip(1).find(|part| {
        part.strip_prefix(['b', 'u', 's', 'f', 'e'])
            .is_some_and(|rest| rest.starts_with(|sign: char| sign.is_ascii_digit()))
    });
    found.is_some_and(|found| types.contains(found))
}
