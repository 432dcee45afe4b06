// SPDX-License-Identifier: Apache-2.0
#include "Problem.h"

namespace kerf::standin::cublaslt {

namespace {
/// The algorithms that can be proposed, in the order of the proposals.
struct Known {
  uint64_t number, parts;
  uint32_t scheme;            // of the reduction of the parts: 1 in place in a random order, 2 in the workspace
  int state;                  // of the answer
  uint64_t sleepMicroseconds; // of a large product, so that measurements have something to find
};
constexpr Known kKnown[] = {{7, 3, 1, kSuccess, 0},
                            {1, 1, 0, kSuccess, 200000},
                            {5, 1, 0, kNotSupported, 0},
                            {2, 2, 2, kSuccess, 0},
                            {3, 1, 0, kSuccess, 100000}};
constexpr uint64_t kLarge = 1 << 26; // multiplications

uint64_t multiplications(const Operation &operation, const Matrix &a, const Matrix &d) {
  return d.rows * d.columns * (operation.transposedA ? a.rows : a.columns) * uint64_t(d.batches);
}

/// Whether the operation's epilogue is known and has what it needs.
bool hasEpilogue(const Operation &operation, const Matrix &d) {
  bool known = false;
  for (uint32_t number : {1, 4, 36, 164, 192, 208, 256, 512})
    known |= operation.epilogue == number;
  if (operation.epilogue == 1)
    return true;
  bool auxFits = !needsAux(operation.epilogue) ||
                 (operation.aux && operation.auxLeading >= int64_t(d.rows) && operation.auxLeading % 8 == 0);
  return known && auxFits && (!needsBias(operation.epilogue) || operation.bias) && d.batches == 1 && d.type != kF64;
}
} // namespace

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
  if (!hasEpilogue(*operation, *d))
    return kNotSupported;
  if (isFloat8(a->type) || isFloat8(b->type)) {
    // 8-bit factors: only the transposed A by B, sizes that are multiples of 16, and not two factors in e5m2.
    bool sized = true;
    for (const Matrix *matrix : {a, b, c, d})
      sized &= matrix->rows % 16 == 0 && matrix->columns % 16 == 0 && matrix->leading % 16 == 0;
    bool typed = isFloat8(a->type) && isFloat8(b->type) && (a->type == kE4M3 || b->type == kE4M3) &&
                 (d->type == kBF16 || d->type == kF16 || d->type == kF32) && c->type == d->type;
    bool computed = operation->computeType == 68 && operation->scaleType == kF32 && operation->epilogue == 1;
    return typed && sized && computed && operation->transposedA && !operation->transposedB ? kSuccess : kNotSupported;
  }
  if (operation->scaleA || operation->scaleB)
    return kNotSupported; // scales are for 8-bit factors
  bool doubles = operation->computeType == 70 && operation->scaleType == kF64;
  bool floats = (operation->computeType == 68 || operation->computeType == 77) && operation->scaleType == kF32;
  bool halves = a->type == kBF16 || a->type == kF16;
  bool typed =
      doubles ? a->type == kF64 && d->type == kF64
              : floats && ((halves && (d->type == a->type || d->type == kF32)) || (a->type == kF32 && d->type == kF32));
  return typed && b->type == a->type && c->type == d->type ? kSuccess : kNotSupported;
}

uint64_t hashOf(const Operation &operation, std::initializer_list<const Matrix *> matrices) {
  uint64_t hash = 1469598103934665603u;
  auto add = [&](uint64_t word) { hash = (hash ^ word) * 1099511628211u; };
  for (int word : {operation.computeType, operation.scaleType, operation.transposedA, operation.transposedB,
                   int(operation.epilogue)})
    add(uint64_t(word));
  for (const Matrix *matrix : matrices)
    for (uint64_t word : {uint64_t(matrix->type), matrix->rows, matrix->columns, uint64_t(matrix->leading),
                          uint64_t(matrix->batches), uint64_t(matrix->batchStride)})
      add(word);
  return hash;
}

std::vector<Answer> propose(const Operation &operation, const Matrix &a, const Matrix &b, const Matrix &c,
                            const Matrix &d, const Preference &preference) {
  std::vector<Answer> answers;
  bool isLarge = multiplications(operation, a, d) >= kLarge;
  for (const Known &known : kKnown) {
    uint64_t results = d.rows * d.columns * uint64_t(d.batches);
    uint64_t workspace = known.scheme == 2 ? known.parts * results * (d.type == kF64 ? 8 : 4) : 0;
    if (workspace > preference.workspaceBytes || (known.scheme & ~preference.reductionSchemes))
      continue;
    Algorithm algorithm{known.number,
                        known.parts,
                        workspace,
                        hashOf(operation, {&a, &b, &c, &d}),
                        isLarge ? known.sleepMicroseconds : 0,
                        {}};
    answers.push_back({algorithm, size_t(workspace), known.state, 1.0F, {}});
  }
  return answers;
}

} // namespace kerf::standin::cublaslt
