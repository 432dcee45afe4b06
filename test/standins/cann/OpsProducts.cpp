// SPDX-License-Identifier: Apache-2.0
// A part of the stand-in of libopapi_nn.so: products of matrices.
#include "Tensors.h"

namespace kerf::standin::cann {

namespace {
/// The first call of a product, out = left right or self + left right, of tensors of `least` to `most` dimensions. All
/// but Matmul take equal batch dimensions only.
int product(const char *name, size_t least, size_t most, const aclTensor *self, const aclTensor *left,
            const aclTensor *right, const aclScalar *beta, const aclScalar *alpha, aclTensor *out, int8_t cubeMathType,
            uint64_t *workspace, aclOpExecutor **executor) {
  Check check(name);
  check.tensor(left, kFloats);
  check.tensor(right, kFloats);
  check.result(out, kFloats);
  const bool adds = beta != nullptr;
  if (adds) {
    check.tensor(self, kFloats);
    check.scalar(beta);
    check.scalar(alpha);
  }
  if (check.code)
    return check.code;
  check.same(left, right);
  check.same(left, out);
  const size_t dims = left->sizes.size();
  check.rule(dims >= least && dims <= most && right->sizes.size() == dims && out->sizes.size() == dims, "dimensions",
             "factors of " + std::to_string(least) + " to " + std::to_string(most) + " dimensions");
  check.rule(cubeMathType == 0 || cubeMathType == 1, "cubeMathType", "0 keeps the type, 1 may round");
  if (check.code)
    return check.code;
  const int64_t m = left->sizes[dims - 2], k = left->sizes[dims - 1], n = right->sizes[dims - 1];
  check.rule(right->sizes[dims - 2] == k, "shape", "the inner sizes of the factors differ");
  Sizes ofLeft(left->sizes.begin(), left->sizes.end() - 2), ofRight(right->sizes.begin(), right->sizes.end() - 2);
  check.rule(!adds || ofLeft == ofRight, "shape", "the batch sizes of the factors differ");
  Sizes batch = check.broadcast(ofLeft, ofRight);
  Sizes sizes = batch, a = batch, b = batch;
  sizes.insert(sizes.end(), {m, n});
  a.insert(a.end(), {m, k});
  b.insert(b.end(), {k, n});
  check.sizes(out, sizes);
  if (adds) {
    check.same(self, out);
    check.sizes(self, sizes);
  }
  if (check.code)
    return check.code;
  constexpr uint64_t kWorkspace = 4096;
  const double ofSelf = adds ? beta->number : 0, ofProduct = adds ? alpha->number : 1;
  return check.executor(
      workspace, executor,
      [x = *left, y = *right, before = adds ? *self : *out, z = *out, a, b, m, n, k, adds, ofSelf, ofProduct] {
        std::vector<double> values = load(x, a), matrix = load(y, b), sums(static_cast<size_t>(z.elements()), 0);
        const size_t batches = sums.size() / size_t(m * n);
        for (size_t i = 0; i < batches * size_t(m); ++i) {
          double *row = sums.data() + i * size_t(n);
          const double *factors = values.data() + i * size_t(k), *of = matrix.data() + i / size_t(m) * size_t(k * n);
          for (int64_t l = 0; l < k; ++l)
            for (int64_t j = 0; j < n; ++j)
              row[j] += factors[l] * of[l * n + j];
        }
        if (adds) {
          std::vector<double> added = load(before);
          for (size_t i = 0; i < sums.size(); ++i)
            sums[i] = ofSelf * added[i] + ofProduct * sums[i];
        }
        store(z, sums);
      },
      kWorkspace);
}
} // namespace

KERF_OPERATOR(aclnnMatmul, const aclTensor *self, const aclTensor *mat2, aclTensor *out, int8_t cubeMathType) {
  return product("aclnnMatmul", 2, 6, nullptr, self, mat2, nullptr, nullptr, out, cubeMathType, workspace, executor);
}
KERF_OPERATOR(aclnnAddmm, const aclTensor *self, const aclTensor *mat1, const aclTensor *mat2, const aclScalar *beta,
              const aclScalar *alpha, aclTensor *out, int8_t cubeMathType) {
  return product("aclnnAddmm", 2, 2, self, mat1, mat2, beta, alpha, out, cubeMathType, workspace, executor);
}
KERF_OPERATOR(aclnnBaddbmm, const aclTensor *self, const aclTensor *batch1, const aclTensor *batch2,
              const aclScalar *beta, const aclScalar *alpha, aclTensor *out, int8_t cubeMathType) {
  return product("aclnnBaddbmm", 3, 3, self, batch1, batch2, beta, alpha, out, cubeMathType, workspace, executor);
}

} // namespace kerf::standin::cann
