//! Loops that keep what they allocate: a history, buffers of the first iteration, pointers that change
//! places, frees under a condition.

use super::program::{AttackProgram, Scope};
use super::text::put;

/// Loops over `i` from 0 on; each leaves nothing behind.
const LOOPS: [&str; 9] = [
    // A history, all of it kept, left by what was seen.
    "unsigned *history[12];\nModel past(n), next(n);\nint used = 0;\nfor (int i = 0; i < 12; i++) {\n  CHECK(cudaMalloc(&history[i], BYTES(n)));\n  \
     used = i + 1;\n  next.sow(@k@);\n  LAUNCH(sow, 3, 64, 0, history[i], n, @k@u);\n  if (i > 0) {\n    \
     LAUNCH(blend, 3, 64, 0, history[i], history[i - 1], n);\n    next.blend(past);\n  }\n@step@  SEE(history[i], next);\n  std::swap(past, next);\n  \
     if (i > @least@ && answer.value % 4 == 0)\n    break;\n}\nLAUNCH(blend, 2, 64, 0, @object@, history[used - 1], n);\n@objectm@.blend(past);\n\
     for (int i = 0; i < used; i++)\n  CHECK(cudaFree(history[i]));\n",
    // Two buffers of the first iteration that change places.
    "unsigned *a = nullptr, *b = nullptr;\nModel am(n), bm(n);\nfor (int i = 0; i < @times@; i++) {\n  if (i == 0) {\n    \
     CHECK(cudaMalloc(&a, BYTES(n)));\n    CHECK(cudaMalloc(&b, BYTES(n)));\n    CHECK(cudaMemset(a, @k@ % 200, BYTES(n)));\n    \
     CHECK(cudaMemset(b, 0, BYTES(n)));\n    am.set(@k@ % 200);\n    bm.set(0);\n  }\n  LAUNCH(blend, 3, 64, 0, b, a, n);\n  bm.blend(am);\n  \
     std::swap(a, b);\n  std::swap(am, bm);\n@step@  SEE(a, am);\n}\nCHECK(cudaFree(a));\nCHECK(cudaFree(b));\n",
    // Freed under a condition, and made again where it is missing.
    "unsigned *a = nullptr;\nModel am(n);\nfor (int i = 0; i < @times@; i++) {\n  if (a == nullptr) {\n    CHECK(cudaMalloc(&a, BYTES(n)));\n    \
     CHECK(cudaMemset(a, i + 1, BYTES(n)));\n    am.set(i + 1);\n  }\n  LAUNCH(blend, 3, 64, 0, @object@, a, n);\n  @objectm@.blend(am);\n@step@  \
     LAUNCH(stir, 2, 32, 0, a, n, @k@u);\n  am.stir(@k@u);\n  SEE(a, am);\n  if (answer.value % 3 == 0) {\n    CHECK(cudaFree(a));\n    \
     a = nullptr;\n  }\n}\nCHECK(cudaFree(a));\n",
    // What an iteration makes, the next one frees.
    "unsigned *last = nullptr;\nModel lastm(n);\nfor (int i = 0; i < @times@; i++) {\n  unsigned *a;\n  Model am(n);\n  CHECK(cudaMalloc(&a, BYTES(n)));\n  \
     LAUNCH(sow, 3, 64, 0, a, n, @k@u + i);\n  am.sow(@k@u + i);\n  if (last != nullptr) {\n    LAUNCH(blend, 3, 64, 0, a, last, n);\n    \
     am.blend(lastm);\n    CHECK(cudaFree(last));\n  }\n@step@  SEE(a, am);\n  last = a;\n  lastm = am;\n}\nCHECK(cudaFree(last));\n",
    // A ring of three.
    "unsigned *ring[3] = {};\nModel models[3];\nfor (int i = 0; i < @times@ + 3; i++) {\n  if (ring[i % 3] != nullptr)\n    CHECK(cudaFree(ring[i % 3]));\n  \
     CHECK(cudaMalloc(&ring[i % 3], BYTES(n)));\n  models[i % 3] = Model(n);\n  CHECK(cudaMemset(ring[i % 3], i, BYTES(n)));\n  models[i % 3].set(i);\n  \
     if (i > 1) {\n    LAUNCH(blend, 3, 64, 0, ring[i % 3], ring[(i + 1) % 3], n);\n    models[i % 3].blend(models[(i + 1) % 3]);\n  }\n@step@  \
     SEE(ring[i % 3], models[i % 3]);\n  if (i == 1)\n    continue;\n  LAUNCH(stir, 1, 32, 0, ring[i % 3], n, @k@u);\n  models[i % 3].stir(@k@u);\n}\n\
     for (unsigned *one : ring)\n  CHECK(cudaFree(one));\n",
    // Freed in each way out of an iteration.
    "for (int i = 0; i < @times@; i++) {\n  unsigned *a;\n  Model am(n);\n  CHECK(cudaMalloc(&a, BYTES(n)));\n  CHECK(cudaMemset(a, i, BYTES(n)));\n  \
     am.set(i);\n  LAUNCH(blend, 3, 64, 0, a, @object@, n);\n  am.blend(@objectm@);\n  SEE(a, am);\n  if (answer.value % 3 == 1) {\n    \
     CHECK(cudaFree(a));\n    continue;\n  }\n@step@  LAUNCH(blend, 3, 64, 0, @object@, a, n);\n  @objectm@.blend(am);\n  if (answer.value % 5 == 2) {\n    \
     CHECK(cudaFree(a));\n    break;\n  }\n  CHECK(cudaFree(a));\n}\n",
    // A list on the host.
    "struct Link {\n  unsigned *words;\n  Link *next;\n};\nLink *head = nullptr;\nModel total(n);\ntotal.set(1);\nunsigned *sum;\nCHECK(cudaMalloc(&sum, BYTES(n)));\n\
     CHECK(cudaMemset(sum, 1, BYTES(n)));\nfor (int i = 0; i < @times@; i++) {\n  Link *link = new Link{nullptr, head};\n  \
     CHECK(cudaMalloc(&link->words, BYTES(n)));\n  CHECK(cudaMemset(link->words, i, BYTES(n)));\n  head = link;\n@step@}\n\
     int number = @times@;\nfor (Link *link = head; link != nullptr; link = link->next) {\n  Model one(n);\n  one.set(--number);\n  \
     LAUNCH(blend, 3, 64, 0, sum, link->words, n);\n  total.blend(one);\n}\nSEE(sum, total);\nwhile (head != nullptr) {\n  Link *next = head->next;\n  \
     CHECK(cudaFree(head->words));\n  delete head;\n  head = next;\n}\nCHECK(cudaFree(sum));\n",
    // Made in the second iteration, used in the third, freed in the fourth.
    "unsigned *late = nullptr;\nModel latem(n);\nfor (int i = 0; i < @times@ + 3; i++) {\n  switch (i) {\n  case 1:\n    \
     CHECK(cudaMalloc(&late, BYTES(n)));\n    LAUNCH(sow, 2, 64, 0, late, n, @k@u);\n    latem.sow(@k@u);\n    break;\n  case 2:\n    \
     LAUNCH(blend, 2, 64, 0, late, @object@, n);\n    latem.blend(@objectm@);\n    break;\n  case 3:\n    SEE(late, latem);\n    CHECK(cudaFree(late));\n    \
     late = nullptr;\n    break;\n  default:\n    LAUNCH(stir, 2, 64, 0, @object@, n, @k@u);\n    @objectm@.stir(@k@u);\n  }\n@step@}\n",
    // One of the first iteration beside one of each.
    "unsigned *all = nullptr;\nModel allm(n);\nfor (int i = 0; i < @times@; i++) {\n  unsigned *a;\n  Model am(n);\n  CHECK(cudaMalloc(&a, BYTES(n)));\n  \
     CHECK(cudaMemset(a, i + 3, BYTES(n)));\n  am.set(i + 3);\n  if (all == nullptr) {\n    CHECK(cudaMalloc(&all, BYTES(n)));\n    \
     CHECK(cudaMemset(all, 9, BYTES(n)));\n    allm.set(9);\n  }\n@step@  LAUNCH(blend, 3, 64, 0, all, a, n);\n  allm.blend(am);\n  SEE(all, allm);\n  \
     CHECK(cudaFree(a));\n}\nCHECK(cudaFree(all));\n",
];

impl AttackProgram {
    /// A loop of its own kind, beside an older object.
    pub fn keeping(&mut self, scope: &mut Scope) -> String {
        let way = *self.draw.of(&LOOPS);
        let object = self.draw.of(&scope.objects).clone();
        let (times, least, k) = (2 + self.draw.below(5), 1 + self.draw.below(4), self.constant());
        let template = format!("{{\n{way}}}\n");
        put(
            &template,
            &[
                ("times", &times),
                ("least", &least),
                ("k", &k),
                ("step", &self.step()),
                ("object", &object.words),
                ("objectm", &object.model),
            ],
        )
    }
}
