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
#include "llvm/Transforms/Utils/Cloning.h"
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

LLVMValueRef mgb_replicate(LLVMValueRef Fn, const char *Name, LLVMTypeRef *Extra, unsigned Count) {
  auto *Old = cast<Function>(unwrap(Fn));
  auto *Type = Old->getFunctionType();
  SmallVector<llvm::Type *> Parameters(Type->params());
  for (unsigned At = 0; At < Count; ++At)
    Parameters.push_back(unwrap(Extra[At]));
  auto *New = Function::Create(FunctionType::get(Type->getReturnType(), Parameters, false), Old->getLinkage(),
                               Old->getAddressSpace(), Name, Old->getParent());
  ValueToValueMapTy Map;
  auto To = New->arg_begin();
  for (Argument &From : Old->args()) {
    To->setName(From.getName());
    Map[&From] = &*To++;
  }
  SmallVector<ReturnInst *, 8> Returns;
  CloneFunctionInto(New, Old, Map, CloneFunctionChangeType::LocalChangesOnly, Returns);
  // A copy in a group of the old name would be dropped with that.
  if (Old->hasComdat())
    New->setComdat(Old->getParent()->getOrInsertComdat(Name));
  return wrap(New);
}

void mgb_scope_to_gpu(LLVMValueRef Atomic) {
  auto *Operation = cast<AtomicRMWInst>(unwrap(Atomic));
  Operation->setSyncScopeID(Operation->getContext().getOrInsertSyncScopeID("device"));
}

void mgb_extend_call(LLVMValueRef Call, LLVMValueRef Callee, LLVMValueRef *Extra, unsigned Count) {
  auto *Old = cast<CallInst>(unwrap(Call));
  auto *To = cast<Function>(unwrap(Callee));
  SmallVector<Value *> Arguments(Old->args());
  for (unsigned At = 0; At < Count; ++At)
    Arguments.push_back(unwrap(Extra[At]));
  SmallVector<OperandBundleDef, 1> Bundles;
  Old->getOperandBundlesAsDefs(Bundles);
  auto *New = CallInst::Create(To->getFunctionType(), To, Arguments, Bundles, "", Old->getIterator());
  New->takeName(Old);
  New->setCallingConv(Old->getCallingConv());
  New->setAttributes(Old->getAttributes());
  New->copyMetadata(*Old);
  New->setDebugLoc(Old->getDebugLoc());
  Old->replaceAllUsesWith(New);
  Old->eraseFromParent();
}

} // extern "C"
