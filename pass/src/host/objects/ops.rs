//! Ops: what one runtime call does to the objects it names, from the catalogue.
use mgb_catalogue::report::ReasonCode;
use mgb_catalogue::{Class, Role, RuntimeFunction, Treatment};

use crate::host::collect::arguments_with;
use crate::host::collect::variables::DeviceVariable;
use crate::host::ir::Value;
use crate::host::ir::memory;
use crate::host::reason::Why;

/// `cudaMemcpyHostToDevice`.
const HOST_TO_DEVICE: u64 = 1;
/// `cudaMemcpyDeviceToHost`.
const DEVICE_TO_HOST: u64 = 2;

/// What an op does.
pub enum OpKind {
    /// Allocates an object; how large it will be.
    Allocate(Size),
    /// The call frees an object.
    Free,
    /// Copies or sets: needs a GPU.
    Touch,
    /// A launch, by its number among the function's launches.
    Launch(usize),
    /// Reads or writes a device variable.
    Symbol,
}

/// The size of an allocation.
pub enum Size {
    /// A number of bytes.
    Bytes(Value),
    /// Rows of so many bytes, padded to 512, and their number.
    Rows(Value, Value),
    /// Not known here.
    Unknown,
}

/// One GPU op of a function.
pub struct GpuOp {
    /// The call or invoke.
    pub call: Value,
    /// What it does.
    pub kind: OpKind,
    /// The runtime's function, or `launch`.
    pub name: &'static str,
    /// The pointers it is given, as nodes of the function's objects.
    pub nodes: Vec<usize>,
    /// The device variables it touches that change, where they are known.
    pub variables: Vec<DeviceVariable>,
    /// What keeps it lazy whatever its objects are.
    pub obstacles: Vec<Why>,
}

impl GpuOp {
    /// Whether it needs a GPU; allocating and freeing do not.
    pub fn is_touching(&self) -> bool {
        matches!(self.kind, OpKind::Touch | OpKind::Launch(_) | OpKind::Symbol)
    }
}

/// Whether static tasks may contain calls of this function: its roles describe everything it does to its
/// objects.
pub fn is_understood(entry: &RuntimeFunction) -> bool {
    matches!(entry.class, Class::Alloc | Class::Free | Class::Copy | Class::Set)
        && matches!(
            entry.treatment,
            Treatment::Address | Treatment::Bound | Treatment::Recorded
        )
}

/// The op of a call that allocates.
pub fn allocation(call: Value, entry: &'static RuntimeFunction) -> GpuOp {
    let sizes = arguments_with(call, entry, Role::Size);
    let size = match (sizes.as_slice(), entry.position(Role::PitchOut)) {
        (&[bytes], None) => Size::Bytes(bytes),
        (&[width, height], Some(_)) => Size::Rows(width, height),
        _ => Size::Unknown,
    };
    let mut obstacles = untreated(call, entry);
    if matches!(size, Size::Unknown) && obstacles.is_empty() {
        let text = format!("the size of {}'s object is not known here", entry.name);
        obstacles.push(Why::new(ReasonCode::NeedUndefined, text, call));
    }
    GpuOp {
        call,
        kind: OpKind::Allocate(size),
        name: entry.name,
        nodes: Vec::new(),
        variables: Vec::new(),
        obstacles,
    }
}

/// A free, a copy or a set; with it, those of its pointers that may be into device memory.
pub fn touching(call: Value, entry: &'static RuntimeFunction) -> (GpuOp, Vec<Value>) {
    let obstacles = untreated(call, entry);
    let pointers = arguments_with(call, entry, Role::DevicePointer);
    let direction = arguments_with(call, entry, Role::CopyKind)
        .first()
        .and_then(|kind| kind.constant());
    // The destination comes first, as everywhere in the runtime.
    let pointers = match (direction, pointers.as_slice()) {
        (Some(HOST_TO_DEVICE), &[to, _]) => vec![to],
        (Some(DEVICE_TO_HOST), &[_, from]) => vec![from],
        // The runtime finds out the direction; pointers known to be into host memory need not be followed.
        (_, &[to, from]) => [to, from]
            .into_iter()
            .filter(|&pointer| !memory::is_host_memory(pointer))
            .collect(),
        _ => pointers,
    };
    let kind = if entry.class == Class::Free {
        OpKind::Free
    } else {
        OpKind::Touch
    };
    (
        GpuOp {
            call,
            kind,
            name: entry.name,
            nodes: Vec::new(),
            variables: Vec::new(),
            obstacles,
        },
        pointers,
    )
}

/// An access to a device variable, which is there once per GPU; the variable where it is known and the access
/// is a copy from or to the host.
pub fn symbol(call: Value, entry: &'static RuntimeFunction, variable: Option<DeviceVariable>) -> GpuOp {
    let obstacles = match variable {
        Some(_) => Vec::new(),
        None => vec![why_anchored(call, entry.name)],
    };
    GpuOp {
        call,
        kind: OpKind::Symbol,
        name: entry.name,
        nodes: Vec::new(),
        variables: variable.into_iter().collect(),
        obstacles,
    }
}

/// Why an access to a device variable is lazy where no launch of its task uses the variable.
pub fn why_anchored(call: Value, name: &str) -> Why {
    let text = format!("{name} accesses a device variable, which belongs to one GPU");
    Why::new(ReasonCode::Anchored, text, call)
}

fn untreated(call: Value, entry: &'static RuntimeFunction) -> Vec<Why> {
    if is_understood(entry) {
        return Vec::new();
    }
    let text = format!("{} is passed on to CUDA as it is", entry.name);
    vec![Why::new(ReasonCode::UntreatedCall, text, call)]
}
