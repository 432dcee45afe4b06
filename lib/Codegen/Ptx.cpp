// SPDX-License-Identifier: Apache-2.0
#include "Ptx.h"
#include "MachineCode.h"
#include "kerf/Package/Ptx.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include <mutex>

using namespace mlir;

namespace kerf::codegen {

namespace {
constexpr const char *kGpuTriple = "nvptx64-nvidia-cuda";
constexpr const char *kPtxVersion = "+ptx78"; // that of the runtime's own kernels: drivers of CUDA 12.0 take it
/// LLVM passes: the routines become part of the kernels, then common subexpressions, simplification and loop-invariant
/// code.
/// The second inlining is that of functions whose address was an argument of a routine.
constexpr const char *kGpuPasses =
    "always-inline,always-inline,globaldce,function(sroa,early-cse,instcombine<no-verify-fixpoint>,"
    "simplifycfg,loop-mssa(licm),early-cse,dce)";

/// No multiplication and addition become one operation, unless the routines say so: an element has the bits that it has
/// op by op.
Result<std::unique_ptr<llvm::TargetMachine>> gpuMachine(const std::string &isa) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string why;
  llvm::Triple triple(kGpuTriple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, why);
  if (!target)
    return internalError(why);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, isa, kPtxVersion, options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return internalError("this LLVM has no code generator for " + std::string(kGpuTriple));
  return machine;
}

/// Links those of the routines that the module calls.
Status linkRoutines(llvm::Module &module) {
  std::string_view bitcode = routineBitcode();
  auto routines = llvm::parseBitcodeFile(
      llvm::MemoryBufferRef(llvm::StringRef(bitcode.data(), bitcode.size()), "routines"), module.getContext());
  if (!routines)
    return internalError(llvm::toString(routines.takeError()));
  (*routines)->setDataLayout(module.getDataLayout());
  (*routines)->setTargetTriple(module.getTargetTriple());
  for (llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() && !(*routines)->getFunction(function.getName()))
      return internalError("no kernel for GPUs computes " + function.getName().str());
  if (llvm::Linker::linkModules(module, std::move(*routines), llvm::Linker::LinkOnlyNeeded))
    return internalError("LLVM could not link the routines of GPU kernels");
  return ok();
}

/// Makes a function that takes a pointer a kernel that takes the array itself.
void declareKernel(llvm::Function &kernel, size_t addresses) {
  llvm::LLVMContext &context = kernel.getContext();
  llvm::Type *array = llvm::ArrayType::get(llvm::Type::getInt64Ty(context), addresses);
  kernel.addParamAttr(0, llvm::Attribute::getWithByValType(context, array));
  kernel.addParamAttr(0, llvm::Attribute::getWithAlignment(context, llvm::Align(8)));
  kernel.setLinkage(llvm::GlobalValue::ExternalLinkage);
  kernel.removeFnAttr(llvm::Attribute::AlwaysInline);
  kernel.setCallingConv(llvm::CallingConv::PTX_Kernel);
  kernel.addFnAttr("nvvm.maxntid", std::to_string(package::kPtxThreads));
}
} // namespace

Result<std::string> compilePtx(ModuleOp module, const std::string &isa, const std::vector<PtxKernel> &kernels) {
  if (failed(lowerToLlvm(module)))
    return internalError("MLIR could not lower the kernels for GPUs");
  auto machine = gpuMachine(isa);
  if (!machine)
    return machine.error();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated = translateModuleToLLVMIR(module, context);
  if (!translated)
    return internalError("MLIR could not translate the kernels for GPUs to LLVM IR");
  translated->setTargetTriple((*machine)->getTargetTriple());
  translated->setDataLayout((*machine)->createDataLayout());
  if (Status linked = linkRoutines(*translated); !linked)
    return linked.error();
  for (llvm::Function &function : *translated)
    if (!function.isDeclaration()) {
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
      function.addFnAttr(llvm::Attribute::AlwaysInline);
      function.addFnAttr(llvm::Attribute::NoUnwind);
    }
  for (const PtxKernel &kernel : kernels)
    declareKernel(*translated->getFunction(kernel.entry), kernel.addresses);
  runPasses(*translated, **machine, kGpuPasses);
  llvm::SmallVector<char> text;
  llvm::raw_svector_ostream stream(text);
  if (!generateCode(*translated, **machine, llvm::CodeGenFileType::AssemblyFile, StrengthReduction::On, stream))
    return internalError("LLVM cannot write PTX");
  return std::string(text.begin(), text.end());
}

} // namespace kerf::codegen
