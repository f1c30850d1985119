//! What a source may attack the pass with. Each feature can be left out by its name, so that a fault that is
//! known does not hide others.

use std::fmt;
use std::str::FromStr;

/// A kind of construct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Kernels that store addresses of objects, and kernels of other functions that follow them.
    Publish,
    /// Addresses that only device memory holds: the host has forgotten them.
    Forget,
    /// Addresses that the host reads back from device memory and passes on.
    ReadBack,
    /// Allocations in branches that are not taken, and sizes that mean nothing there.
    Guarded,
    /// Allocations that fail, after which a smaller one is tried.
    Failing,
    /// Allocations until none is left, in a loop with `break`.
    Probing,
    /// Workspaces that grow on demand.
    Growing,
    /// Loops that keep what they allocate.
    Keeping,
    /// Functions that call themselves, one another, or back through pointers.
    Recursion,
    /// Coroutines, resumed in another order and by other threads.
    Coroutine,
    /// Kernel, copy into pinned, mapped or managed memory, and copy out of it, without waiting in between.
    Pipeline,
    /// Functions and pointers of a second source.
    Units,
    /// Exceptions between any two operations, caught further out.
    Throw,
    /// More than 24 temporaries of a function, and hundreds of small objects.
    Many,
    /// Queries of free memory.
    Query,
    /// Threads at once, and pointers that go from one to the next.
    Threads,
    /// Owners that belong to threads, and work in their destructors.
    Owners,
}

/// Every feature with its name.
pub const ALL: [(Feature, &str); 17] = [
    (Feature::Publish, "publish"),
    (Feature::Forget, "forget"),
    (Feature::ReadBack, "readback"),
    (Feature::Guarded, "guarded"),
    (Feature::Failing, "failing"),
    (Feature::Probing, "probing"),
    (Feature::Growing, "growing"),
    (Feature::Keeping, "keeping"),
    (Feature::Recursion, "recursion"),
    (Feature::Coroutine, "coroutine"),
    (Feature::Pipeline, "pipeline"),
    (Feature::Units, "units"),
    (Feature::Throw, "throw"),
    (Feature::Many, "many"),
    (Feature::Query, "query"),
    (Feature::Threads, "threads"),
    (Feature::Owners, "owners"),
];

/// The features of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features(Vec<Feature>);

impl Features {
    /// All of them.
    pub fn all() -> Features {
        Features(ALL.iter().map(|(feature, _)| *feature).collect())
    }

    /// Whether a feature is among them.
    pub fn has(&self, feature: Feature) -> bool {
        self.0.contains(&feature)
    }

    /// The features themselves.
    pub fn list(&self) -> &[Feature] {
        &self.0
    }

    /// Of these the ones that `keep` takes.
    pub fn only(&self, keep: impl Fn(Feature) -> bool) -> Features {
        Features(self.0.iter().copied().filter(|feature| keep(*feature)).collect())
    }
}

impl FromStr for Features {
    type Err = String;

    /// Names separated by commas; `all` stands for each, and a minus before a name leaves it out.
    fn from_str(text: &str) -> Result<Features, String> {
        let mut features = Vec::new();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (left_out, name) = match word.strip_prefix('-') {
                Some(name) => (true, name),
                None => (false, word),
            };
            let named: Vec<Feature> = ALL
                .iter()
                .filter(|(_, own)| name == "all" || name == *own)
                .map(|(feature, _)| *feature)
                .collect();
            if named.is_empty() {
                return Err(format!("no feature is named '{name}'"));
            }
            features.retain(|feature| !named.contains(feature));
            if !left_out {
                features.extend(named);
            }
        }
        Ok(Features(features))
    }
}

impl fmt::Display for Features {
    /// Their names, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = ALL.iter().filter(|(feature, _)| self.has(*feature));
        f.write_str(&own.map(|(_, name)| *name).collect::<Vec<_>>().join(","))
    }
}
