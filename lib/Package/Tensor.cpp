// SPDX-License-Identifier: Apache-2.0
// Element types, tensors that own their bytes, and conversion between types.
#include "Readers.h"
#include "kerf/Package/Convert.h"
#include "kerf/Package/Half.h"
#include "kerf/Package/HuggingFace.h"
#include "kerf/Package/IntegerType.h"
#include "kerf/Package/TensorFile.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace kerf {

namespace {
struct DTypeRow {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};
constexpr std::array kDTypes = {
    DTypeRow{DType::F64, "f64", 8},       DTypeRow{DType::F32, "f32", 4},
    DTypeRow{DType::BF16, "bf16", 2},     DTypeRow{DType::F16, "f16", 2},
    DTypeRow{DType::I64, "i64", 8},       DTypeRow{DType::I32, "i32", 4},
    DTypeRow{DType::I16, "i16", 2},       DTypeRow{DType::I8, "i8", 1},
    DTypeRow{DType::U64, "u64", 8},       DTypeRow{DType::U32, "u32", 4},
    DTypeRow{DType::U16, "u16", 2},       DTypeRow{DType::U8, "u8", 1},
    DTypeRow{DType::Bool, "bool", 1},     DTypeRow{DType::F8E4M3FN, "f8e4m3fn", 1},
    DTypeRow{DType::F8E5M2, "f8e5m2", 1},
};
} // namespace

std::string_view toString(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

std::optional<DType> parseDType(std::string_view text) {
  for (const DTypeRow &row : kDTypes)
    if (row.name == text)
      return row.dtype;
  return std::nullopt;
}

int64_t bytesOf(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].bytes; }

int64_t elementsOf(const Shape &shape) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  return elements;
}

std::optional<int64_t> checkedElements(const Shape &shape) {
  constexpr int64_t kMost =
      std::numeric_limits<int64_t>::max() / 16; // leaves room for element sizes, alignment and sums
  int64_t elements = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0)
      return std::nullopt;
    if (size == 0) {
      empty = true;
      continue;
    }
    if (elements > kMost / size)
      return std::nullopt;
    elements *= size;
  }
  return empty ? 0 : elements;
}

std::string shapeText(const Shape &shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::pair<Tensor, std::byte *> allocateTensor(DType dtype, Shape shape) {
  Tensor tensor{dtype, std::move(shape), nullptr, nullptr};
  // calloc: the pages of a large tensor are zero without being touched.
  auto *bytes = static_cast<std::byte *>(std::calloc(std::max<int64_t>(tensor.bytes(), 1), 1));
  tensor.owner = std::shared_ptr<const void>(bytes, [](const void *memory) { std::free(const_cast<void *>(memory)); });
  tensor.data = bytes;
  return {std::move(tensor), bytes};
}

namespace {
bool isFloating(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

/// Reads element `index`. Data in files is not aligned, so the element is copied.
template <typename T> T load(const std::byte *data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}
template <typename T> void store(std::byte *data, int64_t index, T value) {
  std::memcpy(data + index * int64_t(sizeof(T)), &value, sizeof(T));
}

template <typename Visit> void visitFloats(DType from, const std::byte *data, int64_t elements, Visit visit) {
  for (int64_t i = 0; i < elements; ++i)
    switch (from) {
    case DType::F64:
      visit(i, load<double>(data, i));
      break;
    case DType::F32:
      visit(i, double(load<float>(data, i)));
      break;
    case DType::BF16:
      visit(i, double(floatFromBf16(load<uint16_t>(data, i))));
      break;
    default:
      visit(i, double(floatFromF16(load<uint16_t>(data, i))));
      break;
    }
}

void convertFloats(DType from, const std::byte *data, int64_t elements, DType to, std::byte *out) {
  visitFloats(from, data, elements, [&](int64_t i, double value) {
    switch (to) {
    case DType::F64:
      store<double>(out, i, value);
      break;
    case DType::F32:
      store<float>(out, i, float(value));
      break;
    case DType::BF16:
      store<uint16_t>(out, i, bf16FromFloat(float(value)));
      break;
    default:
      store<uint16_t>(out, i, f16FromFloat(float(value)));
      break;
    }
  });
}

Status convertIntegers(DType from, const std::byte *data, int64_t elements, DType to, std::byte *out) {
  return withIntegerType(from, [&](auto fromZero) {
    return withIntegerType(to, [&](auto toZero) -> Status {
      using From = decltype(fromZero);
      using To = decltype(toZero);
      To least = std::numeric_limits<To>::min(), most = to == DType::Bool ? To(1) : std::numeric_limits<To>::max();
      for (int64_t i = 0; i < elements; ++i) {
        From value = load<From>(data, i);
        if (std::cmp_less(value, least) || std::cmp_greater(value, most))
          return Error{
              fmt::format("element {} is {}, outside of {}'s range {} to {}", i, value, toString(to), least, most)};
        store<To>(out, i, To(value));
      }
      return ok();
    });
  });
}
} // namespace

Status convertElements(DType from, const std::byte *data, int64_t elements, DType to, std::byte *out) {
  if (isFloating(from) != isFloating(to))
    return Error{fmt::format("{} cannot be converted to {}: both must be floating types or both integer types",
                             toString(from), toString(to))};
  if (!isFloating(to))
    return convertIntegers(from, data, elements, to, out);
  convertFloats(from, data, elements, to, out);
  return ok();
}

Result<Tensor> convertTensor(const Tensor &tensor, DType dtype) {
  if (tensor.dtype == dtype)
    return tensor;
  auto [result, out] = allocateTensor(dtype, tensor.shape);
  if (Status status = convertElements(tensor.dtype, tensor.data, elementsOf(tensor.shape), dtype, out); !status)
    return status.error();
  return result;
}

Result<TensorMap> readTensors(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code code;
  if (fs::is_directory(path, code)) {
    auto weights = readHuggingFaceWeights(path);
    if (!weights)
      return weights.error();
    return *weights ? Result<TensorMap>(std::move(**weights)) : readNpyFolder(path);
  }
  if (path.ends_with(".safetensors"))
    return readSafetensors(path);
  if (path.ends_with(".npz"))
    return readNpz(path);
  return Error{
      fmt::format("cannot read tensors from '{}'{}; give a .safetensors or .npz file, a folder of .npy files, or "
                  "a Hugging Face folder with model.safetensors",
                  path, fs::exists(path, code) ? "" : ", which does not exist")};
}

} // namespace kerf
