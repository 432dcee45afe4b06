// SPDX-License-Identifier: Apache-2.0
// Writes constants into the IR: as a small constant, as an index comparison (causal masks), or as a function argument
// whose data stay outside of the IR. Repeated slices become a broadcast.
#include "Common/TermBuilder.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <fmt/format.h>

namespace kerf::frontend {

namespace {
constexpr int64_t kMostInIR = 1024; // largest number of elements of a constant in the IR, as kerf.constant requires

mlir::DenseElementsAttr denseAttr(const Literal &literal, mlir::RankedTensorType type) {
  int64_t elements = literal.storedElements();
  if (literal.dtype() == DType::Bool) {
    llvm::SmallVector<bool> values(literal.as<uint8_t>(), literal.as<uint8_t>() + elements);
    return mlir::DenseElementsAttr::get(type, values);
  }
  llvm::ArrayRef<char> raw(reinterpret_cast<const char *>(literal.stored.data), literal.stored.bytes());
  return mlir::DenseElementsAttr::getFromRawBuffer(type, raw);
}
/// Returns whether the literal is 0, 1, 2, ..., which becomes an iota, because an operator can be sharded and a
/// constant cannot.
bool isIndex(const Literal &literal) {
  bool vector = literal.shape.size() == 1 && literal.shape[0] > 1;
  if (!vector || (literal.dtype() != DType::I32 && literal.dtype() != DType::I64))
    return false;
  return dispatch(literal.dtype(), [&](auto zero) {
    const auto *data = literal.as<decltype(zero)>();
    for (int64_t i = 0; i < literal.shape[0]; ++i)
      if (int64_t(data[i]) != i)
        return false;
    return true;
  });
}
} // namespace

mlir::Value TermBuilder::constantArgument(const Literal &literal, const std::string &name, const char *kind) {
  for (const ConstantArgument &known : constants)
    if (known.kind == kind && sameValue(known.literal, literal))
      return known.argument;
  std::string unique = name.empty() ? std::string("constant") : name;
  auto taken = [&](const std::string &candidate) {
    return std::any_of(constants.begin(), constants.end(),
                       [&](const ConstantArgument &c) { return c.name == candidate; });
  };
  for (int copy = 1; taken(unique); ++copy)
    unique = fmt::format("{}#{}", name, copy);
  mlir::BlockArgument argument =
      block->addArgument(type(literal.dtype(), literal.shape), mlir::NameLoc::get(builder.getStringAttr(unique)));
  constants.push_back({unique, kind, literal, argument});
  return argument;
}

TermBuilder::Base TermBuilder::emitLiteral(const Term &x) {
  Base base;
  if (!x.buffer.empty()) {
    base.value = constantArgument(*x.literal, x.buffer, "buffer");
    for (int64_t d = 0; d < x.rank(); ++d)
      base.dims.push_back(d);
    return base;
  }
  Literal one = compress(*x.literal);
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (one.stored.shape[d] != 1) {
      base.dims.push_back(d);
      shape.push_back(one.stored.shape[d]);
    }
  one.stored.shape = one.shape = shape;
  if (isIndex(one))
    base.value =
        ir::IotaOp::create(builder, loc, type(one.dtype(), shape), mlir::Value(), builder.getI64IntegerAttr(0));
  else if (std::optional<CausalMask> mask = findCausalMask(one))
    base.value = emitCausalMask(mask->size, one.dtype(), mask->masked);
  else if (one.storedElements() <= kMostInIR)
    base.value = ir::ConstantOp::create(builder, loc, denseAttr(one, type(one.dtype(), shape)));
  else
    base.value = constantArgument(one, x.name, "constant");
  return base;
}

mlir::Value TermBuilder::broadcastInDim(mlir::Value value, const Shape &shape, const std::vector<int64_t> &dims) {
  mlir::RankedTensorType result = type(dtypeOf(ir::tensorType(value).getElementType()), shape);
  if (value.getType() == result)
    return value;
  return ir::BroadcastInDimOp::create(builder, loc, result, value, builder.getDenseI64ArrayAttr(dims));
}

mlir::Value TermBuilder::emitAs(const Term &x, const Shape &shape) {
  int64_t missing = int64_t(shape.size()) - x.rank();
  Base base;
  if (x.isConstant()) {
    base = emitLiteral(x);
  } else {
    base.value = x.value;
    for (int64_t d = 0; d < x.rank(); ++d)
      base.dims.push_back(d);
  }
  for (int64_t &dim : base.dims)
    dim += missing;
  return broadcastInDim(base.value, shape, base.dims);
}

} // namespace kerf::frontend
