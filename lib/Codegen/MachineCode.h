// SPDX-License-Identifier: Apache-2.0

// Compiles kernels in MLIR to one relocatable block of machine code.
#pragma once

#include "kerf/Package/Native.h"
#include "mlir/IR/BuiltinOps.h"

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace kerf::codegen {

/// Returns an error of exit status InternalCheck: MLIR or LLVM could not compile what Kerf generated.
Error internalError(const std::string &what);

/// Lowers llvm.func, scf, arith, math and vector ops to the LLVM dialect.
mlir::LogicalResult lowerToLlvm(mlir::ModuleOp module);
/// Runs LLVM passes, given as a text in the form of the tool opt.
void runPasses(llvm::Module &module, llvm::TargetMachine &machine, const char *pipeline);

/// Compiles a module of llvm.func, scf, arith, math and vector ops to an ELF object for the x86-64 instruction set
/// `isa`. Lowers the module in place.
Result<std::string> compileObject(mlir::ModuleOp module, const std::string &isa);

/// Links the loaded sections of an ELF object into one block of code that runs at any page of memory. `kernels` are the
/// names of the functions whose entry points are recorded, in this order. Fails if the object has writable data or
/// refers to anything outside of itself.
Result<package::NativeImage> linkImage(const std::string &object, const std::string &isa,
                                       const std::vector<std::string> &kernels);

} // namespace kerf::codegen
