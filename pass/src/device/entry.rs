//! Entry functions: what the software GPU calls to run one thread of a kernel.
use inkwell::llvm_sys::LLVMTypeKind;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::ir::*;
use super::layout::{Layout, align_up};

/// A parameter of a kernel, as a launch passes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Bytes that the launch's argument array points to.
    pub size: u64,
    /// The alignment of the parameter in bytes.
    pub align: u64,
    /// Where in them pointers lie, by type. An integer that holds an address is not among them.
    pub pointers: Vec<u64>,
    /// Bytes from the start of the kernel's parameter block.
    pub offset: u64,
}

/// An enum or type attribute of a parameter (from 0).
fn attribute(function: LLVMValueRef, parameter: u32, name: &str) -> Option<LLVMAttributeRef> {
    let found = llvm!(LLVMGetEnumAttributeAtIndex(
        function,
        parameter + 1,
        attribute_kind(name)
    ));
    (!found.is_null()).then_some(found)
}

/// The type of a parameter that is passed as the address of a copy.
fn by_value(function: LLVMValueRef, parameter: u32) -> Option<LLVMTypeRef> {
    attribute(function, parameter, "byval").map(|found| llvm!(LLVMGetTypeAttributeValue(found)))
}

/// The parameter block of a kernel.
pub fn parameters_of(layout: Layout, kernel: LLVMValueRef) -> Vec<Parameter> {
    let mut end = 0;
    let describe = |(at, value): (usize, LLVMValueRef)| {
        let at = at as u32;
        let ty = by_value(kernel, at).unwrap_or_else(|| llvm!(LLVMTypeOf(value)));
        let stated = by_value(kernel, at).and_then(|_| attribute(kernel, at, "align"));
        let align = stated.map_or(layout.align(ty), |found| llvm!(LLVMGetEnumAttributeValue(found)));
        let (size, offset) = (layout.size(ty), align_up(end, align));
        end = offset + size;
        Parameter {
            size,
            align,
            pointers: layout.pointers(ty),
            offset,
        }
    };
    parameters(kernel).into_iter().enumerate().map(describe).collect()
}

/// Writes the entry of a kernel, and makes the kernel private to it.
pub fn emit(module: LLVMModuleRef, kernel: LLVMValueRef, symbol: &str) -> LLVMValueRef {
    let context = llvm!(LLVMGetModuleContext(module));
    let layout = Layout::of(module);
    let pointer = llvm!(LLVMPointerTypeInContext(context, 0));
    let ty = llvm!(LLVMFunctionType(
        LLVMVoidTypeInContext(context),
        [pointer, pointer].as_mut_ptr(),
        2,
        0
    ));
    let entry = llvm!(LLVMAddFunction(module, c_string(symbol).as_ptr(), ty));
    for key in ["target-cpu", "target-features", "tune-cpu"] {
        if let Some(value) = string_attribute(kernel, key) {
            set_string_attribute(entry, key, &value);
        }
    }
    let nounwind = llvm!(LLVMCreateEnumAttribute(context, attribute_kind("nounwind"), 0));
    llvm!(LLVMAddAttributeAtIndex(
        entry,
        inkwell::llvm_sys::LLVMAttributeFunctionIndex,
        nounwind
    ));

    let builder = Builder::at_end(llvm!(LLVMAppendBasicBlockInContext(
        context,
        entry,
        c"entry".as_ptr()
    )));
    let (this, arguments) = (llvm!(LLVMGetParam(entry, 0)), llvm!(LLVMGetParam(entry, 1)));
    builder.call(
        llvm!(LLVMGetNamedFunction(module, c"softgpu.resume".as_ptr())),
        &mut [this],
    );
    let mut values = Vec::new();
    for (at, parameter) in parameters(kernel).into_iter().enumerate() {
        let slot = builder.byte_offset(arguments, 8 * at as u64);
        let place = llvm!(LLVMBuildLoad2(builder.raw(), pointer, slot, c"".as_ptr()));
        let ty = llvm!(LLVMTypeOf(parameter));
        values.push(match by_value(kernel, at as u32) {
            Some(_) => place,
            None => load(&builder, layout, ty, place),
        });
    }
    let call = builder.call(kernel, &mut values);
    for at in 0..values.len() as u32 {
        for name in ["byval", "align"] {
            if let Some(found) = attribute(kernel, at, name).filter(|_| by_value(kernel, at).is_some()) {
                llvm!(LLVMAddCallSiteAttribute(call, at + 1, found));
            }
        }
    }
    llvm!(LLVMBuildRetVoid(builder.raw()));
    make_internal(kernel);
    entry
}

/// Loads an argument. `bool` lies in memory as a byte.
fn load(builder: &Builder, layout: Layout, ty: LLVMTypeRef, place: LLVMValueRef) -> LLVMValueRef {
    let bits = if kind(ty) == LLVMTypeKind::LLVMIntegerTypeKind {
        llvm!(LLVMGetIntTypeWidth(ty))
    } else {
        8
    };
    let memory = match bits % 8 {
        0 => ty,
        _ => llvm!(LLVMIntTypeInContext(
            LLVMGetTypeContext(ty),
            8 * layout.size(ty) as u32
        )),
    };
    let value = llvm!(LLVMBuildLoad2(builder.raw(), memory, place, c"".as_ptr()));
    if memory == ty {
        return value;
    }
    llvm!(LLVMBuildTrunc(builder.raw(), value, ty, c"".as_ptr()))
}
