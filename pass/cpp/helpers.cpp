// What the host half of the pass needs and LLVM's C API lacks. Each function is
// declared, with its contract, in src/host/ir/helpers.rs.
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Analysis/InlineCost.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "llvm-c/Core.h"

#include <cstring>
#include <numeric>

using namespace llvm;

namespace {

// Whether a file is this source, which may be named by a longer path.
bool isSource(StringRef Source, StringRef File) {
  return Source == File ||
         (Source.ends_with(File) && Source.drop_back(File.size()).ends_with("/"));
}

// The source file that a function was compiled from. A merged module has several.
StringRef sourceOf(const Function &F) {
  const DISubprogram *Program = F.getSubprogram();
  const DICompileUnit *Unit = Program ? Program->getUnit() : nullptr;
  StringRef Source = F.getParent()->getSourceFileName();
  // Where they are the same, the module says it as the compiler was given it.
  return Unit && !isSource(Source, Unit->getFilename()) ? Unit->getFilename() : Source;
}

// Whether a place is in a source file, not in a header.
bool isInSource(const DILocation &At, const Module &M) {
  const DISubprogram *Program = At.getScope()->getSubprogram();
  const DICompileUnit *Unit = Program ? Program->getUnit() : nullptr;
  return isSource(M.getSourceFileName(), At.getFilename()) ||
         (Unit && isSource(Unit->getFilename(), At.getFilename()));
}

// The place in the source: the innermost one in a source file; for code of headers
// alone, where it was inlined to in the end.
const DILocation *placeOf(const Instruction *I) {
  const DILocation *Outer = nullptr;
  for (const DILocation *At = I->getDebugLoc().get(); At; At = At->getInlinedAt()) {
    Outer = At;
    if (At->getLine() != 0 && isInSource(*At, *I->getModule()))
      return At;
  }
  return Outer;
}

// What InlineFunction leaves to those who call it: variable arguments, setjmp, sanitizers that differ, code
// for another CPU. noinline is no obstacle: without optimisation clang gives it to everything.
bool mayInline(const Function &Caller, Function &Callee) {
  auto Same = [&](StringRef Name) {
    return Caller.getFnAttribute(Name) == Callee.getFnAttribute(Name);
  };
  return !Callee.isPresplitCoroutine() && Same("target-cpu") && Same("target-features") &&
         AttributeFuncs::areInlineCompatible(Caller, Callee) && isInlineViable(Callee).isSuccess();
}

// Whether a function is declared here as LLVM knows it from the C and C++ libraries: by name and type.
bool isLibraryFunction(const Function *F) {
  if (!F || !F->isDeclaration() || F->isIntrinsic())
    return false;
  TargetLibraryInfoImpl Libraries(Triple(F->getParent()->getTargetTriple()));
  LibFunc Known;
  return Libraries.getLibFunc(*F, Known);
}

// Writes the offsets of the pointers of a type, and stops where there are too many.
void addPointerOffsets(const DataLayout &Layout, Type *Ty, int64_t At, int64_t *Offsets, size_t Most,
                       size_t &Found) {
  if (Found > Most)
    return;
  if (Ty->isPointerTy()) {
    if (Found < Most)
      Offsets[Found] = At;
    Found++;
  } else if (auto *Struct = dyn_cast<StructType>(Ty)) {
    const StructLayout *Fields = Layout.getStructLayout(Struct);
    for (unsigned I = 0; I < Struct->getNumElements(); I++)
      addPointerOffsets(Layout, Struct->getElementType(I), At + int64_t(Fields->getElementOffset(I)), Offsets,
                        Most, Found);
  } else if (auto *Array = dyn_cast<ArrayType>(Ty)) {
    int64_t Size = int64_t(Layout.getTypeAllocSize(Array->getElementType()).getFixedValue());
    for (uint64_t I = 0; I < Array->getNumElements() && Found <= Most; I++) {
      size_t Before = Found;
      addPointerOffsets(Layout, Array->getElementType(), At + int64_t(I) * Size, Offsets, Most, Found);
      if (Found == Before)
        return;
    }
  } else if (auto *Vector = dyn_cast<FixedVectorType>(Ty)) {
    if (Vector->getElementType()->isPointerTy())
      Found = Most + 1;
  }
}

} // namespace

