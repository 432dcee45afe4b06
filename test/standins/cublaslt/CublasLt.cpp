// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's cuBLASLt on machines without GPUs: products are computed on the CPU, in the memory and on
// the streams of the stand-in driver (../cuda). It refuses what the library refuses, and is stricter where the library
// leaves damage: overlapping results, addresses outside of the device's memory, a workspace that is too small.
//
// KERF_STANDIN_CUBLASLT is the number, from 1, of the call of cublasLtMatmul that fails, "old" for a library of version
// 11.4.1, or "none" for a library that has no algorithm for any problem.
#include "Multiply.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#define KERF_CUBLASLT_API extern "C" __attribute__((visibility("default")))

// From the stand-in driver.
extern "C" int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
extern "C" void *kerfStandinMemory(const void *address, size_t bytes); // null if the bytes are not device memory

namespace kerf::standin::cublaslt {
namespace {
/// Values of cublasStatus_t.
enum Status : int { kSuccess = 0, kNotInitialized = 1, kInvalidValue = 7, kExecutionFailed = 13, kNotSupported = 15 };

struct Operation {
  int computeType, scaleType;
  int32_t transposedA = 0, transposedB = 0;
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

/// The algorithms that can be proposed, in the order of the proposals.
struct Known {
  uint64_t number, parts;
  uint32_t scheme;            // of the reduction of the parts: 1 in place in a random order, 2 in the workspace
  int state;                  // of the answer
  uint64_t sleepMicroseconds; // of a large product, so that measurements have something to find
};
constexpr Known kKnown[] = {{7, 3, 1, kSuccess, 0},
                            {1, 1, 0, kSuccess, 40000},
                            {5, 1, 0, kNotSupported, 0},
                            {2, 2, 2, kSuccess, 0},
                            {3, 1, 0, kSuccess, 20000}};
constexpr uint64_t kLarge = 1 << 26; // multiplications

/// Objects that were created and not destroyed.
std::mutex mutex;
std::set<const void *> alive;
bool isAlive(const void *object) {
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

std::string_view injected() {
  const char *text = std::getenv("KERF_STANDIN_CUBLASLT");
  return text ? text : "";
}
std::atomic<uint64_t> matmuls = 0, launched[8];

/// Returns a number that identifies the problem, so that no algorithm is used for another one.
uint64_t hashOf(const Operation &operation, std::initializer_list<const Matrix *> matrices) {
  uint64_t hash = 1469598103934665603u;
  auto add = [&](uint64_t word) { hash = (hash ^ word) * 1099511628211u; };
  for (int word : {operation.computeType, operation.scaleType, operation.transposedA, operation.transposedB})
    add(uint64_t(word));
  for (const Matrix *matrix : matrices)
    for (uint64_t word : {uint64_t(matrix->type), matrix->rows, matrix->columns, uint64_t(matrix->leading),
                          uint64_t(matrix->batches), uint64_t(matrix->batchStride)})
      add(word);
  return hash;
}

/// Returns kSuccess if the library has products of these types and sizes.
int check(const Operation *operation, const Matrix *a, const Matrix *b, const Matrix *c, const Matrix *d) {
  for (const void *object : std::initializer_list<const void *>{operation, a, b, c, d})
    if (!isAlive(object))
      return kInvalidValue;
  for (const Matrix *matrix : {a, b, c, d})
    if (matrix->leading < int64_t(matrix->rows) || matrix->batches != d->batches || matrix->batches < 1)
      return kInvalidValue;
  uint64_t m = operation->transposedA ? a->columns : a->rows, k = operation->transposedA ? a->rows : a->columns;
  uint64_t n = operation->transposedB ? b->rows : b->columns, depth = operation->transposedB ? b->columns : b->rows;
  if (k != depth || d->rows != m || d->columns != n || c->rows != m || c->columns != n)
    return kInvalidValue;
  bool doubles = operation->computeType == 70 && operation->scaleType == kF64;
  bool floats = (operation->computeType == 68 || operation->computeType == 77) && operation->scaleType == kF32;
  bool halves = a->type == kBF16 || a->type == kF16;
  bool typed =
      doubles ? a->type == kF64 && d->type == kF64
              : floats && ((halves && (d->type == a->type || d->type == kF32)) || (a->type == kF32 && d->type == kF32));
  return typed && b->type == a->type && c->type == d->type ? kSuccess : kNotSupported;
}

uint64_t multiplications(const Operation &operation, const Matrix &a, const Matrix &d) {
  return d.rows * d.columns * (operation.transposedA ? a.rows : a.columns) * uint64_t(d.batches);
}

/// Returns the bytes from the first element of a batch of matrices to the last one.
size_t extentOf(const Matrix &matrix) {
  int64_t elements =
      (matrix.batches - 1) * matrix.batchStride + int64_t(matrix.columns - 1) * matrix.leading + int64_t(matrix.rows);
  return size_t(elements) * bytesOf(matrix.type);
}
/// Returns the host's address of all matrices of a batch; null if they are not device memory.
std::byte *memoryOf(const Matrix &matrix, const void *address) {
  return static_cast<std::byte *>(kerfStandinMemory(address, extentOf(matrix)));
}

/// The work of one call, on its way to the stream.
struct Work {
  Product product;
  std::byte *workspace;
  size_t workspaceBytes;
  uint64_t sleepMicroseconds, number;
};
void run(void *data) {
  std::unique_ptr<Work> work(static_cast<Work *>(data));
  if (work->workspace)
    std::memset(work->workspace, 0xF7, work->workspaceBytes); // its old content is lost
  multiply(work->product);
  if (work->sleepMicroseconds > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(work->sleepMicroseconds));
  ++launched[work->number];
}
} // namespace

KERF_CUBLASLT_API size_t cublasLtGetVersion() { return injected() == "old" ? 11401 : 130100; }
KERF_CUBLASLT_API const char *cublasLtGetStatusString(int status) {
  return status == kSuccess           ? "CUBLAS_STATUS_SUCCESS"
         : status == kInvalidValue    ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == kExecutionFailed ? "CUBLAS_STATUS_EXECUTION_FAILED"
         : status == kNotSupported    ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                      : "CUBLAS_STATUS_NOT_INITIALIZED";
}
/// Returns how many products the algorithm of this number has computed. The real library does not have this function.
KERF_CUBLASLT_API uint64_t kerfStandinProducts(uint64_t number) { return number < 8 ? launched[number].load() : 0; }

struct Handle {};
KERF_CUBLASLT_API int cublasLtCreate(Handle **made) { return create(made); }
KERF_CUBLASLT_API int cublasLtDestroy(Handle *handle) { return destroy(handle); }

KERF_CUBLASLT_API int cublasLtMatmulDescCreate(Operation **made, int computeType, int scaleType) {
  return create(made, computeType, scaleType);
}
KERF_CUBLASLT_API int cublasLtMatmulDescDestroy(Operation *operation) { return destroy(operation); }
KERF_CUBLASLT_API int cublasLtMatmulDescSetAttribute(Operation *operation, int attribute, const void *value,
                                                     size_t bytes) {
  if (!isAlive(operation))
    return kInvalidValue;
  switch (attribute) {
  case 3:
    return set(operation->transposedA, value, bytes);
  case 4:
    return set(operation->transposedB, value, bytes);
  default:
    return kInvalidValue;
  }
}

KERF_CUBLASLT_API int cublasLtMatrixLayoutCreate(Matrix **made, int type, uint64_t rows, uint64_t columns,
                                                 int64_t leading) {
  return bytesOf(type) == 0 ? int(kNotSupported) : create(made, type, rows, columns, leading);
}
KERF_CUBLASLT_API int cublasLtMatrixLayoutDestroy(Matrix *matrix) { return destroy(matrix); }
KERF_CUBLASLT_API int cublasLtMatrixLayoutSetAttribute(Matrix *matrix, int attribute, const void *value, size_t bytes) {
  if (!isAlive(matrix))
    return kInvalidValue;
  switch (attribute) {
  case 5:
    return set(matrix->batches, value, bytes);
  case 6:
    return set(matrix->batchStride, value, bytes);
  default:
    return kInvalidValue;
  }
}

KERF_CUBLASLT_API int cublasLtMatmulPreferenceCreate(Preference **made) { return create(made); }
KERF_CUBLASLT_API int cublasLtMatmulPreferenceDestroy(Preference *preference) { return destroy(preference); }
KERF_CUBLASLT_API int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value,
                                                           size_t bytes) {
  if (!isAlive(preference))
    return kInvalidValue;
  switch (attribute) {
  case 1:
    return set(preference->workspaceBytes, value, bytes);
  case 3:
    return set(preference->reductionSchemes, value, bytes);
  default:
    return kInvalidValue;
  }
}

KERF_CUBLASLT_API int cublasLtMatmulAlgoGetHeuristic(Handle *handle, Operation *operation, Matrix *a, Matrix *b,
                                                     Matrix *c, Matrix *d, Preference *preference, int most,
                                                     Answer *answers, int *count) {
  if (!isAlive(handle) || !isAlive(preference) || most < 1 || !answers || !count)
    return kInvalidValue;
  *count = 0;
  if (int error = check(operation, a, b, c, d))
    return error;
  if (injected() == "none")
    return kNotSupported;
  bool isLarge = multiplications(*operation, *a, *d) >= kLarge;
  for (const Known &known : kKnown) {
    uint64_t results = d->rows * d->columns * uint64_t(d->batches);
    uint64_t workspace = known.scheme == 2 ? known.parts * results * (d->type == kF64 ? 8 : 4) : 0;
    if (*count == most || workspace > preference->workspaceBytes || (known.scheme & ~preference->reductionSchemes))
      continue;
    Algorithm algorithm{known.number,
                        known.parts,
                        workspace,
                        hashOf(*operation, {a, b, c, d}),
                        isLarge ? known.sleepMicroseconds : 0,
                        {}};
    answers[(*count)++] = {algorithm, size_t(workspace), known.state, 1.0F, {}};
  }
  return *count > 0 ? kSuccess : kNotSupported;
}

KERF_CUBLASLT_API int cublasLtMatmul(Handle *handle, Operation *operation, const void *alpha, const void *a,
                                     Matrix *layoutA, const void *b, Matrix *layoutB, const void *beta, const void *c,
                                     Matrix *layoutC, void *d, Matrix *layoutD, const Algorithm *algorithm,
                                     void *workspace, size_t workspaceBytes, void *stream) {
  uint64_t number = ++matmuls;
  if (const std::string_view text = injected(); !text.empty() && std::strtoull(text.data(), nullptr, 10) == number)
    return kExecutionFailed;
  if (!isAlive(handle))
    return kNotInitialized;
  if (int error = check(operation, layoutA, layoutB, layoutC, layoutD))
    return error;
  if (!alpha || !beta || !algorithm || algorithm->problem != hashOf(*operation, {layoutA, layoutB, layoutC, layoutD}) ||
      algorithm->workspaceBytes > workspaceBytes)
    return kInvalidValue;
  // The preferences leave the alignment of addresses at its default of 256 bytes.
  for (const void *address : {a, b, c, static_cast<const void *>(d), static_cast<const void *>(workspace)})
    if (reinterpret_cast<uintptr_t>(address) % 256 != 0)
      return kInvalidValue;
  auto scale = [&](const void *at) {
    return operation->scaleType == kF64 ? *static_cast<const double *>(at) : double(*static_cast<const float *>(at));
  };
  auto *space = workspaceBytes > 0 ? static_cast<std::byte *>(kerfStandinMemory(workspace, workspaceBytes)) : nullptr;
  Product product;
  product.a = *layoutA;
  product.b = *layoutB;
  product.c = *layoutC;
  product.d = *layoutD;
  product.transposedA = operation->transposedA != 0;
  product.transposedB = operation->transposedB != 0;
  product.tf32 = operation->computeType == 77 && layoutA->type == kF32;
  product.randomOrder = algorithm->number == 7;
  product.alpha = scale(alpha);
  product.beta = scale(beta);
  product.addressA = memoryOf(*layoutA, a);
  product.addressB = memoryOf(*layoutB, b);
  product.addressC = memoryOf(*layoutC, c);
  product.addressD = memoryOf(*layoutD, d);
  product.parts = algorithm->parts;
  if (!product.addressA || !product.addressB || !product.addressC || !product.addressD ||
      (workspaceBytes > 0 && !space))
    return kInvalidValue;
  auto overlaps = [&](const std::byte *one, size_t bytes, const std::byte *other, size_t otherBytes) {
    return one < other + otherBytes && other < one + bytes;
  };
  if (overlaps(product.addressD, extentOf(*layoutD), product.addressA, extentOf(*layoutA)) ||
      overlaps(product.addressD, extentOf(*layoutD), product.addressB, extentOf(*layoutB)) ||
      (space && (overlaps(space, workspaceBytes, product.addressA, extentOf(*layoutA)) ||
                 overlaps(space, workspaceBytes, product.addressB, extentOf(*layoutB)) ||
                 overlaps(space, workspaceBytes, product.addressD, extentOf(*layoutD)))))
    return kInvalidValue;
  auto work =
      std::make_unique<Work>(Work{product, space, workspaceBytes, algorithm->sleepMicroseconds, algorithm->number});
  if (cuLaunchHostFunc(stream, run, work.get()) != 0)
    return kExecutionFailed;
  work.release();
  return kSuccess;
}

} // namespace kerf::standin::cublaslt
