// SPDX-License-Identifier: Apache-2.0
#include "MachineCode.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include <fmt/format.h>
#include <mutex>

using namespace mlir;

namespace kerf::codegen {

namespace {
constexpr const char *kTriple = "x86_64-unknown-linux-gnu";
/// LLVM passes for kernels: common subexpressions, simplification and loop-invariant code. Kernels are vectorized
/// already, so no other optimization is needed before instruction selection.
constexpr const char *kCleanup =
    "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse)";

} // namespace

LogicalResult lowerToLlvm(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  return passes.run(module);
}

namespace {
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
    return internalError(why);
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(triple, isa, "", llvm::TargetOptions(),
                                                                           llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                           llvm::CodeGenOptLevel::Default));
  if (!machine)
    return internalError(fmt::format("this LLVM has no code generator for {}", kTriple));
  return machine;
}

} // namespace

void runPasses(llvm::Module &module, llvm::TargetMachine &machine, const char *pipeline) {
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
  llvm::cantFail(builder.parsePassPipeline(passes, pipeline));
  passes.run(module, modules);
}

namespace {
/// LLVM's switch for loop strength reduction, which the code generator of every target reads when its passes are
/// listed. Null if this LLVM has no such switch.
llvm::cl::opt<bool> *strengthReductionOff() {
  auto &options = llvm::cl::getRegisteredOptions();
  auto found = options.find("disable-lsr");
  return found == options.end() ? nullptr : static_cast<llvm::cl::opt<bool> *>(found->second);
}
} // namespace

bool generateCode(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type,
                  StrengthReduction reduction, llvm::raw_pwrite_stream &stream) {
  llvm::legacy::PassManager passes;
  {
    static std::mutex mutex; // the switch is one for the whole process
    std::lock_guard<std::mutex> lock(mutex);
    llvm::cl::opt<bool> *off = strengthReductionOff();
    if (off)
      off->setValue(reduction == StrengthReduction::Off);
    bool missing = machine.addPassesToEmitFile(passes, stream, nullptr, type);
    if (off)
      off->setValue(false);
    if (missing)
      return false;
  }
  passes.run(module);
  return true;
}

Error internalError(const std::string &what) {
  return Error{fmt::format("compiling kernels: {}", what), ExitStatus::InternalCheck};
}

Result<std::string> compileObject(ModuleOp module, const std::string &isa) {
  if (failed(lowerToLlvm(module)))
    return internalError("MLIR could not lower the kernels");
  auto machine = machineFor(isa);
  if (!machine)
    return machine.error();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated = translateModuleToLLVMIR(module, context);
  if (!translated)
    return internalError("MLIR could not translate the kernels to LLVM IR");
  translated->setTargetTriple((*machine)->getTargetTriple());
  translated->setDataLayout((*machine)->createDataLayout());
  for (llvm::Function &function : *translated) {
    // Use all 512 bits of AVX-512 registers: LLVM prefers 256 by default.
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("min-legal-vector-width", "512");
    function.addFnAttr("no-builtins"); // calls of memcpy or memset could not be linked
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  runPasses(*translated, **machine, kCleanup);
  llvm::SmallVector<char> object;
  llvm::raw_svector_ostream stream(object);
  if (!generateCode(*translated, **machine, llvm::CodeGenFileType::ObjectFile, StrengthReduction::Off, stream))
    return internalError("LLVM cannot write an object file");
  return std::string(object.begin(), object.end());
}

} // namespace kerf::codegen
