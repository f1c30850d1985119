//! The report of the pass: what it found in a module, as JSON in the `.mgb.report` section of the object.
//!
//! The pass writes one document per module, ended by a newline. A linker concatenates the sections of all
//! objects, so the section of a program holds several documents ([`parse_all`]).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version this crate writes. A reader refuses a document of a higher one.
pub const VERSION: u32 = 1;

/// The section of the object, and of the program linked from it.
pub const SECTION: &str = ".mgb.report";

/// What the pass found in one module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The layout of this document: [`VERSION`].
    pub version: u32,
    /// The source file, as the compiler was given it.
    pub source: String,
    /// The tasks, in the order of the source.
    pub tasks: Vec<TaskReport>,
    /// What makes the process open: each of its devices then stays on one GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub module_reasons: Vec<Reason>,
    /// How its kernels can be run in parts, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelReport>,
}

/// A kernel, and how it can be run in parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelReport {
    /// The kernel's name as the source spells it.
    pub kernel: String,
    /// In which way it can be run in parts.
    pub parts: KernelParts,
    /// What keeps it from having a twin; empty where it has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

/// How a kernel can be run in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelParts {
    /// By its twin: block by block.
    Twin,
    /// By launches of some of its blocks each.
    Slices,
    /// As a whole only.
    Whole,
}

/// A task: unit tasks merged because they share memory objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Its number in the module, from 1; the site's id at run time.
    pub id: u32,
    /// The function that holds it, demangled.
    pub function: String,
    /// Every call of its function in this module was inlined: only callers in other files run the task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_others: bool,
    /// Bound by its probe, or at run time.
    pub kind: TaskKind,
    /// Why it is lazy; empty for a static task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// Its GPU ops, in the order of the source.
    #[serde(default)]
    pub ops: Vec<OpReport>,
    /// Its memory objects.
    #[serde(default)]
    pub objects: Vec<ObjectReport>,
    /// What it asks for; a lazy task's is known at run time only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<NeedFormulas>,
    /// In how many milliseconds from its begin the source wants its result; absent where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// Where `task_begin` is inserted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<SourceLocation>,
    /// Where `task_end` is inserted: one for each edge that leaves the region of the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<SourceLocation>,
    /// Whether its objects may move to another GPU once it is bound; absent where nothing was proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub movable: Option<Movable>,
    /// Why it must not share a GPU; a lazy task shares its GPU in any case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<Reason>,
}

/// When a task is bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// The pass knows its ops and its need; its probe binds it.
    Static,
    /// Bound at run time.
    #[default]
    Lazy,
}

/// Why something could not be bound statically.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// The stable name of the reason.
    pub code: ReasonCode,
    /// A sentence that names the object or function.
    pub text: String,
    /// Where in the source.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub at: Option<SourceLocation>,
}

/// Reasons by stable names. Names are only ever added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ReasonCode {
    /// No point dominates every touching op with all values of the need defined.
    NoDominatingPoint,
    /// A value the need reads is not defined at any possible begin point.
    NeedUndefined,
    /// A kernel argument whose memory object the pass cannot name.
    UnknownObject,
    /// The object is allocated in another function or file.
    AllocatedElsewhere,
    /// The launch is in a function that is called from several places or from outside.
    LaunchedElsewhere,
    /// The object is allocated a number of times that is not known (a loop).
    AllocatedInLoop,
    /// The address of the object is stored or passed to where the pass does not follow.
    AddressEscapes,
    /// The same pointer may hold one of several objects.
    ManyObjects,
    /// An object is used by a call of the runtime that the catalogue passes through.
    UntreatedCall,
    /// The kernel is not known: a launch through a pointer.
    UnknownKernel,
    /// A launch whose grid or block the pass cannot read.
    UnknownGrid,
    /// A kernel that takes device pointers inside a struct or through memory.
    PointersInMemory,
    /// The program calls the driver API, or another library that uses CUDA by itself.
    OpenProcess,
    /// The kernel, or the code around it, uses something that exists on one GPU only.
    Anchored,
    /// The source says that the task is to have a GPU for itself.
    Alone,
    /// Its ops are called while different devices of the program are current.
    SeveralDevices,
    /// The kernel synchronises all blocks of the grid: it cannot be run in parts.
    GridBarrier,
    /// The kernel's blocks form clusters.
    Cluster,
    /// The kernel leaves a loop only by what other blocks write.
    WaitsForBlocks,
    /// The kernel calls functions that are not known.
    UnknownCallee,
    /// The kernel launches kernels.
    LaunchesKernels,
    /// The kernel says itself when the kernel behind it may begin.
    ProgrammaticDependence,
    /// Assembly in the kernel reads the index of its block.
    BlockIndexInAssembly,
    /// The kernel ends threads other than by returning.
    ThreadExit,
    /// The kernel has a barrier that some threads may skip.
    BarrierApart,
    /// Lanes of a warp work together after some may have returned.
    WarpAfterExit,
    /// The kernel copies or computes beside its threads.
    Asynchronous,
    /// The kernel asks how much shared memory it has, or uses all that there is.
    SharedMemory,
    /// The kernel takes memory on its stack whose size only shows as it runs.
    VariableStack,
    /// The kernel has sums that may be computed in any order (`-ffast-math`).
    FastMath,
    /// The kernel has as many parameters as a kernel may have.
    Parameters,
    /// The kernel is compiled for a GPU before sm_70.
    OldArchitecture,
    /// A reason of a later version.
    #[serde(other)]
    Other,
}

