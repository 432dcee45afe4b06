// SPDX-License-Identifier: Apache-2.0
#include "Common/Lookups.h"
#include "Common/Formula.h"
#include "kerf/Dialect/Kerf/TakeAlong.h"

#include <algorithm>

namespace kerf::frontend {

Result<Term> takeAlong(TermBuilder &b, const Term &x, const Term &indices, int64_t batchDims) {
  if (indices.dtype != DType::I64 && indices.dtype != DType::I32)
    return Error{fmt::format("indices of {}", toString(indices.dtype))};
  if (batchDims == 0)
    return b.gather(x, indices, 0);
  if (x.rank() <= batchDims || indices.rank() < batchDims ||
      !std::equal(x.shape.begin(), x.shape.begin() + batchDims, indices.shape.begin()))
    return Error{fmt::format("indices of shape {} do not fit data of shape {} with {} batch dimensions",
                             shapeText(indices.shape), shapeText(x.shape), batchDims)};
  Shape shape = indices.shape;
  shape.insert(shape.end(), x.shape.begin() + batchDims + 1, x.shape.end());
  mlir::Value operand = b.emit(x), at = b.emit(indices);
  return b.fromValue(ir::TakeAlongOp::create(b.builder, b.loc, b.type(x.dtype, shape), operand, at, mlir::Value(),
                                             b.builder.getI64IntegerAttr(batchDims),
                                             b.builder.getI64IntegerAttr(x.shape[size_t(batchDims)])));
}

namespace {

/// Integers that count 0, step, 2 step, ... along one dimension and are constant along the others.
struct Counted {
  int64_t dim, step;
};

/// Recognizes such integers in a constant vector.
template <typename Values> std::optional<Counted> countedVector(const Values &values) {
  if (values.size() < 2)
    return std::nullopt;
  int64_t step = values[1];
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != int64_t(i) * step)
      return std::nullopt;
  return Counted{0, step};
}

std::optional<Counted> countedConstant(const TermBuilder &b, mlir::Value value) {
  if (ir::tensorType(value).getRank() != 1 || !llvm::isa<mlir::IntegerType>(ir::tensorType(value).getElementType()))
    return std::nullopt;
  if (auto constant = value.getDefiningOp<ir::ConstantOp>()) {
    std::vector<int64_t> numbers;
    for (const llvm::APInt &number : llvm::cast<mlir::DenseElementsAttr>(constant.getValue()).getValues<llvm::APInt>())
      numbers.push_back(number.getSExtValue());
    return countedVector(numbers);
  }
  for (const ConstantArgument &known : b.constantArguments())
    if (known.argument == value)
      if (Result<std::vector<int64_t>> numbers = integersOf(known.literal))
        return countedVector(*numbers);
  return std::nullopt;
}

std::optional<Counted> asCounted(const TermBuilder &b, mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  if (auto iota = llvm::dyn_cast_or_null<ir::IotaOp>(op))
    return iota.getOffset() ? std::nullopt : std::optional(Counted{int64_t(iota.getDimension()), 1});
  if (llvm::isa_and_nonnull<ir::ConvertOp>(op))
    return asCounted(b, op->getOperand(0));
  if (!llvm::isa_and_nonnull<ir::BroadcastInDimOp, ir::ReshapeOp>(op))
    return countedConstant(b, value);
  std::optional<Counted> inner = asCounted(b, op->getOperand(0));
  if (!inner)
    return std::nullopt;
  Shape from = ir::shapeOf(op->getOperand(0)), to = ir::shapeOf(value);
  if (auto broadcast = llvm::dyn_cast<ir::BroadcastInDimOp>(op)) {
    int64_t dim = broadcast.getBroadcastDimensions()[inner->dim];
    return from[inner->dim] == to[dim] ? std::optional(Counted{dim, inner->step}) : std::nullopt;
  }
  // A reshape preserves a dimension if its size and the number of elements after it stay the same.
  auto behind = [](const Shape &shape, int64_t dim) { return elementsOf(Shape(shape.begin() + dim + 1, shape.end())); };
  for (int64_t dim = 0; dim < int64_t(to.size()); ++dim)
    if (to[dim] == from[inner->dim] && behind(to, dim) == behind(from, inner->dim))
      return Counted{dim, inner->step};
  return std::nullopt;
}

std::vector<int64_t> inverseOf(const std::vector<int64_t> &order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    inverse[size_t(order[i])] = int64_t(i);
  return inverse;
}

} // namespace

