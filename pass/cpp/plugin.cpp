// Registers the MGB pass with LLVM, and exports the few helpers that LLVM's C
// API lacks. Everything else is Rust: see src/lib.rs.
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

#include <memory>

using namespace llvm;

// Each returns true when the module was changed, and never unwinds: panics are
// caught on the Rust side.
extern "C" bool mgb_run_pass(LLVMModuleRef Module);
extern "C" bool mgb_run_at_link(LLVMModuleRef Module);
extern "C" bool mgb_leave_to_link(LLVMModuleRef Module);
// Whether host modules are to be left to the link.
extern "C" bool mgb_leaves_to_link();

namespace {

template <bool (*Run)(LLVMModuleRef)> struct MgbPass : PassInfoMixin<MgbPass<Run>> {
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    return Run(wrap(&M)) ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  // Also at -O0: without the probes a program would not be scheduled at all.
  static bool isRequired() { return true; }
};

using AtCompile = MgbPass<mgb_run_pass>;
using AtLink = MgbPass<mgb_run_at_link>;

// Leaves a module to the link as the front end made it: the pass needs whole stubs
// and whole helpers, and what the optimiser does here it does at link as well.
struct LeaveToLink : PassInfoMixin<LeaveToLink> {
  LeaveToLink(OptimizationLevel Level, std::shared_ptr<bool> IsLeft)
      : Level(Level), IsLeft(std::move(IsLeft)) {}

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    *IsLeft = mgb_leave_to_link(wrap(&M));
    // mgb clang asks clang not to do so; without it the link would optimise -O0 code.
    if (Level == OptimizationLevel::O0)
      for (Function &F : M)
        if (!F.isDeclaration() && F.hasFnAttribute(Attribute::NoInline) &&
            !F.hasOptSize() && !F.hasFnAttribute(Attribute::AlwaysInline))
          F.addFnAttr(Attribute::OptimizeNone);
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }

private:
  OptimizationLevel Level;
  std::shared_ptr<bool> IsLeft;
};

// Passes that bitcode needs to be written for a link.
bool isNeededForLink(StringRef Pass) {
  return Pass == "CanonicalizeAliasesPass" || Pass == "NameAnonGlobalPass";
}

void registerCallbacks(PassBuilder &PB) {
  auto IsLeft = std::make_shared<bool>(false);
  auto IsLinking = std::make_shared<bool>(false);
  bool Leaves = mgb_leaves_to_link();
  if (auto *Callbacks = PB.getPassInstrumentationCallbacks(); Leaves && Callbacks)
    Callbacks->registerShouldRunOptionalPassCallback(
        [IsLeft](StringRef Pass, Any) { return !*IsLeft || isNeededForLink(Pass); });
  // clang: before anything else, while launches still go through whole stubs.
  PB.registerPipelineStartEPCallback(
      [=](ModulePassManager &MPM, OptimizationLevel Level) {
        if (*IsLinking)
          return;
        if (Leaves)
          MPM.addPass(LeaveToLink(Level, IsLeft));
        else
          MPM.addPass(AtCompile());
      });
  // The linker, over all files: then comes what was not done to them when they were compiled.
  PB.registerFullLinkTimeOptimizationEarlyEPCallback(
      [=, &PB](ModulePassManager &MPM, OptimizationLevel Level) {
        *IsLinking = true;
        MPM.addPass(AtLink());
        if (Level != OptimizationLevel::O0)
          MPM.addPass(PB.buildLTOPreLinkDefaultPipeline(Level));
        *IsLinking = false;
      });
  // opt -passes=mgb, and the two halves of a whole program's.
  PB.registerPipelineParsingCallback(
      [=](StringRef Name, ModulePassManager &MPM,
          ArrayRef<PassBuilder::PipelineElement>) {
        if (Name == "mgb")
          MPM.addPass(AtCompile());
        else if (Name == "mgb-leave")
          MPM.addPass(LeaveToLink(OptimizationLevel::O1, IsLeft));
        else if (Name == "mgb-link")
          MPM.addPass(AtLink());
        else
          return false;
        return true;
      });
}

} // namespace

// rustc hides symbols that Rust code does not define, so src/lib.rs exports
// llvmGetPassPluginInfo and forwards to this.
extern "C" ::llvm::PassPluginLibraryInfo mgb_plugin_info() {
  return {LLVM_PLUGIN_API_VERSION, "mgb", "0.1", registerCallbacks};
}