impl ReasonCode {
    /// All of them.
    pub const ALL: [ReasonCode; 33] = [
        ReasonCode::NoDominatingPoint,
        ReasonCode::NeedUndefined,
        ReasonCode::UnknownObject,
        ReasonCode::AllocatedElsewhere,
        ReasonCode::LaunchedElsewhere,
        ReasonCode::AllocatedInLoop,
        ReasonCode::AddressEscapes,
        ReasonCode::ManyObjects,
        ReasonCode::UntreatedCall,
        ReasonCode::UnknownKernel,
        ReasonCode::UnknownGrid,
        ReasonCode::PointersInMemory,
        ReasonCode::OpenProcess,
        ReasonCode::Anchored,
        ReasonCode::Alone,
        ReasonCode::SeveralDevices,
        ReasonCode::GridBarrier,
        ReasonCode::Cluster,
        ReasonCode::WaitsForBlocks,
        ReasonCode::UnknownCallee,
        ReasonCode::LaunchesKernels,
        ReasonCode::ProgrammaticDependence,
        ReasonCode::BlockIndexInAssembly,
        ReasonCode::ThreadExit,
        ReasonCode::BarrierApart,
        ReasonCode::WarpAfterExit,
        ReasonCode::Asynchronous,
        ReasonCode::SharedMemory,
        ReasonCode::VariableStack,
        ReasonCode::FastMath,
        ReasonCode::Parameters,
        ReasonCode::OldArchitecture,
        ReasonCode::Other,
    ];
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Serde holds the one list of names.
        self.serialize(f)
    }
}

/// A place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLocation {
    /// From 1; 0 where the compiler gave no line (compiled without debug information).
    pub line: u32,
    /// The file, where it is not the module's source (headers).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// One GPU op of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpReport {
    /// The runtime's function, or `launch`.
    pub op: String,
    /// Its place in the source.
    #[serde(flatten)]
    pub at: SourceLocation,
    /// For a launch: the kernel, demangled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The ids of the objects it may touch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<u32>,
}

/// One device allocation, or device variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectReport {
    /// Its number in the task, from 1.
    pub id: u32,
    /// The variable that holds its address; empty where there is none.
    pub name: String,
    /// Its size in bytes, as a formula.
    pub bytes: String,
    /// A device variable, which each GPU has together with the code of the program: not part of the need.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub variable: bool,
}

/// What a static task asks for, each as a formula over the program's values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NeedFormulas {
    /// Peak live bytes: the largest sum of sizes asked for, unrounded.
    pub peak: String,
    /// Blocks of the largest launch.
    pub grid: String,
    /// Threads a block of that launch.
    pub block: String,
    /// The most shared memory of a block, in bytes: dynamic, and static where the kernel's machine code is
    /// known.
    pub shared: String,
    /// The most registers of a thread, where the machine code of every kernel is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
}

/// Whether a bound task may leave its GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Movable {
    /// Its data holds nothing that is valid in one context only.
    pub movable: bool,
    /// The reasons why it is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

/// Why a report could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// Not a report: the message of the JSON reader.
    Malformed(serde_json::Error),
    /// Written by a newer MGB.
    Newer {
        /// The document's version.
        found: u64,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Malformed(e) => write!(f, "malformed report: {e}"),
            ReadError::Newer { found } => write!(
                f,
                "report of version {found}, this MGB reads up to {VERSION}: use the MGB that compiled it"
            ),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::Malformed(e) => Some(e),
            ReadError::Newer { .. } => None,
        }
    }
}

impl Report {
    /// The document in the form of the section: one line, ended by a newline.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("reports hold strings and numbers only");
        line.push('\n');
        line
    }
}

/// Reads the documents of a section, one after another. Zero bytes between them are the linker's padding.
pub fn parse_all(section: &[u8]) -> Result<Vec<Report>, ReadError> {
    let mut reports = Vec::new();
    for document in section.split(|&byte| byte == 0) {
        for value in serde_json::Deserializer::from_slice(document).into_iter::<serde_json::Value>() {
            let value = value.map_err(ReadError::Malformed)?;
            // The version is read first: a newer layout need not fit these types.
            let found = value
                .get("version")
                .and_then(serde_json::Value::as_u64)
                .unwrap_or(0);
            if found > VERSION.into() {
                return Err(ReadError::Newer { found });
            }
            reports.push(serde_json::from_value(value).map_err(ReadError::Malformed)?);
        }
    }
    Ok(reports)
}
