// SPDX-License-Identifier: Apache-2.0
#include "CallerBatches.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::runtime {

namespace {
template <typename Items, typename NameOf> std::string quoted(const Items &items, NameOf nameOf) {
  std::vector<std::string> names;
  for (const auto &item : items)
    names.push_back(fmt::format("'{}'", nameOf(item)));
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

Status checkNames(const TensorMap &tensors, const std::vector<BatchTensor> &expected) {
  auto inputs = [&] { return quoted(expected, [](const BatchTensor &one) { return one.name; }); };
  for (const BatchTensor &input : expected)
    if (!tensors.contains(input.name))
      return Error{fmt::format("batch: the model's input '{}' is missing; it takes {}, the batch has {}", input.name,
                               inputs(), quoted(tensors, [](const auto &entry) { return entry.first; }))};
  for (const auto &[name, tensor] : tensors)
    if (std::none_of(expected.begin(), expected.end(), [&](const BatchTensor &one) { return one.name == name; }))
      return Error{fmt::format("batch: '{}' is no input of the model, which takes {}; leave it out", name, inputs())};
  return ok();
}
} // namespace

void CallerBatches::open(size_t inputs, int64_t perStep, int64_t users) {
  tensors.resize(inputs);
  parts.assign(size_t(perStep), std::vector<const std::byte *>(inputs));
  taken.assign(size_t(users), 0);
}

Status CallerBatches::give(const TensorMap &given, const std::vector<BatchTensor> &expected) {
  if (Status status = checkNames(given, expected); !status)
    return status;
  std::vector<Tensor> converted;
  for (const BatchTensor &input : expected) {
    const Tensor &tensor = given.at(input.name);
    if (tensor.shape != input.shape)
      return Error{fmt::format("batch: '{}' has shape {}, a step takes {}; give that shape", input.name,
                               shapeText(tensor.shape), shapeText(input.shape))};
    auto right = tensor.dtype == input.dtype ? Result<Tensor>(tensor) : convertTensor(tensor, input.dtype);
    if (!right)
      return Error{fmt::format("batch: '{}' is {}, the model takes {}: {}; correct the batch", input.name,
                               toString(tensor.dtype), toString(input.dtype), right.error().message)};
    converted.push_back(std::move(*right));
  }
  tensors = std::move(converted);
  for (size_t batch = 0; batch < parts.size(); ++batch)
    for (size_t input = 0; input < tensors.size(); ++input)
      parts[batch][input] = tensors[input].data + int64_t(batch) * (tensors[input].bytes() / int64_t(parts.size()));
  std::fill(taken.begin(), taken.end(), 0);
  return ok();
}

Result<const std::vector<const std::byte *> *> CallerBatches::next(int64_t user) {
  return &parts[size_t(taken[size_t(user)])];
}

void CallerBatches::release(int64_t user) { ++taken[size_t(user)]; }

} // namespace kerf::runtime
