//! The grammar of PTX statements, as far as inline assembly has them: scopes, register declarations,
//! labels, and instructions with their guards and operands.
use std::collections::HashMap;

use super::types::Type;

/// A register, by its number in the list of all.
pub type Register = usize;

/// What an instruction works on.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A declared register.
    Register(Register),
    /// An operand of the assembly: `$0`.
    Outer(usize),
    /// A number, or a name that is not a register: a special register, a label, `WARP_SZ`.
    Word(String),
    /// `[base+offset]`
    Address(Box<Operand>, i64),
    /// `[object, {a, b}]`
    Texel(Box<Operand>, Vec<Operand>),
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// `a|b`
    Pair(Box<Operand>, Box<Operand>),
    /// `!p`
    Not(Box<Operand>),
}

/// A statement that does something.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `name:`
    Label(String),
    /// `@!p add.s32 a, b, c;`
    Instruction(Instruction),
}

/// An instruction of the assembly.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// The predicate it is under, and whether that is negated.
    pub guard: Option<(Operand, bool)>,
    /// The mnemonic's parts: `add`, `sat`, `s32`.
    pub parts: Vec<String>,
    /// The operands of the instruction, in order.
    pub operands: Vec<Operand>,
    /// As it was written.
    pub text: String,
}

/// A parsed assembly text.
#[derive(Debug, Default)]
pub struct AssemblyText {
    /// The statements of the program, in order.
    pub statements: Vec<Statement>,
    /// The types of the declared registers.
    pub registers: Vec<Type>,
}

/// The replacement of `$$` in the assembly text while it is parsed: a character that PTX does not use.
const DOLLAR: char = '\u{1}';

/// Parses an assembly text as LLVM writes it; an error is the statement that it does not know.
pub fn parse(text: &str) -> Result<AssemblyText, String> {
    let text = without_comments(&text.replace("$$", &DOLLAR.to_string()));
    let mut parser = Parser {
        program: AssemblyText::default(),
        scopes: vec![HashMap::new()],
    };
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '{' => {
                parser.scopes.push(HashMap::new());
                &rest[1..]
            }
            '}' => {
                if parser.scopes.len() > 1 {
                    parser.scopes.pop();
                }
                &rest[1..]
            }
            ';' => &rest[1..],
            _ => match label(rest) {
                Some((name, after)) => {
                    parser.program.statements.push(Statement::Label(name.to_owned()));
                    after
                }
                None => {
                    let end = end_of_statement(rest);
                    let statement = rest[..end].trim();
                    parser.statement(statement).ok_or_else(|| shown(statement))?;
                    &rest[end..]
                }
            },
        }
        .trim_start();
    }
    Ok(parser.program)
}

/// A statement as its author wrote it.
fn shown(statement: &str) -> String {
    let line = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace(DOLLAR, "$")
}

fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('/') {
        out += &rest[..at];
        let comment = &rest[at..];
        let end = match comment.as_bytes().get(1) {
            Some(b'/') => comment.find('\n').unwrap_or(comment.len()),
            Some(b'*') => comment.find("*/").map_or(comment.len(), |end| end + 2),
            _ => {
                out.push('/');
                1
            }
        };
        rest = &comment[end..];
    }
    out + rest
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | DOLLAR)
}

/// `name:` at the start, and what follows it.
fn label(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c| !is_name(c)).filter(|&end| end > 0)?;
    let after = text[end..].trim_start().strip_prefix(':')?;
    (!after.starts_with(':')).then_some((&text[..end], after))
}

/// Where a statement ends: at its semicolon, or before the brace that closes its scope.
fn end_of_statement(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return at,
            '}' => depth -= 1,
            ';' => return at,
            _ => {}
        }
    }
    text.len()
}

/// Splits at a separator outside of brackets.
fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            _ if c == separator && depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

struct Parser {
    program: AssemblyText,
    scopes: Vec<HashMap<String, Register>>,
}

