//! The structure of PTX: variables, functions, and their instructions.
//!
//! Only what the flow of addresses needs is read. Registers that a function declares need no scope: where two
//! have one name, they are taken for one, which shows more than there is. Parameters of calls have scopes,
//! since every call names its own the same.

use std::collections::HashMap;

use super::text::{Token, tokens};
use super::words::{bytes_of_type, declared, name_of, number_in, split, structure};

pub use super::module::{Instruction, Operand, PtxFunction, PtxModule, PtxVariable};

/// Reads a module; none where something is not as expected.
pub fn read(text: &str) -> Option<PtxModule<'_>> {
    let mut reader = PtxReader {
        tokens: tokens(text)?,
        at: 0,
    };
    let mut module = PtxModule::default();
    while reader.peek().is_some() {
        reader.declaration(&mut module)?;
    }
    (!module.target.is_empty()).then_some(module)
}

struct PtxReader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> PtxReader<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<Token<'a>> {
        self.at += 1;
        self.tokens.get(self.at - 1).copied()
    }

    fn next_if(&mut self, token: Token) -> bool {
        let is_next = self.peek() == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    /// The tokens up to a sign outside of brackets of all kinds, and behind it.
    fn until(&mut self, end: char) -> Option<&[Token<'a>]> {
        let start = self.at;
        let mut depth = 0_u32;
        loop {
            match self.next()? {
                Token::Sign(sign) if sign == end && depth == 0 => {
                    return self.tokens.get(start..self.at - 1);
                }
                Token::Sign('(' | '[' | '{') => depth += 1,
                Token::Sign(')' | ']' | '}') => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
    }

    fn declaration(&mut self, module: &mut PtxModule<'a>) -> Option<()> {
        let mut words = Vec::new();
        loop {
            let Token::Dot(word) = self.next()? else {
                return None;
            };
            match word {
                "target" => {
                    let Token::Name(target) = self.next()? else {
                        return None;
                    };
                    module.target = target;
                    while self.next_if(Token::Sign(',')) {
                        self.next()?;
                    }
                    return Some(());
                }
                "pragma" => return self.until(';').map(drop),
                "section" => {
                    while self.next()? != Token::Sign('{') {}
                    return self.until('}').map(drop);
                }
                "alias" => return self.alias(module),
                "func" | "entry" => return self.function(module, word == "entry"),
                "global" | "const" => return self.variables(module, &words),
                // Every block or thread has its own.
                "shared" | "local" => {
                    let is_extern = words.contains(&"extern");
                    let names = split(self.until(';')?).filter_map(|part| part.iter().find_map(name_of));
                    module.memories.extend(names.map(|name| (name, is_extern)));
                    return Some(());
                }
                "extern" | "visible" | "weak" | "common" => words.push(word),
                _ => return None,
            }
        }
    }

    /// Another name of a function: one that calls it.
    fn alias(&mut self, module: &mut PtxModule<'a>) -> Option<()> {
        let &[Token::Name(alias), Token::Sign(','), Token::Name(of)] = self.until(';')? else {
            return None;
        };
        let at = module.functions.iter().position(|one| one.name == of)?;
        let list = |names: &[String]| Operand {
            names: names.to_vec(),
            is_list: true,
            ..Operand::default()
        };
        let (parameters, results) = (&module.functions[at].parameters, &module.functions[at].results);
        let target = Operand {
            names: vec![of.to_owned()],
            ..Operand::default()
        };
        let call = Instruction {
            opcode: vec!["call"],
            operands: vec![list(results), target, list(parameters)],
        };
        let function = PtxFunction {
            name: alias,
            is_defined: true,
            parameters: parameters.clone(),
            results: results.clone(),
            places: parameters.iter().chain(results).cloned().collect(),
            passes_registers: module.functions[at].passes_registers,
            instructions: vec![call],
            ..PtxFunction::default()
        };
        add(&mut module.functions, function);
        Some(())
    }

    fn variables(&mut self, module: &mut PtxModule<'a>, words: &[&str]) -> Option<()> {
        let tokens = self.until(';')?;
        let types = tokens.iter().filter_map(|token| match token {
            Token::Dot(word) => Some(*word),
            _ => None,
        });
        let size = types
            .map(bytes_of_type)
            .try_fold(1, |all, one| Some(all * one?))?;
        for part in split(tokens) {
            let declared = part.split(|&token| token == Token::Sign('=')).next()?;
            let name = declared.iter().find_map(name_of)?;
            let mut counts = declared.windows(3).filter_map(|three| match three {
                [Token::Sign('['), Token::Number(count), Token::Sign(']')] => Some(count.parse::<u64>()),
                _ => None,
            });
            let bytes = counts.try_fold(size, |all, count| {
                count.ok().map(|count| all.saturating_mul(count))
            })?;
            let names = part[declared.len()..].iter().filter_map(name_of);
            module.variables.push(PtxVariable {
                name,
                is_extern: words.contains(&"extern"),
                is_visible: !words.is_empty(),
                mentions: names.collect(),
                bytes,
            });
        }
        Some(())
    }

    fn function(&mut self, module: &mut PtxModule<'a>, is_kernel: bool) -> Option<()> {
        let mut function = PtxFunction {
            is_kernel,
            ..PtxFunction::default()
        };
        let is_register = |tokens: &[Token]| tokens.contains(&Token::Dot("reg"));
        if self.next_if(Token::Sign('(')) {
            let tokens = self.until(')')?;
            function.results = declared(tokens);
            function.passes_registers |= is_register(tokens);
        }
        let Token::Name(name) = self.next()? else {
            return None;
        };
        function.name = name;
        if self.next_if(Token::Sign('(')) {
            let tokens = self.until(')')?;
            function.parameters = declared(tokens);
            function.passes_registers |= is_register(tokens);
            function.structures = split(tokens).filter_map(structure).collect();
        }
        function.places = function
            .parameters
            .iter()
            .chain(&function.results)
            .cloned()
            .collect();
        // How it is to be compiled, up to its body.
        loop {
            match self.next()? {
                Token::Sign(';') => break,
                Token::Sign('{') => {
                    function.is_defined = true;
                    FunctionBody::new(&mut function).read(self)?;
                    break;
                }
                Token::Dot(_) | Token::Number(_) | Token::Sign(',' | '(' | ')') => {}
                _ => return None,
            }
        }
        add(&mut module.functions, function);
        Some(())
    }
}

/// Adds a function, or its body to its declaration.
fn add<'a>(functions: &mut Vec<PtxFunction<'a>>, function: PtxFunction<'a>) {
    match functions.iter_mut().find(|one| one.name == function.name) {
        Some(known) if known.is_defined => {}
        Some(known) => *known = function,
        None => functions.push(function),
    }
}

/// The body of a function while it is read.
struct FunctionBody<'f, 'a> {
    function: &'f mut PtxFunction<'a>,
    /// The blocks that are open, with their parameters' names, and how many there have been.
    scopes: Vec<HashMap<&'a str, String>>,
    blocks: usize,
}

impl<'f, 'a> FunctionBody<'f, 'a> {
    fn new(function: &'f mut PtxFunction<'a>) -> Self {
        Self {
            function,
            scopes: Vec::new(),
            blocks: 0,
        }
    }

    /// Reads behind the body's brace.
    fn read(&mut self, reader: &mut PtxReader<'a>) -> Option<()> {
        self.scopes.push(HashMap::new());
        while !self.scopes.is_empty() {
            match reader.peek()? {
                Token::Sign('{') => {
                    reader.next();
                    self.blocks += 1;
                    self.scopes.push(HashMap::new());
                }
                Token::Sign('}') => {
                    reader.next();
                    self.scopes.pop();
                }
                Token::Sign(';') => drop(reader.next()),
                Token::Dot(word) => {
                    const KNOWN: [&str; 8] = [
                        "reg",
                        "param",
                        "local",
                        "shared",
                        "pragma",
                        "callprototype",
                        "calltargets",
                        "branchtargets",
                    ];
                    KNOWN.contains(&word).then_some(())?;
                    let tokens = reader.until(';')?;
                    if matches!(word, "local" | "shared") {
                        let names = split(tokens).filter_map(|part| part.iter().find_map(name_of));
                        self.function.memories.extend(names);
                    }
                    if word == "param" {
                        for name in tokens.iter().filter_map(name_of) {
                            let scoped = format!("{name} {}", self.blocks);
                            self.function.places.insert(scoped.clone());
                            self.scopes.last_mut()?.insert(name, scoped);
                        }
                    }
                }
                Token::Name(_) if reader.tokens.get(reader.at + 1) == Some(&Token::Sign(':')) => {
                    reader.at += 2;
                }
                _ => {
                    let instruction = self.instruction(reader.until(';')?)?;
                    self.function.instructions.push(instruction);
                }
            }
        }
        Some(())
    }

    fn instruction(&self, mut tokens: &[Token<'a>]) -> Option<Instruction<'a>> {
        if let [Token::Sign('@'), rest @ ..] = tokens {
            let negated = usize::from(rest.first() == Some(&Token::Sign('!')));
            tokens = rest.get(negated + 1..)?;
        }
        let [Token::Name(first), rest @ ..] = tokens else {
            return None;
        };
        let mut opcode = vec![*first];
        let mut rest = rest;
        while let [Token::Dot(part), behind @ ..] = rest {
            opcode.push(part);
            rest = behind;
        }
        let operands = split(rest).map(|part| self.operand(part));
        Some(Instruction {
            operands: operands.collect::<Option<_>>()?,
            opcode,
        })
    }

    fn operand(&self, part: &[Token]) -> Option<Operand> {
        let mut operand = Operand {
            is_address: part.contains(&Token::Sign('[')),
            number: number_in(part),
            ..Operand::default()
        };
        let [Token::Sign('('), inner @ .., Token::Sign(')')] = part else {
            operand.names = part
                .iter()
                .filter_map(name_of)
                .map(|name| self.scoped(name))
                .collect();
            return Some(operand);
        };
        operand.is_list = true;
        for part in split(inner) {
            let mut names = part.iter().filter_map(name_of);
            operand
                .names
                .push(names.next().map_or(String::new(), |name| self.scoped(name)));
            names.next().is_none().then_some(())?;
        }
        Some(operand)
    }

    fn scoped(&self, name: &str) -> String {
        let mut scopes = self.scopes.iter().rev();
        let found = scopes.find_map(|scope| scope.get(name));
        found.cloned().unwrap_or_else(|| name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.version 9.0
.target sm_90a, debug
.address_size 64
.extern .func (.param .b32 func_retval0) vprintf ( .param .b64 a, .param .b64 b ) ;
.func helper (.param .b64 h_0) ;
.visible .const .align 4 .b8 scale[16];
.global .align 8 .u64 table[2] = {0, generic(helper)+8}, other = 5;
.extern .shared .align 16 .b8 dyn[];
.func helper (.param .b64 h_0) .noreturn
{ .reg .b64 %rd<3>; ld.param.u64 %rd1, [h_0+0]; ret; }
.alias again, helper;
.entry kernel(.param .u64 .ptr .global .align 4 k_0, .param .align 8 .b8 k_1[16]) .maxntid 256, 1, 1
{
  .loc 1 2 3
$L__BB0_1:
  @!%p1 bra $L__BB0_1;
  { .param .b64 p0; st.param.v2.b64 [p0+8], {%rd1, scale};
  call.uni helper, (p0); }
  { .param .b64 p0; prototype_1 : .callprototype (.param .b32 _) _ (.param .b64 _);
  call (r), %rd3, (5, p0), prototype_1; }
  ret;
}
.section .debug_str { .b8 1,2 }
";

    #[test]
    fn a_module() {
        let module = read(TEXT).unwrap();
        assert_eq!(module.target, "sm_90a");
        let variables: Vec<_> = module
            .variables
            .iter()
            .map(|one| (one.name, one.bytes, one.is_visible, one.mentions.as_slice()))
            .collect();
        assert_eq!(variables[0], ("scale", 16, true, &[][..]));
        assert_eq!(variables[1], ("table", 16, false, &["generic", "helper"][..]));
        assert_eq!(variables[2], ("other", 8, false, &[][..]));
        let [vprintf, helper, again, kernel] = module.functions.as_slice() else {
            panic!("{:?}", module.functions);
        };
        assert!(!vprintf.is_defined && helper.is_defined && again.is_defined && kernel.is_kernel);
        assert_eq!(kernel.parameters, ["k_0", "k_1"]);
        assert_eq!(again.instructions[0].operands[1].names, ["helper"]);
        let [bra, store, first, second, ret] = kernel.instructions.as_slice() else {
            panic!("{:?}", kernel.instructions);
        };
        assert_eq!((bra.opcode[0], ret.opcode[0]), ("bra", "ret"));
        assert_eq!(store.operands[0].names, ["p0 1"]);
        assert_eq!(store.operands[1].names, ["%rd1", "scale"]);
        assert_eq!(first.operands[1].names, ["p0 1"]);
        assert_eq!(second.operands[2].names, ["", "p0 2"]);
    }

    #[test]
    fn what_is_not_as_expected_is_not_read() {
        for text in [
            "",
            "nonsense",
            ".target sm_90\n.entry k() {",
            ".target sm_90\n.tex .u64 x;",
        ] {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
