// SPDX-License-Identifier: Apache-2.0
// Recognition of a loop over rows that an exporter or a `for` of Python has unrolled: a concatenation of pieces of
// size 1 (torch.stack, the bags of EmbeddingBag) that are all computed in the same way, each from its own slice of
// the same tensors.
//    concatenate(f(x[0:3]), f(x[3:6]), f(x[6:9]))   is f on the rows of reshape(x, [3, 3, ...])
// One op on all rows replaces one op for each row, so that the batch can be sharded again. Shapes are compared and
// written without dimensions of size 1, because exporters add and drop such dimensions freely.
#include "Recognize.h"
#include "SplitReshapes.h"

#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace {

constexpr int kMostOpsDeep = 32; // largest number of ops from the concatenation to the slices

Type elementTypeOf(Value value) { return tensorType(value).getElementType(); }

Shape squeezed(ArrayRef<int64_t> shape) {
  Shape left;
  llvm::copy_if(shape, std::back_inserter(left), [](int64_t size) { return size != 1; });
  return left;
}

/// Returns the position of dimension `dim`, whose size is not 1, in the squeezed shape.
int64_t squeezedDim(ArrayRef<int64_t> shape, int64_t dim) {
  return llvm::count_if(shape.take_front(dim), [](int64_t size) { return size != 1; });
}

/// Returns the value behind reshapes that only add or drop dimensions of size 1.
Value withoutUnits(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    if (squeezed(shapeOf(reshape.getOperand())) != squeezed(shapeOf(value)))
      break;
    value = reshape.getOperand();
  }
  return value;
}

/// A rewriter that computes one value from many rows. Each method returns null where the rows are not computed in the
/// same way; otherwise a value of shape [rows] + squeezed(shape of a row).
class Roller {
public:
  Roller(OpBuilder &builder, Location loc, int64_t count) : emit{builder, loc}, count(count) {}

  Value roll(std::vector<Value> rows, int depth = kMostOpsDeep) {
    llvm::transform(rows, rows.begin(), withoutUnits);
    if (auto found = known.find(pointers(rows)); found != known.end())
      return found->second;
    Value rolled = depth > 0 ? make(rows, depth) : Value();
    known[pointers(rows)] = rolled;
    return rolled;
  }

private:
  static std::vector<const void *> pointers(ArrayRef<Value> rows) {
    std::vector<const void *> all;
    for (Value row : rows)
      all.push_back(row.getAsOpaquePointer());
    return all;
  }

  Shape rolledShape(Value row) const {
    Shape shape = squeezed(shapeOf(row));
    shape.insert(shape.begin(), count);
    return shape;
  }

  Value make(ArrayRef<Value> rows, int depth) {
    Value first = rows.front();
    for (Value row : rows)
      if (squeezed(shapeOf(row)) != squeezed(shapeOf(first)) || elementTypeOf(row) != elementTypeOf(first))
        return {};
    if (isOneValue(rows))
      return copies(first);
    Operation *op = first.getDefiningOp();
    for (Value row : rows)
      if (!op || !row.getDefiningOp() || row.getDefiningOp()->getName() != op->getName())
        return {};
    if (isa<SliceOp>(op))
      return slices(rows);
    if (isa<ReduceOp>(op))
      return reduces(rows, depth);
    if (isa<BroadcastInDimOp>(op))
      return broadcasts(rows, depth);
    if (isa<EmbeddingOp>(op))
      return lookups(rows, depth);
    return isElementwise(op) ? elementwise(rows, depth) : Value();
  }

  static bool isOneValue(ArrayRef<Value> rows) {
    auto number = scalarOf(rows.front());
    return llvm::all_equal(rows) || (number && llvm::all_of(rows, [&](Value row) { return scalarOf(row) == number; }));
  }

  Value copies(Value row) {
    Shape shape = rolledShape(row), dims;
    for (size_t d = 1; d < shape.size(); ++d)
      dims.push_back(static_cast<int64_t>(d));
    return emit.broadcast(emit.reshape(row, squeezed(shapeOf(row))), shape, dims);
  }

  std::vector<Value> operandOf(ArrayRef<Value> rows, unsigned operand) const {
    std::vector<Value> all;
    for (Value row : rows)
      all.push_back(row.getDefiningOp()->getOperand(operand));
    return all;
  }

  /// Merges slices of one tensor that follow each other along one dimension.
  Value slices(ArrayRef<Value> rows) {
    auto first = rows.front().getDefiningOp<SliceOp>(), second = rows[1].getDefiningOp<SliceOp>();
    Value whole = first.getOperand();
    Shape shape = shapeOf(whole);
    if (second.getOperand() != whole)
      return {};
    int64_t dim = 0, rank = static_cast<int64_t>(shape.size());
    while (dim < rank && second.getStart()[dim] == first.getStart()[dim])
      ++dim;
    if (dim == rank)
      return {};
    const int64_t step = first.getLimit()[dim] - first.getStart()[dim];
    for (auto [i, row] : llvm::enumerate(rows)) {
      auto slice = row.getDefiningOp<SliceOp>();
      if (slice.getOperand() != whole)
        return {};
      for (int64_t d = 0; d < rank; ++d) {
        int64_t ahead = d == dim ? static_cast<int64_t>(i) * step : 0;
        if (slice.getStrides()[d] != 1 || slice.getStart()[d] != first.getStart()[d] + ahead ||
            slice.getLimit()[d] != first.getLimit()[d] + ahead)
          return {};
      }
    }
    SmallVector<int64_t> start(first.getStart()), limit(first.getLimit()), strides(shape.size(), 1);
    limit[dim] = start[dim] + count * step;
    Shape part = shapeOf(rows.front());
    part[dim] *= count;
    if (part != shape)
      whole = SliceOp::create(emit.builder, emit.loc, RankedTensorType::get(part, elementTypeOf(whole)), whole, start,
                              limit, strides);
    part[dim] /= count;
    part.insert(part.begin() + dim, count);
    SmallVector<int64_t> permutation = {dim};
    for (size_t d = 0; d < part.size(); ++d)
      if (static_cast<int64_t>(d) != dim)
        permutation.push_back(static_cast<int64_t>(d));
    return emit.reshape(emit.transpose(emit.reshape(whole, part), permutation), rolledShape(rows.front()));
  }

