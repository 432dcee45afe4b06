// SPDX-License-Identifier: Apache-2.0
// This header has what the generators of kernels for processors share: the function, addresses, accesses to memory, and
// loops.
#pragma once

#include "ElementOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <algorithm>

namespace kerf::codegen {

/// A builder of code at one insertion point. Addresses and indices are LLVM pointers and i64.
class LoopIr {
protected:
  using Value = mlir::Value;
  using Type = mlir::Type;

  explicit LoopIr(mlir::ModuleOp module)
      : module(module), builder(module.getContext()), loc(builder.getUnknownLoc()),
        pointer(mlir::LLVM::LLVMPointerType::get(module.getContext())), i64(builder.getI64Type()) {}

  /// Adds a function with the arguments of a kernel (kerf/Package/Native.h) to the module, and moves the insertion
  /// point into it. Returns its arguments.
  mlir::Block::BlockArgListType beginKernel(llvm::StringRef name) {
    builder.setInsertionPointToEnd(module.getBody());
    auto type = mlir::LLVM::LLVMFunctionType::get(i64, {pointer, pointer, i64, i64, i64, i64});
    mlir::Block *entry = mlir::LLVM::LLVMFuncOp::create(builder, loc, name, type).addEntryBlock(builder);
    builder.setInsertionPointToStart(entry);
    return entry->getArguments();
  }

  Value integer(int64_t value) { return mlir::arith::ConstantIntOp::create(builder, loc, i64, value); }
  /// Ends the function of a kernel that found so many wrong indices.
  void endKernel(Value wrong) { mlir::LLVM::ReturnOp::create(builder, loc, wrong); }

  Value sum(Value a, Value b) { return mlir::arith::AddIOp::create(builder, loc, a, b); }
  Value product(Value a, int64_t b) { return mlir::arith::MulIOp::create(builder, loc, a, integer(b)); }
  /// Returns the address of element number `index` from `base` on.
  Value at(Value base, Type element, Value index) {
    return mlir::LLVM::GEPOp::create(builder, loc, pointer, element, base, mlir::ValueRange{index});
  }
  static unsigned bytesOf(Type element) { return std::max(1u, element.getIntOrFloatBitWidth() / 8); }
  /// Loads and stores elements in the type that they have in memory.
  Value loadRaw(Type element, Value address, int64_t lanes) {
    return mlir::LLVM::LoadOp::create(builder, loc, vectorType(element, lanes), address, bytesOf(element));
  }
  void storeRaw(Value value, Value address) {
    mlir::LLVM::StoreOp::create(builder, loc, value, address, bytesOf(mlir::getElementTypeOrSelf(value.getType())));
  }
  /// Calls `body` with the index of a loop, at the insertion point inside of it.
  template <typename F> void loop(Value from, Value to, int64_t step, F &&body) {
    auto made = mlir::scf::ForOp::create(builder, loc, from, to, integer(step));
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(made.getBody());
    body(made.getInductionVar());
  }
  /// Returns the numbers of `lanes` neighbouring elements from number `first` on, modulo 2^32.
  Value indices(Value first, int64_t lanes) {
    Type word = builder.getI32Type();
    Value start = mlir::arith::TruncIOp::create(builder, loc, word, first);
    if (lanes == 1)
      return start;
    auto steps = llvm::to_vector(llvm::seq<int32_t>(0, int32_t(lanes)));
    auto type = llvm::cast<mlir::VectorType>(vectorType(word, lanes));
    Value offsets = mlir::arith::ConstantOp::create(builder, loc,
                                                    mlir::DenseElementsAttr::get(type, llvm::ArrayRef<int32_t>(steps)));
    return mlir::arith::AddIOp::create(builder, loc, mlir::vector::BroadcastOp::create(builder, loc, type, start),
                                       offsets);
  }

  /// Returns the number of a routine in the list `routines`, to which it is added unless it is there.
  static int64_t routineIndex(std::vector<std::string> &routines, const std::string &name) {
    auto found = std::find(routines.begin(), routines.end(), name);
    if (found == routines.end())
      found = routines.insert(routines.end(), name);
    return found - routines.begin();
  }

  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  ElementOps ops{builder};
  mlir::Location loc;
  Type pointer, i64;
};

} // namespace kerf::codegen
