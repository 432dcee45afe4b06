// SPDX-License-Identifier: Apache-2.0

// Compiles kernels in MLIR to one relocatable block of machine code.
#pragma once

#include "kerf/Package/Native.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/CodeGen.h"

namespace llvm {
class Module;
class TargetMachine;
class raw_pwrite_stream;
} // namespace llvm

namespace kerf::codegen {

/// Returns an error of exit status InternalCheck: MLIR or LLVM could not compile what Kerf generated.
Error internalError(const std::string &what);

/// Lowers llvm.func, scf, arith, math and vector ops to the LLVM dialect.
mlir::LogicalResult lowerToLlvm(mlir::ModuleOp module);
/// Runs LLVM passes, given as a text in the form of the tool opt.
void runPasses(llvm::Module &module, llvm::TargetMachine &machine, const char *pipeline);

/// Whether LLVM rewrites the addresses of loops so that they only need additions. On x86-64, whose instructions add a
/// base, a scaled index and a constant by themselves, kernels run as fast without it, and a fifth of the processor time
/// of a short `kerf train` was this pass.
enum class StrengthReduction { On, Off };
/// Has the code generator of `machine` write `module` to `stream`. Returns false if it cannot write `type`.
bool generateCode(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type,
                  StrengthReduction reduction, llvm::raw_pwrite_stream &stream);

/// Compiles a module of llvm.func, scf, arith, math and vector ops to an ELF object for the x86-64 instruction set
/// `isa`. Lowers the module in place.
Result<std::string> compileObject(mlir::ModuleOp module, const std::string &isa);

/// Links the loaded sections of an ELF object into one block of code that runs at any page of memory. `kernels` are the
/// names of the functions whose entry points are recorded, in this order. Fails if the object has writable data or
/// refers to anything outside of itself.
Result<package::NativeImage> linkImage(const std::string &object, const std::string &isa,
                                       const std::vector<std::string> &kernels);

} // namespace kerf::codegen