extern "C" {

bool mgb_inline_call(LLVMValueRef Call) {
  auto &Site = *cast<CallBase>(unwrap(Call));
  Function *Callee = Site.getCalledFunction();
  if (!Callee || Callee->isDeclaration() || !mayInline(*Site.getFunction(), *Callee))
    return false;
  InlineFunctionInfo Info;
  return InlineFunction(Site, Info, /*MergeAttributes=*/true).isSuccess();
}

void mgb_resolve_aliases(LLVMModuleRef Module) {
  for (GlobalAlias &Alias : make_early_inc_range(unwrap(Module)->aliases())) {
    auto *Aliasee = dyn_cast<Function>(Alias.getAliasee());
    if (!Aliasee || Alias.isInterposable() || Aliasee->isInterposable())
      continue;
    Alias.replaceUsesWithIf(Aliasee, [](Use &U) {
      auto *Call = dyn_cast<CallBase>(U.getUser());
      return Call && Call->isCallee(&U);
    });
    if (Alias.use_empty() && Alias.hasLocalLinkage())
      Alias.eraseFromParent();
  }
}

LLVMBasicBlockRef mgb_split_edge(LLVMBasicBlockRef From, LLVMBasicBlockRef To) {
  BasicBlock *Source = unwrap(From), *Target = unwrap(To);
  if (isa<IndirectBrInst>(Source->getTerminator()) ||
      isa<CallBrInst>(Source->getTerminator()) || Target->isEHPad())
    return nullptr;
  return wrap(SplitBlockPredecessors(Target, {Source}, ".mgb"));
}

LLVMValueRef mgb_base_and_offset(LLVMValueRef Pointer, int64_t *Offset) {
  Value *V = unwrap(Pointer);
  const DataLayout *Layout = nullptr;
  if (auto *I = dyn_cast<Instruction>(V))
    Layout = &I->getDataLayout();
  else if (auto *G = dyn_cast<GlobalValue>(V->stripInBoundsOffsets()))
    Layout = &G->getDataLayout();
  *Offset = 0;
  if (!Layout)
    return wrap(V->stripInBoundsOffsets());
  APInt Sum(Layout->getIndexTypeSizeInBits(V->getType()), 0);
  Value *Base = V->stripAndAccumulateConstantOffsets(*Layout, Sum, true);
  *Offset = Sum.getSExtValue();
  return wrap(Base);
}

uint32_t mgb_line(LLVMValueRef Instr) {
  const DILocation *Loc = placeOf(cast<Instruction>(unwrap(Instr)));
  return Loc ? Loc->getLine() : 0;
}

uint32_t mgb_outer_line(LLVMValueRef Instr) {
  const DILocation *Loc = cast<Instruction>(unwrap(Instr))->getDebugLoc().get();
  while (Loc && Loc->getInlinedAt())
    Loc = Loc->getInlinedAt();
  return Loc ? Loc->getLine() : 0;
}

size_t mgb_file(LLVMValueRef Instr, const char **Name) {
  auto *I = cast<Instruction>(unwrap(Instr));
  const DILocation *Loc = placeOf(I);
  StringRef File = Loc ? Loc->getFilename() : StringRef();
  if (isSource(sourceOf(*I->getFunction()), File))
    return 0;
  *Name = File.data();
  return File.size();
}

size_t mgb_source(LLVMValueRef F, const char **Name) {
  StringRef Source = sourceOf(*cast<Function>(unwrap(F)));
  *Name = Source.data();
  return Source.size();
}

size_t mgb_variable_name(LLVMValueRef V, const char **Name) {
  SmallVector<DbgVariableRecord *, 4> Records;
  for (DbgVariableRecord *Declaration : findDVRDeclares(unwrap(V)))
    Records.push_back(Declaration);
#if LLVM_VERSION_MAJOR >= 22
  findDbgValues(unwrap(V), Records);
#else
  SmallVector<DbgValueInst *, 4> Calls;
  findDbgValues(Calls, unwrap(V), &Records);
#endif
  for (DbgVariableRecord *Record : Records) {
    // With an expression, the variable is only computed from the value; and
    // those of inlined functions are not this function's.
    if (Record->getExpression()->getNumElements() != 0 ||
        Record->getDebugLoc().getInlinedAt())
      continue;
    StringRef Variable = Record->getVariable()->getName();
    *Name = Variable.data();
    return Variable.size();
  }
  return 0;
}

char *mgb_demangle(const char *Name) {
  return strdup(demangle(Name).c_str());
}

void mgb_diagnose(LLVMModuleRef Module, bool IsError, const char *Text) {
  DiagnosticSeverity Severity = IsError ? DS_Error : DS_Warning;
  // The diagnostic only refers to it.
  Twine Message(Text);
#if LLVM_VERSION_MAJOR >= 20
  DiagnosticInfoGeneric Diagnostic(Message, Severity);
#else
  // The one kind that carries nothing but a text.
  DiagnosticInfoInlineAsm Diagnostic(Message, Severity);
#endif
  unwrap(Module)->getContext().diagnose(Diagnostic);
}

void mgb_remark(LLVMValueRef At, bool Missed, const char *Name, const char *Text) {
  auto *Where = cast<Instruction>(unwrap(At));
  OptimizationRemarkEmitter Emitter(Where->getFunction());
  if (Missed)
    Emitter.emit(OptimizationRemarkMissed("mgb", Name, Where) << Text);
  else
    Emitter.emit(OptimizationRemark("mgb", Name, Where) << Text);
}

void mgb_keep(LLVMModuleRef Module, LLVMValueRef Global) {
  appendToUsed(*unwrap(Module), {cast<GlobalValue>(unwrap(Global))});
}

void mgb_add_constructor(LLVMModuleRef Module, LLVMValueRef Function, int Priority) {
  appendToGlobalCtors(*unwrap(Module), cast<llvm::Function>(unwrap(Function)), Priority);
}

bool mgb_is_byval(LLVMValueRef Call, unsigned Argument) {
  return cast<CallBase>(unwrap(Call))->isByValArgument(Argument);
}

bool mgb_is_byval_parameter(LLVMValueRef Parameter) {
  return cast<Argument>(unwrap(Parameter))->hasByValAttr();
}

LLVMTypeRef mgb_byval_parameter_type(LLVMValueRef Parameter) {
  return wrap(cast<Argument>(unwrap(Parameter))->getParamByValType());
}

LLVMTypeRef mgb_byval_type(LLVMValueRef Call, unsigned Argument) {
  return wrap(cast<CallBase>(unwrap(Call))->getParamByValType(Argument));
}

uint64_t mgb_type_size(LLVMModuleRef Module, LLVMTypeRef Ty) {
  return unwrap(Module)->getDataLayout().getTypeStoreSize(unwrap(Ty)).getKnownMinValue();
}

// A function of the user's with the same attributes may still trap, on a division by zero for one.
bool mgb_is_pure_call(LLVMValueRef Call) {
  auto *Base = cast<CallBase>(unwrap(Call));
  return Base->doesNotAccessMemory() && Base->doesNotThrow() &&
         Base->hasFnAttr(Attribute::WillReturn) && !Base->isConvergent() &&
         (Base->hasFnAttr(Attribute::Speculatable) || isLibraryFunction(Base->getCalledFunction()));
}

bool mgb_surely_returns(LLVMValueRef Call) {
  auto *Base = cast<CallBase>(unwrap(Call));
  return Base->hasFnAttr(Attribute::WillReturn) && Base->doesNotThrow() && !Base->doesNotReturn();
}

bool mgb_is_library_function(LLVMValueRef F) {
  return isLibraryFunction(cast<Function>(unwrap(F)));
}

LLVMValueRef mgb_indexed_address(LLVMModuleRef Module, LLVMValueRef Pointer, int64_t *Offset,
                                 uint64_t *Stride, uint64_t *Within) {
  const DataLayout &Layout = unwrap(Module)->getDataLayout();
  Value *V = unwrap(Pointer);
  unsigned Bits = Layout.getIndexTypeSizeInBits(V->getType());
  APInt Sum(Bits, 0);
  unsigned Steps = 0;
  *Stride = 0;
  *Within = 0;
  while (true) {
    V = V->stripAndAccumulateConstantOffsets(Layout, Sum, /*AllowNonInbounds=*/true);
    auto *Step = dyn_cast<GEPOperator>(V);
    if (!Step)
      break;
#if LLVM_VERSION_MAJOR >= 20
    SmallMapVector<Value *, APInt, 4> Indices;
#else
    MapVector<Value *, APInt> Indices;
#endif
    // An element of an array, by its index: no program goes past the array's ends.
    auto *Array = dyn_cast<ArrayType>(Step->getSourceElementType());
    bool IsElement = Array && Step->isInBounds() && Step->getNumIndices() == 2 &&
                     isa<ConstantInt>(Step->getOperand(1));
    *Within = IsElement && Steps == 0 ? Layout.getTypeAllocSize(Array).getFixedValue() : 0;
    Steps++;
    if (!Step->collectOffset(Layout, Bits, Indices, Sum)) {
      *Stride = 1;
      *Within = 0;
    } else {
      for (auto &[Index, Scale] : Indices)
        *Stride = std::gcd(*Stride, Scale.abs().getLimitedValue());
    }
    V = Step->getPointerOperand();
  }
  *Offset = Sum.getSExtValue();
  return wrap(V);
}

uint64_t mgb_dereferenceable_bytes(LLVMValueRef Pointer) {
  Value *V = unwrap(Pointer);
  const Module *M = nullptr;
  if (auto *A = dyn_cast<Argument>(V))
    M = A->getParent()->getParent();
  else if (auto *I = dyn_cast<Instruction>(V))
    M = I->getModule();
  else if (auto *G = dyn_cast<GlobalVariable>(V))
    M = G->getParent();
  if (!M)
    return 0;
  // operator new throws where it has none, and never gives null.
  if (auto *Call = dyn_cast<CallBase>(V))
    if (const Function *Callee = Call->getCalledFunction())
      if (Callee->getName() == "_Znwm" || Callee->getName() == "_Znam")
        if (auto *Size = dyn_cast<ConstantInt>(Call->getArgOperand(0)))
          return Size->getZExtValue();
  bool CanBeNull = true, CanBeFreed = true;
  uint64_t Bytes = V->getPointerDereferenceableBytes(M->getDataLayout(), CanBeNull, CanBeFreed);
  return CanBeNull ? 0 : Bytes;
}

size_t mgb_initialisers(LLVMModuleRef Module, LLVMValueRef *Functions, size_t Most) {
  // Priority 65535 is that of C++'s dynamic initialisation without init_priority.
  auto *Constructors = unwrap(Module)->getNamedGlobal("llvm.global_ctors");
  auto *Entries =
      Constructors && Constructors->hasInitializer() ? dyn_cast<ConstantArray>(Constructors->getInitializer()) : nullptr;
  size_t Found = 0;
  for (unsigned I = 0; Entries && I < Entries->getNumOperands() && Found < Most; I++) {
    auto *Entry = dyn_cast<ConstantStruct>(Entries->getOperand(I));
    auto *F = Entry ? dyn_cast<Function>(Entry->getOperand(1)->stripPointerCasts()) : nullptr;
    auto *Priority = Entry ? dyn_cast<ConstantInt>(Entry->getOperand(0)) : nullptr;
    if (F && Priority && Priority->getZExtValue() == 65535 && F->getName().starts_with("_GLOBAL__sub_I_") &&
        F->hasLocalLinkage() && F->hasOneUse() && F->arg_empty() && F->getReturnType()->isVoidTy())
      Functions[Found++] = wrap(F);
  }
  return Found;
}

void mgb_defer_initialiser(LLVMModuleRef, LLVMValueRef Call, LLVMValueRef Main, LLVMValueRef Before) {
  auto *Old = cast<CallInst>(unwrap(Call));
  auto *New = CallInst::Create(Old->getCalledFunction(), "", cast<Instruction>(unwrap(Before))->getIterator());
  if (DISubprogram *Program = cast<Function>(unwrap(Main))->getSubprogram())
    New->setDebugLoc(DILocation::get(Program->getContext(), Program->getScopeLine(), 0, Program));
  Old->eraseFromParent();
}

bool mgb_is_not_captured(LLVMValueRef Call, unsigned Argument) {
  return cast<CallBase>(unwrap(Call))->doesNotCapture(Argument);
}

size_t mgb_pointer_offsets(LLVMModuleRef Module, LLVMTypeRef Ty, int64_t *Offsets, size_t Most) {
  size_t Found = 0;
  addPointerOffsets(unwrap(Module)->getDataLayout(), unwrap(Ty), 0, Offsets, Most, Found);
  return Found;
}

bool mgb_is_only_read(LLVMValueRef Call, unsigned Argument) {
  return cast<CallBase>(unwrap(Call))->onlyReadsMemory(Argument);
}

void mgb_drop_promises(LLVMValueRef Instr) {
  auto *I = cast<Instruction>(unwrap(Instr));
  I->dropPoisonGeneratingFlags();
  I->dropUBImplyingAttrsAndMetadata();
}

} // extern "C"
