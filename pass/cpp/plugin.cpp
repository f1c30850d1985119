// Registers the MGB pass with LLVM, and exports the few helpers that LLVM's C
// API lacks. Everything else is Rust: mgb_run_pass is defined in src/lib.rs.
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Config/llvm-config.h"
#if LLVM_VERSION_MAJOR >= 22
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif
#include "llvm-c/Core.h"

using namespace llvm;

// Returns true when the module was changed. Never unwinds: panics are caught
// on the Rust side.
extern "C" bool mgb_run_pass(LLVMModuleRef Module);

namespace {

struct MgbPass : PassInfoMixin<MgbPass> {
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    return mgb_run_pass(wrap(&M)) ? PreservedAnalyses::none()
                                  : PreservedAnalyses::all();
  }
  // Also at -O0: without the probes a program would not be scheduled at all.
  static bool isRequired() { return true; }
};

void registerCallbacks(PassBuilder &PB) {
  // clang: before anything else, while launches still go through whole stubs.
  PB.registerPipelineStartEPCallback(
      [](ModulePassManager &MPM, OptimizationLevel) { MPM.addPass(MgbPass()); });
  // opt -passes=mgb.
  PB.registerPipelineParsingCallback(
      [](StringRef Name, ModulePassManager &MPM,
         ArrayRef<PassBuilder::PipelineElement>) {
        if (Name != "mgb")
          return false;
        MPM.addPass(MgbPass());
        return true;
      });
}

} // namespace

// rustc hides symbols that Rust code does not define, so src/lib.rs exports
// llvmGetPassPluginInfo and forwards to this.
extern "C" ::llvm::PassPluginLibraryInfo mgb_plugin_info() {
  return {LLVM_PLUGIN_API_VERSION, "mgb", "0.1", registerCallbacks};
}
