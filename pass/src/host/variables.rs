//! Device variables: which of them a launch touches, and which of those can change.
//!
//! What a variable holds is there once per GPU. One that nothing ever writes is the same on each; launches that touch
//! one that changes, in this file or perhaps in another, run where the process's variables have their values.
use std::collections::{BTreeSet, HashMap};

use inkwell::llvm_sys::LLVMLinkage;
use mgb_catalogue::report::Code;
use mgb_catalogue::{Class, Role};

use super::collect::{Collected, Kernel, arguments_with};
use super::helpers;
use super::ir::Value;
use super::place::Why;
use crate::device::{self, uses};

/// The functions that copy to and from variables, and name the one that they touch.
const TO: [&str; 2] = ["cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync"];
const FROM: [&str; 2] = ["cudaMemcpyFromSymbol", "cudaMemcpyFromSymbolAsync"];

/// The device variables of a module.
pub struct Variables {
    /// Whether the host's module shows any.
    shown: bool,
    known: Option<Known>,
}

/// What device code says of them; by the device's symbols.
struct Known {
    uses: uses::Uses,
    stubs: HashMap<Value, String>,
    shadows: HashMap<Value, String>,
    changing: BTreeSet<String>,
}

/// What a launch does to variables.
#[derive(Default)]
pub struct Touched {
    /// Those that change, by the device's symbols; where they are not known it may be any.
    pub changing: Vec<String>,
    /// Why the launch runs where they have their values; none if it touches none that changes.
    pub why: Option<Why>,
}

impl Variables {
    /// Looks at a prepared module.
    pub fn new(collected: &Collected) -> Self {
        let known = (!collected.is_empty()).then(|| Known::new(collected)).flatten();
        Self {
            shown: collected.device_variables,
            known,
        }
    }

    /// What a launch of the kernel does, by its stub.
    pub fn touched(&self, stub: Value, kernel: &Kernel, call: Value) -> Touched {
        let name = &kernel.name;
        let any = |text: String| Touched {
            changing: Vec::new(),
            why: Some(Why::new(Code::Anchored, text, call)),
        };
        if !kernel.defined {
            return any(format!(
                "{name} is compiled in another file, where it may use device variables"
            ));
        }
        let Some(known) = &self.known else {
            return match self.shown {
                true => any(format!("{name} may use the device variables of this file")),
                false => Touched::default(),
            };
        };
        let touched = known
            .stubs
            .get(&stub)
            .and_then(|symbol| known.uses.kernels.get(symbol));
        match touched {
            Some(Some(touched)) => {
                let changing: Vec<String> = touched.intersection(&known.changing).cloned().collect();
                let why = changing.first().map(|first| {
                    let text = format!("{name} uses the device variable {}", helpers::demangle(first));
                    Why::new(Code::Anchored, text, call)
                });
                Touched { changing, why }
            }
            _ if known.changing.is_empty() => Touched::default(),
            _ => any(format!("{name} may use any device variable of this file")),
        }
    }

    /// The variable that a copy to or from a symbol touches, if that is known and the other end is the host's.
    pub fn copied(&self, collected: &Collected, call: Value) -> Option<String> {
        const HOST_TO_DEVICE: u64 = 1;
        const DEVICE_TO_HOST: u64 = 2;
        let entry = collected.entry(call)?;
        let direction = if TO.contains(&entry.name) {
            HOST_TO_DEVICE
        } else if FROM.contains(&entry.name) {
            DEVICE_TO_HOST
        } else {
            return None;
        };
        let kind = *arguments_with(call, entry, Role::CopyKind).first()?;
        if kind.constant() != Some(direction) {
            return None;
        }
        let symbol = *arguments_with(call, entry, Role::Symbol).first()?;
        let shadow = helpers::base_and_offset(symbol).0;
        self.known.as_ref()?.shadows.get(&shadow).cloned()
    }

    /// The bytes of a variable.
    pub fn bytes(&self, symbol: &str) -> Option<u64> {
        self.known.as_ref()?.uses.variables.get(symbol).copied()
    }
}

impl Known {
    /// None where device code is not known, or the host does with variables what is not followed.
    fn new(collected: &Collected) -> Option<Self> {
        let uses = uses::of_source(&device::source(collected.module))?;
        let registered = device::registered(collected.module);
        let by_value = |all: HashMap<String, _>| {
            let turned = all.into_iter().filter_map(|(symbol, raw)| {
                let value = helpers::base_and_offset(Value::from_raw(raw)?).0;
                Some((value, symbol))
            });
            turned.collect::<HashMap<Value, String>>()
        };
        let (stubs, shadows) = (by_value(registered.stubs), by_value(registered.variables));
        let mut changing = uses.written.clone();
        for (&shadow, symbol) in &shadows {
            // Of a variable that other files see, they may do anything.
            if shadow.linkage() != LLVMLinkage::LLVMInternalLinkage || is_changed(collected, shadow)? {
                changing.insert(symbol.clone());
            }
        }
        // A copy to something else than a shadow may be to any; managed variables are the host's, too.
        for (function, entry) in collected.runtime() {
            if entry.name == "__cudaRegisterManagedVar" && function.has_uses() {
                return None;
            }
            for user in function.users() {
                let is_known = || {
                    let symbol = *arguments_with(user, entry, Role::Symbol).first()?;
                    Some(shadows.contains_key(&helpers::base_and_offset(symbol).0))
                };
                if entry.class == Class::Symbol && !(user.is_call() && is_known() == Some(true)) {
                    return None;
                }
            }
        }
        Some(Self {
            uses,
            stubs,
            shadows,
            changing,
        })
    }
}

/// Whether the host writes the variable of a shadow. None where its address goes to what is not followed.
fn is_changed(collected: &Collected, shadow: Value) -> Option<bool> {
    let mut changed = false;
    for user in shadow.users() {
        let entry = collected.entry(user);
        match entry.map(|entry| entry.name) {
            Some("__cudaRegisterVar") => {}
            Some(name) if FROM.contains(&name) => {}
            Some(name) if TO.contains(&name) => changed = true,
            // Parts of it, by constant offsets, and lists of what to keep.
            _ if user.is_constant() && is_only_listed(user) => {}
            _ => return None,
        }
    }
    Some(changed)
}

/// Whether a constant is only in the lists of what to keep.
fn is_only_listed(constant: Value) -> bool {
    let users = constant.users();
    !users.is_empty()
        && users.into_iter().all(|user| {
            matches!(user.name().as_str(), "llvm.used" | "llvm.compiler.used")
                || (user.is_constant() && !user.is_global() && is_only_listed(user))
        })
}
