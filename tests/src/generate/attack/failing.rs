//! Allocations that no GPU has room for: the error is CUDA's, and the program goes on with less.

use super::program::{AttackProgram, Scope};
use super::text::put;

/// Leaves `got` with `n` words, allocated after failures.
const TRIES: [&str; 6] = [
    // Large, then small.
    "unsigned *got = nullptr;\nif (cudaMalloc(&got, hidden(size_t(1) << 45)) != cudaSuccess) {\n  \
     EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);\n  CHECK(cudaMalloc(&got, BYTES(n)));\n}\n",
    // The same in two variables.
    "unsigned *large = nullptr, *small = nullptr;\nbool have = cudaMalloc(&large, hidden(size_t(1) << 44)) == cudaSuccess;\n\
     if (!have) {\n  cudaGetLastError();\n  CHECK(cudaMalloc(&small, BYTES(n)));\n}\nunsigned *got = have ? large : small;\n",
    // Less and less: 1 EiB, 1 TiB, 1 MiB. Six of the last have room on one small GPU.
    "unsigned *got = nullptr;\nsize_t want = size_t(1) << 60;\nint failures = 0;\nwhile (cudaMalloc(&got, want + BYTES(n)) != cudaSuccess) {\n  \
     cudaGetLastError();\n  want >>= 20;\n  failures++;\n}\nEXPECT(failures == 2);\n",
    // More than the GPU has, by its own word.
    "size_t there, total;\nCHECK(cudaMemGetInfo(&there, &total));\nunsigned *got = nullptr;\nif (cudaMalloc(&got, total + BYTES(n)) != cudaSuccess) {\n  \
     cudaGetLastError();\n  CHECK(cudaMalloc(&got, BYTES(n)));\n}\n",
    // A list of sizes.
    "unsigned *got = nullptr;\nfor (size_t bytes : {size_t(1) << 48, size_t(1) << 43, BYTES(n)}) {\n  \
     if (cudaMalloc(&got, bytes) == cudaSuccess)\n    break;\n  got = nullptr;\n  cudaGetLastError();\n}\n",
    // The error stays until somebody asks.
    "unsigned *got = nullptr, *none = nullptr;\nEXPECT(cudaMalloc(&none, hidden(~size_t(0) / 2)) == cudaErrorMemoryAllocation);\n\
     CHECK(cudaMalloc(&got, BYTES(n)));\nEXPECT(cudaPeekAtLastError() == cudaErrorMemoryAllocation);\n\
     EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);\nEXPECT(cudaGetLastError() == cudaSuccess);\n",
];

impl AttackProgram {
    /// An object that is had at the second or third try, used with the function's others.
    pub fn failing(&mut self, scope: &mut Scope) -> String {
        let way = *self.draw.of(&TRIES);
        let object = self.draw.of(&scope.objects).clone();
        let (model, k) = (self.name("m"), self.constant());
        put(
            "{\n@way@Model @model@(n);\nLAUNCH(sow, 3, 64, 0, got, n, @k@u);\n@model@.sow(@k@);\n@step@\
             LAUNCH(blend, 2, 64, 0, @object@, got, n);\n@objectm@.blend(@model@);\nSEE(got, @model@);\nCHECK(cudaFree(got));\n}\n",
            &[
                ("way", &way),
                ("model", &model),
                ("k", &k),
                ("step", &self.step()),
                ("object", &object.words),
                ("objectm", &object.model),
            ],
        )
    }

    /// Pieces until there is no room left. How many there are is for neighbours to say as well, so that the
    /// answer does not follow from it.
    pub fn probing(&mut self, _scope: &mut Scope) -> String {
        let shape = *self.draw.of(&[
            "for (; count < 40; count++)\n  if (cudaMalloc(&pieces[count], piece) != cudaSuccess) {\n    cudaGetLastError();\n    break;\n  }\n",
            "while (count < 40 && cudaMalloc(&pieces[count], piece) == cudaSuccess)\n  count++;\ncudaGetLastError();\n",
            "while (true) {\n  void *at;\n  if (count == 40 || cudaMalloc(&at, piece) != cudaSuccess) {\n    cudaGetLastError();\n    break;\n  }\n  \
             pieces[count++] = static_cast<unsigned *>(at);\n}\n",
        ]);
        let between = *self
            .draw
            .of(&["", "CHECK(cudaDeviceSynchronize());\n", "idle();\n"]);
        put(
            "{\nunsigned *pieces[40];\nint count = 0;\nconst size_t piece = size_t(16) << 20;\n@shape@\
             for (int i = 0; i < count; i++)\n  LAUNCH(sow, 1, 32, 0, pieces[i], 32, unsigned(i));\n@between@\
             for (int i = 1; i < count; i++)\n  LAUNCH(blend, 1, 32, 0, pieces[0], pieces[i], 32);\n\
             if (count > 0) {\nModel first(32);\nfirst.sow(0);\nfor (int i = 1; i < count; i++) {\n  Model other(32);\n  other.sow(unsigned(i));\n  first.blend(other);\n}\n\
             Answer apart;\nsee(apart, pieces[0], first, __LINE__);\n}\nfor (int i = 0; i < count; i++)\n  CHECK(cudaFree(pieces[i]));\n}\n",
            &[("shape", &shape), ("between", &between)],
        )
    }
}
