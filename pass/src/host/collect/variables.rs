//! Device variables: which of them a launch touches, and which of those can change.
//!
//! A variable has one value per GPU. A variable that is never written has the same value on each; a launch
//! that touches one that changes, in this file or perhaps in another, runs on the GPU that has the values of
//! the process.
use std::collections::BTreeSet;

use inkwell::llvm_sys::LLVMLinkage;
use mgb_catalogue::report::ReasonCode;
use mgb_catalogue::{Class, Role};

use crate::assume::Proof;
use crate::device;
use crate::host::collect::sources::SourceFacts;
use crate::host::collect::{Collected, HostKernel, arguments_with};
use crate::host::ir::Value;
use crate::host::ir::helpers;
use crate::host::reason::Why;

/// The functions that copy to and from variables, and name the one that they touch.
const TO: [&str; 2] = ["cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync"];
const FROM: [&str; 2] = ["cudaMemcpyFromSymbol", "cudaMemcpyFromSymbolAsync"];

/// A device variable: two files may have variables of one symbol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceVariable {
    /// The number of its source.
    source: usize,
    /// The device's symbol.
    symbol: String,
}

impl DeviceVariable {
    /// As the source spells it.
    pub fn name(&self) -> String {
        helpers::demangle(&self.symbol)
    }
}

/// The device variables of a module.
pub struct Variables {
    /// Whether the host's module shows any.
    shown: bool,
    /// Whether nvcc compiles device code, whose uses may not be known.
    by_nvcc: bool,
    /// Whether device code of other files may be reached.
    across_files: bool,
    /// What the device code of each source does.
    sources: Sources,
    /// The variables that change; none where that is not known.
    changing: Option<BTreeSet<DeviceVariable>>,
}

/// The sources whose device code is known.
struct Sources(Vec<SourceFacts>);

/// What a launch does to variables.
#[derive(Default)]
pub struct Touched {
    /// Those that change; where they are not known it may be any.
    pub changing: Vec<DeviceVariable>,
    /// Why the launch runs where they have their values; none if it touches none that changes.
    pub why: Option<Why>,
    /// What else ties its objects to the GPU; none where the kernel's device code is not known.
    pub ties: Option<Vec<Why>>,
    /// How the kernel may keep the addresses that it is given, so that launches of other tasks may find them.
    pub published: Vec<Why>,
}

impl Variables {
    /// The variables of a prepared module that was made from these sources.
    pub fn new(collected: &Collected, sources: Vec<SourceFacts>) -> Self {
        let sources = Sources(sources);
        Self {
            shown: collected.device_variables,
            by_nvcc: collected.by_nvcc,
            across_files: collected.across_files,
            changing: sources.changing(collected),
            sources,
        }
    }

    /// What a launch of the kernel does, by its stub.
    pub fn touched(&self, stub: Value, kernel: &HostKernel, call: Value) -> Touched {
        Touched {
            published: self.published(stub, kernel, call),
            ..self.uses(stub, kernel, call)
        }
    }

    /// How the kernel may keep addresses. One whose device code is not known may in any way.
    fn published(&self, stub: Value, kernel: &HostKernel, call: Value) -> Vec<Why> {
        if Proof::Escape.is_assumed() {
            return Vec::new();
        }
        let name = &kernel.name;
        let known = || {
            let (_, source) = self.sources.of_stub(stub, self.by_nvcc)?;
            source.uses.published.get(source.stubs.get(&stub)?)
        };
        let why = |text: String| Why::new(ReasonCode::AddressEscapes, text, call);
        match known() {
            Some(ways) => ways.iter().map(|way| why(format!("{name} {way}"))).collect(),
            None if !kernel.defined => vec![why(format!(
                "{name} is compiled in another file, where it may keep the addresses that it is given"
            ))],
            None => vec![why(format!(
                "{name} may keep the addresses that it is given: its device code is not known here"
            ))],
        }
    }

