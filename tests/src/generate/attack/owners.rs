//! Owners that belong to threads.

use super::program::{AttackProgram, Scope};
use super::text::put;

impl AttackProgram {
    /// An owner of each thread, made when it is first wanted, that works in its destructor.
    pub fn owners(&mut self, _scope: &mut Scope) -> String {
        let s = self.name("");
        let (threads, k) = (2 + self.draw.below(3), self.constant());
        self.functions += &put(
            "struct Own@s@ {\n  unsigned *words = nullptr;\n  cudaStream_t stream = nullptr;\n  unsigned *get(size_t n) {\n    if (words == nullptr) {\n      \
             CHECK(cudaMalloc(&words, BYTES(n)));\n      CHECK(cudaStreamCreate(&stream));\n    }\n    return words;\n  }\n  ~Own@s@() {\n    \
             if (words != nullptr) {\n      LAUNCH(stir, 1, 32, stream, words, 100, 3u);\n      CHECK(cudaStreamSynchronize(stream));\n      \
             CHECK(cudaStreamDestroy(stream));\n      CHECK(cudaFree(words));\n    }\n  }\n};\nstatic thread_local Own@s@ own@s@;\n\
             static void work@s@(Answer &answer, size_t n, unsigned k) {\n  unsigned *words = own@s@.get(n);\n  Model model(n);\n  \
             LAUNCH(sow, 3, 64, own@s@.stream, words, n, k);\n  model.sow(k);\n  idle();\n  LAUNCH(stir, 3, 64, own@s@.stream, words, n, k);\n  model.stir(k);\n  \
             CHECK(cudaStreamSynchronize(own@s@.stream));\n  SEE(words, model);\n}\n\n",
            &[("s", &s)],
        );
        put(
            "{\nAnswer answers[@threads@];\nin_threads(@threads@, [&](int i) {\n  for (unsigned k = 0; k < 3; k++)\n    \
             work@s@(answers[i], n, unsigned(i) * 10 + k + @k@);\n});\nfor (Answer &one : answers)\n  answer.add(one.value);\n}\n",
            &[("threads", &threads), ("s", &s), ("k", &k)],
        )
    }
}
