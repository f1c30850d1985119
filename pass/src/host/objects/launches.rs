//! Launches: calls of host stubs with the configuration pushed before them, and direct calls of
//! `cudaLaunchKernel` with their argument arrays.
use std::collections::BTreeMap;

use inkwell::llvm_sys::LLVMOpcode;
use mgb_catalogue::report::ReasonCode;
use mgb_catalogue::{Class, Role, RuntimeFunction};

use crate::host::collect::resources::{Resources, Taken};
use crate::host::collect::variables::{Touched, Variables};
use crate::host::collect::{Callee, Collected, HostKernel, argument_at, arguments_with};
use crate::host::ir::Value;
use crate::host::ir::cfg::Cfg;
use crate::host::ir::helpers;
use crate::host::ir::memory;
use crate::host::reason::Why;

/// Grid, block and shared memory, as the ABI passes them: x and y in one 64-bit word.
#[derive(Clone, Copy)]
pub struct Configuration {
    /// Grid: x in the low half, y in the high half.
    pub grid_xy: Value,
    /// The z dimension of the grid.
    pub grid_z: Value,
    /// Block: x in the low half, y in the high half.
    pub block_xy: Value,
    /// The z dimension of a block.
    pub block_z: Value,
    /// Dynamic shared memory per block, in bytes.
    pub shared: Value,
}

/// One launch of a kernel.
pub struct KernelLaunch {
    /// The call of the stub, or of `cudaLaunchKernel`.
    pub call: Value,
    /// The kernel; its name is empty when it is not known.
    pub kernel: String,
    /// The call that pushed the configuration.
    pub push: Option<Value>,
    /// How it is launched, where that can be seen.
    pub configuration: Option<Configuration>,
    /// Pointers among the kernel's arguments.
    pub pointers: Vec<Value>,
    /// Memory of this function that holds kernel arguments: of direct calls all, of others structures.
    pub storage: Vec<Value>,
    /// What keeps this launch lazy whatever its arguments are.
    pub obstacles: Vec<Why>,
    /// What it does to device variables.
    pub variables: Touched,
    /// What the kernel takes of a multiprocessor, where it is known.
    pub taken: Option<Taken>,
}

/// The launches of a function, in the order they stand.
pub fn find(
    collected: &Collected,
    variables: &Variables,
    resources: &Resources,
    cfg: &Cfg,
) -> Vec<KernelLaunch> {
    let mut launches = Vec::new();
    for instruction in cfg.function.instructions() {
        match collected.callee(instruction) {
            Some(Callee::Stub(kernel)) => {
                launches.push(through_stub(collected, variables, cfg, instruction, kernel));
            }
            Some(Callee::Runtime(entry)) if entry.class == Class::Launch => {
                launches.push(direct(collected, variables, instruction, entry));
            }
            _ => {}
        }
    }
    for launch in &mut launches {
        launch.taken = stub_of(collected, launch.call).and_then(|stub| resources.of(stub));
        obstacles_of_configuration(launch);
    }
    launches
}

/// The host stub of what a call launches.
fn stub_of(collected: &Collected, call: Value) -> Option<Value> {
    match collected.callee(call)? {
        Callee::Stub(_) => call.callee(),
        Callee::Runtime(entry) => arguments_with(call, entry, Role::Kernel).first().copied(),
        _ => None,
    }
}

fn through_stub(
    collected: &Collected,
    variables: &Variables,
    cfg: &Cfg,
    call: Value,
    kernel: &HostKernel,
) -> KernelLaunch {
    let stub = call.callee().expect("a stub is called by its name");
    let push = pushed_before(collected, cfg, call);
    let mut launch = KernelLaunch {
        call,
        kernel: kernel.name.clone(),
        push,
        configuration: push.and_then(|push| configuration(push, collected.entry(push)?)),
        pointers: Vec::new(),
        storage: Vec::new(),
        obstacles: Vec::new(),
        variables: variables.touched(stub, kernel, call),
        taken: None,
    };
    for (at, argument) in call.arguments().enumerate() {
        match helpers::byval_type(call, at as u32) {
            Some(ty) if ty.holds_pointer() => match memory::address(argument).0 {
                variable if variable.is(LLVMOpcode::LLVMAlloca) => launch.storage.push(variable),
                _ => launch.obstacles.push(in_memory(&kernel.name, call)),
            },
            Some(_) => {}
            None if is_in_memory(argument) => launch.storage.push(memory::address(argument).0),
            None if argument.ty().is_pointer() => launch.pointers.push(argument),
            None => {}
        }
    }
    launch
}

/// Whether what a stub is given is an argument in memory of this function, of a class with a copy constructor
/// or a destructor: the call passes its address, and the launch reads it there.
pub fn is_in_memory(argument: Value) -> bool {
    argument.ty().is_pointer() && memory::address(argument).0.is(LLVMOpcode::LLVMAlloca)
}

fn in_memory(kernel: &str, call: Value) -> Why {
    Why::new(
        ReasonCode::PointersInMemory,
        format!("{kernel} takes pointers inside a structure"),
        call,
    )
}

