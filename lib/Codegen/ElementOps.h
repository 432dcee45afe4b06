// SPDX-License-Identifier: Apache-2.0
// What a kernel does to elements in registers: one, or a vector of them. 16-bit floats are float32 whose values the
// narrow type has, as between the ops of the runtime.
#pragma once

#include "kerf/Package/Package.h"
#include "mlir/IR/Builders.h"

namespace kerf::codegen {

inline bool isHalf(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }

class ElementOps {
public:
  /// Ops are made where `builder` stands.
  explicit ElementOps(mlir::OpBuilder &builder) : builder(builder), loc(builder.getUnknownLoc()) {}

  mlir::Type inRegister(DType dtype) const;
  mlir::Type inMemory(DType dtype) const;

  /// From memory's type to a register's, and back.
  mlir::Value widened(mlir::Value value, DType dtype) const;
  mlir::Value narrowed(mlir::Value value, DType dtype) const;
  /// In registers, with the values of `dtype`.
  mlir::Value rounded(mlir::Value value, DType dtype) const;
  /// In each element of `type`.
  mlir::Value constant(mlir::Type type, DType dtype, double value) const;

  /// Whether a kernel does the op by instructions of its own. Another op is called as a routine of the runtime.
  static bool isInline(std::string_view op);
  /// Returns the result of an inline operator on `x`, before it is rounded. `to` is the type of the result.
  mlir::Value compute(const package::Instruction &op, mlir::ValueRange x, mlir::Type to) const;
  /// A running result of `reduce` and one more element, as the runtime combines them.
  mlir::Value combined(const package::Instruction &reduce, mlir::Value sofar, mlir::Value value) const;

private:
  struct Inline;
  mlir::Value signOf(mlir::Value x) const;
  mlir::Value number(mlir::Type type, double value) const;
  mlir::Value bits(mlir::Type type, uint64_t value) const;
  mlir::Value splat(mlir::Type type, mlir::TypedAttr element) const;
  mlir::Value converted(mlir::Value value, mlir::Type to) const;
  mlir::Value extreme(bool largest, mlir::Value a, mlir::Value b) const;
  mlir::Value reduced(const package::Instruction &reduce, mlir::Value x) const;
  template <typename T> mlir::Value reducedTo(const package::Instruction &reduce, mlir::Value x) const;
  mlir::Value compared(const package::Instruction &compare, mlir::Value a, mlir::Value b) const;

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

/// `element`, or a vector of so many.
mlir::Type wide(mlir::Type element, int64_t lanes);

} // namespace kerf::codegen
