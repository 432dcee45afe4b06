// SPDX-License-Identifier: Apache-2.0
// Reader and writer of .safetensors files: the length of the header (8 bytes, little-endian), a JSON header
// {name: {dtype, shape, data_offsets}}, and the data.
#include "Readers.h"
#include "kerf/Package/SafetensorsHeader.h"

#include <array>
#include <cstring>
#include <fmt/format.h>

namespace kerf {

namespace {
using Json = nlohmann::ordered_json;

struct NameOfDType {
  std::string_view name;
  DType dtype;
};
constexpr std::array kNames = {
    NameOfDType{"F64", DType::F64},   NameOfDType{"F32", DType::F32}, NameOfDType{"BF16", DType::BF16},
    NameOfDType{"F16", DType::F16},   NameOfDType{"I64", DType::I64}, NameOfDType{"I32", DType::I32},
    NameOfDType{"I16", DType::I16},   NameOfDType{"I8", DType::I8},   NameOfDType{"U64", DType::U64},
    NameOfDType{"U32", DType::U32},   NameOfDType{"U16", DType::U16}, NameOfDType{"U8", DType::U8},
    NameOfDType{"BOOL", DType::Bool},
};
constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignment = 8; // the header is padded so that the data starts aligned

/// Reads one entry of the header. `data` points to the `dataBytes` bytes that follow the header.
Result<Tensor> readEntry(const Json &entry, const std::byte *data, int64_t dataBytes) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
    return Error{"needs dtype, shape and data_offsets"};
  const Json &name = entry["dtype"], &sizes = entry["shape"], &offsets = entry["data_offsets"];
  Tensor tensor;
  const NameOfDType *found = nullptr;
  for (const NameOfDType &row : kNames)
    if (name.is_string() && row.name == name.get_ref<const std::string &>())
      found = &row;
  if (!found)
    return Error{fmt::format("dtype {} is not one of F64 F32 BF16 F16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL; convert the "
                             "tensor to one of them",
                             name.dump())};
  tensor.dtype = found->dtype;
  if (!sizes.is_array() || !offsets.is_array() || offsets.size() != 2)
    return Error{"shape must be a list and data_offsets a list of two numbers"};
  for (const Json &list : {sizes, offsets})
    for (const Json &number : list)
      if (!number.is_number_unsigned() || number.get<uint64_t>() > uint64_t(INT64_MAX))
        return Error{fmt::format("{} is not a size", number.dump())};
  for (const Json &size : sizes)
    tensor.shape.push_back(size.get<int64_t>());
  auto elements = checkedElements(tensor.shape);
  int64_t begin = offsets[0].get<int64_t>(), end = offsets[1].get<int64_t>();
  if (begin > end || end > dataBytes)
    return Error{
        fmt::format("its data_offsets {} to {} are outside of the {} bytes of data: the file is truncated or damaged",
                    begin, end, dataBytes)};
  if (!elements)
    return Error{fmt::format("shape {} has too many elements", shapeText(tensor.shape))};
  if (int64_t needed = *elements * bytesOf(tensor.dtype); needed != end - begin)
    return Error{fmt::format("shape {} of {} needs {} bytes, but data_offsets {} to {} hold {}",
                             shapeText(tensor.shape), toString(tensor.dtype), needed, begin, end, end - begin)};
  tensor.data = data + begin;
  return tensor;
}
} // namespace

Result<TensorMap> readSafetensors(const std::string &path) {
  auto file = mapFile(path);
  if (!file)
    return file.error();
  const std::byte *bytes = (*file)->data;
  size_t size = (*file)->bytes;
  uint64_t headerBytes = 0;
  if (size < kLengthBytes)
    return Error{fmt::format("'{}' has {} bytes: too short for a safetensors file; write or download the file again",
                             path, size)};
  std::memcpy(&headerBytes, bytes, kLengthBytes);
  if (headerBytes > size - kLengthBytes)
    return Error{fmt::format(
        "'{}' says that its header has {} bytes, but {} follow: truncated, or not a safetensors file; write or "
        "download the file again",
        path, headerBytes, size - kLengthBytes)};
  std::string_view text(reinterpret_cast<const char *>(bytes) + kLengthBytes, headerBytes);
  if (Status nesting = checkNesting(text); !nesting)
    return errorWithWayOut(fmt::format("header of '{}': {}", path, nesting.error().message), kDownloadAgain);
  Json header = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object())
    return Error{fmt::format("the header of '{}' is not a JSON object; write or download the file again", path)};

  TensorMap tensors;
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    auto tensor = readEntry(entry, bytes + kLengthBytes + headerBytes, int64_t(size - kLengthBytes - headerBytes));
    if (!tensor)
      return errorWithWayOut(fmt::format("tensor '{}' of '{}': {}", name, path, tensor.error().message),
                             kDownloadAgain);
    tensor->owner = *file;
    tensors.emplace(name, std::move(*tensor));
  }
  return tensors;
}

Result<std::string> safetensorsHeader(const std::vector<TensorEntry> &tensors,
                                      const std::map<std::string, std::string> &metadata) {
  Json header = Json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const TensorEntry &tensor : tensors) {
    if (tensor.name == "__metadata__")
      return Error{"a tensor is named __metadata__, which the format reserves; rename it"};
    int64_t bytes = elementsOf(tensor.shape) * bytesOf(tensor.dtype);
    header[tensor.name] = {{"dtype", kNames[size_t(tensor.dtype)].name},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string bytes(kLengthBytes, '\0');
  uint64_t headerBytes = text.size();
  std::memcpy(bytes.data(), &headerBytes, kLengthBytes);
  return bytes + text;
}

Status writeSafetensors(const std::string &path, const TensorMap &tensors,
                        const std::map<std::string, std::string> &metadata) {
  std::vector<TensorEntry> entries;
  size_t dataBytes = 0;
  for (const auto &[name, tensor] : tensors) {
    entries.push_back({name, tensor.dtype, tensor.shape});
    dataBytes += size_t(tensor.bytes());
  }
  auto bytes = safetensorsHeader(entries, metadata);
  if (!bytes)
    return Error{fmt::format("cannot write '{}': {}", path, bytes.error().message)};
  bytes->reserve(bytes->size() + dataBytes);
  for (const auto &[name, tensor] : tensors)
    bytes->append(reinterpret_cast<const char *>(tensor.data), size_t(tensor.bytes()));
  return writeFile(path, *bytes);
}

} // namespace kerf
