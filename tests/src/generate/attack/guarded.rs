//! Allocations in branches that are not taken, whose sizes mean nothing there.

use super::program::{AttackProgram, Scope};
use super::text::put;

/// A condition that does not hold, what must be set before it, and the words that would be allocated. `@s@` is a name.
const GUARDS: [(&str, &str, &str); 10] = [
    (
        "bool dense@s@ = hidden(0) != 0;\nsize_t side@s@ = hidden(size_t(5000000));\n",
        "dense@s@",
        "side@s@ * side@s@",
    ),
    ("long extra@s@ = hidden(-1);\n", "extra@s@ > 0", "extra@s@"),
    ("int extra@s@ = hidden(-1);\n", "extra@s@ > 0", "extra@s@"),
    (
        "size_t least@s@ = hidden(n + 100);\n",
        "n > least@s@",
        "n - least@s@",
    ),
    (
        "struct { int mode; size_t words; } set@s@;\nmemset(&set@s@, 0xa5, sizeof set@s@);\nset@s@.mode = hidden(0);\n\
         if (set@s@.mode)\n  set@s@.words = 100;\n",
        "set@s@.mode",
        "set@s@.words",
    ),
    (
        "unsigned part@s@ = hidden(0u);\n",
        "part@s@ != 0",
        "size_t(part@s@ - 1)",
    ),
    (
        "size_t most@s@ = ~size_t(0) / 4;\nint level@s@ = hidden(2);\n",
        "level@s@ > 2",
        "most@s@",
    ),
    (
        "int shift@s@ = hidden(40);\n",
        "shift@s@ < 20",
        "size_t(1) << shift@s@",
    ),
    (
        "int64_t many@s@ = hidden(int64_t(-5));\n",
        "many@s@ >= 0 && n > 0",
        "n * many@s@",
    ),
    (
        "std::vector<size_t> sizes@s@(hidden(size_t(1)), size_t(1) << 50);\n",
        "sizes@s@.size() > 1",
        "sizes@s@[0]",
    ),
];

/// How the branch stands in the function.
const SHAPES: [&str; 5] = [
    "if (@guard@) {\n@inner@}\n",
    "switch (int(@guard@)) {\ncase 1: {\n@inner@break;\n}\ndefault:\n  answer.add(3);\n}\n",
    "for (int round = 0; round < 3 && (@guard@); round++) {\n@inner@}\n",
    "while (@guard@) {\n@inner@break;\n}\n",
    "do {\nif (!(@guard@))\n  break;\n@inner@} while (false);\n",
];

impl AttackProgram {
    /// A branch that is not taken, and one of the same form that is.
    pub fn guarded(&mut self, scope: &mut Scope) -> String {
        let (before, guard, words) = *self.draw.of(&GUARDS);
        let s = self.name("");
        let object = self.draw.of(&scope.objects).clone();
        let joined = *self.draw.of(&[
            "LAUNCH(blend, 2, 64, 0, @object@, huge, n);\n",
            "CHECK(cudaMemcpy(huge, @object@, 4, cudaMemcpyDeviceToDevice));\n",
            "LAUNCH(stir, 1, 32, 0, huge, 10, 3u);\n",
        ]);
        let values = |template: &str| put(template, &[("s", &s)]);
        let joined = put(joined, &[("object", &object.words)]);
        let inner = format!(
            "unsigned *huge;\nCHECK(cudaMalloc(&huge, BYTES({})));\n{joined}CHECK(cudaFree(huge));\n",
            values(words)
        );
        let shape = *self.draw.of(&SHAPES);
        let branch = put(shape, &[("guard", &values(guard)), ("inner", &inner)]);
        let early = self.launch(scope);
        let after = self.launch(scope);
        format!("{{\n{}{early}{branch}{after}}}\n", values(before))
    }
}
