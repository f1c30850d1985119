//! PTX loads and stores in inline assembly: `ld.global.cg.v2.f32 {$0,$1}, [$2]` and the like, whatever
//! caching they ask for.
use super::{Body, Foreign};

/// A load or store taken apart.
struct Access<'a> {
    foreign: &'a Foreign<'a>,
    /// The operands that are not the address.
    values: Vec<&'a str>,
    /// Bytes of one element.
    bytes: u64,
    /// Whether a narrow element is widened with its sign.
    signed: bool,
}

/// The body of a load or store.
pub fn body(name: &str, operands: &[&str], foreign: &Foreign) -> Option<Body> {
    let parts: Vec<&str> = name.split('.').collect();
    // Addresses of these spaces are not generic ones in PTX.
    let special = |part: &&str| part.starts_with("shared") || matches!(*part, "param" | "local" | "const");
    if parts.iter().any(special) {
        return None;
    }
    let memory_type = parts.last()?;
    let bits = memory_type
        .trim_start_matches(char::is_alphabetic)
        .parse::<u64>()
        .ok()?;
    let place = operands.iter().find(|text| text.starts_with('['))?;
    let outputs = match foreign.returns.as_str() {
        "void" => 0,
        _ => foreign.result_types().len(),
    };
    let number = place.trim_matches(['[', ']']).strip_prefix('$')?;
    let at = number.parse::<usize>().ok()?.checked_sub(outputs)?;
    let address = match foreign.takes.get(at)?.as_str() {
        "i64" => format!("%p = inttoptr i64 %a{at} to ptr\n"),
        "ptr" => format!("%p = getelementptr i8, ptr %a{at}, i64 0\n"),
        _ => return None,
    };
    let access = Access {
        foreign,
        values: operands
            .iter()
            .filter(|text| !text.starts_with('['))
            .map(|text| text.trim_matches(['{', '}', ' ']))
            .collect(),
        bytes: bits / 8,
        signed: memory_type.starts_with('s'),
    };
    let text = match *parts.first()? {
        "ld" => access.load()?,
        "st" => access.store()?,
        _ => return None,
    };
    Body::inline(address + &text)
}

impl Access<'_> {
    /// The integer type in memory, where a register type is wider: PTX has no 8-bit registers.
    fn narrow(&self, ty: &str) -> Option<String> {
        let bits: u64 = ty.strip_prefix('i')?.parse().ok()?;
        (bits > 8 * self.bytes).then(|| format!("i{}", 8 * self.bytes))
    }

    /// The address of an element.
    fn element(&self, index: usize) -> String {
        let offset = index as u64 * self.bytes;
        format!("%p{index} = getelementptr i8, ptr %p, i64 {offset}\n")
    }

    fn load(&self) -> Option<String> {
        let (returns, types) = (&self.foreign.returns, self.foreign.result_types());
        if types.len() != self.values.len() {
            return None;
        }
        let extend = if self.signed { "sext" } else { "zext" };
        let mut text = String::new();
        for (index, ty) in types.iter().enumerate() {
            text += &self.element(index);
            text += &match self.narrow(ty) {
                Some(narrow) => format!(
                    "%n{index} = load volatile {narrow}, ptr %p{index}, align 1\n
                     %v{index} = {extend} {narrow} %n{index} to {ty}\n"
                ),
                None => format!("%v{index} = load volatile {ty}, ptr %p{index}, align 1\n"),
            };
        }
        if types.len() == 1 {
            return Some(format!("{text} ret {returns} %v0"));
        }
        let mut whole = "poison".to_owned();
        for (index, ty) in types.iter().enumerate() {
            text += &format!("%r{index} = insertvalue {returns} {whole}, {ty} %v{index}, {index}\n");
            whole = format!("%r{index}");
        }
        Some(format!("{text} ret {returns} {whole}"))
    }

    fn store(&self) -> Option<String> {
        if self.foreign.returns != "void" {
            return None;
        }
        let mut text = String::new();
        for (index, operand) in self.values.iter().enumerate() {
            let number = operand.strip_prefix('$')?.parse::<usize>().ok()?;
            let ty = self.foreign.takes.get(number)?;
            text += &self.element(index);
            text += &match self.narrow(ty) {
                Some(narrow) => format!(
                    "%v{index} = trunc {ty} %a{number} to {narrow}\n
                     store volatile {narrow} %v{index}, ptr %p{index}, align 1\n"
                ),
                None => format!("store volatile {ty} %a{number}, ptr %p{index}, align 1\n"),
            };
        }
        Some(format!("{text} ret void"))
    }
}
