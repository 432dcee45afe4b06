// SPDX-License-Identifier: Apache-2.0
// Recognition of causal masks: it finds from the IR alone that a mask hides exactly the later keys. Each value is
// described as a function of the index along at most two of its dimensions.
//    iota dim 2             index(2)
//    iota dim 3             index(3)
//    compare GE             triangle(query 2, key 3)   true where index(2) >= index(3)
//    select(.., 0, -3e38)   masked(query 2, key 3)     0 where true, -3e38 elsewhere
#include "Recognize.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace {
enum class FormKind { Unknown, Scalar, Index, Triangle };

/// A description of a value's elements. Index: `offset` + the index along dimension `first`. Triangle: `onTrue` where
/// the index along `first` is at least the index along `second`, and `onFalse` elsewhere.
struct Form {
  FormKind kind = FormKind::Unknown;
  double offset = 0;
  int64_t first = -1, second = -1;
  double onTrue = 1, onFalse = 0;
};
} // namespace

static constexpr double kHidden = -1e9; // a score this low has probability 0, whatever the other scores are
static constexpr int kDepth = 24;

static Form formOf(Value value, int depth);

static Form scalarForm(double number) {
  Form form;
  form.kind = FormKind::Scalar;
  form.offset = number;
  return form;
}

/// Returns `form` with dimension d renamed to map(d). -1 means that the dimension had size 1 and is dropped; its index
/// is 0.
template <typename Map> static Form renamed(Form form, Map map) {
  if (form.kind == FormKind::Index) {
    form.first = map(form.first);
    return form.first < 0 ? scalarForm(form.offset) : form;
  }
  if (form.kind == FormKind::Triangle) {
    form.first = map(form.first);
    form.second = map(form.second);
    return form.first < 0 || form.second < 0 ? Form{} : form;
  }
  return form;
}

static Form reshapeForm(ReshapeOp op, const Form &form) {
  auto from = tensorType(op.getOperand()).getShape();
  auto to = tensorType(op.getResult()).getShape();
  SmallVector<int64_t> wideFrom, wideTo;
  for (auto [dim, size] : llvm::enumerate(from))
    if (size != 1)
      wideFrom.push_back(static_cast<int64_t>(dim));
  for (auto [dim, size] : llvm::enumerate(to))
    if (size != 1)
      wideTo.push_back(static_cast<int64_t>(dim));
  if (wideFrom.size() != wideTo.size())
    return {};
  for (auto [a, b] : llvm::zip(wideFrom, wideTo))
    if (from[a] != to[b])
      return {};
  return renamed(form, [&](int64_t dim) -> int64_t {
    auto it = llvm::find(wideFrom, dim);
    return it == wideFrom.end() ? -1 : wideTo[it - wideFrom.begin()];
  });
}

/// Returns the form of an elementwise function of a value and a constant.
template <typename Function> static Form mapped(Form form, Function function) {
  if (form.kind == FormKind::Scalar)
    return scalarForm(function(form.offset));
  if (form.kind != FormKind::Triangle)
    return {};
  form.onTrue = function(form.onTrue);
  form.onFalse = function(form.onFalse);
  return form;
}

template <typename Function> static Form combined(Form a, Form b, Function function) {
  if (a.kind == FormKind::Scalar)
    return mapped(b, [&](double y) { return function(a.offset, y); });
  if (b.kind == FormKind::Scalar)
    return mapped(a, [&](double x) { return function(x, b.offset); });
  return {};
}

/// Returns the form of an index plus or minus a constant.
static Form shifted(Form a, Form b, double sign) {
  if (a.kind == FormKind::Index && b.kind == FormKind::Scalar)
    a.offset += sign * b.offset;
  else
    return {};
  return a;
}

static Form compareForm(CompareOp op, Form left, Form right) {
  Comparison direction = op.getDirection();
  if (left.kind == FormKind::Index && right.kind == FormKind::Index) {
    // Every comparison is written as left >= right: a <= b is b >= a, a < b is b >= a + 1, and a > b is a >= b + 1.
    if (direction == Comparison::LE || direction == Comparison::LT) {
      std::swap(left, right);
      direction = direction == Comparison::LE ? Comparison::GE : Comparison::GT;
    }
    if (direction != Comparison::GE && direction != Comparison::GT)
      return {};
    double shift = left.offset - right.offset - (direction == Comparison::GT ? 1 : 0);
    Form form;
    form.kind = FormKind::Triangle;
    form.first = left.first;
    form.second = right.first;
    if (shift == 0)
      return form;
    if (shift != -1)
      return {};
    // The comparison i - 1 >= j is equivalent to not (j >= i).
    std::swap(form.first, form.second);
    std::swap(form.onTrue, form.onFalse);
    return form;
  }
  return combined(left, right, [&](double x, double y) -> double {
    switch (direction) {
    case Comparison::EQ:
      return x == y;
    case Comparison::NE:
      return x != y;
    case Comparison::LT:
      return x < y;
    case Comparison::LE:
      return x <= y;
    case Comparison::GT:
      return x > y;
    case Comparison::GE:
      return x >= y;
    }
    return 0;
  });
}

