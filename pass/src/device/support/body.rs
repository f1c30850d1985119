//! Foreign functions, what device code takes from the GPU, and the bodies that stand for them on the host.
use std::collections::BTreeSet;

/// A foreign function: its name and its type, as LLVM writes them.
pub struct ForeignFunction<'a> {
    /// The symbol, or for inline assembly the PTX text.
    pub name: &'a str,
    /// The type it returns.
    pub returns: String,
    /// The types of its parameters, which bodies know as `%a0`, `%a1` ...
    pub takes: Vec<String>,
}

/// The body that replaces a foreign function on the host.
#[derive(Default)]
pub struct HostBody {
    /// Instructions, the last a terminator.
    pub text: String,
    /// Lines that declare the host's functions which the text calls; intrinsics need none.
    pub declarations: BTreeSet<String>,
    /// Attributes; `alwaysinline` when empty.
    pub attributes: &'static str,
}

impl HostBody {
    /// A body that is inlined where it is used.
    pub fn inline(text: impl Into<String>) -> Option<Self> {
        Some(Self {
            text: text.into(),
            ..Self::default()
        })
    }
}

impl ForeignFunction<'_> {
    /// Whether the types are these.
    pub fn is(&self, returns: &str, takes: &[&str]) -> bool {
        self.returns == returns && self.takes == takes
    }

    /// The types of its results: of inline assembly with several outputs, the fields.
    pub fn result_types(&self) -> Vec<&str> {
        let fields = self.returns.trim_matches(['{', '}', ' ']);
        fields.split(',').map(str::trim).collect()
    }

    /// The arguments as a call writes them, from one on.
    pub fn arguments(&self) -> String {
        let argument = |(at, ty): (usize, &String)| format!("{ty} %a{at}");
        self.takes
            .iter()
            .enumerate()
            .map(argument)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// A body that hands all arguments on to `callee` and its result back.
    pub fn forward(&self, callee: &str) -> String {
        let arguments = self.arguments();
        match self.returns.as_str() {
            "void" => format!("call void @{callee}({arguments})\n ret void"),
            ty => format!("%r = call {ty} @{callee}({arguments})\n ret {ty} %r"),
        }
    }
}

/// Text of the function `symbol` with this body.
pub fn definition(symbol: &str, foreign: &ForeignFunction, body: &HostBody) -> String {
    let takes: Vec<String> = foreign
        .takes
        .iter()
        .enumerate()
        .map(|(at, ty)| format!("{ty} %a{at}"))
        .collect();
    let attributes = if body.attributes.is_empty() {
        "alwaysinline"
    } else {
        body.attributes
    };
    let (returns, takes, text) = (&foreign.returns, takes.join(", "), &body.text);
    format!("define {returns} @\"{symbol}\"({takes}) {attributes} nounwind {{\nentry:\n {text}\n}}\n")
}
