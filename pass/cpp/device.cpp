// What the translation of device code needs and LLVM's C API lacks. Each
// function's contract stands in src/device/helpers.rs.
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "llvm-c/Core.h"

using namespace llvm;

extern "C" {

void mgb_strip_metadata(LLVMModuleRef Module) {
  StripDebugInfo(*unwrap(Module));
  for (NamedMDNode &Node : make_early_inc_range(unwrap(Module)->named_metadata()))
    Node.eraseFromParent();
}

void mgb_delete_body(LLVMValueRef Fn) {
  cast<Function>(unwrap(Fn))->deleteBody();
}

void mgb_expand_constant_users(LLVMValueRef Global) {
  convertUsersOfConstantsToInstructions({cast<Constant>(unwrap(Global))});
}

LLVMValueRef mgb_constant_base(LLVMModuleRef Module, LLVMValueRef Pointer, int64_t *Offset) {
  const DataLayout &Layout = unwrap(Module)->getDataLayout();
  Value *V = unwrap(Pointer);
  APInt Sum(Layout.getIndexTypeSizeInBits(V->getType()), 0);
  Value *Base = V->stripAndAccumulateConstantOffsets(Layout, Sum, true);
  *Offset = Sum.getSExtValue();
  return wrap(Base);
}

void mgb_append_constructor(LLVMModuleRef Module, LLVMValueRef Fn, int Priority) {
  appendToGlobalCtors(*unwrap(Module), cast<Function>(unwrap(Fn)), Priority);
}

void mgb_embed(LLVMModuleRef Module, const char *Data, size_t Length, const char *Section, uint64_t Alignment) {
  embedBufferInModule(*unwrap(Module), MemoryBufferRef(StringRef(Data, Length), "device"), Section,
                      Align(Alignment));
}

void mgb_remark_missed(LLVMValueRef Fn, const char *Name, const char *Text) {
  auto *F = cast<Function>(unwrap(Fn));
  if (F->isDeclaration())
    return;
  OptimizationRemarkMissed Remark("mgb", Name, DiagnosticLocation(F->getSubprogram()),
                                  &F->getEntryBlock());
  Remark << StringRef(Text);
  F->getContext().diagnose(Remark);
}

void mgb_suspend_after(LLVMValueRef Call, LLVMBasicBlockRef Out) {
  auto *After = cast<Instruction>(unwrap(Call))->getNextNode();
  auto *Block = After->getParent();
  auto *Rest = SplitBlock(Block, After);
  IRBuilder<> Builder(Block->getTerminator());
  auto &Context = Block->getContext();
  auto *State = Builder.CreateIntrinsic(Builder.getInt8Ty(), Intrinsic::coro_suspend,
                                        {ConstantTokenNone::get(Context), Builder.getFalse()});
  // Nobody destroys a coroutine of ours, so the way of a clean-up is that of a suspension.
  auto *Switch = Builder.CreateSwitch(State, unwrap(Out), 1);
  Switch->addCase(Builder.getInt8(0), Rest);
  Block->getTerminator()->eraseFromParent();
}

void mgb_end_at(LLVMValueRef Call, LLVMBasicBlockRef Final) {
  auto *At = cast<Instruction>(unwrap(Call));
  auto *Block = At->getParent();
  changeToUnreachable(At);
  Block->getTerminator()->eraseFromParent();
  IRBuilder<>(Block).CreateBr(unwrap(Final));
}

} // extern "C"
