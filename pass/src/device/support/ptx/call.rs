//! An instruction as the families see it: mnemonic, modifiers, operands.
use super::parse::Operand;
use super::types::Type;

/// An instruction taken apart.
pub struct Call<'a> {
    /// `add`
    pub mnemonic: &'a str,
    /// `sat`, `s32`
    pub modifiers: &'a [&'a str],
    pub operands: &'a [Operand],
}

impl Call<'_> {
    /// Whether it has a modifier.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    /// The type it ends in.
    pub fn ty(&self) -> Option<Type> {
        self.modifiers.iter().rev().find_map(|text| Type::parse(text))
    }

    /// None if there is a modifier other than the known ones: an instruction must not ignore one.
    pub fn only(&self, known: &[&str]) -> Option<()> {
        self.modifiers
            .iter()
            .all(|text| known.contains(text) || Type::parse(text).is_some())
            .then_some(())
    }
}
