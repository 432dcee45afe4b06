// SPDX-License-Identifier: Apache-2.0
#include "Gemm.h"

#include <fmt/format.h>
#include <limits>

namespace kerf::runtime::cuda {

namespace {
constexpr int kMostProposals = 8;
constexpr int64_t kMostBatches = 65535; // the GPU's limit of blocks in the third dimension of a grid
/// The workspace that NVIDIA recommends for GPUs of the generation Hopper, and less for small products.
constexpr int64_t kWorkspaceOfLarge = int64_t(32) << 20, kWorkspaceOfMedium = int64_t(4) << 20;
constexpr double kLarge = 1 << 26, kMedium = 1 << 22; // multiplications

int typeNumber(DType type) {
  switch (type) {
  case DType::F64:
    return kTypeF64;
  case DType::BF16:
    return kTypeBF16;
  case DType::F16:
    return kTypeF16;
  case DType::F8E4M3FN:
    return kTypeE4M3;
  case DType::F8E5M2:
    return kTypeE5M2;
  default:
    return kTypeF32;
  }
}
bool isDouble(const Gemm &gemm) { return gemm.d.type == DType::F64; }
int computeNumber(const Gemm &gemm) {
  bool isFloat = gemm.a.type == DType::F32;
  return isDouble(gemm) ? kComputeF64 : gemm.tf32 && isFloat ? kComputeTf32 : kComputeF32;
}
} // namespace

double multiplicationsOf(const Gemm &gemm) {
  return double(gemm.batches) * double(gemm.m) * double(gemm.n) * double(gemm.k);
}

/// Returns whether cuBLASLt has the 8-bit product: the contracted index is the row of both factors in memory, and all
/// sizes are multiples of 16.
static bool isSupportedFloat8(const Gemm &gemm) {
  constexpr int64_t kUnit = 16;
  bool typed = isFloat8(gemm.b.type) && !(gemm.a.type == DType::F8E5M2 && gemm.b.type == DType::F8E5M2) &&
               (gemm.d.type == DType::BF16 || gemm.d.type == DType::F16 || gemm.d.type == DType::F32);
  if (!typed || !gemm.a.transposed || gemm.b.transposed || gemm.accumulates || gemm.epilogue != Epilogue::None)
    return false;
  for (int64_t size : {gemm.m, gemm.n, gemm.k, gemm.a.leading, gemm.b.leading, gemm.d.leading, gemm.a.batchStride,
                       gemm.b.batchStride, gemm.d.batchStride})
    if (size % kUnit != 0)
      return false;
  return true;
}

bool isSupported(const Gemm &gemm) {
  const bool float8 = isFloat8(gemm.a.type);
  if (float8 && !isSupportedFloat8(gemm))
    return false;
  bool halves = gemm.a.type == DType::BF16 || gemm.a.type == DType::F16;
  bool floats = halves || gemm.a.type == DType::F32 || gemm.a.type == DType::F64;
  if (!float8 &&
      (!floats || gemm.b.type != gemm.a.type || !(gemm.d.type == gemm.a.type || (halves && gemm.d.type == DType::F32))))
    return false;
  constexpr int64_t kMostSize = std::numeric_limits<int32_t>::max();
  for (const GemmMatrix *matrix : {&gemm.a, &gemm.b, &gemm.d})
    if (matrix->rows < 1 || matrix->columns < 1 || matrix->leading < matrix->rows || matrix->leading > kMostSize ||
        matrix->columns > kMostSize)
      return false;
  // NVIDIA asks that a column of the epilogue's second matrix has a multiple of 8 elements.
  const EpilogueRow &row = rowOf(gemm.epilogue);
  if (gemm.epilogue != Epilogue::None && (gemm.batches != 1 || (gemm.accumulates && gemm.epilogue != Epilogue::Bias) ||
                                          isDouble(gemm) || (row.hasAux && gemm.d.leading % 8 != 0)))
    return false;
  return gemm.batches >= 1 && gemm.batches <= kMostBatches;
}

int64_t biasElements(const Gemm &gemm) {
  return !rowOf(gemm.epilogue).hasBias ? 0 : gemm.epilogue == Epilogue::SumsOfB ? gemm.n : gemm.m;
}
int64_t auxElements(const Gemm &gemm) { return rowOf(gemm.epilogue).hasAux ? gemm.d.leading * gemm.n : 0; }

int64_t workspaceBytes(const Gemm &gemm) {
  double all = multiplicationsOf(gemm);
  return all >= kLarge ? kWorkspaceOfLarge : all >= kMedium ? kWorkspaceOfMedium : 0;
}

int64_t bytesOf(const GemmMatrix &matrix, int64_t batches) {
  return ((batches - 1) * matrix.batchStride + (matrix.columns - 1) * matrix.leading + matrix.rows) *
         bytesOf(matrix.type);
}

std::string textOf(const Gemm &gemm) {
  // The rows and columns of the caller's matrices, which are row-major, change places.
  return fmt::format("{} product{} of {} x {} by {} x {} in {}", gemm.batches, gemm.batches == 1 ? "" : "s", gemm.n,
                     gemm.k, gemm.k, gemm.m, toString(gemm.a.type));
}

Result<std::shared_ptr<GemmDescriptors>> GemmDescriptors::create(const std::shared_ptr<Context> &context,
                                                                 const Gemm &gemm, const GemmPlaces &places) {
  auto cublas = cublasOf(*context);
  if (!cublas)
    return cublas.error();
  std::shared_ptr<GemmDescriptors> made(new GemmDescriptors(context, gemm, **cublas));
  if (Status status = made->fill(); !status)
    return status.error();
  if (Status status = made->setEpilogue(places); !status)
    return status.error();
  return made;
}

GemmDescriptors::~GemmDescriptors() {
  for (void *layout : {a, b, d})
    if (layout)
      cublas.library.layoutDestroy(layout);
  if (operation)
    cublas.library.descDestroy(operation);
}

Status GemmDescriptors::fill() {
  const CublasLt &lt = cublas.library;
  CublasStatus status = lt.descCreate(&operation, computeNumber(gemm), isDouble(gemm) ? kTypeF64 : kTypeF32);
  int32_t transposeA = gemm.a.transposed, transposeB = gemm.b.transposed; // CUBLAS_OP_T is 1
  if (!status)
    status = lt.descSet(operation, kTransposeA, &transposeA, sizeof transposeA);
  if (!status)
    status = lt.descSet(operation, kTransposeB, &transposeB, sizeof transposeB);
  struct Layout {
    const GemmMatrix &matrix;
    void *&made;
  };
  for (auto [matrix, made] : {Layout{gemm.a, a}, Layout{gemm.b, b}, Layout{gemm.d, d}}) {
    if (!status)
      status = lt.layoutCreate(&made, typeNumber(matrix.type), uint64_t(matrix.rows), uint64_t(matrix.columns),
                               matrix.leading);
    auto count = int32_t(gemm.batches);
    if (!status)
      status = lt.layoutSet(made, kBatchCount, &count, sizeof count);
    if (!status)
      status = lt.layoutSet(made, kBatchStride, &matrix.batchStride, sizeof matrix.batchStride);
  }
  return status ? Status(cublasError(lt, status, context->number(), "describe " + textOf(gemm))) : ok();
}

Status GemmDescriptors::setEpilogue(const GemmPlaces &places) {
  const EpilogueRow &row = rowOf(gemm.epilogue);
  const CublasLt &lt = cublas.library;
  CublasStatus status = lt.descSet(operation, kEpilogueKind, &row.number, sizeof row.number);
  if (row.hasBias && !status)
    status = lt.descSet(operation, kBiasPointer, &places.bias, sizeof places.bias);
  if (row.hasAux && !status)
    status = lt.descSet(operation, kAuxPointer, &places.aux, sizeof places.aux);
  if (row.hasAux && !status)
    status = lt.descSet(operation, kAuxLeading, &gemm.d.leading, sizeof gemm.d.leading);
  if (isFloat8(gemm.a.type) && !status)
    status = lt.descSet(operation, kScaleOfA, &places.scaleA, sizeof places.scaleA);
  if (isFloat8(gemm.a.type) && !status)
    status = lt.descSet(operation, kScaleOfB, &places.scaleB, sizeof places.scaleB);
  return status ? Status(cublasError(lt, status, context->number(), "describe " + textOf(gemm))) : ok();
}

Result<std::vector<CublasAlgorithm>> GemmDescriptors::proposals() const {
  const CublasLt &lt = cublas.library;
  if (Status status = context->use(); !status)
    return status.error();
  void *preference = nullptr;
  CublasStatus status = lt.preferenceCreate(&preference);
  auto workspace = uint64_t(workspaceBytes(gemm));
  uint32_t reductions = kReductionInWorkspace;
  if (!status)
    status = lt.preferenceSet(preference, kMostWorkspace, &workspace, sizeof workspace);
  if (!status)
    status = lt.preferenceSet(preference, kReductionSchemes, &reductions, sizeof reductions);
  CublasAnswer answers[kMostProposals];
  int count = 0;
  if (!status)
    status = lt.heuristic(cublas.handle, operation, a, b, d, d, preference, kMostProposals, answers, &count);
  if (preference)
    lt.preferenceDestroy(preference);
  if (status && status != kCublasNotSupported)
    return cublasError(lt, status, context->number(), "find an algorithm for " + textOf(gemm));
  std::vector<CublasAlgorithm> algorithms;
  for (int i = 0; !status && i < count; ++i)
    if (answers[i].state == 0 && answers[i].workspaceBytes <= workspace)
      algorithms.push_back(answers[i].algorithm);
  return algorithms;
}

Status GemmDescriptors::enqueue(const CublasAlgorithm &algorithm, const GemmPlaces &places,
                                const CudaStream &stream) const {
  const float floats[] = {1, gemm.accumulates ? 1.0F : 0.0F};
  const double doubles[] = {1, gemm.accumulates ? 1.0 : 0.0};
  const void *one = isDouble(gemm) ? static_cast<const void *>(doubles) : floats;
  const void *beta = isDouble(gemm) ? static_cast<const void *>(doubles + 1) : floats + 1;
  const void *c = gemm.accumulates && places.c ? places.c : places.d;
  CublasStatus status =
      cublas.library.matmul(cublas.handle, operation, one, places.a, a, places.b, b, beta, c, d, places.d, d,
                            &algorithm, places.workspace, size_t(workspaceBytes(gemm)), stream.stream);
  return status ? Status(cublasError(cublas.library, status, context->number(), "enqueue " + textOf(gemm))) : ok();
}

Result<LibraryCall> callOf(const std::shared_ptr<Context> &context, const Gemm &gemm, const GemmPlaces &places) {
  auto call = callIfOffered(context, gemm, places);
  if (!call)
    return call.error();
  if (*call)
    return std::move(**call);
  auto cublas = cublasOf(*context);
  return !cublas ? cublas.error()
                 : cublasError((*cublas)->library, kCublasNotSupported, context->number(),
                               "find an algorithm for " + textOf(gemm));
}

Result<std::optional<LibraryCall>> callIfOffered(const std::shared_ptr<Context> &context, const Gemm &gemm,
                                                 const GemmPlaces &places) {
  BindTimer timer(*context, "cublaslt");
  auto descriptors = GemmDescriptors::create(context, gemm, places);
  if (!descriptors)
    return descriptors.error();
  auto algorithm = algorithmFor(**descriptors);
  if (!algorithm)
    return algorithm.error();
  if (!*algorithm)
    return std::optional<LibraryCall>();
  if (Status status = (*descriptors)->setEpilogue(places); !status)
    return status.error();
  return std::optional<LibraryCall>(
      [descriptors = *descriptors, algorithm = **algorithm, places](CudaStream &stream) -> Status {
        return descriptors->enqueue(algorithm, places, stream);
      });
}

} // namespace kerf::runtime::cuda