/// Returns the form of a constant that is a lower triangle in its last two dimensions, the others having size 1.
static Form constantForm(ConstantOp op) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  auto shape = tensorType(op.getResult()).getShape();
  if (!elements || shape.size() < 2 || shape.back() != shape[shape.size() - 2] ||
      elements.getNumElements() != shape.back() * shape.back())
    return {};
  SmallVector<double> numbers;
  if (isa<FloatType>(elements.getElementType()))
    for (const APFloat &number : elements.getValues<APFloat>())
      numbers.push_back(number.convertToDouble());
  else
    for (const APInt &number : elements.getValues<APInt>())
      numbers.push_back(static_cast<double>(number.getZExtValue()));
  int64_t size = shape.back();
  if (size < 2)
    return {};
  Form form;
  form.kind = FormKind::Triangle;
  form.first = static_cast<int64_t>(shape.size()) - 2;
  form.second = form.first + 1;
  form.onTrue = numbers[0];
  form.onFalse = numbers[1];
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j)
      if (numbers[i * size + j] != (i >= j ? form.onTrue : form.onFalse))
        return {};
  return form;
}

static Form formOf(Value value, int depth) {
  if (auto number = scalarOf(value))
    return scalarForm(*number);
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return {};
  auto operand = [&](unsigned i) { return formOf(op->getOperand(i), depth - 1); };
  if (auto constant = dyn_cast<ConstantOp>(op))
    return constantForm(constant);
  if (auto iota = dyn_cast<IotaOp>(op); iota && !iota.getOffset()) {
    Form form;
    form.kind = FormKind::Index;
    form.first = static_cast<int64_t>(iota.getDimension());
    return form;
  }
  if (auto broadcast = dyn_cast<BroadcastInDimOp>(op)) {
    auto from = tensorType(broadcast.getOperand()).getShape();
    auto dims = broadcast.getBroadcastDimensions();
    return renamed(operand(0), [&](int64_t dim) { return from[dim] == 1 ? -1 : dims[dim]; });
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return reshapeForm(reshape, operand(0));
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    auto where = inverse(transpose.getPermutation());
    return renamed(operand(0), [&](int64_t dim) { return where[dim]; });
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    Form form = operand(0);
    bool fromZero = llvm::all_of(slice.getStart(), [](int64_t start) { return start == 0; }) &&
                    llvm::all_of(slice.getStrides(), [](int64_t stride) { return stride == 1; });
    return fromZero ? form : Form{};
  }
  if (auto compare = dyn_cast<CompareOp>(op))
    return compareForm(compare, operand(0), operand(1));
  if (isa<SelectOp>(op)) {
    Form predicate = operand(0), onTrue = operand(1), onFalse = operand(2);
    if (predicate.kind == FormKind::Scalar)
      return predicate.offset != 0 ? onTrue : onFalse;
    if (predicate.kind != FormKind::Triangle || onTrue.kind != FormKind::Scalar || onFalse.kind != FormKind::Scalar)
      return {};
    return mapped(predicate, [&](double truth) { return truth != 0 ? onTrue.offset : onFalse.offset; });
  }
  if (isa<NotOp>(op) && tensorType(value).getElementType().isInteger(1))
    return mapped(operand(0), [](double x) { return x == 0 ? 1.0 : 0.0; });
  if (isa<ConvertOp>(op)) {
    Form form = operand(0);
    return tensorType(value).getElementType().isInteger(1) ? mapped(form, [](double x) { return x != 0 ? 1.0 : 0.0; })
                                                           : form;
  }
  if (isa<AndOp>(op))
    return combined(operand(0), operand(1), [](double x, double y) { return x != 0 && y != 0 ? 1.0 : 0.0; });
  if (isa<OrOp>(op))
    return combined(operand(0), operand(1), [](double x, double y) { return x != 0 || y != 0 ? 1.0 : 0.0; });
  if (isa<AddOp, SubtractOp>(op)) {
    double sign = isa<AddOp>(op) ? 1.0 : -1.0;
    Form left = operand(0), right = operand(1);
    if (left.kind == FormKind::Index)
      return shifted(left, right, sign);
    if (right.kind == FormKind::Index)
      return sign > 0 ? shifted(right, left, 1.0) : Form{};
    return combined(left, right, [&](double x, double y) { return x + sign * y; });
  }
  if (isa<MultiplyOp>(op))
    return combined(operand(0), operand(1), [](double x, double y) { return x * y; });
  return {};
}

bool kerf::isCausalMask(Value mask) {
  auto type = tensorType(mask);
  if (type.getRank() != 4 || type.getDimSize(2) != type.getDimSize(3))
    return false;
  Form form = formOf(mask, kDepth);
  if (form.kind != FormKind::Triangle || form.first != 2 || form.second != 3)
    return false;
  if (type.getElementType().isInteger(1))
    return form.onTrue != 0 && form.onFalse == 0;
  return form.onTrue == 0 && form.onFalse <= kHidden;
}
