//! `mgb nvcc --help` and `mgb nvcc --version`.

/// The text of `mgb nvcc --help`.
pub const HELP: &str = "\
Compile and link CUDA programs with MGB; takes nvcc's own command line.

Usage: mgb nvcc [NVCC OPTIONS] FILES...        also: mgb-nvcc, for NVCC=mgb-nvcc and CMAKE_CUDA_COMPILER=mgb-nvcc

The work is done by clang 22, as by `mgb clang++`, with MGB's pass and runtime. nvcc's options, in their long and their
short forms, are translated where clang has the same (-gencode, -arch, -Xcompiler, -Xptxas, -use_fast_math, -lineinfo,
-default-stream, -M...), left out where that changes nothing that matters, and refused by name where it would. With -v
each that was left out is said, and the command line that clang gets; -dryrun says it and does nothing.

What is other than with nvcc:
  -ccbin            clang is the host compiler: left out. Sources see clang (__clang__), not __NVCC__
  -cudart           the shared runtime is taken, whichever is named
  -arch             without it, or with native or all: this machine's GPU, else sm_90 [MGB_CUDA_ARCH]
  -rdc=true, -dc    device code is linked across files, by nvlink: by -dlink, or by the link itself. Objects that
                    nvcc made do not link with these
  -ptx, -cubin, -fatbin, -lib, -odir, -optf, -E, -M, -MD ... work; -ltoir, -optix-ir, -cuda and -run do not
  -flto             is taken, for compiles and the link: the pass then finds tasks across files, and lld-22 links.
                    -dlto is left out: device code is compiled file by file
  -fsyntax-only, -###, -MG, -pthread are taken too, as clang has them
  --keep-dir and the like are left out: clang keeps no files between its steps

A source that clang does not take as CUDA goes to NVIDIA's own nvcc [MGB_NVCC; else the CUDA toolkit's, else PATH's], with
a line that says so; all others to clang. MGB_KEEP_NVCC=0 in the environment keeps nvcc out of it.

NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS are read as nvcc reads them.

--mgb-legacy, or MGB_LEGACY=1, brings back what CUDA 12 and 13 have dropped, by what they have instead:
cudaThreadSynchronize and its like, texture references, members of cudaDeviceProp, old argument lists. clang's wrappers
take it too.

--keep-nvcc, or MGB_KEEP_NVCC=1, has nvcc compile all sources, with mgb-clang++ as its host compiler and the shared
runtime. -ccbin and -cudart are left out; every other option is nvcc's, -rdc=true across files too. The pass does not see
device code then: each kernel counts as one that may use device variables, and the program runs on real GPUs only.

Examples:
  mgb nvcc -O3 -arch=sm_90 app.cu -o app
  make NVCC=mgb-nvcc
  make NVCC='mgb-nvcc --keep-nvcc'
  cmake -B build -DCMAKE_CUDA_COMPILER=mgb-nvcc

Exits as clang does; 2 wrong usage; 3 a part of MGB, clang or CUDA is missing.
";

/// The version. CMake and others look for nvcc's own words in it.
pub fn version((major, minor): (u32, u32)) -> String {
    format!(
        "mgb nvcc {}: clang 22 in place of\n\
         nvcc: NVIDIA (R) Cuda compiler driver\n\
         Cuda compilation tools, release {major}.{minor}, V{major}.{minor}.0\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// CUDA's version, from the text of its `cuda.h`.
pub fn cuda_version(header: &str) -> Option<(u32, u32)> {
    let line = header
        .lines()
        .find_map(|line| line.strip_prefix("#define CUDA_VERSION "))?;
    let number: u32 = line.trim().parse().ok()?;
    Some((number / 1000, number % 1000 / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(cuda_version("x\n#define CUDA_VERSION 12090\n"), Some((12, 9)));
        assert_eq!(cuda_version(""), None);
        // What CMake looks for.
        let text = version((13, 0));
        assert!(text.contains("nvcc: NVIDIA (R) Cuda compiler driver") && text.contains("V13.0.0"));
    }
}
