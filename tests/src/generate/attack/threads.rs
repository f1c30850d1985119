//! Threads: functions at once, and pointers that go from one thread to the next.

use super::program::{AttackProgram, LiveObject, Scope};
use super::text::put;

impl AttackProgram {
    /// Threads of one of these kinds.
    pub fn threads(&mut self, scope: &mut Scope) -> String {
        match self.draw.one_in(2) {
            true => self.handed_on(scope),
            false => self.at_once(),
        }
    }

    /// An object that is made in a thread, used in the next and freed in the third.
    fn handed_on(&mut self, scope: &mut Scope) -> String {
        let (object, k) = (self.draw.of(&scope.objects).clone(), self.constant());
        let handed = LiveObject {
            words: "handed".to_owned(),
            model: "handedm".to_owned(),
        };
        let inner = Scope {
            several: true,
            ..Scope::default()
        };
        let call = self.function(&handed, &inner).replace("answer,", "apart,");
        put(
            "{\nunsigned *handed = nullptr;\nModel handedm(n);\nAnswer apart;\nin_thread([&] {\n  CHECK(cudaMalloc(&handed, BYTES(n)));\n  \
             LAUNCH(sow, 2, 64, 0, handed, n, @k@u);\n  handedm.sow(@k@);\n});\nLAUNCH(blend, 2, 64, 0, handed, @object@, n);\nhandedm.blend(@objectm@);\n\
             in_thread([&] { @call@ });\nidle();\nin_thread([&] {\n  see(apart, handed, handedm, __LINE__);\n  CHECK(cudaFree(handed));\n});\nanswer.add(apart.value);\n}\n",
            &[
                ("k", &k),
                ("object", &object.words),
                ("objectm", &object.model),
                ("call", &call),
            ],
        )
    }

    /// Functions of their own in threads at once.
    fn at_once(&mut self) -> String {
        let threads = 2 + self.draw.below(2);
        let mut cases = String::new();
        for number in 0..threads {
            let own = LiveObject {
                words: "own.words".to_owned(),
                model: "model".to_owned(),
            };
            let inner = Scope {
                several: true,
                depth: 1,
                ..Scope::default()
            };
            let call = self.function(&own, &inner).replace("answer,", "answers[i],");
            cases += &format!("  case {number}:\n    {call}\n    break;\n");
        }
        put(
            "{\nAnswer answers[@threads@];\nin_threads(@threads@, [&](int i) {\n  Owner own(n);\n  Model model(n);\n  \
             CHECK(cudaMemset(own.words, i + 1, BYTES(n)));\n  model.set(i + 1);\n  switch (i) {\n@cases@  }\n});\n\
             for (Answer &one : answers)\n  answer.add(one.value);\n}\n",
            &[("threads", &threads), ("cases", &cases)],
        )
    }
}
