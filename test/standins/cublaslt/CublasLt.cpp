// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's cuBLASLt on machines without GPUs: products are computed on the CPU, in the memory and on
// the streams of the stand-in driver (../cuda). It refuses what the library refuses, and is stricter where the library
// leaves damage: overlapping results, addresses outside of the device's memory, a workspace that is too small.
//
// KERF_STANDIN_CUBLASLT is the number, from 1, of the call of cublasLtMatmul that fails, "old" for a library of version
// 11.4.1, "none" for a library that has no algorithm for any problem, or "plain" for one that has none for epilogues.
//
// KERF_STANDIN_PRODUCTS names a file for the numbers of products by epilogue and by whether beta is 0, which is written
// at the end of the process.
#include "Problem.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#define KERF_CUBLASLT_API extern "C" __attribute__((visibility("default")))

// From the stand-in driver.
extern "C" int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
extern "C" void *kerfStandinMemory(const void *address, size_t bytes); // null if the bytes are not device memory

namespace kerf::standin::cublaslt {
namespace {
std::string_view injected() {
  const char *text = std::getenv("KERF_STANDIN_CUBLASLT");
  return text ? text : "";
}
std::atomic<uint64_t> matmuls = 0, launched[8];

std::map<std::string, uint64_t> products; // numbers of computed products by epilogue, with "+C" where beta is not 0
/// Writes the numbers as {"1": 40, "1+C": 2, "164": 4}.
void writeProducts() {
  FILE *file = std::fopen(std::getenv("KERF_STANDIN_PRODUCTS"), "w");
  if (!file)
    return;
  std::fputs("{", file);
  for (const char *separator = ""; const auto &[name, count] : products) {
    std::fprintf(file, "%s\"%s\": %llu", separator, name.c_str(), (unsigned long long)count);
    separator = ", ";
  }
  std::fputs("}\n", file);
  std::fclose(file);
}

/// Returns the host's address of all matrices of a batch; null if they are not device memory.
std::byte *memoryOf(const Matrix &matrix, const void *address) {
  return static_cast<std::byte *>(kerfStandinMemory(address, extentOf(matrix)));
}

/// The work of one call.
struct Work {
  Product product;
  std::byte *workspace;
  size_t workspaceBytes;
  uint64_t sleepMicroseconds, number;
};
void run(void *data) {
  const Work &work = *static_cast<const Work *>(data);
  if (work.workspace)
    std::memset(work.workspace, 0xF7, work.workspaceBytes); // its old content is lost
  multiply(work.product);
  if (work.sleepMicroseconds > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(work.sleepMicroseconds));
  ++launched[work.number];
  static const bool counts = std::getenv("KERF_STANDIN_PRODUCTS") && std::atexit(writeProducts) == 0;
  if (counts) {
    std::lock_guard lock(mutex);
    ++products[std::to_string(work.product.epilogue) + (work.product.beta != 0 ? "+C" : "")];
  }
}

/// Puts the addresses into the product. Fails if they are not aligned to 256 bytes, as the preferences say that they
/// are, if they are not device memory, or if a written range overlaps another one. C may be D, and is read only where
/// beta is not 0.
int place(Work &work, const void *a, const void *b, const void *c, const void *d, const void *workspace) {
  for (const void *address : {a, b, c, d, workspace})
    if (reinterpret_cast<uintptr_t>(address) % 256 != 0)
      return kInvalidValue;
  Product &product = work.product;
  product.addressA = memoryOf(product.a, a);
  product.addressB = memoryOf(product.b, b);
  product.addressC = memoryOf(product.c, c);
  product.addressD = memoryOf(product.d, d);
  if (work.workspaceBytes > 0)
    work.workspace = static_cast<std::byte *>(kerfStandinMemory(workspace, work.workspaceBytes));
  struct Range {
    const std::byte *first;
    size_t bytes;
    bool overlaps(const Range &other) const {
      return bytes > 0 && other.bytes > 0 && first < other.first + other.bytes && other.first < first + bytes;
    }
  };
  const Range reads[] = {{product.addressA, extentOf(product.a)}, {product.addressB, extentOf(product.b)}};
  const Range result{product.addressD, extentOf(product.d)}, space{work.workspace, work.workspaceBytes};
  if (!product.addressA || !product.addressB || !product.addressC || !product.addressD ||
      (work.workspaceBytes > 0 && !work.workspace) || result.overlaps(space))
    return kInvalidValue;
  for (const Range &read : reads)
    if (read.overlaps(result) || read.overlaps(space))
      return kInvalidValue;
  const Range added{product.addressC, product.beta != 0 && c != d ? extentOf(product.c) : 0};
  return added.overlaps(result) || added.overlaps(space) ? kInvalidValue : kSuccess;
}
/// Puts the addresses of the epilogue into the product. Fails if they are not device memory.
int placeEpilogue(Product &product, const Operation &operation) {
  size_t width = bytesOf(product.d.type);
  if (needsBias(product.epilogue)) {
    uint64_t elements = product.epilogue == 512 ? product.d.columns : product.d.rows;
    product.bias = static_cast<std::byte *>(kerfStandinMemory(operation.bias, elements * width));
    if (!product.bias)
      return kInvalidValue;
  }
  if (needsAux(product.epilogue)) {
    uint64_t elements = uint64_t(product.auxLeading) * (product.d.columns - 1) + product.d.rows;
    product.aux = static_cast<std::byte *>(kerfStandinMemory(operation.aux, elements * width));
    if (!product.aux)
      return kInvalidValue;
  }
  return kSuccess;
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
  case 7:
    return set(operation->epilogue, value, bytes);
  case 8:
    return set(operation->bias, value, bytes);
  case 11:
    return set(operation->aux, value, bytes);
  case 12:
    return set(operation->auxLeading, value, bytes);
  case 17:
    return set(operation->scaleA, value, bytes);
  case 18:
    return set(operation->scaleB, value, bytes);
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
  if (injected() == "none" || (injected() == "plain" && operation->epilogue != 1))
    return kNotSupported;
  for (const Answer &answer : propose(*operation, *a, *b, *c, *d, *preference))
    if (*count < most)
      answers[(*count)++] = answer;
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
  auto scale = [&](const void *at) {
    return operation->scaleType == kF64 ? *static_cast<const double *>(at) : double(*static_cast<const float *>(at));
  };
  Work work{{}, nullptr, workspaceBytes, algorithm->sleepMicroseconds, algorithm->number};
  Product &product = work.product;
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
  product.parts = algorithm->parts;
  product.epilogue = operation->epilogue;
  product.auxLeading = operation->auxLeading;
  if (int error = place(work, a, b, c, d, workspace))
    return error;
  if (int error = placeEpilogue(product, *operation))
    return error;
  struct Scale {
    const void *given;
    const float *&placed;
  };
  for (auto [given, placed] : {Scale{operation->scaleA, product.scaleA}, Scale{operation->scaleB, product.scaleB}})
    if (given && !(placed = static_cast<const float *>(kerfStandinMemory(given, sizeof(float)))))
      return kInvalidValue;
  // A graph may run the work many times, so it stays to the end of the process.
  static std::deque<Work> works;
  std::lock_guard lock(mutex);
  works.push_back(work);
  return cuLaunchHostFunc(stream, run, &works.back()) == 0 ? kSuccess : kExecutionFailed;
}

} // namespace kerf::standin::cublaslt
