// SPDX-License-Identifier: Apache-2.0
// What the kernel families share: the checked reading of an instruction, dispatch on element types, and scratch layout.
// A family's plan function does all checks and makes the kernel; it is called without memory too, for the size of its
// scratch.
#pragma once

#include "kerf/Runtime/Cpu/Kernels.h"
#include "kerf/Runtime/Cpu/Team.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <initializer_list>
#include <limits>

namespace kerf::runtime::kernels {

struct Planned {
  Kernel kernel;
  int64_t scratchBytes = 0;
};
using PlanFunction = Result<Planned> (*)(const BindRequest &);

/// One byte, false exactly when 0: what padding holds need not be 0 or 1, as C++'s own bool must.
struct Bool8 {
  uint8_t byte;
  Bool8() = default;
  template <typename T> Bool8(T value) : byte(value != T(0)) {}
  operator int() const { return byte != 0; }
};

template <typename T> struct Type {
  using type = T;
};
template <typename T> inline constexpr bool isFloat = std::is_floating_point_v<T>;

/// Reads attributes and checks operands of one instruction. The first fault is kept; what is returned after it means
/// nothing.
class Checker {
public:
  explicit Checker(const BindRequest &request) : request(request) {}

  /// Must hold before operands and results are touched.
  bool counts(size_t fewestOperands, size_t mostOperands, size_t results);
  int64_t integer(std::string_view attribute);
  std::vector<int64_t> integers(std::string_view attribute);
  double number(std::string_view attribute);
  bool flag(std::string_view attribute);
  /// Index of the attribute's string among `choices`.
  size_t choice(std::string_view attribute, std::initializer_list<std::string_view> choices);
  /// Flat triples (axis, before, size) of the mesh.
  std::vector<AxisRef> axes(std::string_view attribute);
  /// A dimension of a tensor of that rank.
  int64_t dimension(std::string_view attribute, size_t rank);
  std::vector<int64_t> dimensions(std::string_view attribute, size_t rank);

  void sameType(const TensorView &a, std::string_view nameA, const TensorView &b, std::string_view nameB);
  void shape(const TensorView &a, std::string_view name, const Shape &expected);
  void dtype(const TensorView &a, std::string_view name, DType expected);
  void indices(const TensorView &a, std::string_view name); // i64 or i32
  void scalar(const TensorView &a, std::string_view name);

  template <typename... A> void require(bool holds, fmt::format_string<A...> text, A &&...values) {
    if (!holds)
      fail(fmt::format(text, std::forward<A>(values)...));
  }
  bool failed() const { return fault.has_value(); }
  Error error() const { return *fault; }

private:
  void fail(const std::string &text);
  const nlohmann::ordered_json *find(std::string_view attribute);

  const BindRequest &request;
  std::optional<Error> fault;
};

/// The error for an element type that an op does not take.
Error wrongDType(const BindRequest &request, DType dtype, std::string_view takes);

template <typename F> Result<Planned> forFloat(const BindRequest &request, DType dtype, F &&f) {
  switch (dtype) {
  case DType::F64:
    return f(Type<double>{});
  case DType::F32:
    return f(Type<float>{});
  default:
    return wrongDType(request, dtype, "floating types");
  }
}

template <typename F> Result<Planned> forInteger(const BindRequest &request, DType dtype, F &&f) {
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

template <typename F> Result<Planned> forAny(const BindRequest &request, DType dtype, F &&f) {
  return dtype == DType::F64 || dtype == DType::F32 ? forFloat(request, dtype, f) : forInteger(request, dtype, f);
}

template <typename F> Result<Planned> forIndex(const BindRequest &request, DType dtype, F &&f) {
  switch (dtype) {
  case DType::I64:
    return f(Type<int64_t>{});
  case DType::I32:
    return f(Type<int32_t>{});
  default:
    return wrongDType(request, dtype, "i64 and i32 as indices");
  }
}

/// The element type's neutral element: the lowest (of a maximum) or highest (of a minimum).
template <typename T> T lowestOf() {
  if constexpr (isFloat<T>)
    return -std::numeric_limits<T>::infinity();
  else if constexpr (std::is_same_v<T, Bool8>)
    return Bool8(0);
  else
    return std::numeric_limits<T>::lowest();
}
template <typename T> T highestOf() {
  if constexpr (isFloat<T>)
    return std::numeric_limits<T>::infinity();
  else if constexpr (std::is_same_v<T, Bool8>)
    return Bool8(1);
  else
    return std::numeric_limits<T>::max();
}

/// Hands out pieces of the scratch memory, each aligned as a tensor.
class ScratchLayout {
public:
  int64_t take(int64_t bytes) {
    int64_t offset = total;
    total += (bytes + 63) / 64 * 64;
    return offset;
  }
  int64_t bytes() const { return total; }

private:
  int64_t total = 0;
};
/// Null where there is no memory yet (when only the size is asked for).
template <typename T> T *scratchAt(void *scratch, int64_t offset) {
  return scratch ? reinterpret_cast<T *>(static_cast<std::byte *>(scratch) + offset) : nullptr;
}

template <typename T> const T *dataOf(const TensorView &view) { return static_cast<const T *>(view.data); }
template <typename T> T *mutableDataOf(const TensorView &view) { return static_cast<T *>(view.data); }

inline int64_t threadsOf(const Team *team) { return team ? team->threads() : 1; }
/// task(number, thread) for each number below `tasks`, shared by the team where there is one.
template <typename F> void forTasks(Team *team, int64_t tasks, const F &task) {
  if (team)
    return team->run(tasks, task);
  for (int64_t number = 0; number < tasks; ++number)
    task(number, int64_t(0));
}
/// piece(begin, end) for pieces of `size` that make up [0, n).
template <typename F> void forPieces(Team *team, int64_t n, int64_t size, const F &piece) {
  forTasks(team, (n + size - 1) / size,
           [&](int64_t number, int64_t) { piece(number * size, std::min(n, (number + 1) * size)); });
}
/// The same of elements that cost little each.
inline constexpr int64_t kElementsOfTask = 16384;
template <typename F> void forElements(Team *team, int64_t n, const F &piece) {
  forPieces(team, n, kElementsOfTask, piece);
}
/// Rows of `width` elements that make up such a piece.
inline int64_t rowsOfTask(int64_t width) { return std::max<int64_t>(1, kElementsOfTask / std::max<int64_t>(width, 1)); }

/// Product of the sizes in [begin, end).
int64_t product(const Shape &shape, size_t begin, size_t end);
inline int64_t product(const Shape &shape, size_t begin) { return product(shape, begin, shape.size()); }
std::string typeText(const TensorView &view); // "f32[4, 8]"

/// A float scalar, whatever its width.
double readScalar(const TensorView &view);

} // namespace kerf::runtime::kernels
