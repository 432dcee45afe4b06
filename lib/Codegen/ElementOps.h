// SPDX-License-Identifier: Apache-2.0
// Generates the ops that a kernel applies to elements in registers, one element or a vector of elements at a time.
// 16-bit floats are held in registers as f32 numbers that the 16-bit type can represent, as the runtime's ops do.
#pragma once

#include "kerf/Package/Package.h"
#include "mlir/IR/Builders.h"

namespace kerf::codegen {

inline constexpr int64_t kLanes = 16;          // elements of a vector: one AVX-512 register of f32, or two of AVX2
inline constexpr int64_t kStackAlignment = 64; // bytes, of blocks on the stack

/// Returns true for the 16-bit floating types.
inline bool isHalf(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }

/// Builder of elementwise ops. Values are scalars or vectors; the ops are the same for both.
class ElementOps {
public:
  /// Creates a builder that inserts ops at the insertion point of `builder`.
  explicit ElementOps(mlir::OpBuilder &builder) : builder(builder), loc(builder.getUnknownLoc()) {}

  /// Returns the type of one element in a register: f64, i1 for Bool, i32 for I8, I16 and I32, and f32 for all other
  /// types.
  mlir::Type registerType(DType dtype) const;
  /// Returns the type of one element in memory, e.g. i8 for Bool and i16 for BF16.
  mlir::Type memoryType(DType dtype) const;

  /// Converts a value from the type in memory to the type in registers.
  mlir::Value toRegister(mlir::Value value, DType dtype) const;
  /// Converts a value from the type in registers, rounded to `dtype`, to the type in memory.
  mlir::Value toMemory(mlir::Value value, DType dtype) const;
  /// Rounds a value in registers to the nearest number that `dtype` can represent.
  mlir::Value rounded(mlir::Value value, DType dtype) const;
  /// Returns the constant `value`, rounded to `dtype`, in each element of the register type `type`.
  mlir::Value constant(mlir::Type type, DType dtype, double value) const;

  /// Returns true if a kernel computes the op by inline instructions. Every other op is a call of a runtime routine.
  static bool isInline(std::string_view op);
  /// Returns the random number of the op `random` for the elements with the row-major indices `index` (i32).
  mlir::Value random(mlir::Value key, mlir::Value index) const;
  /// Returns the result of an inline op but `random` on the operands `x`, not yet rounded. `to` is the type of the
  /// result.
  mlir::Value compute(const package::Instruction &op, mlir::ValueRange x, mlir::Type to) const;
  /// Combines the running result `sofar` of a reduction with one more element, as the runtime does.
  mlir::Value combine(const package::Instruction &reduce, mlir::Value sofar, mlir::Value value) const;
  /// Returns the running result of a reduction without elements, in each element of the register type `type`.
  mlir::Value neutral(const package::Instruction &reduce, mlir::Type type) const;
  /// Returns an integer constant, given by its bits, in each element of `type`.
  mlir::Value integerConstant(mlir::Type type, uint64_t value) const;

private:
  struct Inline;
  /// Returns -1, 0 or 1 by the sign of each element; NaN stays NaN.
  mlir::Value signOf(mlir::Value x) const;
  /// Returns a floating constant in each element of `type`.
  mlir::Value floatConstant(mlir::Type type, double value) const;
  /// Returns the constant `element` in each element of `type`.
  mlir::Value splat(mlir::Type type, mlir::TypedAttr element) const;
  /// Converts between floating types, Bool and integers, as the op `convert` does.
  mlir::Value convertElements(mlir::Value value, mlir::Type to) const;
  /// Returns the larger or the smaller of two values; NaN if either is NaN.
  mlir::Value minOrMax(bool largest, mlir::Value a, mlir::Value b) const;
  /// Rounds to a narrower format, as the op `reduce_precision` does.
  mlir::Value reducePrecision(const package::Instruction &reduce, mlir::Value x) const;
  /// Rounds values of the C++ type T, as kerf::Precision<T> does.
  template <typename T> mlir::Value reducePrecisionAs(const package::Instruction &reduce, mlir::Value x) const;
  /// Compares two values in the direction of the op `compare`.
  mlir::Value compareElements(const package::Instruction &compare, mlir::Value a, mlir::Value b) const;

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

/// The op whose result depends on the element's index, and which kernels compute inline (ElementOps::random).
inline constexpr std::string_view kRandom = "random";

/// Returns the name of the runtime's routine for an op that is not inline and whose result has the type `dtype`, as
/// package::NativeCode::routines has it.
std::string routineName(const package::Instruction &instruction, DType dtype);

/// Fails if a value of the kernel has a type that kernels cannot store.
Status checkTypes(const package::Function &kernel);

/// Returns the type of a vector of `lanes` elements, or `element` itself for one lane.
mlir::Type vectorType(mlir::Type element, int64_t lanes);

} // namespace kerf::codegen
