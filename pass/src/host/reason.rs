//! Places in the source, and reasons that name them.
use mgb_catalogue::report::{Reason, ReasonCode, SourceLocation};

use crate::host::ir::Value;
use crate::host::ir::helpers;

/// Where an instruction stands in the source. The file is named where it is not the module's own.
pub fn place(instruction: Value) -> Option<SourceLocation> {
    let line = helpers::line(instruction)?;
    let file = helpers::file(instruction);
    Some(SourceLocation {
        line,
        file: Some(file).filter(|file| !file.is_empty()),
    })
}

/// Why something is lazy, and where.
#[derive(Clone)]
pub struct Why {
    /// The stable name.
    pub code: ReasonCode,
    /// A sentence for people.
    pub text: String,
    /// The instruction that shows it.
    pub at: Option<Value>,
}

impl Why {
    /// A reason shown by an instruction.
    pub fn new(code: ReasonCode, text: impl Into<String>, at: Value) -> Self {
        Self {
            code,
            text: text.into(),
            at: Some(at).filter(|value| value.is_instruction()),
        }
    }

    /// As the report has it.
    pub fn reason(&self) -> Reason {
        Reason {
            code: self.code,
            text: self.text.clone(),
            at: self.at.and_then(place),
        }
    }
}
