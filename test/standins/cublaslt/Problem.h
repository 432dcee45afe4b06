// SPDX-License-Identifier: Apache-2.0
// The objects of cuBLASLt's stand-in, and what it says of a problem: whether it has it, and with which algorithms.
#pragma once

#include "Multiply.h"

#include <cstring>
#include <initializer_list>
#include <mutex>
#include <set>
#include <vector>

namespace kerf::standin::cublaslt {

/// Values of cublasStatus_t.
enum Status : int { kSuccess = 0, kNotInitialized = 1, kInvalidValue = 7, kExecutionFailed = 13, kNotSupported = 15 };

struct Operation {
  int computeType, scaleType;
  int32_t transposedA = 0, transposedB = 0;
  uint32_t epilogue = 1;
  void *bias = nullptr, *aux = nullptr;
  int64_t auxLeading = 0;
  const void *scaleA = nullptr, *scaleB = nullptr;
};
struct Preference {
  uint64_t workspaceBytes = 0;
  uint32_t reductionSchemes = 7; // all of them
};
/// An algorithm: the fields are opaque to callers.
struct Algorithm {
  uint64_t number, parts, workspaceBytes, problem, sleepMicroseconds, unused[3];
};
struct Answer {
  Algorithm algorithm;
  size_t workspaceBytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Algorithm) == 64 && sizeof(Answer) == 96);

/// Objects that were created and not destroyed. The set itself is never destroyed, because a process may close its GPUs
/// after the library's static objects are gone.
inline std::mutex &mutex = *new std::mutex;
inline std::set<const void *> &alive = *new std::set<const void *>;
inline bool isAlive(const void *object) {
  std::lock_guard lock(mutex);
  return alive.contains(object);
}
template <typename T, typename... A> int create(T **made, A... arguments) {
  if (!made)
    return kInvalidValue;
  *made = new T{arguments...};
  std::lock_guard lock(mutex);
  alive.insert(*made);
  return kSuccess;
}
template <typename T> int destroy(T *object) {
  std::lock_guard lock(mutex);
  if (alive.erase(object) == 0)
    return kInvalidValue;
  delete object;
  return kSuccess;
}
template <typename T> int set(T &value, const void *from, size_t bytes) {
  if (!from || bytes != sizeof(T))
    return kInvalidValue;
  std::memcpy(&value, from, bytes);
  return kSuccess;
}

/// Returns kSuccess if the library has products of these types, sizes and epilogues.
int check(const Operation *operation, const Matrix *a, const Matrix *b, const Matrix *c, const Matrix *d);
/// Returns a number that identifies the problem, so that no algorithm is used for another one.
uint64_t hashOf(const Operation &operation, std::initializer_list<const Matrix *> matrices);
/// Returns the answers to a checked problem, the library's favourite first.
std::vector<Answer> propose(const Operation &operation, const Matrix &a, const Matrix &b, const Matrix &c,
                            const Matrix &d, const Preference &preference);
/// Returns the bytes from the first element of a batch of matrices to the last one.
inline size_t extentOf(const Matrix &matrix) {
  int64_t elements =
      (matrix.batches - 1) * matrix.batchStride + int64_t(matrix.columns - 1) * matrix.leading + int64_t(matrix.rows);
  return size_t(elements) * bytesOf(matrix.type);
}

} // namespace kerf::standin::cublaslt
