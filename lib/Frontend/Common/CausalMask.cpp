// SPDX-License-Identifier: Apache-2.0
// Recognizes causal masks among constants by their elements, and writes them as a comparison of two indices instead of
// as data.
#include "Common/TermBuilder.h"

namespace kerf::frontend {

namespace {

constexpr double kMaskedAtMost =
    -1e9; // a score of at most this value has weight 0 after softmax in every floating-point type

template <typename T> bool isLowerTriangle(const T *data, int64_t size, T below, T above) {
  for (int64_t row = 0; row < size; ++row)
    for (int64_t column = 0; column < size; ++column)
      if (data[row * size + column] != (column <= row ? below : above))
        return false;
  return true;
}

template <typename T> std::optional<CausalMask> findFloat(const Literal &literal, int64_t size) {
  const T *data = literal.as<T>();
  T masked = data[1];
  if (!(masked <= T(kMaskedAtMost)) || !isLowerTriangle<T>(data, size, T(0), masked))
    return std::nullopt;
  return CausalMask{size, double(masked)};
}

} // namespace

std::optional<CausalMask> findCausalMask(const Literal &literal) {
  Literal one = compress(literal);
  const Shape &stored = one.stored.shape;
  size_t rank = stored.size();
  if (rank < 2 || stored[rank - 1] != stored[rank - 2] || stored[rank - 1] < 2)
    return std::nullopt;
  int64_t size = stored[rank - 1];
  if (one.storedElements() != size * size)
    return std::nullopt;
  if (one.dtype() == DType::F32)
    return findFloat<float>(one, size);
  if (one.dtype() == DType::F64)
    return findFloat<double>(one, size);
  if (one.dtype() == DType::Bool && isLowerTriangle<uint8_t>(one.as<uint8_t>(), size, 1, 0))
    return CausalMask{size, 0};
  return std::nullopt;
}

// Each mask is written once for each size, type and value, at the beginning of the function, so that repeated layers
// stay equal.
mlir::Value TermBuilder::emitCausalMask(int64_t size, DType dtype, double masked) {
  mlir::Value &known = causalMasks[{size, dtype, masked}];
  if (known)
    return known;
  mlir::OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(block);
  mlir::Location at = mlir::NameLoc::get(builder.getStringAttr("causal_mask"));
  mlir::RankedTensorType indexType = type(DType::I32, {size, size});
  mlir::Value row = ir::IotaOp::create(builder, at, indexType, mlir::Value(), builder.getI64IntegerAttr(0));
  mlir::Value column = ir::IotaOp::create(builder, at, indexType, mlir::Value(), builder.getI64IntegerAttr(1));
  known = ir::CompareOp::create(builder, at, type(DType::Bool, {size, size}), row, column, ir::Comparison::GE);
  if (dtype == DType::Bool)
    return known;
  mlir::RankedTensorType maskType = type(dtype, {size, size});
  auto everywhere = [&](double number) -> mlir::Value {
    mlir::Value one = ir::ConstantOp::create(
        builder, at,
        mlir::DenseElementsAttr::get(type(dtype, {}), builder.getFloatAttr(maskType.getElementType(), number)));
    return ir::BroadcastInDimOp::create(builder, at, maskType, one, builder.getDenseI64ArrayAttr({}));
  };
  mlir::Value zero = everywhere(0), hidden = everywhere(masked);
  known = ir::SelectOp::create(builder, at, maskType, known, zero, hidden);
  return known;
}

} // namespace kerf::frontend
