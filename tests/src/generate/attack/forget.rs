//! Objects whose address only the device knows: a function makes one, leaves its address in a device variable
//! and returns; others use it, and the last reads the address back to free it.

use super::program::{AttackProgram, Scope};
use super::text::put;

impl AttackProgram {
    /// Made, used and freed by functions that share nothing on the host.
    pub fn forget(&mut self, _scope: &mut Scope) -> String {
        let hiding = self.hiding(true);
        let variable = hiding.variable.clone().expect("plain ways have a variable");
        let (first, last) = (self.name("first"), self.name("last"));
        let (linkage, k, step) = (self.linkage(), self.constant() % 200, self.step());
        let by_copy = self.draw.one_in(3);
        let kept = match by_copy {
            true => put(
                "CHECK(cudaMemcpyToSymbol(@v@, &own, sizeof own));\n",
                &[("v", &variable)],
            ),
            false => put("LAUNCH(@keep@, 1, 1, 0, own);\n", &[("keep", &hiding.keep)]),
        };
        self.functions += &put(
            "@linkage@ void @first@(Answer &answer, size_t n, Model &held) {\n  unsigned *own;\n  \
             CHECK(cudaMalloc(&own, BYTES(n)));\n  CHECK(cudaMemset(own, @k@, BYTES(n)));\n  held.set(@k@);\n  @kept@@step@}\n\n\
             @linkage@ void @last@(Answer &answer, size_t n, Model &held) {\n  unsigned *own;\n  \
             CHECK(cudaMemcpyFromSymbol(&own, @v@, sizeof own));\n@step@  SEE(own, held);\n  CHECK(cudaFree(own));\n}\n\n",
            &[
                ("linkage", &linkage),
                ("first", &first),
                ("last", &last),
                ("kept", &kept),
                ("step", &step),
                ("v", &variable),
                ("k", &k),
            ],
        );
        let (first, last) = (self.reached(&first), self.reached(&last));
        let mut users = String::new();
        for _ in 0..1 + self.draw.below(3) {
            let name = self.user(&hiding);
            let k = self.constant();
            users += &format!("{name}(answer, n, forgotten, {k}u);\n{step}");
        }
        let rounds = 1 + self.draw.below(3);
        put(
            "{\n  Model forgotten(n);\n  @first@(answer, n, forgotten);\nfor (int round = 0; round < @rounds@; round++) {\n@users@}\n  \
             @last@(answer, n, forgotten);\n}\n",
            &[
                ("first", &first),
                ("rounds", &rounds),
                ("users", &users),
                ("last", &last),
            ],
        )
    }
}
