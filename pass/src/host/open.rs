//! Open modules: CUDA that does not go through MGB, seen by what the module calls.
use mgb_catalogue::report::{Code, Reason};

use super::collect::Collected;
use super::ir::{self, Value};

/// Libraries that use CUDA by themselves, by how their functions begin.
const LIBRARIES: [(&str, &str); 13] = [
    ("cublas", "cuBLAS"),
    ("cudnn", "cuDNN"),
    ("cufft", "cuFFT"),
    ("cufile", "cuFile"),
    ("curand", "cuRAND"),
    ("cusolver", "cuSOLVER"),
    ("cusparse", "cuSPARSE"),
    ("cutensor", "cuTENSOR"),
    ("nccl", "NCCL"),
    ("npp", "NPP"),
    ("nvjpeg", "nvJPEG"),
    ("nvrtc", "NVRTC"),
    ("nvshmem", "NVSHMEM"),
];

/// What makes the module open; empty for a closed one.
pub fn reasons(collected: &Collected) -> Vec<Reason> {
    let known: Vec<Value> = collected
        .runtime()
        .into_iter()
        .map(|(function, _)| function)
        .collect();
    let mut reasons: Vec<Reason> = Vec::new();
    for function in ir::functions(collected.module) {
        if !function.is_declaration() || !function.has_uses() || known.contains(&function) {
            continue;
        }
        let name = function.name();
        let Some(text) = reason(&name) else { continue };
        if !reasons.iter().any(|other| other.text == text) {
            reasons.push(Reason {
                code: Code::OpenProcess,
                text,
                at: None,
            });
        }
    }
    reasons
}

fn reason(name: &str) -> Option<String> {
    let followed_by_capital = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    if let Some((_, library)) = LIBRARIES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return Some(format!("{library} uses CUDA by itself"));
    }
    if followed_by_capital("cuda") || followed_by_capital("__cuda") {
        return Some(format!("{name} is not in the catalogue"));
    }
    followed_by_capital("cu").then(|| "the program calls the CUDA driver API".to_owned())
}
