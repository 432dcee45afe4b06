// SPDX-License-Identifier: Apache-2.0
#include "Calls.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::runtime::ascend {

void Builder::add(const Operator &one, std::vector<Argument> arguments) {
  if (failure)
    return;
  bool isEmpty = false;
  for (const Argument &argument : arguments)
    if (const auto *view = std::get_if<View>(&argument)) {
      if (!(one.types >> unsigned(view->dtype) & 1U))
        return fail({fmt::format("'{}' has a tensor of type {}, which CANN's operator {} does not take; train on the "
                                 "device cpu, or change the type in the model",
                                 name(), toString(view->dtype), one.name)});
      if (view->dtype == DType::BF16 && target.generation == Generation::First)
        return fail({fmt::format("'{}' has a tensor of type bf16, which Ascend 910A and its like do not compute with; "
                                 "take <dtype> f16",
                                 name())});
      isEmpty = isEmpty || view->elements() == 0;
    }
  if (!isEmpty)
    calls.calls.emplace_back(OperatorCall{&one, std::move(arguments)});
}

View Builder::temporary(DType dtype, const Shape &sizes) {
  View view{nullptr, dtype, sizes, rowMajorStrides(sizes)};
  if (request.scratch)
    view.data = static_cast<std::byte *>(request.scratch) + taken;
  taken += alignedBytes(view.bytes());
  calls.scratchBytes = std::max(calls.scratchBytes, taken);
  return view;
}

View Builder::constant(DType dtype, const Shape &sizes, const void *bytes) {
  View view{nullptr, dtype, sizes, rowMajorStrides(sizes)};
  if (!target.constant || view.elements() == 0)
    return view;
  auto memory = target.constant(bytes, view.bytes());
  if (!memory) {
    fail(memory.error());
    return view;
  }
  view.data = memory->get();
  calls.keep.push_back(std::move(*memory));
  return view;
}

void *Builder::pinned(int64_t bytes) {
  if (!target.pinned || bytes == 0)
    return nullptr;
  auto memory = target.pinned(bytes);
  if (!memory) {
    fail(memory.error());
    return nullptr;
  }
  calls.keep.push_back(*memory);
  return memory->get();
}

void Builder::copy(const View &from, const View &to) {
  if (from.dtype != to.dtype)
    return cast(from, to);
  if (from.elements() == 0)
    return;
  auto place = [](const View &view) {
    return view.data ? static_cast<std::byte *>(view.data) + view.offset * bytesOf(view.dtype) : nullptr;
  };
  if (!isDense(from) || !isDense(to)) {
    // The operator moves elements and has no unsigned types wider than 8 bits: the signed one of the width has the
    // bits.
    auto movable = [](const View &view) {
      switch (view.dtype) {
      case DType::U64:
        return asType(view, DType::I64);
      case DType::U32:
        return asType(view, DType::I32);
      case DType::U16:
        return asType(view, DType::I16);
      case DType::F8E4M3FN:
      case DType::F8E5M2:
        return asType(view, DType::U8);
      default:
        return view;
      }
    };
    call(op::InplaceCopy, movable(to), movable(from));
  } else if (isPriced || !from.data || place(from) != place(to)) {
    add(CopyCall{place(to), place(from), from.bytes()});
  }
}

void Builder::fill(const View &to, double value) { call(op::InplaceFillScalar, to, scalar(to.dtype, value)); }

View Builder::as(DType dtype, const View &view) {
  if (view.dtype == dtype)
    return view;
  View made = temporary(dtype, view.sizes);
  cast(view, made);
  return made;
}

void Builder::refuseDoubles() {
  for (const auto *views : {&request.operands, &request.results})
    for (const TensorView &view : *views)
      if (view.dtype == DType::F64)
        fail(
            {fmt::format("'{}' of float64 numbers has no form in CANN; train on the device cpu, or in float32 (<dtype> "
                         "f32)",
                         name())});
}

ScalarValue Builder::scalar(DType dtype, double value) {
  switch (dtype) {
  case DType::F64:
    return {DType::F64, value};
  case DType::F32:
  case DType::F16:
  case DType::BF16:
    return {DType::F32, value}; // operators on 16-bit numbers take float scalars
  default:
    return {DType::I64, 0, int64_t(value)};
  }
}

Result<Calls> Builder::finish() {
  if (failure)
    return *failure;
  return std::move(calls);
}

} // namespace kerf::runtime::ascend
