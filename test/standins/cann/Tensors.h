// SPDX-License-Identifier: Apache-2.0
// The objects of operators, as the stand-in of libnnopbase.so makes them, and the base of the operators.
#pragma once

#include "State.h"

#include <cstddef>
#include <vector>

namespace kerf::standin::cann {

using Sizes = std::vector<int64_t>;

/// Numbers of aclDataType.
enum Type : int { F32 = 0, F16 = 1, I8 = 2, I32 = 3, U8 = 4, I16 = 6, I64 = 9, F64 = 11, Bool = 12, BF16 = 27 };
size_t bytesOf(int type);
constexpr uint32_t bitOf(int type) { return 1U << unsigned(type); }
constexpr uint32_t kFloats = bitOf(F32) | bitOf(F16) | bitOf(BF16);
constexpr uint32_t kIntegers = bitOf(I8) | bitOf(U8) | bitOf(I16) | bitOf(I32) | bitOf(I64);
constexpr uint32_t kNumbers = kFloats | kIntegers | bitOf(F64) | bitOf(Bool);
constexpr uint32_t kIndices = bitOf(I32) | bitOf(I64);

} // namespace kerf::standin::cann

// The opaque types of CANN, which C code knows by these names.
struct aclTensor {
  kerf::standin::cann::Sizes sizes, strides;
  int type = 0, format = 2;
  std::byte *data = nullptr; // of the first element, where the host can read it
  uint64_t serial = 0;       // tells apart tensors at the same address
  int64_t elements() const;
  /// Returns whether no two elements lie at the same place, as far as the order of the strides shows.
  bool isInjective() const;
};
struct aclScalar {
  int type;
  double number;
  int64_t integer;
};
struct aclIntArray {
  std::vector<int64_t> values;
};
struct aclBoolArray {
  std::vector<uint8_t> values;
};
struct aclOpExecutor;

namespace kerf::standin::cann {

/// Checks the arguments of an operator's first call. After the first broken rule, `code` is its error.
class Check {
public:
  explicit Check(const char *name);
  const std::string name;
  int code = 0;

  void rule(bool holds, const char *rule, const std::string &text);
  /// Checks a tensor: it exists, has one of the types, and a format.
  void tensor(const aclTensor *tensor, uint32_t types, bool isOptional = false);
  /// Checks a tensor that is written: besides, each of its elements has a place of its own.
  void result(const aclTensor *tensor, uint32_t types);
  void same(const aclTensor *a, const aclTensor *b); // the types
  void sizes(const aclTensor *tensor, const Sizes &expected);
  void scalar(const aclScalar *scalar);
  /// The sizes of a result of two operands that are repeated along dimensions of size 1.
  Sizes broadcast(const Sizes &a, const Sizes &b);
  /// Makes the executor, unless a rule was broken. `work` runs on the stream.
  int executor(uint64_t *workspace, aclOpExecutor **executor, std::function<void()> work, uint64_t bytes = 0);

private:
  std::vector<const aclTensor *> tensors;
};

/// The second call of an operator.
int launch(const char *name, void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream);

/// Reads a tensor's elements in row-major order, repeated to `sizes` where these are given.
std::vector<double> load(const aclTensor &tensor, const Sizes &sizes);
inline std::vector<double> load(const aclTensor &tensor) { return load(tensor, tensor.sizes); }
/// Writes a tensor's elements, rounded to its type.
void store(const aclTensor &tensor, const std::vector<double> &values);
/// Copies elements of one type bit by bit; `to` has the sizes to which `from` is repeated.
void copyBits(const aclTensor &from, const aclTensor &to);

int64_t product(const Sizes &sizes, size_t begin = 0, size_t end = ~size_t(0));
/// Returns a dimension counted from the end as one counted from the beginning.
inline size_t dimOf(int64_t dim, const Sizes &sizes) { return size_t(dim < 0 ? dim + int64_t(sizes.size()) : dim); }

/// Defines an operator: its name, its parameters, and the body of the first call, which has `workspace` and `executor`.
#define KERF_OPERATOR(name, ...)                                                                                       \
  extern "C" int name##GetWorkspaceSize(__VA_ARGS__, uint64_t *workspace, aclOpExecutor **executor);                   \
  extern "C" int name(void *memory, uint64_t bytes, aclOpExecutor *executor, void *stream) {                           \
    return launch(#name, memory, bytes, executor, stream);                                                             \
  }                                                                                                                    \
  extern "C" int name##GetWorkspaceSize(__VA_ARGS__, uint64_t *workspace, aclOpExecutor **executor)

} // namespace kerf::standin::cann