impl Parser {
    fn statement(&mut self, text: &str) -> Option<()> {
        if let Some(declared) = text.strip_prefix(".reg") {
            return self.declare(declared.trim_start());
        }
        let written = shown(text);
        let (guard, text) = match text.strip_prefix('@') {
            Some(guarded) => {
                let (negated, guarded) = match guarded.trim_start().strip_prefix('!') {
                    Some(guarded) => (true, guarded.trim_start()),
                    None => (false, guarded.trim_start()),
                };
                let end = guarded.find(char::is_whitespace)?;
                let predicate = self.operand(&guarded[..end])?;
                (Some((predicate, negated)), guarded[end..].trim_start())
            }
            None => (None, text),
        };
        let end = text
            .find(|c: char| c.is_whitespace() || matches!(c, '{' | '['))
            .unwrap_or(text.len());
        let (mnemonic, operands) = (&text[..end], text[end..].trim());
        let parts: Vec<String> = mnemonic
            .split(['.', ':'])
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        let operands = if operands.is_empty() {
            Vec::new()
        } else {
            let operands = split_outside(operands, ',');
            operands
                .into_iter()
                .map(|text| self.operand(text))
                .collect::<Option<_>>()?
        };
        let instruction = Instruction {
            guard,
            parts,
            operands,
            text: written,
        };
        self.program.statements.push(Statement::Instruction(instruction));
        Some(())
    }

    /// `.f32 a, b` or `.b32 r<4>`
    fn declare(&mut self, text: &str) -> Option<()> {
        let end = text.find(char::is_whitespace)?;
        let ty = Type::parse(text[..end].trim_start_matches('.'))?;
        for name in text[end..].split(',').map(str::trim) {
            match name.split_once('<') {
                Some((stem, count)) => {
                    let count: usize = count
                        .trim_end_matches('>')
                        .trim()
                        .parse()
                        .ok()
                        .filter(|&n| n <= 256)?;
                    (0..count).for_each(|at| self.add(format!("{stem}{at}"), ty));
                }
                None => self.add(name.to_owned(), ty),
            }
        }
        Some(())
    }

    fn add(&mut self, name: String, ty: Type) {
        let number = self.program.registers.len();
        self.program.registers.push(ty);
        self.scopes
            .last_mut()
            .expect("the outermost scope is never closed")
            .insert(name, number);
    }

    fn operand(&self, text: &str) -> Option<Operand> {
        if let [left, right] = split_outside(text, '|')[..] {
            let (left, right) = (self.operand(left)?, self.operand(right)?);
            return Some(Operand::Pair(Box::new(left), Box::new(right)));
        }
        if let Some(inner) = text.strip_prefix('[') {
            return self.address(inner.strip_suffix(']')?.trim());
        }
        if let Some(inner) = text.strip_prefix('{') {
            let elements = split_outside(inner.strip_suffix('}')?, ',');
            return elements
                .into_iter()
                .map(|text| self.operand(text))
                .collect::<Option<_>>()
                .map(Operand::Vector);
        }
        if let Some(inner) = text.strip_prefix('!') {
            return Some(Operand::Not(Box::new(self.operand(inner.trim())?)));
        }
        if let Some(number) = text.strip_prefix('$') {
            // ${0:x}: how the operand is to be printed makes no difference here.
            let number = number.trim_matches(['{', '}']).split(':').next()?;
            return Some(Operand::Outer(number.parse().ok()?));
        }
        let register = self.scopes.iter().rev().find_map(|scope| scope.get(text));
        Some(register.map_or_else(
            || Operand::Word(text.to_owned()),
            |&number| Operand::Register(number),
        ))
    }

    fn address(&self, text: &str) -> Option<Operand> {
        if let [object, coordinates] = split_outside(text, ',')[..] {
            let coordinates = match self.operand(coordinates)? {
                Operand::Vector(all) => all,
                one => vec![one],
            };
            return Some(Operand::Texel(Box::new(self.operand(object)?), coordinates));
        }
        let (base, offset) = match text.rfind(['+', '-']) {
            Some(at) if at > 0 => {
                let offset = number(text[at + 1..].trim())? as i64;
                let negative = text.as_bytes()[at] == b'-';
                let base = text[..at].trim_end().trim_end_matches('+').trim_end();
                (base, if negative { -offset } else { offset })
            }
            _ => (text, 0),
        };
        Some(Operand::Address(Box::new(self.operand(base)?), offset))
    }
}

