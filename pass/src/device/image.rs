//! The tables by which the software GPU finds a module's kernels: `softgpu_image` and its parts, as
//! softgpu/include/softgpu_image.h lays them out, and the constructor that hands them over.
use std::collections::HashMap;

use inkwell::llvm_sys::LLVMLinkage;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::ir::*;
use super::kernel::{Kernel, twin_stub};
use super::registered::RegisteredSymbols;
use super::translate::Translation;
use super::{helpers, module, variables};

/// `SOFTGPU_IMAGE_VERSION`.
const VERSION: u64 = 3;
/// `SOFTGPU_KERNEL_BARRIER`.
const BARRIER: u64 = 1;
/// `SOFTGPU_KERNEL_COROUTINE`.
const COROUTINE: u64 = 2;
/// Before the constructors of the program's own, which may launch kernels.
const CONSTRUCTOR_PRIORITY: i32 = 101;

/// The symbol of a module's image.
pub const SYMBOL: &std::ffi::CStr = c"softgpu.image";

/// Builds constants of a host module.
struct Tables {
    module: LLVMModuleRef,
    context: LLVMContextRef,
}

impl Tables {
    fn u32(&self, value: u64) -> LLVMValueRef {
        llvm!(LLVMConstInt(LLVMInt32TypeInContext(self.context), value, 0))
    }

    fn u64(&self, value: u64) -> LLVMValueRef {
        llvm!(LLVMConstInt(LLVMInt64TypeInContext(self.context), value, 0))
    }

    fn null(&self) -> LLVMValueRef {
        llvm!(LLVMConstNull(LLVMPointerTypeInContext(self.context, 0)))
    }

    fn structure(&self, mut fields: Vec<LLVMValueRef>) -> LLVMValueRef {
        let count = fields.len() as u32;
        llvm!(LLVMConstStructInContext(
            self.context,
            fields.as_mut_ptr(),
            count,
            0
        ))
    }

    /// A private constant; its address.
    fn constant(&self, name: &str, value: LLVMValueRef) -> LLVMValueRef {
        let global = llvm!(LLVMAddGlobal(
            self.module,
            LLVMTypeOf(value),
            c_string(name).as_ptr()
        ));
        llvm!(LLVMSetInitializer(global, value));
        llvm!(LLVMSetGlobalConstant(global, 1));
        llvm!(LLVMSetLinkage(global, LLVMLinkage::LLVMPrivateLinkage));
        global
    }

    /// The address of a table; null for an empty one.
    fn table(&self, name: &str, mut rows: Vec<LLVMValueRef>) -> LLVMValueRef {
        let Some(&first) = rows.first() else {
            return self.null();
        };
        let count = rows.len() as u64;
        let rows = llvm!(LLVMConstArray2(LLVMTypeOf(first), rows.as_mut_ptr(), count));
        self.constant(name, rows)
    }

    fn string(&self, text: &str) -> LLVMValueRef {
        let (start, length) = (text.as_ptr().cast(), text.len());
        let value = llvm!(LLVMConstStringInContext2(self.context, start, length, 0));
        self.constant("softgpu.text", value)
    }

    fn named(&self, name: &str) -> LLVMValueRef {
        llvm!(LLVMGetNamedFunction(self.module, c_string(name).as_ptr()))
    }
}

/// Adds the tables and the constructor to a host module that the translation's code is linked into. Without
/// what the host registers, as for code of several files, the tables have names only.
pub fn emit(module: LLVMModuleRef, translation: &Translation, registered: Option<&RegisteredSymbols>) {
    let tables = Tables {
        module,
        context: llvm!(LLVMGetModuleContext(module)),
    };
    let mut rows = Vec::new();
    for kernel in &translation.kernels {
        let stub = match registered.map(|host| host.stubs.get(&kernel.name).copied()) {
            Some(None) => {
                let stub = llvm!(LLVMGetNamedGlobal(
                    module,
                    c_string(&twin_stub(&kernel.name)).as_ptr()
                ));
                if stub.is_null() {
                    continue;
                }
                stub
            }
            Some(Some(stub)) => stub,
            None => tables.null(),
        };
        let parameters = kernel
            .parameters
            .iter()
            .map(|parameter| tables.structure(vec![tables.u32(parameter.size), tables.u32(parameter.align)]))
            .collect();
        let name = tables.string(&kernel.name);
        let (entry, error) = match &kernel.error {
            None => (tables.named(&kernel.entry), tables.null()),
            Some(error) => (tables.null(), tables.string(error)),
        };
        rows.push(tables.structure(vec![
            stub,
            name,
            entry,
            error,
            tables.table("softgpu.parameters", parameters),
            tables.u32(kernel.parameters.len() as u64),
            tables.u32(flags(kernel)),
            tables.u32(kernel.static_shared),
            tables.u32(kernel.registers.into()),
            tables.u32(kernel.stack_bytes),
            tables.u32(kernel.max_threads.into()),
            tables.u64(kernel.frame_bytes.unwrap_or(0)),
        ]));
    }
    let kernel_count = rows.len() as u64;
    let kernels = tables.table("softgpu.kernels", rows);
    let none = HashMap::new();
    let shadows = registered.map_or(&none, |host| &host.variables);
    let image = image(&tables, translation, kernels, kernel_count, shadows);
    let image = tables.constant(&SYMBOL.to_string_lossy(), image);
    emit_constructor(&tables, image);
}

