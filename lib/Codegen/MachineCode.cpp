// SPDX-License-Identifier: Apache-2.0
#include "MachineCode.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include <fmt/format.h>
#include <mutex>

using namespace mlir;

namespace kerf::codegen {

namespace {
constexpr const char *kTriple = "x86_64-unknown-linux-gnu";
/// What explicit vectors leave to do: folding, and what loops repeat. Instruction selection does the rest.
constexpr const char *kCleanup =
    "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse)";

LogicalResult lower(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  return passes.run(module);
}

Result<std::unique_ptr<llvm::TargetMachine>> machineFor(const std::string &isa) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  std::string why;
  llvm::Triple triple(kTriple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, why);
  if (!target)
    return broken(why);
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(triple, isa, "", llvm::TargetOptions(),
                                                                           llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                           llvm::CodeGenOptLevel::Default));
  if (!machine)
    return broken(fmt::format("this LLVM has no code generator for {}", kTriple));
  return machine;
}

void cleanUp(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(passes, kCleanup));
  passes.run(module, modules);
}
} // namespace

Error broken(const std::string &what) {
  return Error{fmt::format("code of kernels: {}", what), ExitStatus::InternalCheck};
}

Result<std::string> compileObject(ModuleOp module, const std::string &isa) {
  if (failed(lower(module)))
    return broken("MLIR could not lower them");
  auto machine = machineFor(isa);
  if (!machine)
    return machine.error();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated = translateModuleToLLVMIR(module, context);
  if (!translated)
    return broken("MLIR could not translate them");
  translated->setTargetTriple((*machine)->getTargetTriple());
  translated->setDataLayout((*machine)->createDataLayout());
  for (llvm::Function &function : *translated) {
    // Whole registers where the processor has them: LLVM prefers half of AVX-512's.
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("min-legal-vector-width", "512");
    function.addFnAttr("no-builtins"); // no loop becomes a call of memcpy or memset: nothing outside is there
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  cleanUp(*translated, **machine);
  llvm::SmallVector<char> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return broken("LLVM can write no object");
  passes.run(*translated);
  return std::string(object.begin(), object.end());
}

} // namespace kerf::codegen