/// An integer literal: decimal, hexadecimal, octal or binary, with `U` or without.
pub fn number(text: &str) -> Option<i128> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let text = text.trim_end_matches(['U', 'u', 'L', 'l']);
    let lower = text.to_ascii_lowercase();
    let value = if let Some(digits) = lower.strip_prefix("0x") {
        i128::from_str_radix(digits, 16).ok()?
    } else if let Some(digits) = lower.strip_prefix("0b") {
        i128::from_str_radix(digits, 2).ok()?
    } else if lower.len() > 1 && lower.starts_with('0') {
        i128::from_str_radix(&lower[1..], 8).ok()?
    } else {
        lower.parse().ok()?
    };
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::super::types::bits;
    use super::*;

    #[test]
    fn scopes_guards_and_operands() {
        let text = "{ .reg .pred p; .reg.b16 lo,hi; // halves\n mov.b32 {lo, hi}, $1; @!p st.global.u32 [$0+4], 0x10U;\nend: }";
        let program = parse(text).unwrap();
        assert_eq!(program.registers[1..], [bits(16), bits(16)]);
        let Statement::Instruction(mov) = &program.statements[0] else {
            panic!("{:?}", program.statements)
        };
        assert_eq!(mov.parts, ["mov", "b32"]);
        let halves = Operand::Vector(vec![Operand::Register(1), Operand::Register(2)]);
        assert_eq!(mov.operands, [halves, Operand::Outer(1)]);
        let Statement::Instruction(store) = &program.statements[1] else {
            panic!("{:?}", program.statements)
        };
        assert_eq!(store.guard, Some((Operand::Register(0), true)));
        assert_eq!(
            store.operands[0],
            Operand::Address(Box::new(Operand::Outer(0)), 4)
        );
        assert_eq!(program.statements[2], Statement::Label("end".into()));
    }

    #[test]
    fn texels_and_whether_they_are_there() {
        let text = "{.reg .pred %p0;\n\ttex.2d.v4.f32.f32\t{$0, $1, $2, $3}|%p0, [$5, {$6, $7}];}";
        let program = parse(text).unwrap();
        let Statement::Instruction(read) = &program.statements[0] else {
            panic!("{:?}", program.statements)
        };
        assert_eq!(read.parts, ["tex", "2d", "v4", "f32", "f32"]);
        let values = Operand::Vector((0..4).map(Operand::Outer).collect());
        let pair = Operand::Pair(Box::new(values), Box::new(Operand::Register(0)));
        let coordinates = vec![Operand::Outer(6), Operand::Outer(7)];
        let texel = Operand::Texel(Box::new(Operand::Outer(5)), coordinates);
        assert_eq!(read.operands, [pair, texel]);
    }

    #[test]
    fn an_inner_name_hides_an_outer_one() {
        let program = parse("{.reg.b32 p; {.reg.b16 p; mov.b16 p, 1;} mov.b32 p, 1;}").unwrap();
        let registers: Vec<_> = program
            .statements
            .iter()
            .map(|statement| match statement {
                Statement::Instruction(it) => it.operands[0].clone(),
                Statement::Label(_) => panic!("a label"),
            })
            .collect();
        assert_eq!(registers, [Operand::Register(1), Operand::Register(0)]);
    }

    #[test]
    fn numbers() {
        for (text, value) in [
            ("0X32B3U", 0x32b3),
            ("017", 15),
            ("-3", -3),
            ("0", 0),
            ("0b101", 5),
        ] {
            assert_eq!(number(text), Some(value), "{text}");
        }
        assert_eq!(number("0f3f800000"), None);
    }
}