Result<Term> componentOf(TermBuilder &b, const Term &indices, int64_t k) {
  Shape tuples(indices.shape.begin(), indices.shape.end() - 1);
  int64_t last = indices.rank() - 1, first = 0;
  auto joined = indices.value ? indices.value.getDefiningOp<ir::ConcatenateOp>() : ir::ConcatenateOp();
  if (joined && int64_t(joined.getDimension()) == last)
    for (mlir::Value part : joined.getOperands()) {
      int64_t size = ir::shapeOf(part)[last];
      if (first == k && size == 1)
        return b.reshape(b.fromValue(part), tuples);
      first += size;
    }
  KERF_TRY(column, b.slice(indices, last, k, k + 1));
  return b.reshape(column, tuples);
}

Result<std::optional<Term>> takeAtTuples(TermBuilder &b, const Term &x, const std::vector<Term> &components) {
  int64_t depth = int64_t(components.size()), looked = -1;
  std::vector<int64_t> batch, along; // corresponding dimensions of x and of the tuples
  for (int64_t k = 0; k < depth; ++k) {
    std::optional<Counted> counted = components[k].isConstant() ? std::nullopt : asCounted(b, components[k].value);
    bool isOwn = counted && counted->step == 1 && components[k].shape[counted->dim] == x.shape[k] &&
                 std::find(along.begin(), along.end(), counted->dim) == along.end();
    if (isOwn) {
      batch.push_back(k);
      along.push_back(counted->dim);
    } else if (looked < 0) {
      looked = k;
    } else {
      return std::optional<Term>();
    }
  }
  if (looked < 0 || batch.empty())
    return std::optional<Term>();
  const Shape &tuples = components[looked].shape;
  std::vector<int64_t> order = batch, places = along; // dimension orders of x and of the index, batch dimensions first
  order.push_back(looked);
  for (int64_t d = depth; d < x.rank(); ++d)
    order.push_back(d);
  for (int64_t d = 0; d < int64_t(tuples.size()); ++d)
    if (std::find(along.begin(), along.end(), d) == along.end())
      places.push_back(d);
  Formula f(b, x.dtype);
  Term picked =
      f.unwrap(takeAlong(b, f.transpose(x, order), f.transpose(components[looked], places), int64_t(batch.size())));
  std::vector<int64_t> back = inverseOf(places);
  for (int64_t d = depth; d < x.rank(); ++d)
    back.push_back(int64_t(back.size()));
  Term result = f.transpose(picked, back);
  if (f.fault)
    return *f.fault;
  return std::optional(result);
}

Result<std::optional<Term>> takeMergedRows(TermBuilder &b, const Term &x, const Term &indices) {
  auto add = indices.value ? indices.value.getDefiningOp<ir::AddOp>() : ir::AddOp();
  if (!add || x.rank() == 0)
    return std::optional<Term>();
  for (auto [scaled, other] : {std::pair{add.getLhs(), add.getRhs()}, {add.getRhs(), add.getLhs()}}) {
    std::optional<Counted> counted = asCounted(b, scaled);
    if (!counted || counted->step < 1 || x.shape[0] != indices.shape[counted->dim] * counted->step)
      continue;
    std::vector<int64_t> places{counted->dim};
    for (int64_t d = 0; d < indices.rank(); ++d)
      if (d != counted->dim)
        places.push_back(d);
    Formula f(b, x.dtype);
    Shape rest(x.shape.begin() + 1, x.shape.end()), apart{indices.shape[counted->dim], counted->step},
        wanted = indices.shape;
    wanted.insert(wanted.end(), rest.begin(), rest.end());
    if (elementsOf(rest) == 1)
      rest.clear();
    apart.insert(apart.end(), rest.begin(), rest.end());
    // The rows may come from a tensor that was merged by a reshape; then the tensor before the reshape is used.
    auto reshape = x.value ? x.value.getDefiningOp<ir::ReshapeOp>() : ir::ReshapeOp();
    bool wasApart = reshape && ir::shapeOf(reshape.getOperand()) == apart;
    Term table = wasApart ? b.fromValue(reshape.getOperand()) : f.reshape(x, apart);
    Term picked = f.unwrap(takeAlong(b, table, f.transpose(b.fromValue(other), places), 1));
    std::vector<int64_t> back = inverseOf(places);
    for (size_t d = 0; d < rest.size(); ++d)
      back.push_back(int64_t(back.size()));
    Term result = f.reshape(f.transpose(picked, back), wanted);
    if (f.fault)
      return *f.fault;
    return std::optional(result);
  }
  return std::optional<Term>();
}

} // namespace kerf::frontend