  Value reduces(ArrayRef<Value> rows, int depth) {
    auto dimsOf = [](ReduceOp reduce) { // dimensions of the merged operand
      Shape from = shapeOf(reduce.getOperand()), dims;
      for (int64_t dim : reduce.getDimensions())
        if (from[dim] != 1)
          dims.push_back(squeezedDim(from, dim) + 1);
      return dims;
    };
    auto first = rows.front().getDefiningOp<ReduceOp>();
    for (Value row : rows)
      if (auto reduce = row.getDefiningOp<ReduceOp>();
          reduce.getKind() != first.getKind() || dimsOf(reduce) != dimsOf(first))
        return {};
    Value operand = roll(operandOf(rows, 0), depth - 1);
    return operand ? emit.reduce(operand, first.getKind(), dimsOf(first)) : Value();
  }

  Value broadcasts(ArrayRef<Value> rows, int depth) {
    auto dimsOf = [](BroadcastInDimOp broadcast) {
      Shape from = shapeOf(broadcast.getOperand()), to = shapeOf(broadcast.getResult()), dims = {0};
      for (auto [d, dim] : llvm::enumerate(broadcast.getBroadcastDimensions()))
        if (from[d] != 1)
          dims.push_back(squeezedDim(to, dim) + 1);
      return dims;
    };
    auto first = rows.front().getDefiningOp<BroadcastInDimOp>();
    for (Value row : rows)
      if (dimsOf(row.getDefiningOp<BroadcastInDimOp>()) != dimsOf(first))
        return {};
    Value operand = roll(operandOf(rows, 0), depth - 1);
    return operand ? emit.broadcast(operand, rolledShape(rows.front()), dimsOf(first)) : Value();
  }

  /// Merges lookups in one table into one lookup of all indices.
  Value lookups(ArrayRef<Value> rows, int depth) {
    auto first = rows.front().getDefiningOp<EmbeddingOp>();
    for (Value row : rows)
      if (auto lookup = row.getDefiningOp<EmbeddingOp>(); lookup.getTable() != first.getTable() || lookup.getOffset())
        return {};
    Value indices = roll(operandOf(rows, 1), depth - 1);
    if (!indices)
      return {};
    Shape shape = shapeOf(indices);
    shape.push_back(shapeOf(first.getTable())[1]);
    auto type = RankedTensorType::get(shape, elementTypeOf(first.getTable()));
    Value found =
        EmbeddingOp::create(emit.builder, emit.loc, type, first.getTable(), indices, Value(), first.getRows());
    return emit.reshape(found, rolledShape(rows.front()));
  }

  Value elementwise(ArrayRef<Value> rows, int depth) {
    Operation *op = rows.front().getDefiningOp();
    for (Value row : rows)
      if (row.getDefiningOp()->getAttrDictionary() != op->getAttrDictionary())
        return {};
    OperationState state(emit.loc, op->getName());
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      Value operand = roll(operandOf(rows, i), depth - 1);
      if (!operand || shapeOf(operand) != rolledShape(rows.front()))
        return {};
      state.addOperands(operand);
    }
    state.addTypes(RankedTensorType::get(rolledShape(rows.front()), elementTypeOf(rows.front())));
    state.addAttributes(op->getAttrs());
    return emit.builder.create(state)->getResult(0);
  }

  Emitter emit;
  int64_t count;
  std::map<std::vector<const void *>, Value> known;
};

} // namespace

bool kerf::recognizeRows(Operation *op) {
  auto concatenate = dyn_cast<ConcatenateOp>(op);
  if (!concatenate || op->getNumOperands() < 2)
    return false;
  auto dim = static_cast<int64_t>(concatenate.getDimension());
  for (Value operand : op->getOperands())
    if (shapeOf(operand)[dim] != 1)
      return false;
  OpBuilder builder(op);
  auto count = static_cast<int64_t>(op->getNumOperands());
  Value rolled = Roller(builder, op->getLoc(), count).roll({op->operand_begin(), op->operand_end()});
  if (!rolled)
    return false;
  Emitter emit{builder, op->getLoc()};
  Shape row = shapeOf(op->getOperand(0));
  row.erase(row.begin() + dim);
  row.insert(row.begin(), count);
  SmallVector<int64_t> permutation; // moves the rows from the front to `dim`
  for (int64_t d = 1; d <= static_cast<int64_t>(row.size()) - 1; ++d)
    permutation.push_back(d);
  permutation.insert(permutation.begin() + dim, 0);
  op->getResult(0).replaceAllUsesWith(emit.transpose(emit.reshape(rolled, row), permutation));
  return true;
}
