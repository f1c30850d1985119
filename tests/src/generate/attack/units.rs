//! A second source: pointers are made in one and used in the other.

use super::features::Feature;
use super::program::{AttackProgram, Scope};
use super::text::put;

/// A function of the second source, how it is declared, and how it is used; `@s@` is a name.
const UNITS: [(&str, &str, &str); 7] = [
    // It keeps a cache.
    (
        "static unsigned *cache@s@;\nstatic Model cachem@s@;\nunsigned *cached@s@(size_t n, Model **model) {\n  if (cache@s@ == nullptr) {\n    \
         CHECK(cudaMalloc(&cache@s@, BYTES(n)));\n    CHECK(cudaMemset(cache@s@, @k@, BYTES(n)));\n    cachem@s@ = Model(n);\n    \
         cachem@s@.set(@k@);\n  }\n  *model = &cachem@s@;\n  return cache@s@;\n}\n",
        "unsigned *cached@s@(size_t n, Model **model);\n",
        "Model *kept;\nfor (int i = 0; i < 2; i++) {\n  unsigned *cache = cached@s@(n, &kept);\n  LAUNCH(blend, 3, 64, 0, cache, @object@, n);\n  \
         kept->blend(@objectm@);\n  idle();\n  SEE(cached@s@(n, &kept), *kept);\n}\n",
    ),
    // It works on what it gets.
    (
        "void work@s@(Answer &answer, size_t n, unsigned *a, Model &am) {\n  unsigned *own;\n  Model ownm(n);\n  CHECK(cudaMalloc(&own, BYTES(n)));\n  \
         CHECK(cudaMemset(own, @k@, BYTES(n)));\n  ownm.set(@k@);\n  LAUNCH(blend, 3, 64, 0, own, a, n);\n  ownm.blend(am);\n  idle();\n  \
         LAUNCH(blend, 3, 64, 0, a, own, n);\n  am.blend(ownm);\n  CHECK(cudaFree(own));\n}\n",
        "void work@s@(Answer &answer, size_t n, unsigned *a, Model &am);\n",
        "work@s@(answer, n, @object@, @objectm@);\n",
    ),
    // It makes what others free.
    (
        "unsigned *made@s@(size_t n, Model &m) {\n  unsigned *own;\n  CHECK(cudaMalloc(&own, BYTES(n)));\n  LAUNCH(sow, 2, 64, 0, own, n, @k@u);\n  \
         m.sow(@k@);\n  return own;\n}\n",
        "unsigned *made@s@(size_t n, Model &m);\n",
        "Model am(n), bm(n);\nunsigned *a = made@s@(n, am), *b = made@s@(n, bm);\nLAUNCH(blend, 3, 64, 0, a, b, n);\nam.blend(bm);\n\
         CHECK(cudaFree(b));\nidle();\nLAUNCH(blend, 3, 64, 0, @object@, a, n);\n@objectm@.blend(am);\nSEE(a, am);\nCHECK(cudaFree(a));\n",
    ),
    // It frees what others made.
    (
        "void ends@s@(Answer &answer, unsigned *a, Model &am) {\n  SEE(a, am);\n  CHECK(cudaFree(a));\n}\n",
        "void ends@s@(Answer &answer, unsigned *a, Model &am);\n",
        "unsigned *a;\nModel am(n);\nCHECK(cudaMalloc(&a, BYTES(n)));\nLAUNCH(sow, 2, 64, 0, a, n, @k@u);\nam.sow(@k@);\nidle();\n\
         LAUNCH(blend, 3, 64, 0, a, @object@, n);\nam.blend(@objectm@);\nends@s@(answer, a, am);\n",
    ),
    // It calls back.
    (
        "void through@s@(Answer &answer, size_t n, void (*f)(Answer &, size_t, unsigned *, Model &)) {\n  unsigned *own;\n  Model ownm(n);\n  \
         CHECK(cudaMalloc(&own, BYTES(n)));\n  CHECK(cudaMemset(own, @k@, BYTES(n)));\n  ownm.set(@k@);\n  f(answer, n, own, ownm);\n  idle();\n  \
         f(answer, n, own, ownm);\n  SEE(own, ownm);\n  CHECK(cudaFree(own));\n}\n",
        "void through@s@(Answer &answer, size_t n, void (*f)(Answer &, size_t, unsigned *, Model &));\n\
         static void back@s@(Answer &answer, size_t n, unsigned *a, Model &am) {\n  LAUNCH(stir, 2, 64, 0, a, n, @k@u);\n  am.stir(@k@);\n}\n",
        "through@s@(answer, n, back@s@);\n",
    ),
    // It has a pointer that others set.
    (
        "unsigned *shared@s@;\nvoid uses@s@(size_t n) { LAUNCH(stir, 2, 64, 0, shared@s@, n, @k@u); }\n",
        "extern unsigned *shared@s@;\nvoid uses@s@(size_t n);\n",
        "unsigned *a;\nModel am(n);\nCHECK(cudaMalloc(&a, BYTES(n)));\nCHECK(cudaMemset(a, 5, BYTES(n)));\nam.set(5);\nshared@s@ = a;\nuses@s@(n);\nam.stir(@k@);\n\
         idle();\nLAUNCH(blend, 2, 64, 0, a, @object@, n);\nam.blend(@objectm@);\nuses@s@(n);\nam.stir(@k@);\nSEE(a, am);\nCHECK(cudaFree(a));\n",
    ),
    // Its kernels keep an address.
    (
        "__device__ unsigned *held@s@;\n__global__ void keeps@s@(unsigned *w) { held@s@ = w; }\n\
         __global__ void stirs@s@(size_t n) { EACH(i, n) held@s@[i] = held@s@[i] * 2654435761u + @k@u; }\n\
         void keep@s@(unsigned *w) { LAUNCH(keeps@s@, 1, 1, 0, w); }\nvoid stir@s@(size_t n) { LAUNCH(stirs@s@, 2, 64, 0, n); }\n",
        "void keep@s@(unsigned *w);\nvoid stir@s@(size_t n);\n",
        "keep@s@(@object@);\nidle();\nstir@s@(n);\n@objectm@.stir(@k@);\nLAUNCH(stir, 2, 64, 0, @object@, n, 3u);\n@objectm@.stir(3);\nidle();\n\
         stir@s@(n);\n@objectm@.stir(@k@);\n",
    ),
];

impl AttackProgram {
    /// A use of a function of the second source.
    pub fn units(&mut self, scope: &mut Scope) -> String {
        let count = UNITS.len() - usize::from(!self.has(Feature::Publish));
        let (other, declared, used) = UNITS[self.draw.below(count)];
        let s = self.name("");
        let k = 1 + self.draw.below(200);
        let object = self.draw.of(&scope.objects).clone();
        self.other += &put(other, &[("s", &s), ("k", &k)]);
        self.declared += &put(declared, &[("s", &s), ("k", &k)]);
        let used = put(
            used,
            &[
                ("s", &s),
                ("k", &k),
                ("object", &object.words),
                ("objectm", &object.model),
            ],
        );
        format!("{{\n{used}}}\n")
    }
}
