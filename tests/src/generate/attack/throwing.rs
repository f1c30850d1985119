//! Exceptions between any two operations.

use super::program::AttackProgram;
use super::text::put;

impl AttackProgram {
    /// Plays `body` whole, and several times with an exception after some of its steps.
    pub fn attempts(&mut self, body: &str) -> String {
        let (first, by) = (1 + self.draw.below(3), 2 + self.draw.below(5));
        put(
            "for (int burns = @first@; burns < 24; burns += @by@) {\n  answer.fuse = burns;\n  try {\n@body@  } catch (const Thrown &) {\n    \
             answer.add(unsigned(burns));\n  }\n  answer.fuse = 0;\n}\n",
            &[("first", &first), ("by", &by), ("body", &body)],
        )
    }
}
