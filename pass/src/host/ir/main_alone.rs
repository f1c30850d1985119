//! Alone: whether code of other files can run while a program's `main` does.
//!
//! It cannot where the module of `main` refers to nothing of other files: every function that it declares is
//! one of the C and C++ libraries or of the CUDA runtime, which only call what they are given. What others
//! run before `main` and after it touches none of the objects that `main` makes.
use inkwell::llvm_sys::prelude::LLVMModuleRef;

use super::{Value, functions, globals, helpers};

/// Names that the C and C++ libraries and the compiler's own runtime begin with.
const PREFIXES: [&str; 17] = [
    "_Unwind_",
    "_ZNKSt",
    "_ZNKSo",
    "_ZNKSs",
    "_ZNSi",
    "_ZNSo",
    "_ZNSs",
    "_ZNSt",
    "_ZSt",
    "_ZTISt",
    "_ZTVN10__cxxabiv1",
    "_ZTVSt",
    "__cuda",
    "__cxa_",
    "__isoc",
    "llvm.",
    "omp_get_",
];

/// The same, whole, as far as LLVM does not know them.
const NAMES: [&str; 33] = [
    "_ZTTNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEE",
    "_ZdaPv",
    "_ZdaPvm",
    "_ZdlPv",
    "_ZdlPvm",
    "_Znam",
    "_Znwm",
    "__assert_fail",
    "__dso_handle",
    "__errno_location",
    "__gxx_personality_v0",
    "clock",
    "clock_gettime",
    "drand48",
    "environ",
    "getopt",
    "getopt_long",
    "getpid",
    "lrand48",
    "optarg",
    "optind",
    "rand",
    "rand_r",
    "random",
    "sleep",
    "srand",
    "srand48",
    "srandom",
    "stderr",
    "stdin",
    "stdout",
    "time",
    "usleep",
];

/// Whether a module has `main` and refers to nothing of other files.
pub fn is_alone(module: LLVMModuleRef) -> bool {
    let has_main = functions(module).any(|one| one.name() == "main" && !one.is_declaration());
    let declared = functions(module)
        .chain(globals(module))
        .filter(|one| one.is_declaration());
    has_main && declared.filter(|one| one.has_uses()).all(is_of_library)
}

/// Whether a declared function or variable is one of the C and C++ libraries or of the CUDA runtime.
pub fn is_of_library(declared: Value) -> bool {
    let name = declared.name();
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || NAMES.contains(&name.as_str())
        || mgb_catalogue::lookup(&name).is_some()
        || (declared.is_function() && helpers::is_library_function(declared))
}
