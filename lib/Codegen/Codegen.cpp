// SPDX-License-Identifier: Apache-2.0
#include "kerf/Codegen/Codegen.h"
#include "KernelIr.h"
#include "MachineCode.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

using namespace mlir;

namespace kerf::codegen {

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
  for (const package::Function &function : program.functions) {
    if (!function.kernel)
      continue;
    auto space = package::kernelSpace(function);
    if (!space)
      return space.error();
    if (Status status = buildKernel(*module, function, *space, native->routines); !status)
      return status.error();
    native->kernels.push_back(function.name);
    native->checksums.push_back(package::checksumOf(package::writeFunction(function)));
  }
  if (native->kernels.empty())
    return std::shared_ptr<const package::NativeCode>();
  for (const std::string &isa : isas) {
    OwningOpRef<ModuleOp> lowered = cast<ModuleOp>(module->clone());
    auto object = compileObject(*lowered, isa);
    if (!object)
      return object.error();
    auto image = linkImage(*object, isa, native->kernels);
    if (!image)
      return image.error();
    native->images.push_back(std::move(*image));
  }
  return std::shared_ptr<const package::NativeCode>(std::move(native));
}

} // namespace kerf::codegen