fn direct(
    collected: &Collected,
    variables: &Variables,
    call: Value,
    entry: &'static RuntimeFunction,
) -> KernelLaunch {
    let mut launch = KernelLaunch {
        call,
        kernel: String::new(),
        push: None,
        configuration: configuration(call, entry),
        pointers: Vec::new(),
        storage: Vec::new(),
        obstacles: Vec::new(),
        variables: Touched::default(),
        taken: None,
    };
    let stub = arguments_with(call, entry, Role::Kernel).first().copied();
    match stub.and_then(|stub| Some((stub, collected.kernel(stub)?))) {
        Some((stub, kernel)) => {
            launch.kernel = kernel.name.clone();
            launch.variables = variables.touched(stub, kernel, call);
        }
        None => launch.obstacles.push(Why::new(
            ReasonCode::UnknownKernel,
            "the kernel is chosen at run time",
            call,
        )),
    }
    let array = arguments_with(call, entry, Role::KernelArguments)
        .first()
        .copied();
    match array.and_then(|array| argument_storage(call, array)) {
        Some(storage) => {
            // By its type a kernel says which of its arguments are addresses.
            let given = storage
                .iter()
                .map(|one| one.allocated_type().pointers())
                .sum::<u64>();
            if stub.is_some_and(|stub| taken_pointers(stub) != given) {
                let text = format!(
                    "{} is given arguments of other types than it takes",
                    launch.kernel
                );
                launch
                    .obstacles
                    .push(Why::new(ReasonCode::PointersInMemory, text, call));
            }
            launch.storage = storage;
        }
        None => {
            let text = format!("the arguments of {} are not set up here", launch.kernel);
            launch
                .obstacles
                .push(Why::new(ReasonCode::PointersInMemory, text, call));
        }
    }
    launch
}

/// How many pointers the kernel of a stub takes, those in structures among them.
fn taken_pointers(stub: Value) -> u64 {
    let of_parameter = |parameter: Value| match helpers::byval_parameter_type(parameter) {
        Some(ty) => ty.pointers(),
        None => parameter.ty().pointers(),
    };
    stub.parameters().map(of_parameter).sum()
}

/// The memory each entry of an argument array points to, if the array is filled here, for this call alone.
fn argument_storage(call: Value, array: Value) -> Option<Vec<Value>> {
    if array.is_null() {
        return Some(Vec::new());
    }
    let (base, offset) = helpers::base_and_offset(array);
    if !base.is(LLVMOpcode::LLVMAlloca) || offset != 0 {
        return None;
    }
    let mut entries: BTreeMap<i64, Value> = BTreeMap::new();
    let mut addresses = vec![base];
    while let Some(address) = addresses.pop() {
        for user in address.users() {
            match user.opcode()? {
                LLVMOpcode::LLVMGetElementPtr if helpers::base_and_offset(user).0 == base => {
                    addresses.push(user)
                }
                LLVMOpcode::LLVMStore if user.operand(1) == address && user.operand(0) != address => {
                    let at = helpers::base_and_offset(address).1;
                    let entry = user.operand(0);
                    let same = entries.insert(at, entry).is_none_or(|before| before == entry);
                    if !same || !entry.is(LLVMOpcode::LLVMAlloca) {
                        return None;
                    }
                }
                _ if user == call || user.is_marker() => {}
                _ => return None,
            }
        }
    }
    Some(entries.into_values().collect())
}

/// Whether a store only puts the address of a kernel argument into an argument array.
pub fn fills_array(launches: &[KernelLaunch], store: Value) -> bool {
    let (base, _) = helpers::base_and_offset(store.operand(1));
    launches.iter().any(|launch| {
        launch.storage.contains(&store.operand(0))
            && launch
                .call
                .arguments()
                .any(|argument| helpers::base_and_offset(argument).0 == base)
    })
}

/// The configuration pushed for a stub's call: on every way to the call, the last one before it.
fn pushed_before(collected: &Collected, cfg: &Cfg, call: Value) -> Option<Value> {
    let mut block = cfg.point(call).block;
    let mut end = cfg.point(call).at;
    loop {
        let before: Vec<Value> = cfg.block(block).instructions().take(end).collect();
        for &instruction in before.iter().rev() {
            match collected.callee(instruction) {
                Some(Callee::Runtime(entry)) if entry.name == "__cudaPushCallConfiguration" => {
                    return Some(instruction);
                }
                Some(Callee::Stub(_)) => return None,
                _ => {}
            }
        }
        block = cfg.immediate_dominator(block)?;
        end = usize::MAX;
    }
}

fn configuration(call: Value, entry: &RuntimeFunction) -> Option<Configuration> {
    let at = |role| {
        entry
            .position(role)
            .map(|parameter| argument_at(entry, parameter))
    };
    let (grid, block) = (at(Role::Grid)?, at(Role::Block)?);
    let shared = at(Role::SharedBytes)?;
    // Other targets pass a dim3 otherwise.
    let passes_words = call.argument_count() == entry.params.len() as u32 + 2
        && call.operand(grid).ty().int_width() == Some(64)
        && call.operand(grid + 1).ty().int_width() == Some(32);
    passes_words.then(|| Configuration {
        grid_xy: call.operand(grid),
        grid_z: call.operand(grid + 1),
        block_xy: call.operand(block),
        block_z: call.operand(block + 1),
        shared: call.operand(shared),
    })
}

fn obstacles_of_configuration(launch: &mut KernelLaunch) {
    if launch.configuration.is_none() {
        let text = format!("the grid and block of {} are not visible here", launch.kernel);
        launch
            .obstacles
            .push(Why::new(ReasonCode::UnknownGrid, text, launch.call));
    }
}
