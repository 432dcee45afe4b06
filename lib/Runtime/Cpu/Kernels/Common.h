// SPDX-License-Identifier: Apache-2.0
// Helpers that all families of kernels share: checked reading of an instruction, dispatch on element types, scratch
// memory layout and splitting work among threads. Each op has a plan function, which makes all checks and builds the
// kernel. The plan function is also called without memory, to find out the size of the kernel's scratch memory.
#pragma once

#include "kerf/Runtime/Cpu/Kernels.h"
#include "kerf/Runtime/Cpu/ThreadTeam.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <initializer_list>
#include <limits>

namespace kerf::runtime::kernels {

/// A kernel and the scratch memory that it needs.
struct PlannedKernel {
  Kernel kernel;
  int64_t scratchBytes = 0;
};
/// A function that checks an instruction and builds its kernel.
using PlanFunction = Result<PlannedKernel> (*)(const BindRequest &);

/// A boolean in one byte, which is false if and only if the byte is 0. Unlike a C++ bool, the byte may have any value,
/// and in padding it does.
struct Bool8 {
  uint8_t byte;
  Bool8() = default;
  template <typename T> Bool8(T value) : byte(value != T(0)) {}
  operator int() const { return byte != 0; }
};

/// A C++ type as a function argument: withFloatType and similar functions pass it to generic lambdas.
template <typename T> struct Type {
  using type = T;
};
/// True for float and double.
template <typename T> inline constexpr bool isFloat = std::is_floating_point_v<T>;

/// Reads the attributes and checks the operands and results of one instruction. The first error is kept, and whatever a
/// function returns after that error has no meaning. An attribute that is missing or of the wrong type is an error.
class Checker {
public:
  explicit Checker(const BindRequest &request) : request(request) {}

  /// Checks the numbers of operands and results, and returns whether they are right. Only then may the caller access
  /// operands and results.
  bool counts(size_t fewestOperands, size_t mostOperands, size_t results);
  /// Returns an integer attribute.
  int64_t integer(std::string_view attribute);
  /// Returns an integer attribute, or `missing` where the instruction does not have it.
  int64_t integerOr(std::string_view attribute, int64_t missing);
  /// Returns an attribute that is an array of integers.
  std::vector<int64_t> integers(std::string_view attribute);
  /// Returns a numeric attribute; "inf", "-inf" and "nan" are numbers, too.
  double number(std::string_view attribute);
  /// Returns a boolean attribute; false if it is missing.
  bool flag(std::string_view attribute);
  /// Returns the index among `choices` of the attribute's string.
  size_t choice(std::string_view attribute, std::initializer_list<std::string_view> choices);
  /// Returns the sub-axes of the mesh that the attribute lists as flat triples (axis, before, size).
  std::vector<AxisRef> axes(std::string_view attribute);
  /// Returns an attribute that is the number of a dimension of a tensor of rank `rank`.
  int64_t dimension(std::string_view attribute, size_t rank);
  /// Returns an attribute that is an array of distinct dimensions of a tensor of rank `rank`.
  std::vector<int64_t> dimensions(std::string_view attribute, size_t rank);

  // In the following checks, the names say in error messages which tensor is meant.
  /// Checks that two tensors have the same element type and shape.
  void sameType(const TensorView &a, std::string_view nameA, const TensorView &b, std::string_view nameB);
  /// Checks that a tensor has the shape `expected`.
  void shape(const TensorView &a, std::string_view name, const Shape &expected);
  /// Checks that a tensor has the element type `expected`.
  void dtype(const TensorView &a, std::string_view name, DType expected);
  /// Checks that a tensor's element type is i64 or i32.
  void indices(const TensorView &a, std::string_view name);
  /// Checks that a tensor has exactly one element.
  void scalar(const TensorView &a, std::string_view name);

  /// Records an error with the formatted text, unless `holds` is true.
  template <typename... A> void require(bool holds, fmt::format_string<A...> text, A &&...values) {
    if (!holds)
      fail(fmt::format(text, std::forward<A>(values)...));
  }
  /// Returns whether any check has failed.
  bool failed() const { return fault.has_value(); }
  /// Returns the first error. To be called only if `failed()`.
  Error error() const { return *fault; }

private:
  void fail(const std::string &text);
  const nlohmann::ordered_json *find(std::string_view attribute);

