//! Workspaces that grow on demand, inside loops.

use super::program::{AttackProgram, Scope};
use super::text::put;

/// Makes `work` at least `want` words; it has `room` words.
const GROWS: [&str; 5] = [
    "if (want > room) {\n  CHECK(cudaFree(work));\n  CHECK(cudaMalloc(&work, BYTES(want)));\n  room = want;\n}\n",
    "if (want > room) {\n  if (work != nullptr)\n    CHECK(cudaFree(work));\n  room = want + want / 2;\n  CHECK(cudaMalloc(&work, BYTES(room)));\n}\n",
    // The old one is kept until the new one has its words.
    "if (want > room) {\n  unsigned *larger;\n  CHECK(cudaMalloc(&larger, BYTES(want)));\n  if (room > 0)\n    \
     CHECK(cudaMemcpy(larger, work, BYTES(room), cudaMemcpyDeviceToDevice));\n  CHECK(cudaFree(work));\n  work = larger;\n  room = want;\n}\n",
    "if (want > room) {\n  CHECK(cudaDeviceSynchronize());\n  unsigned *larger = nullptr;\n  CHECK(cudaMalloc(&larger, BYTES(want)));\n  \
     std::swap(work, larger);\n  CHECK(cudaFree(larger));\n  room = want;\n}\n",
    // Also given back where little is wanted.
    "if (want > room || want < room / 8) {\n  CHECK(cudaFree(work));\n  work = nullptr;\n  CHECK(cudaMalloc(&work, BYTES(want)));\n  room = want;\n}\n",
];

impl AttackProgram {
    /// A workspace in local variables, or in a structure with a method, used beside older objects.
    pub fn growing(&mut self, scope: &mut Scope) -> String {
        let grow = *self.draw.of(&GROWS);
        let object = self.draw.of(&scope.objects).clone();
        let (times, k) = (3 + self.draw.below(5), self.constant());
        let want = *self.draw.of(&[
            "n / 2 + size_t(i) * (n / 3)",
            "i == 0 ? 2 * n : n / size_t(i + 1)",
            "n / 4 + n * size_t(i * 7 % 5) / 4",
            "n + (answer.value % 3) * n / 2",
            "(size_t(1) << i) * (n / 16 + 1)",
        ]);
        let used = "LAUNCH(sow, 3, 64, 0, work, want, unsigned(i) + @k@u);\nModel model(want);\nmodel.sow(unsigned(i) + @k@u);\n@step@\
                    if (want >= n) {\n  LAUNCH(blend, 2, 64, 0, @object@, work, n);\n  @objectm@.blend(model);\n}\nSEE(work, model);\n";
        let used = put(
            used,
            &[
                ("k", &k),
                ("step", &self.step()),
                ("object", &object.words),
                ("objectm", &object.model),
            ],
        );
        if self.draw.one_in(2) {
            return put(
                "{\nunsigned *work = nullptr;\nsize_t room = 0;\nfor (int i = 0; i < @times@; i++) {\nsize_t want = @want@;\n@grow@@used@}\n\
                 CHECK(cudaFree(work));\n}\n",
                &[
                    ("times", &times),
                    ("want", &want),
                    ("grow", &grow),
                    ("used", &used),
                ],
            );
        }
        let class = self.name("Workspace");
        let method = *self.draw.of(&["", "NEVER_INLINE "]);
        self.functions += &put(
            "struct @class@ {\n  unsigned *work = nullptr;\n  size_t room = 0;\n  @method@unsigned *get(size_t want) {\n@grow@return work;\n}\n  \
             ~@class@() { cudaFree(work); }\n};\n\n",
            &[("class", &class), ("method", &method), ("grow", &grow)],
        );
        put(
            "{\n@class@ space;\nfor (int i = 0; i < @times@; i++) {\nsize_t want = @want@;\nunsigned *work = space.get(want);\n@used@}\n}\n",
            &[
                ("class", &class),
                ("times", &times),
                ("want", &want),
                ("used", &used),
            ],
        )
    }
}
