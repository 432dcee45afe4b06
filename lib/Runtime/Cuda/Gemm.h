// SPDX-License-Identifier: Apache-2.0
// A batch of matrix products as one call of cuBLASLt, with an epilogue: D = epilogue(op(A) op(B) + beta D).
#pragma once

#include "CublasLt.h"

namespace kerf::runtime::cuda {

/// How the matrices of a batch lie in memory, as cuBLASLt sees them: column-major. Element (row, column) of matrix
/// number `batch` is at batch * batchStride + column * leading + row.
struct GemmMatrix {
  DType type = DType::F32;
  int64_t rows = 0, columns = 0; // of the matrix in memory, before it is transposed
  int64_t leading = 0;           // elements from one column to the next, at least `rows`
  int64_t batchStride = 0;       // elements from one matrix to the next
  bool transposed = false;       // whether the product takes the transposed matrix
  auto operator<=>(const GemmMatrix &) const = default;
};

/// A batch of products: D is m x n, op(A) is m x k, and op(B) is k x n.
struct Gemm {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  GemmMatrix a, b, d;
  bool accumulates = false; // whether the product is added to what D holds
  bool tf32 = false;        // whether float32 factors are rounded to TF32
  auto operator<=>(const Gemm &) const = default;
};

/// The addresses of one call.
struct GemmPlaces {
  const void *a, *b;
  void *d;
  void *workspace; // as many bytes as workspaceBytes returns; null if these are 0
};

/// Returns the multiplications of numbers in all products of the batch.
double multiplicationsOf(const Gemm &gemm);
/// Returns whether cuBLASLt computes products of these types and sizes.
bool isSupported(const Gemm &gemm);
/// Returns the bytes of temporary memory that the products may use. They depend on the sizes only, so that memory is
/// planned without a GPU.
int64_t workspaceBytes(const Gemm &gemm);
/// Returns the bytes from a matrix's first element to the last one of the whole batch.
int64_t bytesOf(const GemmMatrix &matrix, int64_t batches);
/// Returns a text such as "12 products of 64 x 32 by 32 x 16 in bf16" for messages.
std::string textOf(const Gemm &gemm);

/// A problem as cuBLASLt's descriptors. They live as long as the object.
class GemmDescriptors {
public:
  static Result<std::shared_ptr<const GemmDescriptors>> create(const std::shared_ptr<Context> &context,
                                                               const Gemm &gemm);
  ~GemmDescriptors();
  GemmDescriptors(const GemmDescriptors &) = delete;
  /// Returns the algorithms that the library proposes for the problem, the most promising one first, at least one.
  Result<std::vector<CublasAlgorithm>> proposals() const;
  /// Enqueues the products with one of the proposed algorithms.
  Status enqueue(const CublasAlgorithm &algorithm, const GemmPlaces &places, const CudaStream &stream) const;

  const std::shared_ptr<Context> context;
  const Gemm gemm;

private:
  GemmDescriptors(std::shared_ptr<Context> context, const Gemm &gemm, const CublasHandle &cublas)
      : context(std::move(context)), gemm(gemm), cublas(cublas) {}
  Status fill();
  const CublasHandle &cublas;
  void *operation = nullptr, *a = nullptr, *b = nullptr, *d = nullptr;
};

/// Returns the algorithm for a problem: the fastest one of the library's proposals if the GPU's options ask for
/// measurements and the products are large, otherwise the first proposal. All ranks of this process get the same
/// algorithm for the same problem.
Result<CublasAlgorithm> algorithmFor(const GemmDescriptors &descriptors);

/// Returns the call that enqueues the products.
Result<LibraryCall> callOf(const std::shared_ptr<Context> &context, const Gemm &gemm, const GemmPlaces &places);

} // namespace kerf::runtime::cuda
