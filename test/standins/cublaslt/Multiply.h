// SPDX-License-Identifier: Apache-2.0
// The arithmetic of cuBLASLt's stand-in: one batch of products in the host's memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::standin::cublaslt {

/// Types of elements, by their number in cudaDataType_t.
enum Type : int { kF32 = 0, kF64 = 1, kF16 = 2, kBF16 = 14, kE4M3 = 28, kE5M2 = 29 };
constexpr bool isFloat8(int type) { return type == kE4M3 || type == kE5M2; }

/// One column-major matrix of a batch.
struct Matrix {
  int type = kF32;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int32_t batches = 1;
  int64_t batchStride = 0;
};
/// D = alpha op(A) op(B) + beta C. The contraction is cut into `parts` parts, whose sums are added in their order, or
/// in a random order as atomic additions would.
struct Product {
  Matrix a, b, c, d;
  bool transposedA = false, transposedB = false, tf32 = false, randomOrder = false;
  double alpha = 1, beta = 0;
  const std::byte *addressA = nullptr, *addressB = nullptr, *addressC = nullptr;
  std::byte *addressD = nullptr;
  uint64_t parts = 1;
  uint32_t epilogue = 1; // cublasLtEpilogue_t; others than 1 are for one product
  std::byte *bias = nullptr, *aux = nullptr;
  int64_t auxLeading = 0;
  const float *scaleA = nullptr, *scaleB = nullptr; // of 8-bit factors; null: 1
};

/// Whether an epilogue reads or writes a vector beside the result, and whether a second matrix.
constexpr bool needsBias(uint32_t epilogue) {
  return epilogue == 4 || epilogue == 36 || epilogue == 164 || epilogue == 208 || epilogue == 256 || epilogue == 512;
}
constexpr bool needsAux(uint32_t epilogue) { return epilogue == 164 || epilogue == 192 || epilogue == 208; }

/// Returns the size of an element in bytes; 0 for a type that the stand-in does not know.
size_t bytesOf(int type);
/// Computes the products.
void multiply(const Product &product);

} // namespace kerf::standin::cublaslt
