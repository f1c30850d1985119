//! Rewrite: inserts the probes of static tasks, and redirects every use of the runtime to lazyrt.
//!
//! The handle of a task is in a variable of the function that is 0 before the task begins: `task_use` and
//! `task_end` read it, whatever path control took. A second variable is the word of the activation, by which
//! lazyrt knows what was allocated before the begin.
mod emit;

use std::collections::HashMap;
use std::mem::ManuallyDrop;

use inkwell::AddressSpace;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::builder::{Builder, BuilderError};
use inkwell::llvm_sys::core::{LLVMDeleteFunction, LLVMReplaceAllUsesWith};
use inkwell::llvm_sys::prelude::LLVMModuleRef;
use inkwell::module::{Linkage, Module};
use inkwell::types::{BasicMetadataTypeEnum, BasicType, StructType};
use inkwell::values::{FunctionValue, GlobalValue, PointerValue};

use crate::device;
use crate::host::collect::Collected;
use crate::host::collect::parts::TwinRegistration;
use crate::host::ir::expr::{self, BinaryOp, Expr};
use crate::host::ir::helpers;
use crate::host::ir::{BasicBlock, Value};
use crate::host::plan::Static;
use crate::host::tasks::ends::End;
use emit::Emitter;

/// The prefix of the runtime functions in lazyrt.
const PREFIX: &str = "mgb_";
/// `sizeof(mgb_need)` of mgb.h.
const NEED_BYTES: u64 = 64;
/// `MGB_NEED_VARIABLES` of mgb.h.
const NEED_VARIABLES: u64 = 4;
/// `MGB_NEED_ALONE` of mgb.h.
const NEED_ALONE: u64 = 8;
/// `MGB_NEED_MOVABLE` of mgb.h.
const NEED_MOVABLE: u64 = 16;
/// `sizeof(mgb_task_site)` of mgb.h.
const SITE_BYTES: u64 = 24;
/// The priority of the constructor: it runs before those of the module, so that lazyrt knows first that the
/// process is open.
const EARLY: i32 = 101;

/// The variables of a task in its function.
struct Inserted<'ctx> {
    /// The handle; 0 before the task begins and when it has ended.
    handle: PointerValue<'ctx>,
    /// The word of the activation, which lazyrt numbers; none where the task allocates nothing. Its address goes
    /// to functions that LLVM does not see, so it is memory of the activation, in a coroutine of its frame.
    activation: Option<PointerValue<'ctx>>,
}

/// Writes into one module.
pub struct Rewriter<'ctx> {
    /// LLVM owns the module: it is never dropped here.
    module: ManuallyDrop<Module<'ctx>>,
    builder: Builder<'ctx>,
    /// The names of source files, as constants.
    sources: HashMap<String, GlobalValue<'ctx>>,
}

impl<'ctx> Rewriter<'ctx> {
    /// For a module.
    pub fn new(module: LLVMModuleRef) -> Self {
        // SAFETY: the module is live and outlives this; it is never dropped here.
        let module = ManuallyDrop::new(unsafe { Module::new(module) });
        let builder = module.get_context().create_builder();
        Self {
            module,
            builder,
            sources: HashMap::new(),
        }
    }

    /// Inserts everything for the static tasks of one function of a source, given with their numbers.
    pub fn insert(
        &mut self,
        function: Value,
        source: &str,
        tasks: &[(u32, &Static)],
    ) -> Result<(), BuilderError> {
        let name = helpers::demangle(&function.name());
        let mut handles = Vec::new();
        for &(id, task) in tasks {
            let site = self.site(id, source, &name);
            let Inserted { handle, activation } = self.begin(function, site, task)?;
            handles.push(handle);
            for &(op, allocates) in &task.ops {
                self.builder.position_before(&emit::instruction(op));
                let task = self.builder.build_load(self.i64(), handle, "mgb.task")?;
                let arguments = [site.as_pointer_value().into(), task.into()];
                match activation.filter(|_| allocates) {
                    Some(activation) => {
                        let arguments = [&arguments[..], &[activation.into()]].concat();
                        self.builder.build_call(self.task_use_in(), &arguments, "")?
                    }
                    None => self.builder.build_call(self.task_use(), &arguments, "")?,
                };
            }
        }
        self.ends(tasks, &handles)
    }

