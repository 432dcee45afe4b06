// SPDX-License-Identifier: Apache-2.0
#include "kerf/Codegen/Codegen.h"
#include "ElementOps.h"
#include "KernelIr.h"
#include "MachineCode.h"
#include "Ptx.h"
#include "PtxIr.h"
#include "RowKernelIr.h"
#include "kerf/Package/Ptx.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include <algorithm>

using namespace mlir;

namespace kerf::codegen {

namespace {
struct Kernel {
  const package::Function *function;
  package::KernelSpace space;
};

/// Compiles machine code of the host module for one instruction set.
Result<package::NativeImage> hostImage(ModuleOp module, const std::string &isa, const std::vector<std::string> &names) {
  OwningOpRef<ModuleOp> lowered = cast<ModuleOp>(module->clone());
  auto object = compileObject(*lowered, isa);
  return object ? linkImage(*object, isa, names) : Result<package::NativeImage>(object.error());
}

Result<package::NativeImage> ptxImage(MLIRContext &context, const std::string &isa,
                                      const std::vector<Kernel> &kernels) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  std::vector<PtxKernel> entries;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const auto &[function, space] = kernels[k];
    if (!space.roles.empty())
      continue; // GPUs run the ops of row kernels one by one
    auto reduction = package::ptxReduction(*function);
    entries.push_back({package::ptxEntry(k, function->name), function->args.size() +
                                                                 package::storedValues(*function).size() +
                                                                 (reduction ? reduction->results.size() : 0)});
    buildPtxKernel(*module, *function, space, entries.back().entry);
  }
  auto text = compilePtx(*module, isa, entries);
  if (!text)
    return text.error();
  package::NativeImage image;
  image.kind = std::string(package::kPtxImage);
  image.interface = package::kPtxInterface;
  image.isa = isa;
  image.checksum = package::checksumOf(*text);
  image.code = std::move(*text);
  return image;
}
} // namespace

Result<std::shared_ptr<const package::NativeCode>> compileKernels(const package::Program &program,
                                                                  const std::vector<std::string> &isas) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect, math::MathDialect,
                      scf::SCFDialect, vector::VectorDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  auto native = std::make_shared<package::NativeCode>();
  std::vector<Kernel> kernels;
  for (const package::Function &function : program.functions) {
    if (!function.kernel)
      continue;
    auto space = package::kernelSpace(function);
    if (!space)
      return space.error();
    if (Status status = checkTypes(function); !status)
      return status.error();
    kernels.push_back({&function, std::move(*space)});
    native->kernels.push_back(function.name);
    native->checksums.push_back(package::checksumOf(package::writeFunction(function)));
  }
  if (kernels.empty())
    return std::shared_ptr<const package::NativeCode>();
  auto forGpu = [](const std::string &isa) { return package::ptxCapability(isa).has_value(); };
  if (!std::all_of(isas.begin(), isas.end(), forGpu))
    for (const auto &[function, space] : kernels)
      space.roles.empty() ? buildKernel(*module, *function, space, native->routines)
                          : buildRowKernel(*module, *function, space, native->routines);
  for (const std::string &isa : isas) {
    auto image = forGpu(isa) ? ptxImage(context, isa, kernels) : hostImage(*module, isa, native->kernels);
    if (!image)
      return image.error();
    native->images.push_back(std::move(*image));
  }
  return std::shared_ptr<const package::NativeCode>(std::move(native));
}

} // namespace kerf::codegen
