//! How exact device arithmetic is: `-use_fast_math` and the switches that it stands for.

use anyhow::Result;

use super::parse::NvccCommandLine;
use super::table::Meaning;

/// What clang compiles device code with.
///
/// # Errors
/// On switches that are neither true nor false.
pub fn words(request: &NvccCommandLine) -> Result<Vec<String>> {
    let fast = request.has(Meaning::FastMath);
    let switch = |meaning, default| Ok::<_, anyhow::Error>(request.switch(meaning)?.unwrap_or(default));
    let mut words: Vec<&str> = Vec::new();
    if fast {
        words.push("-fgpu-approx-transcendentals");
    }
    if switch(Meaning::FlushToZero, fast)? {
        words.push("-fgpu-flush-denormals-to-zero");
    }
    if !switch(Meaning::ExactDivision, !fast)? {
        words.push("-mllvm=-nvptx-prec-divf32=0");
    }
    if !switch(Meaning::ExactRoots, !fast)? {
        words.push("-mllvm=-nvptx-prec-sqrtf32=0");
    }
    if !switch(Meaning::Fused, true)? {
        words.push("-ffp-contract=off");
    }
    Ok(words.into_iter().map(String::from).collect())
}
