// What LLVM's C API has in later versions only, under the same names.
#include "llvm/Config/llvm-config.h"

#if LLVM_VERSION_MAJOR < 20
#include "llvm/IR/Function.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CBindingWrapping.h"
#include "llvm-c/Error.h"
#include "llvm-c/TargetMachine.h"
#include "llvm-c/Transforms/PassBuilder.h"

using namespace llvm;

// The target and the options are not looked at: the pass gives none.
extern "C" LLVMErrorRef LLVMRunPassesOnFunction(LLVMValueRef F, const char *Passes, LLVMTargetMachineRef,
                                                LLVMPassBuilderOptionsRef) {
  PassBuilder Builder;
  LoopAnalysisManager Loops;
  FunctionAnalysisManager Functions;
  CGSCCAnalysisManager Components;
  ModuleAnalysisManager Modules;
  Builder.registerLoopAnalyses(Loops);
  Builder.registerFunctionAnalyses(Functions);
  Builder.registerCGSCCAnalyses(Components);
  Builder.registerModuleAnalyses(Modules);
  Builder.crossRegisterProxies(Loops, Functions, Components, Modules);
  FunctionPassManager Manager;
  if (Error Failure = Builder.parsePassPipeline(Manager, Passes))
    return wrap(std::move(Failure));
  Manager.run(*cast<Function>(unwrap(F)), Functions);
  return LLVMErrorSuccess;
}
#endif