    fn ends(&self, tasks: &[(u32, &Static)], handles: &[PointerValue<'ctx>]) -> Result<(), BuilderError> {
        let mut split: Vec<((BasicBlock, BasicBlock), BasicBlock)> = Vec::new();
        for (&(_, task), &handle) in tasks.iter().zip(handles) {
            for &end in &task.ends {
                let before = match end {
                    End::After(op) => op.next(),
                    End::Head(block) => block.first_insertion_point(),
                    // The edges of several tasks may be the same one.
                    End::Edge(from, to) => match split.iter().find(|(edge, _)| *edge == (from, to)) {
                        Some((_, block)) => block.terminator(),
                        None => helpers::split_edge(from, to).and_then(|block| {
                            split.push(((from, to), block));
                            block.terminator()
                        }),
                    },
                };
                // An end that cannot be inserted is left out: ends are hints.
                if let Some(before) = before {
                    self.end(before, handle)?;
                }
            }
        }
        Ok(())
    }

    fn begin(
        &self,
        function: Value,
        site: GlobalValue<'ctx>,
        task: &Static,
    ) -> Result<Inserted<'ctx>, BuilderError> {
        let entry = function
            .blocks()
            .next()
            .and_then(BasicBlock::first_insertion_point);
        self.builder
            .position_before(&emit::instruction(entry.expect("a function begins with a block")));
        let handle = self.builder.build_alloca(self.i64(), "mgb.handle")?;
        let need = self.builder.build_alloca(self.need_type(), "mgb.need")?;
        self.builder.build_store(handle, self.i64().const_zero())?;
        let activation = if task.ops.iter().any(|&(_, allocates)| allocates) {
            let activation = self.builder.build_alloca(self.i64(), "mgb.activation")?;
            self.builder.build_store(activation, self.i64().const_zero())?;
            Some(activation)
        } else {
            None
        };

        self.builder.position_before(&emit::instruction(task.begin));
        let emitter = Emitter::new(&self.module, &self.builder);
        let peak = emitter.integer(&task.need.peak)?;
        let mapped = emitter.integer(&task.need.mapped)?;
        let grid = emitter.integer(task.need.grid.known.as_ref().unwrap_or(&Expr::number(0)))?;
        let block = emitter.integer(&clamped(&task.need.block.known))?;
        let shared = emitter.integer(&clamped(&task.need.shared.known))?;
        let registers = self
            .i32()
            .const_int(task.need.registers.unwrap_or(0).into(), false);
        let deadline = emitter.integer(&nanoseconds(&task.deadline))?;
        let ty = self.need_type();
        let size = self.i32().const_int(NEED_BYTES, false);
        let flags = [
            (task.variables, NEED_VARIABLES),
            (task.alone, NEED_ALONE),
            (task.movable, NEED_MOVABLE),
        ];
        let flags = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum();
        let (none, never) = (self.i32().const_zero(), self.i64().const_zero());
        let fields = [
            ("size", size),
            ("flags", self.i32().const_int(flags, false)),
            ("peak", peak),
            ("mapped", mapped),
            ("grid", grid),
            ("block", block),
            ("registers", registers),
            ("shared", shared),
            ("priority", none),
            ("heap", never),
            ("deadline", deadline),
        ];
        for (at, (name, field)) in fields.into_iter().enumerate() {
            let place = self
                .builder
                .build_struct_gep(ty, need, at as u32, &format!("mgb.need.{name}"))?;
            self.builder.build_store(place, field)?;
        }
        let arguments = [site.as_pointer_value().into(), need.into()];
        let task = match activation {
            Some(activation) => {
                let arguments = [&arguments[..], &[activation.into()]].concat();
                self.builder
                    .build_call(self.task_begin_in(), &arguments, "mgb.task")?
            }
            None => self
                .builder
                .build_call(self.task_begin(), &arguments, "mgb.task")?,
        };
        self.builder.build_store(
            handle,
            task.try_as_basic_value()
                .expect_basic("task_begin returns the handle"),
        )?;
        Ok(Inserted { handle, activation })
    }

    fn end(&self, before: Value, handle: PointerValue<'ctx>) -> Result<(), BuilderError> {
        self.builder.position_before(&emit::instruction(before));
        let task = self.builder.build_load(self.i64(), handle, "mgb.task")?;
        self.builder.build_call(self.task_end(), &[task.into()], "")?;
        self.builder.build_store(handle, self.i64().const_zero())?;
        Ok(())
    }

    /// Renames the runtime's functions to lazyrt's, for every use in the module.
    pub fn rename(&self, collected: &Collected) {
        for (function, entry) in collected.runtime() {
            if !entry.exported {
                continue;
            }
            let name = format!("{PREFIX}{}", entry.name);
            match self.module.get_function(&name) {
                None => function.set_name(&name),
                // SAFETY: both are live functions of this module, and pointers are all of one type.
                Some(there) => unsafe {
                    LLVMReplaceAllUsesWith(function.raw(), emit::handle(there).raw());
                    LLVMDeleteFunction(function.raw());
                },
            }
        }
    }

