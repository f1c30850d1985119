//! `__device__` and `__constant__` variables: one block of device memory, at an offset each.
//!
//! Constants that nothing can write (string literals, tables of virtual functions, `const` arrays) remain
//! ordinary constants of the program, unless they hold the address of a variable, which differs between
//! devices: then they are part of the block too.
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMLinkage, LLVMTypeKind};

use super::callgraph::mentioned;
use super::ir::*;
use super::layout::{Layout, align_up};
use super::{helpers, runtime_stubs, slots};

/// A variable of the block.
pub struct BlockVariable {
    /// The device's symbol.
    pub name: String,
    /// Bytes from the start of the block.
    pub offset: u64,
    /// The size of the variable in bytes.
    pub size: u64,
}

/// The block of variables of a module.
#[derive(Default)]
pub struct VariableBlock {
    /// Its variables, by offset.
    pub variables: Vec<BlockVariable>,
    /// At the first offset stands a pointer to the second.
    pub relocations: Vec<(u64, u64)>,
    /// The size of the block in bytes.
    pub size: u64,
    /// The largest alignment in it.
    pub align: u64,
}

/// What the symbols of device data start with in translated code.
pub const PREFIX: &str = "softgpu.data.";

/// The symbol of the constant that holds the block's first contents.
pub const INITIAL: &str = "softgpu.initial";

/// Replaces every variable by its place in the block. `names` has the device's own symbols.
pub fn place(module: LLVMModuleRef, names: &HashMap<LLVMValueRef, String>) -> Result<VariableBlock, String> {
    let layout = Layout::of(module);
    let candidates: Vec<_> = globals(module).into_iter().filter(|&at| is_data(at)).collect();
    let mut members: HashSet<_> = candidates.iter().copied().filter(|&at| is_variable(at)).collect();
    loop {
        let holds = |&&at: &&LLVMValueRef| {
            !members.contains(&at)
                && mentioned(llvm!(LLVMGetInitializer(at)))
                    .iter()
                    .any(|to| members.contains(to))
        };
        let more: Vec<_> = candidates.iter().filter(holds).copied().collect();
        if more.is_empty() {
            break;
        }
        members.extend(more);
    }
    let mut members: Vec<_> = candidates.into_iter().filter(|at| members.contains(at)).collect();
    // Constants come first, so that their addresses are distinct from others.
    members.sort_by_key(|&at| !is_constant_memory(at));

    let mut block = VariableBlock {
        align: 16,
        ..VariableBlock::default()
    };
    let (mut offsets, mut constant_bytes) = (HashMap::new(), 0);
    for &member in &members {
        let (size, align) = (layout.size(value_type(member)), layout.align_of_global(member));
        let offset = align_up(block.size, align);
        offsets.insert(member, offset);
        let name = names.get(&member).cloned().unwrap_or_else(|| name(member));
        block.variables.push(BlockVariable { name, offset, size });
        block.size = offset + size;
        block.align = block.align.max(align);
        if is_constant_memory(member) {
            constant_bytes = block.size;
        }
    }
    answer(module, c"softgpu.constant_bytes", constant_bytes);
    emit_initial(module, layout, &members, &offsets, &mut block)?;

    let base = slots::question(module, "softgpu.block_variables");
    for &member in &members {
        replace_uses(member, |builder| {
            builder.byte_offset(builder.call(base, &mut []), offsets[&member])
        });
    }
    for member in members {
        llvm!(LLVMSetInitializer(member, LLVMGetUndef(value_type(member))));
    }
    Ok(block)
}

/// Whether a global is data of the device code, and not shared memory or part of the support code.
fn is_data(global: LLVMValueRef) -> bool {
    !is_declaration(global) && address_space(global) != 3 && name(global).starts_with(PREFIX)
}

/// Whether it was declared `__constant__`.
fn is_constant_memory(global: LLVMValueRef) -> bool {
    address_space(global) == 4
}

/// Replaces a question that the support code asks by a number.
fn answer(module: LLVMModuleRef, question: &CStr, number: u64) {
    let function = llvm!(LLVMGetNamedFunction(module, question.as_ptr()));
    if function.is_null() {
        return;
    }
    for call in users(function) {
        let number = llvm!(LLVMConstInt(LLVMTypeOf(call), number, 0));
        llvm!(LLVMReplaceAllUsesWith(call, number));
        llvm!(LLVMInstructionEraseFromParent(call));
    }
    // The declaration stays until the clean-up: what kernels reach was listed before.
}

/// Whether it can change, by device code or through the host.
fn is_variable(global: LLVMValueRef) -> bool {
    llvm!(LLVMIsGlobalConstant(global)) == 0 || llvm!(LLVMIsExternallyInitialized(global)) != 0
}

/// Replaces a global, wherever an instruction uses it, by an address worked out at the start of that
/// instruction's function.
pub fn replace_uses(global: LLVMValueRef, address: impl Fn(&Builder) -> LLVMValueRef) {
    helpers::expand_constant_users(global);
    let mut addresses = HashMap::new();
    for user in users(global).into_iter().filter(|&user| is_instruction(user)) {
        let function = function_of(user);
        let here = *addresses.entry(function).or_insert_with(|| {
            let builder = Builder::at_start(function);
            let flat = address(&builder);
            let ty = llvm!(LLVMTypeOf(global));
            if ty == llvm!(LLVMTypeOf(flat)) {
                return flat;
            }
            llvm!(LLVMBuildAddrSpaceCast(builder.raw(), flat, ty, c"".as_ptr()))
        });
        replace_operand(user, global, here);
    }
}

