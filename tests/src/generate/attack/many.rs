//! More objects than a need has room for by name.

use super::program::{AttackProgram, Scope};
use super::text::put;

impl AttackProgram {
    /// Many temporaries of one function, or hundreds of small objects.
    pub fn many(&mut self, scope: &mut Scope) -> String {
        let object = self.draw.of(&scope.objects).clone();
        let step = self.step();
        let text = match self.draw.below(4) {
            0 | 1 => return self.temporaries(),
            2 => {
                "{\nunsigned *small[@count@];\nModel sum(64), one(64);\nfor (int i = 0; i < @count@; i++)\n  CHECK(cudaMalloc(&small[i], 256));\n\
                 for (int i = 0; i < @count@; i++)\n  LAUNCH(sow, 1, 64, 0, small[i], 64, unsigned(i));\n@step@sum.sow(0);\n\
                 for (int i = 1; i < @count@; i++) {\n  LAUNCH(blend, 1, 64, 0, small[0], small[i], 64);\n  one.sow(unsigned(i));\n  sum.blend(one);\n}\n\
                 SEE(small[0], sum);\nfor (int i = 0; i < @count@; i++)\n  CHECK(cudaFree(small[i]));\n}\n"
            }
            _ => {
                "{\nstd::vector<unsigned *> small;\nModel one(70);\nfor (int i = 0; i < @count@ / 4; i++) {\n  unsigned *words;\n  \
                 CHECK(cudaMalloc(&words, BYTES(70)));\n  LAUNCH(sow, 1, 32, 0, words, 70, unsigned(i));\n  small.push_back(words);\n}\n@step@\
                 for (size_t i = 0; i < small.size(); i++) {\n  one.sow(unsigned(i));\n  SEE(small[i], one);\n  if (i % 2 == 0)\n    \
                 CHECK(cudaFree(small[i]));\n}\nLAUNCH(stir, 2, 64, 0, @object@, n, 7u);\n@objectm@.stir(7);\n\
                 for (size_t i = 1; i < small.size(); i += 2)\n  CHECK(cudaFree(small[i]));\n}\n"
            }
        };
        let count = 80 + self.draw.below(200);
        let values: &[(&str, &dyn std::fmt::Display)] = &[
            ("count", &count),
            ("step", &step),
            ("object", &object.words),
            ("objectm", &object.model),
        ];
        put(text, values)
    }

    /// A function with 25 to 40 objects under names of their own.
    fn temporaries(&mut self) -> String {
        let (name, count, k) = (self.name("many"), 25 + self.draw.below(16), self.constant());
        let kept = self.draw.one_in(2);
        let (mut body, mut end) = (String::new(), String::new());
        for at in 0..count {
            body += &put(
                "unsigned *t@at@;\nCHECK(cudaMalloc(&t@at@, BYTES(n / 8 + @at@)));\nLAUNCH(sow, 1, 64, 0, t@at@, n / 8, @k@u);\n",
                &[("at", &at), ("k", &(k + at))],
            );
            if at > 0 {
                body += &format!("LAUNCH(blend, 1, 64, 0, t{at}, t{}, n / 8);\n", at - 1);
            }
            // Freed one behind, or all at the end.
            match kept {
                true => end += &format!("CHECK(cudaFree(t{at}));\n"),
                false if at > 0 => body += &format!("CHECK(cudaFree(t{}));\n", at - 1),
                false => {}
            }
            if at % 12 == 5 {
                body += self.step();
            }
        }
        let last = count - 1;
        if !kept {
            end = format!("CHECK(cudaFree(t{last}));\n");
        }
        let linkage = self.linkage();
        self.functions += &put(
            "@linkage@ void @name@(Answer &answer, size_t n) {\n@body@Model last(n / 8), one(n / 8);\nlast.sow(@k@);\n\
             for (unsigned i = 1; i < @count@; i++) {\n  one.sow(@k@ + i);\n  one.blend(last);\n  std::swap(one, last);\n}\nSEE(t@last@, last);\n@end@}\n\n",
            &[
                ("linkage", &linkage),
                ("name", &name),
                ("body", &body),
                ("k", &k),
                ("count", &count),
                ("last", &last),
                ("end", &end),
            ],
        );
        format!("{name}(answer, n);\n")
    }
}
