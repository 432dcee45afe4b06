// SPDX-License-Identifier: Apache-2.0
// A batch of matrix products as one call of cuBLASLt, with an epilogue: D = epilogue(op(A) op(B) + beta C).
#pragma once

#include "CublasLt.h"
#include <iterator>

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

/// The work that the library does on the product P of two matrices before it stores D. Row r of P gets element r of
/// `bias`; `aux` is a matrix of D's type and size. GELU is the form with tanh.
enum class Epilogue : uint8_t {
  None,
  Bias,                // D = P + bias
  GeluOfBias,          // D = gelu(P + bias)
  KeptGeluOfBias,      // aux = P + bias, D = gelu(aux)
  GeluGradient,        // D = P * gelu'(aux)
  GeluGradientAndSums, // the same, and bias = the sums of D's rows
  SumsOfA,             // D = P, bias = the sums of the rows of op(A)
  SumsOfB,             // D = P, bias = the sums of the columns of op(B)
};
struct EpilogueRow {
  Epilogue epilogue;
  uint32_t number; // cublasLtEpilogue_t
  bool hasBias, hasAux;
};
inline constexpr EpilogueRow kEpilogues[] = {
    {Epilogue::None, 1, false, false},          {Epilogue::Bias, 4, true, false},
    {Epilogue::GeluOfBias, 36, true, false},    {Epilogue::KeptGeluOfBias, 164, true, true},
    {Epilogue::GeluGradient, 192, false, true}, {Epilogue::GeluGradientAndSums, 208, true, true},
    {Epilogue::SumsOfA, 256, true, false},      {Epilogue::SumsOfB, 512, true, false},
};
static_assert([] {
  for (size_t i = 0; i < std::size(kEpilogues); ++i)
    if (size_t(kEpilogues[i].epilogue) != i)
      return false;
  return true;
}());
constexpr const EpilogueRow &rowOf(Epilogue epilogue) { return kEpilogues[size_t(epilogue)]; }
constexpr uint32_t numberOf(Epilogue epilogue) { return rowOf(epilogue).number; }

/// A batch of products: D is m x n, op(A) is m x k, and op(B) is k x n.
struct Gemm {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  GemmMatrix a, b, d;
  bool accumulates = false;           // whether C is added to the product; C is a matrix of D's type and size
  bool tf32 = false;                  // whether float32 factors are rounded to TF32
  Epilogue epilogue = Epilogue::None; // others are for one product, and only Bias for one that accumulates
  auto operator<=>(const Gemm &) const = default;
};

/// The addresses of one call.
struct GemmPlaces {
  const void *a, *b;
  void *d;
  void *workspace;                                  // as many bytes as workspaceBytes returns; null if these are 0
  void *bias = nullptr, *aux = nullptr;             // of the epilogue; null where it has none
  const float *scaleA = nullptr, *scaleB = nullptr; // of 8-bit factors, by which these are multiplied; null: 1
  const void *c = nullptr; // where C lies if the Gemm accumulates, at D or apart from it; null: at D
};

/// Returns whether the type is one of the 8-bit floating-point types.
constexpr bool isFloat8(DType type) { return type == DType::F8E4M3FN || type == DType::F8E5M2; }

/// Returns the multiplications of numbers in all products of the batch.
double multiplicationsOf(const Gemm &gemm);
/// Returns whether cuBLASLt computes products of these types and sizes.
bool isSupported(const Gemm &gemm);
/// Returns the bytes of temporary memory that the products may use. They depend on the sizes only, so that memory is
/// planned without a GPU.
int64_t workspaceBytes(const Gemm &gemm);
/// Returns the bytes from a matrix's first element to the last one of the whole batch.
int64_t bytesOf(const GemmMatrix &matrix, int64_t batches);
/// Returns the elements of the epilogue's `bias`, and those of its `aux`; 0 where it has none.
int64_t biasElements(const Gemm &gemm);
int64_t auxElements(const Gemm &gemm);
/// Returns a text such as "12 products of 64 x 32 by 32 x 16 in bf16" for messages.
std::string textOf(const Gemm &gemm);

/// A problem as cuBLASLt's descriptors. They live as long as the object.
class GemmDescriptors {
public:
  static Result<std::shared_ptr<GemmDescriptors>> create(const std::shared_ptr<Context> &context, const Gemm &gemm,
                                                         const GemmPlaces &places);
  ~GemmDescriptors();
  GemmDescriptors(const GemmDescriptors &) = delete;
  /// Makes the epilogue use the places' `bias` and `aux`, and 8-bit factors the places' scales.
  Status setEpilogue(const GemmPlaces &places);
  /// Returns the algorithms that the library proposes for the problem, the most promising one first; none where it has
  /// no algorithm for the problem.
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

/// Returns the algorithm for a problem, or nothing where the library has none: the fastest one of the library's
/// proposals if the GPU's options ask for measurements and the products are large, otherwise the first proposal. All
/// ranks of this process get the same algorithm for the same problem. A measurement changes the places of the epilogue.
Result<std::optional<CublasAlgorithm>> algorithmFor(GemmDescriptors &descriptors);

/// Returns the call that enqueues the products. Fails where the library has no algorithm for them.
Result<LibraryCall> callOf(const std::shared_ptr<Context> &context, const Gemm &gemm, const GemmPlaces &places);
/// Returns the same, or nothing where the library has no algorithm.
Result<std::optional<LibraryCall>> callIfOffered(const std::shared_ptr<Context> &context, const Gemm &gemm,
                                                 const GemmPlaces &places);

} // namespace kerf::runtime::cuda
