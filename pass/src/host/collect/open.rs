//! Open modules: modules that use CUDA other than through MGB, as their calls show.
//!
//! Before every call of a library that uses CUDA by itself, lazyrt is notified: the library then allocates on
//! the GPU that the process is bound to, and all addresses are backed. lazyrt is also notified before
//! `cuInit`, and before a library is loaded that may be the driver: a program that uses the driver by itself
//! is bound to its GPU first, and sees only that one.
use mgb_catalogue::report::{Reason, ReasonCode};

use crate::host::collect::Collected;
use crate::host::ir::{self, Value};

/// Libraries that use CUDA by themselves, by the prefix of their functions.
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

/// nvcc's device linker writes these functions, a file's each, and calls the runtime in them.
const REGISTERS_LINKED: &str = "__cudaRegisterLinkedBinary";

/// What makes a module open.
#[derive(Default)]
pub struct OpenModule {
    /// In the order of the declarations, each once; empty for a closed module.
    pub reasons: Vec<Reason>,
    /// The functions that use the thread's current GPU.
    pub libraries: Vec<Value>,
    /// `cuInit` and what loads libraries: where a program may begin to use the driver by itself.
    pub driver: Vec<Value>,
}

impl OpenModule {
    /// The calls of libraries that use CUDA by themselves, as the module stands now.
    pub fn library_calls(&self) -> Vec<Value> {
        self.libraries.iter().flat_map(calls_of).collect()
    }

    /// The calls that initialise the driver, or may load it.
    pub fn driver_calls(&self) -> Vec<Value> {
        self.driver.iter().flat_map(calls_of).collect()
    }
}

fn calls_of(&function: &Value) -> impl Iterator<Item = Value> + use<> {
    let calls = move |user: &Value| user.callee() == Some(function);
    function.users().into_iter().filter(calls)
}

/// What a function outside the module means for it.
enum ForeignEffect {
    /// It uses the thread's current GPU.
    Library(String),
    /// It uses contexts of its own, or none.
    Apart(String),
    /// It may load a library. In a module without CUDA that means nothing; if another module of the program
    /// uses CUDA, lazyrt finds out at start.
    Loader(String),
}

/// What the functions that the module calls make of it.
pub fn look(collected: &Collected) -> OpenModule {
    let known: Vec<Value> = collected
        .runtime()
        .into_iter()
        .map(|(function, _)| function)
        .collect();
    let mut open = OpenModule::default();
    for function in ir::functions(collected.module) {
        if !function.is_declaration() || !function.has_uses() || known.contains(&function) {
            continue;
        }
        let name = function.name();
        if collected.is_stub(function) || name.starts_with(REGISTERS_LINKED) {
            continue;
        }
        let text = match foreign(&name) {
            Some(ForeignEffect::Library(text)) => {
                open.libraries.push(function);
                text
            }
            Some(ForeignEffect::Apart(text)) => {
                if name == "cuInit" {
                    open.driver.push(function);
                }
                text
            }
            Some(ForeignEffect::Loader(text)) if !collected.is_empty() => {
                open.driver.push(function);
                text
            }
            Some(ForeignEffect::Loader(_)) | None => continue,
        };
        if !open.reasons.iter().any(|other| other.text == text) {
            open.reasons.push(Reason {
                code: ReasonCode::OpenProcess,
                text,
                at: None,
            });
        }
    }
    open
}

fn foreign(name: &str) -> Option<ForeignEffect> {
    let followed_by_capital = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    if let Some((_, library)) = LIBRARIES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        let text = format!("{library} uses CUDA by itself");
        let compiles = *library == "NVRTC";
        return Some(if compiles {
            ForeignEffect::Apart(text)
        } else {
            ForeignEffect::Library(text)
        });
    }
    if followed_by_capital("cuda") || followed_by_capital("__cuda") {
        return Some(ForeignEffect::Library(format!("{name} is not in the catalogue")));
    }
    if followed_by_capital("cu") {
        return Some(ForeignEffect::Apart(
            "the program calls the CUDA driver API".to_owned(),
        ));
    }
    matches!(name, "dlopen" | "dlmopen")
        .then(|| ForeignEffect::Loader(format!("{name} may load a library that uses CUDA")))
}
