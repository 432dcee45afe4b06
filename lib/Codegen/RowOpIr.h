// SPDX-License-Identifier: Apache-2.0
// Generates the row ops of a row kernel (kerf/Package/RowKernel.h), which read and write a row in memory.
#pragma once

#include "LoopIr.h"
#include "kerf/Package/Native.h"

#include <map>
#include <set>
#include <utility>

namespace kerf::codegen {

/// The part of a row kernel's builder that generates row ops.
class RowOpIr : protected LoopIr {
protected:
  using Instruction = package::Instruction;

  RowOpIr(mlir::ModuleOp module, const package::Function &function) : LoopIr(module), function(function) {}

  /// Generates a row op but `reshape`. All its operands lie in memory.
  void buildRowOp(const Instruction &instruction);
  /// Generates stores of zeros to a row of the value.
  void clear(int value, Value address);
  /// Generates stores of zeros to the elements of a row of zeros that the instruction spread elements to.
  void takeBack(const Instruction &instruction);

  DType dtypeOf(int value) const { return function.values[size_t(value)].dtype; }
  /// Returns the number of elements of a row of the value.
  int64_t widthOf(int value) const { return function.values[size_t(value)].shape[1]; }

  const package::Function &function;
  std::map<int, Value> rows; // addresses of the current row of values in memory
  std::set<int> zeros;       // values of spread elements whose row holds zeros whenever a row of the matrix begins
  Value topK;                // address of the runtime's routine
  Value wrong;               // address of the number of indices outside of their row

private:
  void pack(const Instruction &instruction);
  void unpack(const Instruction &instruction);
  void slice(const Instruction &instruction);
  void pickLargest(const Instruction &instruction);
  void takeAlong(const Instruction &instruction);
  void spreadAlong(const Instruction &instruction);
  template <typename F> void forBytes(const Instruction &packing, int packed, F &&part);
  template <typename F> void forPlaces(int places, int64_t width, F &&body);
  std::pair<Value, Value> placeAt(int places, Value i, int64_t width);
  Value wordsAt(Value row, Value index, Type words);
  void storeWords(Value value, Value row, Value index);
};

} // namespace kerf::codegen