/// Variables that other files of the program would define: code that uses one cannot run here.
pub fn refuse_undefined(module: LLVMModuleRef) {
    for global in globals(module) {
        let name = name(global);
        if !is_declaration(global) || address_space(global) == 3 || name.starts_with("softgpu.") {
            continue;
        }
        if llvm!(LLVMGetLinkage(global)) == LLVMLinkage::LLVMExternalWeakLinkage {
            // Null if it is not defined; clang declares `threadIdx` and the like so, for `this`.
            llvm!(LLVMReplaceAllUsesWith(global, LLVMConstNull(LLVMTypeOf(global))));
            continue;
        }
        helpers::expand_constant_users(global);
        let what = format!("variable \"{name}\" of another source file");
        for user in users(global).into_iter().filter(|&user| is_instruction(user)) {
            let builder = Builder::at_start(function_of(user));
            builder.call(runtime_stubs::missing(module, &what), &mut []);
            replace_operand(user, global, llvm!(LLVMGetPoison(LLVMTypeOf(global))));
        }
    }
}

/// The block's first contents, with the relocations of the pointers into itself.
fn emit_initial(
    module: LLVMModuleRef,
    layout: Layout,
    members: &[LLVMValueRef],
    offsets: &HashMap<LLVMValueRef, u64>,
    block: &mut VariableBlock,
) -> Result<(), String> {
    if members.is_empty() {
        return Ok(());
    }
    let context = llvm!(LLVMGetModuleContext(module));
    let i8 = llvm!(LLVMInt8TypeInContext(context));
    let (mut fields, mut end) = (Vec::new(), 0);
    for member in members {
        let offset = offsets[member];
        if offset > end {
            fields.push(llvm!(LLVMConstNull(LLVMArrayType2(i8, offset - end))));
        }
        let mut relocate = Relocate {
            module,
            layout,
            offsets,
            found: Vec::new(),
        };
        let initial = llvm!(LLVMGetInitializer(*member));
        fields.push(
            relocate
                .constant(initial, offset)
                .map_err(|what| format!("the initial value of variable {} holds {what}", name(*member)))?,
        );
        block.relocations.extend(relocate.found);
        end = offset + layout.size(value_type(*member));
    }
    let count = fields.len() as u32;
    let contents = llvm!(LLVMConstStructInContext(context, fields.as_mut_ptr(), count, 1));
    let initial = llvm!(LLVMAddGlobal(
        module,
        LLVMTypeOf(contents),
        c_string(INITIAL).as_ptr()
    ));
    llvm!(LLVMSetInitializer(initial, contents));
    llvm!(LLVMSetGlobalConstant(initial, 1));
    llvm!(LLVMSetAlignment(initial, block.align as u32));
    Ok(())
}

/// Rewrites a constant: pointers into the block become null and a relocation.
struct Relocate<'a> {
    module: LLVMModuleRef,
    layout: Layout,
    offsets: &'a HashMap<LLVMValueRef, u64>,
    found: Vec<(u64, u64)>,
}

impl Relocate<'_> {
    fn constant(&mut self, value: LLVMValueRef, at: u64) -> Result<LLVMValueRef, String> {
        let ty = llvm!(LLVMTypeOf(value));
        if !mentioned(value).iter().any(|to| self.offsets.contains_key(to)) {
            return Ok(value);
        }
        match kind(ty) {
            LLVMTypeKind::LLVMPointerTypeKind => {
                let (base, offset) = helpers::constant_base(self.module, value);
                let Some(start) = self.offsets.get(&base) else {
                    return Err(format!(
                        "an address that is no variable's: {}",
                        message(llvm!(LLVMPrintValueToString(value)))
                    ));
                };
                self.found.push((at, start.wrapping_add_signed(offset)));
                Ok(llvm!(LLVMConstNull(ty)))
            }
            LLVMTypeKind::LLVMStructTypeKind => {
                let target = llvm!(inkwell::llvm_sys::target::LLVMGetModuleDataLayout(self.module));
                let mut fields = Vec::new();
                for (index, field) in operands(value).into_iter().enumerate() {
                    let offset = llvm!(inkwell::llvm_sys::target::LLVMOffsetOfElement(
                        target,
                        ty,
                        index as u32
                    ));
                    fields.push(self.constant(field, at + offset)?);
                }
                let count = fields.len() as u32;
                Ok(if llvm!(LLVMIsLiteralStruct(ty)) != 0 {
                    let context = llvm!(LLVMGetTypeContext(ty));
                    let packed = llvm!(LLVMIsPackedStruct(ty));
                    llvm!(LLVMConstStructInContext(
                        context,
                        fields.as_mut_ptr(),
                        count,
                        packed
                    ))
                } else {
                    llvm!(LLVMConstNamedStruct(ty, fields.as_mut_ptr(), count))
                })
            }
            LLVMTypeKind::LLVMArrayTypeKind => {
                let element = llvm!(LLVMGetElementType(ty));
                let size = self.layout.size(element);
                let mut elements = Vec::new();
                for (index, value) in operands(value).into_iter().enumerate() {
                    elements.push(self.constant(value, at + index as u64 * size)?);
                }
                let count = elements.len() as u64;
                Ok(llvm!(LLVMConstArray2(element, elements.as_mut_ptr(), count)))
            }
            _ => Err(format!(
                "a computed address: {}",
                message(llvm!(LLVMPrintValueToString(value)))
            )),
        }
    }
}