    /// Inserts a constructor that reports the process as open, and why.
    pub fn open(&self, reason: &str) -> Result<(), BuilderError> {
        let context = self.module.get_context();
        let tell = self.declare(
            "mgb_module_open",
            context.void_type().fn_type(&[self.pointer().into()], false),
        );
        let constructor = context.void_type().fn_type(&[], false);
        let constructor = self
            .module
            .add_function("mgb.open", constructor, Some(Linkage::Internal));
        self.builder
            .position_at_end(context.append_basic_block(constructor, "entry"));
        let reason = string(&self.module, "mgb.reason", reason);
        self.builder
            .build_call(tell, &[reason.as_pointer_value().into()], "")?;
        self.builder.build_return(None)?;
        helpers::add_constructor(self.module.as_mut_ptr(), emit::handle(constructor), EARLY);
        Ok(())
    }

    /// Notifies lazyrt before each of these calls.
    pub fn notify_before(&self, teller: &str, calls: &[Value]) -> Result<(), BuilderError> {
        if calls.is_empty() {
            return Ok(());
        }
        let tell = self.declare(teller, self.module.get_context().void_type().fn_type(&[], false));
        for &call in calls {
            self.builder.position_before(&emit::instruction(call));
            self.builder.build_call(tell, &[], "")?;
        }
        Ok(())
    }

    /// Tells lazyrt of the twins of kernels, behind the kernels' own registrations.
    pub fn register_twins(&self, twins: &[TwinRegistration]) -> Result<(), BuilderError> {
        if twins.is_empty() {
            return Ok(());
        }
        let context = self.module.get_context();
        let (i8, i32) = (context.i8_type(), self.i32());
        let pointer = context.ptr_type(AddressSpace::default());
        let mut parameters = vec![pointer.into(); 5];
        parameters.extend([i32; 3].map(BasicMetadataTypeEnum::from));
        let register = self.declare(
            "mgb_register_twin",
            context.void_type().fn_type(&parameters, false),
        );
        for twin in twins {
            let call = emit::instruction(twin.call);
            let next = call.get_next_instruction().expect("a call ends no block");
            self.builder.position_before(&next);
            // SAFETY: live operands of a call of `__cudaRegisterFunction`: the module's handle and the stub.
            let [handle, kernel] = [0, 1].map(|at| unsafe { PointerValue::new(twin.call.operand(at).raw()) });
            // The runtime knows the twin by this address, as it knows a kernel by its stub.
            let stub = self.module.add_global(i8, None, &device::twin_stub(&twin.symbol));
            stub.set_initializer(&i8.const_zero());
            stub.set_linkage(Linkage::Private);
            let symbol = string(&self.module, "mgb.twin", &twin.symbol);
            let sizes = self.numbers("mgb.twin.sizes", &twin.parameters);
            let [stub, symbol, sizes] = [stub, symbol, sizes].map(GlobalValue::as_pointer_value);
            let arguments = [
                handle.into(),
                kernel.into(),
                stub.into(),
                symbol.into(),
                sizes.into(),
                i32.const_int(twin.parameters.len() as u64, false).into(),
                i32.const_int(twin.takes_one.into(), false).into(),
                i32.const_int(twin.whole_rows.into(), false).into(),
            ];
            self.builder.build_call(register, &arguments, "")?;
        }
        Ok(())
    }

