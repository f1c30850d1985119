//! Devices: which of the program's devices is current at each instruction of a function.
//!
//! The current device is followed as a variable is in SSA form. `cudaSetDevice` defines it, and so does the
//! call of a function of this module that may come to `cudaSetDevice`; where different definitions meet, the
//! block is one. Ops with the same definition are on the same device, whatever its number. A function outside
//! of the module is taken to leave the device alone: lazyrt compares the devices at run time, and only the
//! need is not exact where one does not.
use std::collections::HashSet;

use inkwell::llvm_sys::LLVMOpcode;
use mgb_catalogue::report::ReasonCode;

use crate::host::collect::{Callee, Collected};
use crate::host::ir::Value;
use crate::host::ir::cfg::{Cfg, Point};
use crate::host::objects::ops::{GpuOp, OpKind};
use crate::host::reason::Why;

/// Defines the current device of the calling thread.
const SET: &str = "cudaSetDevice";
/// The function that reads the current device.
const GET: &str = "cudaGetDevice";
/// How often the blocks of a function are looked at before every block counts as a definition of its own.
const ROUNDS: usize = 32;

/// What defined the current device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CurrentDevice {
    /// The caller of the function.
    Caller,
    /// A call with this number.
    Number(u64),
    /// A call with this value, known at run time.
    Chosen(Value),
    /// This call of a function that may come to `cudaSetDevice`.
    After(Value),
    /// The block with this number, where several definitions meet.
    Merged(usize),
}

/// The functions of a module that may leave another device current than they found.
pub struct Choosers {
    functions: HashSet<Value>,
    /// Whether any device but the first is ever chosen here.
    choose_others: bool,
}

impl Choosers {
    /// Looks through a prepared module.
    pub fn new(collected: &Collected) -> Self {
        let is_other = |call: &Value| call.operand(0).constant() != Some(0);
        let mut choosers = Self {
            functions: collected.choosing_device(),
            choose_others: collected.choices_of_device().iter().any(is_other),
        };
        // A guard's destructor sets what its constructor found: together they change nothing.
        loop {
            let keeps = |function: &&Value| {
                let cfg = Cfg::new(**function);
                DeviceFlow::new(collected, &choosers, &cfg).keeps_the_callers(&cfg)
            };
            let kept: Vec<Value> = choosers.functions.iter().filter(keeps).copied().collect();
            if kept.is_empty() {
                return choosers;
            }
            kept.iter().for_each(|function| {
                choosers.functions.remove(function);
            });
        }
    }
}

/// The current device throughout one function.
pub struct DeviceFlow {
    /// At the start of each block; none for blocks that control cannot come to.
    entering: Vec<Option<CurrentDevice>>,
    /// In each block: the instructions after which another device is current.
    definitions: Vec<Vec<(usize, Definition)>>,
}

/// What an instruction makes the current device.
#[derive(Clone, Copy)]
enum Definition {
    Known(CurrentDevice),
    /// What was current at this point.
    AsAt(Point),
}

impl DeviceFlow {
    /// Follows the device through a function.
    pub fn new(collected: &Collected, choosers: &Choosers, cfg: &Cfg) -> Self {
        let mut this = Self {
            entering: vec![None; cfg.len()],
            definitions: definitions(collected, choosers, cfg),
        };
        // A process starts with its first device.
        let first = match cfg.function.name().as_str() {
            "main" => CurrentDevice::Number(0),
            _ => CurrentDevice::Caller,
        };
        if this.definitions.iter().all(Vec::is_empty) {
            this.entering.fill(Some(first));
            return this;
        }
        for _ in 0..ROUNDS {
            if !this.round(cfg, first) {
                return this;
            }
        }
        for (block, entering) in this.entering.iter_mut().enumerate() {
            *entering = Some(CurrentDevice::Merged(block));
        }
        this
    }

    /// Looks at every block once; whether anything changed.
    fn round(&mut self, cfg: &Cfg, first: CurrentDevice) -> bool {
        let mut changed = false;
        for block in 0..cfg.len() {
            if self.entering[block] == Some(CurrentDevice::Merged(block)) {
                continue;
            }
            let before = cfg.predecessors(block).into_iter();
            let mut meeting: HashSet<CurrentDevice> =
                before.filter_map(|before| self.leaving(before)).collect();
            if block == 0 {
                meeting.insert(first);
            }
            let entering = match meeting.len() {
                0 | 1 => meeting.into_iter().next(),
                _ => Some(CurrentDevice::Merged(block)),
            };
            changed |= entering != self.entering[block];
            self.entering[block] = entering;
        }
        changed
    }