fn flags(kernel: &Kernel) -> u64 {
    let waits = if kernel.waits { BARRIER } else { 0 };
    waits
        | if kernel.frame_bytes.is_some() {
            COROUTINE
        } else {
            0
        }
}

/// The `softgpu_image` itself.
fn image(
    tables: &Tables,
    translation: &Translation,
    kernels: LLVMValueRef,
    kernel_count: u64,
    shadows: &HashMap<String, LLVMValueRef>,
) -> LLVMValueRef {
    let block = &translation.block;
    let variable = |variable: &variables::BlockVariable| {
        let host = shadows
            .get(&variable.name)
            .copied()
            .unwrap_or_else(|| tables.null());
        let name = tables.string(&variable.name);
        tables.structure(vec![
            host,
            name,
            tables.u64(variable.offset),
            tables.u64(variable.size),
        ])
    };
    let rows = block.variables.iter().map(variable).collect();
    let relocation = |&(at, to): &(u64, u64)| tables.structure(vec![tables.u64(at), tables.u64(to)]);
    let relocations = block.relocations.iter().map(relocation).collect();
    let initial = llvm!(LLVMGetNamedGlobal(
        tables.module,
        c_string(variables::INITIAL).as_ptr()
    ));
    let initial = if initial.is_null() { tables.null() } else { initial };
    tables.structure(vec![
        tables.u32(VERSION),
        tables.u32(kernel_count),
        kernels,
        tables.string(&module::source(tables.module)),
        tables.u32(block.variables.len() as u64),
        tables.u32(block.relocations.len() as u64),
        tables.table("softgpu.variable_table", rows),
        tables.table("softgpu.relocations", relocations),
        initial,
        tables.u64(block.size),
        tables.u64(block.align.max(1)),
        tables.named("softgpu.variables_slot"),
        tables.named("softgpu.self_slot"),
    ])
}

/// `if (__softgpuRegisterImage) __softgpuRegisterImage(&image);` before `main`.
fn emit_constructor(tables: &Tables, image: LLVMValueRef) {
    let (module, context) = (tables.module, tables.context);
    let void = llvm!(LLVMVoidTypeInContext(context));
    let pointer = llvm!(LLVMPointerTypeInContext(context, 0));
    let register_type = llvm!(LLVMFunctionType(void, [pointer].as_mut_ptr(), 1, 0));
    let name = c"__softgpuRegisterImage";
    let mut register = llvm!(LLVMGetNamedFunction(module, name.as_ptr()));
    if register.is_null() {
        register = llvm!(LLVMAddFunction(module, name.as_ptr(), register_type));
        llvm!(LLVMSetLinkage(register, LLVMLinkage::LLVMExternalWeakLinkage));
    }
    let ty = llvm!(LLVMFunctionType(void, std::ptr::null_mut(), 0, 0));
    let constructor = llvm!(LLVMAddFunction(module, c"softgpu.register".as_ptr(), ty));
    make_internal(constructor);
    let block =
        |name: &std::ffi::CStr| llvm!(LLVMAppendBasicBlockInContext(context, constructor, name.as_ptr()));
    let (entry, call, done) = (block(c"entry"), block(c"call"), block(c"done"));
    let builder = Builder::at_end(entry);
    let there = llvm!(LLVMBuildIsNotNull(builder.raw(), register, c"".as_ptr()));
    llvm!(LLVMBuildCondBr(builder.raw(), there, call, done));
    let builder = Builder::at_end(call);
    llvm!(LLVMBuildCall2(
        builder.raw(),
        register_type,
        register,
        [image].as_mut_ptr(),
        1,
        c"".as_ptr()
    ));
    llvm!(LLVMBuildBr(builder.raw(), done));
    llvm!(LLVMBuildRetVoid(Builder::at_end(done).raw()));
    helpers::append_constructor(module, constructor, CONSTRUCTOR_PRIORITY);
}
