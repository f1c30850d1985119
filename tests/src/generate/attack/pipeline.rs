//! A kernel, a copy into memory of the host, and a copy out of it into an object that is made in between: all
//! in one stream, and nobody waits.

use super::program::{AttackProgram, Scope};
use super::text::put;

/// Memory of the host that a GPU reaches: what makes `pin`, what frees it, and whether kernels write it.
const MEMORIES: [(&str, &str, bool); 5] = [
    (
        "CHECK(cudaMallocHost(&c->pin, BYTES(c->count)));\nc->seen = c->pin;\n",
        "CHECK(cudaFreeHost(c->pin));\n",
        false,
    ),
    (
        "CHECK(cudaHostAlloc(&c->pin, BYTES(c->count), cudaHostAllocPortable));\nc->seen = c->pin;\n",
        "CHECK(cudaFreeHost(c->pin));\n",
        false,
    ),
    (
        "CHECK(cudaHostAlloc(&c->pin, BYTES(c->count), cudaHostAllocMapped));\nCHECK(cudaHostGetDevicePointer(&c->seen, c->pin, 0));\n",
        "CHECK(cudaFreeHost(c->pin));\n",
        true,
    ),
    (
        "CHECK(cudaMallocManaged(&c->pin, BYTES(c->count)));\nc->seen = c->pin;\n",
        "CHECK(cudaFree(c->pin));\n",
        true,
    ),
    (
        "c->pin = static_cast<unsigned *>(aligned_alloc(4096, (BYTES(c->count) + 4095) / 4096 * 4096));\n\
         CHECK(cudaHostRegister(c->pin, BYTES(c->count), cudaHostRegisterDefault));\nc->seen = c->pin;\n",
        "CHECK(cudaHostUnregister(c->pin));\nfree(c->pin);\n",
        false,
    ),
];

/// How the words get into `pin`.
const INS: [(&str, bool); 3] = [
    (
        "CHECK(cudaMemcpyAsync(c->pin, a, BYTES(c->count), cudaMemcpyDeviceToHost, c->stream));\n",
        false,
    ),
    (
        "CHECK(cudaMemcpyAsync(c->pin, a, BYTES(c->count), cudaMemcpyDefault, c->stream));\n",
        false,
    ),
    (
        "LAUNCH(copies_@s@, 3, 64, c->stream, c->seen, a, c->count);\n",
        true,
    ),
];

/// How they get out of it.
const OUTS: [&str; 4] = [
    "CHECK(cudaMemcpyAsync(c->to, c->pin, BYTES(c->count), cudaMemcpyHostToDevice, c->stream));\n",
    "CHECK(cudaMemcpyAsync(c->to, c->pin, BYTES(c->count), cudaMemcpyDefault, c->stream));\n",
    "CHECK(cudaMemcpy2DAsync(c->to, 400, c->pin, 400, 400, c->count / 100, cudaMemcpyHostToDevice, c->stream));\n",
    "CHECK(cudaMemcpyToSymbolAsync(through_@s@, c->pin, BYTES(c->count < 500 ? c->count : 500), 0, cudaMemcpyHostToDevice, c->stream));\n\
     CHECK(cudaMemcpyAsync(c->to, c->pin, BYTES(c->count), cudaMemcpyHostToDevice, c->stream));\n\
     LAUNCH(fills_@s@, 2, 64, c->stream, c->to, c->count);\n",
];

impl AttackProgram {
    /// The stages are functions that are called through pointers, or parts of one.
    pub fn pipeline(&mut self, _scope: &mut Scope) -> String {
        let s = self.name("");
        let &(make, free, writes) = self.draw.of(&MEMORIES);
        let ins: Vec<&str> = INS
            .iter()
            .filter(|(_, by_kernel)| writes || !*by_kernel)
            .map(|(text, _)| *text)
            .collect();
        let (into, out) = (*self.draw.of(&ins), *self.draw.of(&OUTS));
        let own = |template: &str| put(template, &[("s", &s)]);
        let (into, out) = (own(into), own(out));
        self.kernels += &own("__device__ unsigned through_@s@[500];\n\
             __global__ void copies_@s@(unsigned *to, const unsigned *from, size_t n) { EACH(i, n) to[i] = from[i]; }\n\
             __global__ void fills_@s@(unsigned *to, size_t n) { EACH(i, n < 500 ? n : 500) to[i] = through_@s@[i]; }\n");
        let (k, rounds) = (self.constant(), *self.draw.of(&[0, 20_000, 300_000, 1_500_000]));
        let count = *self.draw.of(&["100", "4000", "16000", "16300", "40000"]);
        let keeps = *self.draw.of(&["c->from = a;\n", ""]);
        let freed = if keeps.is_empty() {
            ""
        } else {
            "CHECK(cudaFree(c->from));\n"
        };
        let linkage = self.linkage();
        let stages = [
            format!(
                "memset(c, 0, sizeof *c);\nc->count = {count};\n{make}memset(c->pin, 0, BYTES(c->count));\nCHECK(cudaStreamCreate(&c->stream));\n"
            ),
            put(
                "unsigned *a;\nCHECK(cudaMalloc(&a, BYTES(c->count)));\nCHECK(cudaMemsetAsync(a, 7, BYTES(c->count), c->stream));\n\
                 LAUNCH(linger, 1, 1, c->stream, a, @rounds@);\nLAUNCH(sow, 3, 64, c->stream, a, c->count, @k@u);\n@into@@keeps@",
                &[("rounds", &rounds), ("k", &k), ("into", &into), ("keeps", &keeps)],
            ),
            "CHECK(cudaMalloc(&c->to, BYTES(c->count)));\n".to_owned(),
            out,
            format!(
                "CHECK(cudaStreamSynchronize(c->stream));\nModel model(c->count);\nmodel.sow({k});\nSEE(c->to, model);\n"
            ),
            format!("CHECK(cudaStreamDestroy(c->stream));\nCHECK(cudaFree(c->to));\n{freed}{free}"),
        ];
        self.functions += &own(
            "struct Stages@s@ {\n  unsigned *pin, *seen, *to, *from;\n  cudaStream_t stream;\n  size_t count;\n};\n",
        );
        let mut calls = String::new();
        let apart = !self.draw.one_in(3);
        for (at, stage) in stages.iter().enumerate() {
            let name = format!("stage{s}_{at}");
            self.functions += &put(
                "@linkage@ void @name@(Answer &answer, Stages@s@ *c) {\n@stage@}\n",
                &[
                    ("linkage", &linkage),
                    ("name", &name),
                    ("s", &s),
                    ("stage", stage),
                ],
            );
            let name = match apart {
                true => self.reached(&name),
                false => name,
            };
            calls += &format!("{name}(answer, &stages);\n");
        }
        put(
            "{\nStages@s@ stages;\n@calls@}\n",
            &[("s", &s), ("calls", &calls)],
        )
    }
}
