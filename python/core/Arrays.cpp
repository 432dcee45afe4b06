// SPDX-License-Identifier: Apache-2.0
#include "Arrays.h"
#include "Calls.h"

#include <cstring>
#include <fmt/format.h>
#include <nanobind/ndarray.h>

namespace kerf::python {

namespace {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/// The element types, as DLPack numbers them.
constexpr std::pair<DType, nb::dlpack::dtype> kTypes[] = {
    {DType::F64, {uint8_t(nb::dlpack::dtype_code::Float), 64, 1}},
    {DType::F32, {uint8_t(nb::dlpack::dtype_code::Float), 32, 1}},
    {DType::F16, {uint8_t(nb::dlpack::dtype_code::Float), 16, 1}},
    {DType::BF16, {uint8_t(nb::dlpack::dtype_code::Bfloat), 16, 1}},
    {DType::I64, {uint8_t(nb::dlpack::dtype_code::Int), 64, 1}},
    {DType::I32, {uint8_t(nb::dlpack::dtype_code::Int), 32, 1}},
    {DType::I16, {uint8_t(nb::dlpack::dtype_code::Int), 16, 1}},
    {DType::I8, {uint8_t(nb::dlpack::dtype_code::Int), 8, 1}},
    {DType::U64, {uint8_t(nb::dlpack::dtype_code::UInt), 64, 1}},
    {DType::U32, {uint8_t(nb::dlpack::dtype_code::UInt), 32, 1}},
    {DType::U16, {uint8_t(nb::dlpack::dtype_code::UInt), 16, 1}},
    {DType::U8, {uint8_t(nb::dlpack::dtype_code::UInt), 8, 1}},
    {DType::Bool, {uint8_t(nb::dlpack::dtype_code::Bool), 8, 1}},
};

Tensor tensorFrom(const std::string &name, nb::handle value) {
  Array array;
  if (!nb::try_cast<Array>(value, array))
    throw KerfError({fmt::format("'{}' is a {}; it has to be an array in the memory of the CPU: of NumPy, or of a "
                                 "library with DLPack",
                                 name, nb::type_name(value.type()).c_str())});
  auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto &one) { return one.second == array.dtype(); });
  if (type == std::end(kTypes))
    throw KerfError({fmt::format("'{}' has elements of {} bits of a kind that Kerf does not have; give floating-point "
                                 "numbers, integers or booleans",
                                 name, array.dtype().bits)});
  Tensor tensor{type->first, {}, static_cast<const std::byte *>(array.data()), nullptr};
  for (size_t dim = 0; dim < array.ndim(); ++dim)
    tensor.shape.push_back(static_cast<int64_t>(array.shape(dim)));
  // The last owner may be a thread of the runtime, but only a thread with the GIL may let go of a Python object.
  tensor.owner = std::shared_ptr<Array>(new Array(std::move(array)), [](Array *kept) {
    nb::gil_scoped_acquire gil;
    delete kept;
  });
  return tensor;
}

} // namespace

TensorMap tensorsFrom(const nb::dict &arrays) {
  TensorMap tensors;
  for (auto [key, value] : arrays) {
    std::string name = nb::str(key).c_str();
    tensors.emplace(name, tensorFrom(name, value));
  }
  return tensors;
}

nb::dict arraysOf(const TensorMap &tensors) {
  nb::dict arrays;
  for (const auto &[name, tensor] : tensors) {
    Tensor given = tensor.dtype == DType::BF16 ? take(convertTensor(tensor, DType::F32)) : tensor;
    if (reinterpret_cast<uintptr_t>(given.data) % static_cast<uintptr_t>(bytesOf(given.dtype)) != 0) {
      auto [aligned, data] = allocateTensor(given.dtype, given.shape);
      std::memcpy(data, given.data, static_cast<size_t>(given.bytes()));
      given = aligned;
    }
    auto type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto &one) { return one.first == given.dtype; });
    std::vector<size_t> shape(given.shape.begin(), given.shape.end());
    const void *data = given.data;
    nb::capsule owner(new std::shared_ptr<const void>(given.owner),
                      [](void *kept) noexcept { delete static_cast<std::shared_ptr<const void> *>(kept); });
    arrays[name.c_str()] =
        nb::ndarray<nb::numpy, nb::ro>(data, shape.size(), shape.data(), owner, nullptr, type->second).cast();
  }
  return arrays;
}

} // namespace kerf::python