    fn uses(&self, stub: Value, kernel: &HostKernel, call: Value) -> Touched {
        let name = &kernel.name;
        let any = |text: String| Touched {
            changing: Vec::new(),
            why: Some(Why::new(ReasonCode::Anchored, text, call)),
            ..Touched::default()
        };
        if !kernel.defined {
            return any(format!(
                "{name} is compiled in another file, where it may use device variables"
            ));
        }
        let found = self.sources.of_stub(stub, self.by_nvcc);
        let Some(((source, all), known)) = found.zip(self.changing.as_ref()) else {
            if self.by_nvcc {
                return any(format!(
                    "{name} is compiled by nvcc, where it may use device variables"
                ));
            }
            return match self.shown {
                true => any(format!("{name} may use the device variables of this file")),
                false => Touched::default(),
            };
        };
        let symbol = all.stubs.get(&stub);
        let touched = symbol.and_then(|symbol| all.uses.kernels.get(symbol));
        let ties = symbol.and_then(|symbol| all.uses.ties.get(symbol)).map(|ties| {
            let why = |tie| Why::new(ReasonCode::Anchored, format!("{name} {tie}"), call);
            ties.iter().map(why).collect()
        });
        let mut own = known.iter().filter(|one| one.source == source).peekable();
        match touched {
            Some(Some(touched)) => {
                let changing: Vec<DeviceVariable> =
                    own.filter(|one| touched.contains(&one.symbol)).cloned().collect();
                let why = changing.first().map(|first| {
                    let text = format!("{name} uses the device variable {}", first.name());
                    Why::new(ReasonCode::Anchored, text, call)
                });
                Touched {
                    changing,
                    why,
                    ties,
                    ..Touched::default()
                }
            }
            _ if self.across_files => any(format!(
                "{name} may use device variables of other files, by functions there"
            )),
            _ if own.peek().is_none() => Touched {
                ties,
                ..Touched::default()
            },
            _ => any(format!("{name} may use any device variable of this file")),
        }
    }

    /// The variable that a copy to or from a symbol touches, if that is known and the other end is the
    /// host's.
    pub fn copied(&self, collected: &Collected, call: Value) -> Option<DeviceVariable> {
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
        self.changing.as_ref()?;
        self.sources.of_shadow(helpers::base_and_offset(symbol).0)
    }

    /// The bytes of a variable.
    pub fn bytes(&self, variable: &DeviceVariable) -> Option<u64> {
        let source = self.sources.0.get(variable.source)?;
        source.uses.variables.get(&variable.symbol).copied()
    }
}

impl Sources {
    /// The variables that change. None where device code is not known, or the host does with variables what is
    /// not followed.
    fn changing(&self, collected: &Collected) -> Option<BTreeSet<DeviceVariable>> {
        if self.0.is_empty() {
            return None;
        }
        let mut changing = BTreeSet::new();
        for (number, source) in self.0.iter().enumerate() {
            let variable = |symbol: &String| DeviceVariable {
                source: number,
                symbol: symbol.clone(),
            };
            changing.extend(source.uses.written.iter().map(variable));
            for (&shadow, symbol) in &source.shadows {
                // Of a variable that other files see, they may do anything.
                if shadow.linkage() != LLVMLinkage::LLVMInternalLinkage || is_changed(collected, shadow)? {
                    changing.insert(variable(symbol));
                }
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
                    self.of_shadow(helpers::base_and_offset(symbol).0)
                };
                if entry.class == Class::Symbol && !(user.is_call() && is_known().is_some()) {
                    return None;
                }
            }
        }
        Some(changing)
    }

    /// The source, and its number, that has the kernel: the only one has all, unless the module holds files that
    /// nvcc compiled, which need not be known.
    fn of_stub(&self, stub: Value, by_nvcc: bool) -> Option<(usize, &SourceFacts)> {
        let at = self.0.iter().position(|one| one.stubs.contains_key(&stub));
        let has_all = self.0.len() == 1 && !by_nvcc;
        let number = at.or(has_all.then_some(0))?;
        Some((number, &self.0[number]))
    }

    fn of_shadow(&self, shadow: Value) -> Option<DeviceVariable> {
        let mut sources = self.0.iter().enumerate();
        sources.find_map(|(source, one)| {
            let symbol = one.shadows.get(&shadow)?.clone();
            Some(DeviceVariable { source, symbol })
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

/// Whether a constant is only in the lists of what to keep, and in the tables of the software GPU.
fn is_only_listed(constant: Value) -> bool {
    let users = constant.users();
    !users.is_empty()
        && users.into_iter().all(|user| {
            matches!(user.name().as_str(), "llvm.used" | "llvm.compiler.used")
                || user.name().starts_with(device::PREFIX)
                || user.name().starts_with(device::OFFLOAD_ENTRY)
                || (user.is_constant() && !user.is_global() && is_only_listed(user))
        })
}