  const BindRequest &request;
  std::optional<Error> fault;
};

/// Returns the error for an element type that the instruction does not support. `takes` describes the supported types.
Error wrongDType(const BindRequest &request, DType dtype, std::string_view takes);

/// Calls f(Type<T>()) with the C++ type T of a floating element type, and returns f's result. Fails for other types.
template <typename F> Result<PlannedKernel> withFloatType(const BindRequest &request, DType dtype, F &&f) {
  switch (dtype) {
  case DType::F64:
    return f(Type<double>{});
  case DType::F32:
    return f(Type<float>{});
  default:
    return wrongDType(request, dtype, "floating types");
  }
}

/// Calls f(Type<T>()) with the C++ type T of an integer type or bool, and returns f's result. Fails for other types.
template <typename F> Result<PlannedKernel> withIntegerType(const BindRequest &request, DType dtype, F &&f) {
  switch (dtype) {
  case DType::I64:
    return f(Type<int64_t>{});
  case DType::I32:
    return f(Type<int32_t>{});
  case DType::I16:
    return f(Type<int16_t>{});
  case DType::I8:
    return f(Type<int8_t>{});
  case DType::U64:
    return f(Type<uint64_t>{});
  case DType::U32:
    return f(Type<uint32_t>{});
  case DType::U16:
    return f(Type<uint16_t>{});
  case DType::U8:
    return f(Type<uint8_t>{});
  case DType::Bool:
    return f(Type<Bool8>{});
  default:
    return wrongDType(request, dtype, "integers and bool");
  }
}

/// Calls f(Type<T>()) with the C++ type T of any element type but 16-bit floats, and returns f's result.
template <typename F> Result<PlannedKernel> withElementType(const BindRequest &request, DType dtype, F &&f) {
  bool isFloating = dtype == DType::F64 || dtype == DType::F32;
  return isFloating ? withFloatType(request, dtype, f) : withIntegerType(request, dtype, f);
}

/// Calls f(Type<T>()) with the C++ type T of an index type (i64 or i32), and returns f's result. Fails for other types.
template <typename F> Result<PlannedKernel> withIndexType(const BindRequest &request, DType dtype, F &&f) {
  switch (dtype) {
  case DType::I64:
    return f(Type<int64_t>{});
  case DType::I32:
    return f(Type<int32_t>{});
  default:
    return wrongDType(request, dtype, "i64 and i32 as indices");
  }
}

/// Returns the lowest value of an element type (-infinity for floats): the neutral element of the maximum.
template <typename T> T lowestOf() {
  if constexpr (isFloat<T>)
    return -std::numeric_limits<T>::infinity();
  else if constexpr (std::is_same_v<T, Bool8>)
    return Bool8(0);
  else
    return std::numeric_limits<T>::lowest();
}
/// Returns the highest value of an element type (infinity for floats): the neutral element of the minimum.
template <typename T> T highestOf() {
  if constexpr (isFloat<T>)
    return std::numeric_limits<T>::infinity();
  else if constexpr (std::is_same_v<T, Bool8>)
    return Bool8(1);
  else
    return std::numeric_limits<T>::max();
}

/// Assigns offsets in a kernel's scratch memory to pieces of it. Each piece is aligned like a tensor.
class ScratchLayout {
public:
  /// Returns the byte offset of a new piece of `bytes` bytes.
  int64_t take(int64_t bytes) {
    int64_t offset = total;
    total += (bytes + 63) / 64 * 64;
    return offset;
  }
  /// Returns the bytes of all pieces so far.
  int64_t bytes() const { return total; }

private:
  int64_t total = 0;
};
/// Returns the address of a piece of scratch memory; null if `scratch` is, that is, while only its size is computed.
template <typename T> T *scratchAt(void *scratch, int64_t offset) {
  return scratch ? reinterpret_cast<T *>(static_cast<std::byte *>(scratch) + offset) : nullptr;
}

/// Returns the address of a tensor's elements for reading.
template <typename T> const T *dataOf(const TensorView &view) { return static_cast<const T *>(view.data); }
/// Returns the address of a tensor's elements for writing.
template <typename T> T *mutableDataOf(const TensorView &view) { return static_cast<T *>(view.data); }

/// Returns the number of threads of a team; 1 if there is no team.
inline int64_t threadsOf(const ThreadTeam *team) { return team ? team->threads() : 1; }
/// Calls task(number, thread) for each number in [0, tasks). The threads of the team, if any, share the calls.
template <typename F> void forTasks(ThreadTeam *team, int64_t tasks, const F &task) {
  if (team)
    return team->run(tasks, task);
  for (int64_t number = 0; number < tasks; ++number)
    task(number, int64_t(0));
}
/// Calls piece(begin, end) for consecutive ranges of `size` elements that make up [0, n). The team's threads
/// share the calls.
template <typename F> void forPieces(ThreadTeam *team, int64_t n, int64_t size, const F &piece) {
  forTasks(team, (n + size - 1) / size,
           [&](int64_t number, int64_t) { piece(number * size, std::min(n, (number + 1) * size)); });
}
/// Number of elements in a task of cheap element-wise work.
inline constexpr int64_t kElementsOfTask = 16384;
/// Calls piece(begin, end) for consecutive ranges of kElementsOfTask elements that make up [0, n). For cheap
/// element-wise work, which the team's threads share.
template <typename F> void forElements(ThreadTeam *team, int64_t n, const F &piece) {
  forPieces(team, n, kElementsOfTask, piece);
}
/// Returns the number of rows of `width` elements that make up a task of about kElementsOfTask elements; at least 1.
inline int64_t rowsOfTask(int64_t width) { return std::max<int64_t>(1, kElementsOfTask / std::max<int64_t>(width, 1)); }

/// Returns the product of the sizes of the dimensions in [begin, end).
int64_t product(const Shape &shape, size_t begin, size_t end);
/// Returns the product of the sizes of the dimensions from `begin` on.
inline int64_t product(const Shape &shape, size_t begin) { return product(shape, begin, shape.size()); }
/// Returns the element type and shape of a tensor as text, for example "f32[4, 8]".
std::string typeText(const TensorView &view);

/// Returns a scalar tensor's value, converted to double.
double readScalar(const TensorView &view);

} // namespace kerf::runtime::kernels
