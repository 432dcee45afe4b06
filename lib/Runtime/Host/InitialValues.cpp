// SPDX-License-Identifier: Apache-2.0
#include "InitialValues.h"
#include "../Cpu/Kernels/Normal.h"
#include "../Philox.h"
#include "kerf/Package/Half.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace kerf::runtime {

namespace {
constexpr double kDeviation = 0.02; // GPT-2's initializer_range
constexpr int64_t kAtOnce = 256;    // random numbers that are drawn before they are stored

/// Returns the FNV-1a hash of a name, which is the same on every machine.
uint64_t hashOf(const std::string &name) {
  uint64_t hash = 14695981039346656037u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 1099511628211u;
  return hash;
}

/// Stores numbers as elements of type `dtype`. Integer parameters stay zero.
void store(DType dtype, const float *values, int64_t count, std::byte *out) {
  if (dtype == DType::F32)
    std::memcpy(out, values, size_t(count) * sizeof(float));
  auto *halves = reinterpret_cast<uint16_t *>(out);
  if (dtype == DType::BF16)
    std::transform(values, values + count, halves, bf16FromFloat);
  if (dtype == DType::F16)
    std::transform(values, values + count, halves, f16FromFloat);
  if (dtype == DType::F64)
    std::copy_n(values, count, reinterpret_cast<double *>(out));
}
} // namespace

InitialValues::InitialValues(uint64_t seed, const std::string &name, const Shape &shape, Shard given, DType dtype)
    : seed(seed), hash(hashOf(name)), shape(shape), shard(std::move(given)), dtype(dtype), isFlat(shape.size() < 2),
      isOnes(shape.size() == 1 && (name == "weight" || name.ends_with(".weight"))), inner(shape.size()) {
  bool isWhole = true; // whether the dimensions from `inner` on are whole, without padding
  while (inner > 0 && isWhole) {
    --inner;
    row *= shard.local[inner], valid *= shard.count[inner];
    isWhole = shard.count[inner] == shape[inner] && shard.local[inner] == shape[inner];
  }
}

void InitialValues::writeRun(uint64_t global, int64_t count, std::byte *out) const {
  const int64_t bytes = bytesOf(dtype);
  std::array<float, kAtOnce> values;
  for (int64_t done = 0; done < count; done += kAtOnce) {
    const int64_t some = std::min(kAtOnce, count - done);
    std::byte *to = out + done * bytes;
    if (!isFlat && dtype == DType::F64) {
      for (int64_t i = 0; i < some; ++i) {
        std::array<uint32_t, 4> random = philox(global + uint64_t(done + i), hash, seed);
        reinterpret_cast<double *>(to)[i] = kDeviation * normalOf(random[0], random[1]);
      }
      continue;
    }
    if (isFlat)
      values.fill(isOnes ? 1.0F : 0.0F);
    else
      normalRow(global + uint64_t(done), hash, seed, kDeviation, some, values.data());
    store(dtype, values.data(), some, to);
  }
}

void InitialValues::write(int64_t begin, int64_t end, std::byte *out) const {
  const int64_t bytes = bytesOf(dtype);
  std::memset(out, 0, size_t((end - begin) * bytes));
  while (begin < end) {
    const int64_t column = begin % row, stop = std::min(end, begin - column + row);
    uint64_t global = 0, stride = 1; // index of the row's first element in the global tensor
    bool isPadding = false;
    for (size_t d = shape.size(); d-- > inner; stride *= uint64_t(shape[d]))
      global += stride * uint64_t(shard.begin[d]);
    int64_t rows = begin / row;
    for (size_t d = inner; d-- > 0; stride *= uint64_t(shape[d])) {
      const int64_t index = rows % shard.local[d];
      rows /= shard.local[d];
      isPadding = isPadding || index >= shard.count[d];
      global += stride * uint64_t(shard.begin[d] + index);
    }
    if (!isPadding && column < valid)
      writeRun(global + uint64_t(column), std::min(stop - begin, valid - column), out);
    out += (stop - begin) * bytes;
    begin = stop;
  }
}

} // namespace kerf::runtime