    /// A constant table of numbers.
    fn numbers(&self, name: &str, numbers: &[u32]) -> GlobalValue<'ctx> {
        let i32 = self.module.get_context().i32_type();
        let numbers: Vec<_> = numbers
            .iter()
            .map(|&number| i32.const_int(number.into(), false))
            .collect();
        let table = i32.const_array(&numbers);
        let global = self.module.add_global(table.get_type(), None, name);
        global.set_initializer(&table);
        global.set_linkage(Linkage::Private);
        global.set_constant(true);
        global
    }

    /// Has lazyrt forget the twins of a module before the runtime does.
    pub fn forget_twins(&self, unregistrations: &[Value]) -> Result<(), BuilderError> {
        let context = self.module.get_context();
        let pointer = context.ptr_type(AddressSpace::default());
        let forget = self.declare(
            "mgb_forget_twins",
            context.void_type().fn_type(&[pointer.into()], false),
        );
        for call in unregistrations {
            self.builder.position_before(&emit::instruction(*call));
            // SAFETY: a live operand of a call of `__cudaUnregisterFatBinary`: the module's handle.
            let handle = unsafe { PointerValue::new(call.operand(0).raw()) };
            self.builder.build_call(forget, &[handle.into()], "")?;
        }
        Ok(())
    }

    /// Keeps the report in a section of the object.
    pub fn report(&self, document: &str) {
        let text = self.module.get_context().const_string(document.as_bytes(), false);
        let global = self.module.add_global(text.get_type(), None, "mgb.report");
        global.set_initializer(&text);
        global.set_linkage(Linkage::Private);
        global.set_constant(true);
        global.set_alignment(1);
        global.set_section(Some(mgb_catalogue::report::SECTION));
        helpers::keep(self.module.as_mut_ptr(), emit::handle(global.as_pointer_value()));
    }

    /// The constant that describes a task at run time: `mgb_task_site` of mgb.h.
    fn site(&mut self, id: u32, source: &str, function: &str) -> GlobalValue<'ctx> {
        let source = *self
            .sources
            .entry(source.to_owned())
            .or_insert_with(|| string(&self.module, "mgb.source", source));
        let function = string(&self.module, "mgb.function", function);
        let fields = [
            self.i32().const_int(SITE_BYTES, false).into(),
            self.i32().const_int(id.into(), false).into(),
            source.as_pointer_value().into(),
            function.as_pointer_value().into(),
        ];
        let value = self.module.get_context().const_struct(&fields, false);
        let global = self
            .module
            .add_global(value.get_type(), None, &format!("mgb.site.{id}"));
        global.set_initializer(&value);
        global.set_linkage(Linkage::Private);
        global.set_constant(true);
        global
    }

    /// `mgb_need` of mgb.h.
    fn need_type(&self) -> StructType<'ctx> {
        let (i32, i64) = (self.i32().as_basic_type_enum(), self.i64().as_basic_type_enum());
        self.module
            .get_context()
            .struct_type(&[i32, i32, i64, i64, i64, i32, i32, i32, i32, i64, i64], false)
    }

    fn task_begin(&self) -> FunctionValue<'ctx> {
        self.declare(
            "mgb_task_begin",
            self.i64()
                .fn_type(&[self.pointer().into(), self.pointer().into()], false),
        )
    }

    fn task_use(&self) -> FunctionValue<'ctx> {
        let void = self.module.get_context().void_type();
        self.declare(
            "mgb_task_use",
            void.fn_type(&[self.pointer().into(), self.i64().into()], false),
        )
    }

    fn task_begin_in(&self) -> FunctionValue<'ctx> {
        let pointer = self.pointer().into();
        let ty = self.i64().fn_type(&[pointer, pointer, pointer], false);
        self.declare("mgb_task_begin_in", ty)
    }

    fn task_use_in(&self) -> FunctionValue<'ctx> {
        let void = self.module.get_context().void_type();
        let pointer = self.pointer().into();
        let ty = void.fn_type(&[pointer, self.i64().into(), pointer], false);
        self.declare("mgb_task_use_in", ty)
    }

    fn task_end(&self) -> FunctionValue<'ctx> {
        self.declare(
            "mgb_task_end",
            self.module
                .get_context()
                .void_type()
                .fn_type(&[self.i64().into()], false),
        )
    }

    fn declare(&self, name: &str, ty: inkwell::types::FunctionType<'ctx>) -> FunctionValue<'ctx> {
        self.module.get_function(name).unwrap_or_else(|| {
            let function = self.module.add_function(name, ty, None);
            let nounwind = Attribute::get_named_enum_kind_id("nounwind");
            let nounwind = self.module.get_context().create_enum_attribute(nounwind, 0);
            function.add_attribute(AttributeLoc::Function, nounwind);
            function
        })
    }

    fn i32(&self) -> inkwell::types::IntType<'ctx> {
        self.module.get_context().i32_type()
    }

    fn i64(&self) -> inkwell::types::IntType<'ctx> {
        self.module.get_context().i64_type()
    }

    fn pointer(&self) -> inkwell::types::PointerType<'ctx> {
        self.module.get_context().ptr_type(AddressSpace::default())
    }
}

/// A 64-bit expression, none counting as 0, brought into 32 bits.
fn clamped(expression: &Option<Expr>) -> Expr {
    let whole = expression.clone().unwrap_or(Expr::number(0));
    expr::trunc(
        32,
        expr::binary(BinaryOp::UMin, whole, Expr::number(u32::MAX.into())),
    )
}

/// Milliseconds in nanoseconds, none counting as 0; what would not fit is 49 days.
fn nanoseconds(milliseconds: &Option<Expr>) -> Expr {
    let whole = milliseconds.clone().unwrap_or(Expr::number(0));
    let bounded = expr::binary(BinaryOp::UMin, whole, Expr::number(u32::MAX.into()));
    expr::binary(BinaryOp::Mul, bounded, Expr::number(1_000_000))
}

/// A constant C string.
fn string<'ctx>(module: &Module<'ctx>, name: &str, text: &str) -> GlobalValue<'ctx> {
    let value = module.get_context().const_string(text.as_bytes(), true);
    let global = module.add_global(value.get_type(), None, name);
    global.set_initializer(&value);
    global.set_linkage(Linkage::Private);
    global.set_constant(true);
    global.set_unnamed_addr(true);
    global.set_alignment(1);
    global
}
