//! libdevice's functions that the host's mathematical library has too.
//!
//! Their bodies in libdevice hold inline PTX and take dozens of emulated operations; the host's are
//! within one unit in the last place, where CUDA states up to a few. What is not listed here
//! (`rsqrt`, `erfcinv`, `normcdf`, the integer functions, the `fast_` forms ...) is translated from
//! libdevice's own body, and then rounds as libdevice does except for its approximate steps.
use super::body::{ForeignFunction, HostBody};
use super::float::{reciprocal_root, suffix};

/// What LLVM has an intrinsic for: libdevice's name, LLVM's name.
const INTRINSICS: &[(&str, &str)] = &[
    ("acos", "acos"),
    ("asin", "asin"),
    ("atan", "atan"),
    ("atan2", "atan2"),
    ("ceil", "ceil"),
    ("copysign", "copysign"),
    ("cos", "cos"),
    ("cosh", "cosh"),
    ("exp", "exp"),
    ("exp10", "exp10"),
    ("exp2", "exp2"),
    ("fabs", "fabs"),
    ("floor", "floor"),
    ("fma", "fma"),
    ("fmax", "maxnum"),
    ("fmin", "minnum"),
    ("log", "log"),
    ("log10", "log10"),
    ("log2", "log2"),
    ("nearbyint", "nearbyint"),
    ("pow", "pow"),
    ("rint", "rint"),
    ("round", "round"),
    ("sin", "sin"),
    ("sinh", "sinh"),
    ("sqrt", "sqrt"),
    ("tan", "tan"),
    ("tanh", "tanh"),
    ("trunc", "trunc"),
];

/// What the C library has under the same name, with the same operands.
const LIBRARY: &[&str] = &[
    "acosh",
    "asinh",
    "atanh",
    "cbrt",
    "erf",
    "erfc",
    "expm1",
    "fdim",
    "fmod",
    "frexp",
    "hypot",
    "ilogb",
    "j0",
    "j1",
    "jn",
    "ldexp",
    "lgamma",
    "log1p",
    "logb",
    "modf",
    "nextafter",
    "remainder",
    "remquo",
    "scalbn",
    "tgamma",
    "y0",
    "y1",
    "yn",
];

/// What has a body of its own below.
const OWN: &[&str] = &["rsqrt", "sincos"];

/// `sin` and whether it is the `float` one, of `__nv_sinf`.
fn split(name: &str) -> Option<(&str, bool)> {
    let name = name.strip_prefix("__nv_")?;
    let known = |name: &str| {
        LIBRARY.contains(&name) || OWN.contains(&name) || INTRINSICS.iter().any(|&(known, _)| known == name)
    };
    if known(name) {
        return Some((name, false));
    }
    name.strip_suffix('f')
        .filter(|name| known(name))
        .map(|name| (name, true))
}

/// Whether [`body`] replaces this function even if libdevice has a body for it.
pub fn is_known(name: &str) -> bool {
    split(name).is_some()
}

/// Whether this is a function that bodies here call.
pub fn is_library(name: &str) -> bool {
    LIBRARY.contains(&name) || name.strip_suffix('f').is_some_and(|name| LIBRARY.contains(&name))
}

/// The body for a libdevice function.
pub fn body(foreign: &ForeignFunction) -> Option<HostBody> {
    let (name, single) = split(foreign.name)?;
    let ty = if single { "float" } else { "double" };
    let f = suffix(ty)?;
    match name {
        "rsqrt" if foreign.is(ty, &[ty]) => return HostBody::inline(reciprocal_root(ty, f)),
        "sincos" if foreign.is("void", &[ty, "ptr", "ptr"]) => return sine_and_cosine(ty, f),
        _ => {}
    }
    if !foreign
        .takes
        .iter()
        .chain([&foreign.returns])
        .all(|used| used == ty || used == "i32" || used == "ptr")
    {
        return None;
    }
    if let Some((_, intrinsic)) = INTRINSICS.iter().find(|(known, _)| *known == name) {
        return HostBody::inline(foreign.forward(&format!("llvm.{intrinsic}.{f}")));
    }
    let function = if single {
        format!("{name}f")
    } else {
        name.to_owned()
    };
    let takes = foreign.takes.join(", ");
    Some(HostBody {
        text: foreign.forward(&function),
        declarations: [format!(
            "declare {} @{function}({takes}) nounwind",
            foreign.returns
        )]
        .into(),
        ..HostBody::default()
    })
}

/// `sincos(x, &sine, &cosine)`.
fn sine_and_cosine(ty: &str, f: &str) -> Option<HostBody> {
    HostBody::inline(format!(
        "%s = call {ty} @llvm.sin.{f}({ty} %a0)\n %c = call {ty} @llvm.cos.{f}({ty} %a0)
         store {ty} %s, ptr %a1\n store {ty} %c, ptr %a2\n ret void"
    ))
}
