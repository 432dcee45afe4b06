// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/Ptx.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace kerf::package {

bool isPtxImage(const NativeImage &image) { return image.kind == kPtxImage && image.interface == kPtxInterface; }

std::optional<int> ptxCapability(std::string_view isa) {
  constexpr std::string_view kPrefix = "sm_";
  if (isa.substr(0, kPrefix.size()) != kPrefix)
    return std::nullopt;
  isa.remove_prefix(kPrefix.size());
  int capability = 0;
  auto [end, error] = std::from_chars(isa.data(), isa.data() + isa.size(), capability);
  if (error != std::errc() || end != isa.data() + isa.size() || capability <= 0)
    return std::nullopt;
  return capability;
}

std::string ptxEntry(size_t kernel, std::string_view name) {
  std::string entry = fmt::format("kernel{}_", kernel);
  for (char c : name)
    entry += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? c : '_';
  return entry;
}

std::vector<int> storedValues(const Function &kernel) {
  std::vector<int> stored;
  for (int result : kernel.results)
    if (!reductionOf(kernel, result))
      stored.push_back(result);
  if (ptxReduction(kernel))
    return stored;
  for (int result : kernel.results)
    if (const Instruction *reduce = reductionOf(kernel, result)) {
      int value = reduce->operands[0];
      auto has = [&](const std::vector<int> &values) {
        return std::find(values.begin(), values.end(), value) != values.end();
      };
      if (!has(kernel.args) && !has(stored))
        stored.push_back(value);
    }
  return stored;
}

PtxItems ptxItems(const Function &kernel, const KernelSpace &space) {
  constexpr int64_t kVectorBytes = 16;
  const int64_t all = space.rows() * space.columns();
  int64_t narrowest = 8;
  for (const std::vector<int> &tensors : {kernel.args, storedValues(kernel)})
    for (int tensor : tensors) {
      const Value &value = kernel.values[size_t(tensor)];
      if (value.dtype != DType::Bool && elementsOf(value.shape) == all)
        narrowest = std::min(narrowest, bytesOf(value.dtype));
    }
  PtxItems items;
  items.width = kVectorBytes / narrowest;
  if (space.rows() != 1)
    while (space.columns() % items.width != 0)
      items.width /= 2;
  items.vectors = all / items.width;
  items.elements = all % items.width;
  return items;
}

} // namespace kerf::package