    fn leaving(&self, block: usize) -> Option<CurrentDevice> {
        self.look(Point {
            block,
            at: usize::MAX,
        })
    }

    fn look(&self, point: Point) -> Option<CurrentDevice> {
        let definitions = self.definitions[point.block].iter();
        let last = definitions.rev().find(|(at, _)| *at < point.at);
        match last {
            Some((_, Definition::Known(device))) => Some(*device),
            Some((_, Definition::AsAt(earlier))) => self.look(*earlier),
            None => self.entering[point.block],
        }
    }

    /// The device that is current in front of the instruction at a point.
    pub fn at(&self, point: Point) -> CurrentDevice {
        self.look(point).unwrap_or(CurrentDevice::Merged(point.block))
    }

    /// Whether the function always returns with the device current that its caller had.
    fn keeps_the_callers(&self, cfg: &Cfg) -> bool {
        let returns = |&block: &usize| {
            let last = cfg.block(block).terminator();
            last.is_some_and(|last| last.is(LLVMOpcode::LLVMRet) || last.is(LLVMOpcode::LLVMResume))
        };
        (0..cfg.len())
            .filter(returns)
            .all(|block| matches!(self.leaving(block), None | Some(CurrentDevice::Caller)))
    }

    /// The device of a task with these ops, or why it has several. Memory may be freed whatever device is
    /// current.
    pub fn of_all<'o>(
        &self,
        cfg: &Cfg,
        ops: impl Iterator<Item = &'o GpuOp>,
    ) -> Result<Option<CurrentDevice>, Why> {
        let mut first: Option<(CurrentDevice, &str)> = None;
        for op in ops.filter(|op| !matches!(op.kind, OpKind::Free)) {
            let device = self.at(cfg.point(op.call));
            match first {
                Some((other, name)) if other != device => {
                    let calls = match op.name == name {
                        true => format!("{name} calls"),
                        false => format!("{name} and {}", op.name),
                    };
                    let text = format!("its {calls} are on several devices");
                    return Err(Why::new(ReasonCode::SeveralDevices, text, op.call));
                }
                _ => first = first.or(Some((device, op.name))),
            }
        }
        Ok(first.map(|(device, _)| device))
    }
}

fn definitions(collected: &Collected, choosers: &Choosers, cfg: &Cfg) -> Vec<Vec<(usize, Definition)>> {
    let of_block = |block: usize| {
        let instructions = cfg.block(block).instructions().enumerate();
        let defining = instructions.filter_map(|(at, instruction)| {
            let definition = match collected.callee(instruction)? {
                Callee::Runtime(entry) if entry.plain_name() == SET && choosers.choose_others => {
                    let device = instruction.operand(0);
                    match found_at(collected, cfg, device) {
                        Some(point) => Definition::AsAt(point),
                        None => Definition::Known(
                            device
                                .constant()
                                .map_or(CurrentDevice::Chosen(device), CurrentDevice::Number),
                        ),
                    }
                }
                Callee::Other(function) if choosers.functions.contains(&function) => {
                    Definition::Known(CurrentDevice::After(instruction))
                }
                _ => return None,
            };
            Some((at, definition))
        });
        defining.collect()
    };
    (0..cfg.len()).map(of_block).collect()
}

/// Where the program asked for the current device, if this value is what it was told then: read from a
/// variable that `cudaGetDevice` was the last to write.
fn found_at(collected: &Collected, cfg: &Cfg, device: Value) -> Option<Point> {
    if !device.is(LLVMOpcode::LLVMLoad) || !device.operand(0).is(LLVMOpcode::LLVMAlloca) {
        return None;
    }
    let users = device.operand(0).users();
    let asks = |user: &Value| {
        collected
            .entry(*user)
            .is_some_and(|entry| entry.plain_name() == GET)
    };
    let mut asking = users.iter().copied().filter(asks);
    let (Some(asked), None) = (asking.next(), asking.next()) else {
        return None;
    };
    let asked = cfg.point(asked);
    let is_harmless = |&user: &Value| {
        let is_before = || user.operand(0) != device.operand(0) && cfg.dominates(cfg.point(user), asked);
        let initialises = user.is(LLVMOpcode::LLVMStore) && is_before();
        asks(&user) || user.is(LLVMOpcode::LLVMLoad) || user.is_marker() || initialises
    };
    let is_sure = cfg.dominates(asked, cfg.point(device)) && users.iter().all(is_harmless);
    is_sure.then_some(asked)
}
