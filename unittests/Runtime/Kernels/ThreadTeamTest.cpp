// SPDX-License-Identifier: Apache-2.0
// Work that the threads of a team share: each task runs once, and kernels give the same results on many rows, which are
// cut into tasks, as on a few.
// Every call of runKernel checks that three threads give the same bits as one.
#include "kerf/Runtime/Cpu/ThreadTeam.h"
#include "KernelTestSupport.h"

#include <atomic>
#include <memory>

namespace kerf::runtime::test {
namespace {

TEST(ThreadTeam, DoesEachTaskOnce) {
  for (int64_t threads : {1, 2, 5}) {
    ThreadTeam team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (int64_t tasks = 0; tasks < 200; ++tasks) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(tasks)), inside(static_cast<size_t>(threads));
      std::atomic<bool> overlapped = false;
      team.run(tasks, [&](int64_t task, int64_t thread) {
        if (inside[size_t(thread)]++ != 0)
          overlapped = true;
        ++done[size_t(task)];
        --inside[size_t(thread)];
      });
      for (int64_t task = 0; task < tasks; ++task)
        ASSERT_EQ(done[size_t(task)], 1) << "task " << task << " of " << tasks << ", " << threads << " threads";
      EXPECT_FALSE(overlapped) << "two calls at a time had the same thread number";
    }
  }
}

TEST(ThreadTeam, EndsWithoutWorkAndFromSleep) {
  {
    ThreadTeam never(4);
  }
  ThreadTeam team(2);
  std::atomic<int> done = 0;
  for (int round = 0; round < 3; ++round) {
    team.run(8, [&](int64_t, int64_t) { ++done; });
    std::this_thread::sleep_for(std::chrono::milliseconds(5)); // the other thread is asleep by now
  }
  EXPECT_EQ(done, 24);
}

constexpr int64_t kRows = 157, kWidth = 611; // more than a task's elements; nothing divides anything

HostTensor rowsOf(const HostTensor &tensor, int64_t begin, int64_t end) {
  HostTensor rows{tensor.dtype, tensor.shape, {}};
  rows.shape[0] = end - begin;
  int64_t width = tensor.elements() / tensor.shape[0];
  rows.values.assign(tensor.values.begin() + begin * width, tensor.values.begin() + end * width);
  return rows;
}

/// Compares a kernel on all kRows rows with the kernel on a few of them. Tensors with kRows rows are cut. Only the
/// first `rowwise` results are compared.
void expectRowsAlone(const std::string &op, const Json &attrs, const std::vector<HostTensor> &operands,
                     const std::vector<ResultType> &results, size_t rowwise) {
  SCOPED_TRACE(op);
  std::vector<HostTensor> whole = runKernel(op, attrs, operands, results);
  for (auto [begin, end] : {std::pair<int64_t, int64_t>{0, 10}, {10, 89}, {89, kRows}}) {
    std::vector<HostTensor> some = operands;
    for (HostTensor &operand : some)
      if (!operand.shape.empty() && operand.shape[0] == kRows)
        operand = rowsOf(operand, begin, end);
    std::vector<ResultType> someResults = results;
    for (ResultType &result : someResults)
      if (!result.shape.empty() && result.shape[0] == kRows)
        result.shape[0] = end - begin;
    std::vector<HostTensor> alone = runKernel(op, attrs, some, someResults);
    for (size_t r = 0; r < rowwise; ++r)
      expectNear(alone[r], rowsOf(whole[r], begin, end).values, 1e-6, // the end of a vector loop may round otherwise
                 "result " + std::to_string(r) + ", rows " + std::to_string(begin));
  }
}

TEST(ThreadTeam, KernelsOnManyRowsGiveWhatTheyGiveOnFew) {
  Random random(5);
  constexpr DType kF = DType::F32;
  HostTensor x = random.normals(kF, {kRows, kWidth}), y = random.normals(kF, {kRows, kWidth});
  HostTensor scale = random.normals(kF, {kWidth}), bias = random.normals(kF, {kWidth});
  HostTensor perRow = random.normals(kF, {kRows}), positive = x;
  for (double &value : positive.values)
    value *= value;
  HostTensor labels = random.integers(DType::I64, {kRows}, 0, kWidth - 1);
  HostTensor predicate = random.integers(DType::Bool, {kRows, kWidth}, 0, 1);
  ResultType like{kF, {kRows, kWidth}}, row{kF, {kRows}}, vector{kF, {kWidth}};
  Json none = Json::object();
  expectRowsAlone("tanh", none, {x}, {like}, 1);
  expectRowsAlone("add", none, {x, y}, {like}, 1);
  expectRowsAlone("compare", {{"direction", "LT"}}, {x, y}, {{DType::Bool, {kRows, kWidth}}}, 1);
  expectRowsAlone("select", none, {predicate, x, y}, {like}, 1);
  expectRowsAlone("convert", none, {x}, {{DType::BF16, {kRows, kWidth}}}, 1);
  expectRowsAlone("accumulate", none, {x, y}, {like}, 1);
  expectRowsAlone("sync_gradient", none, {x}, {like}, 1);
  expectRowsAlone("gelu", {{"approximate", true}}, {x}, {like}, 1);
  expectRowsAlone("gelu_backward", {{"approximate", false}}, {x, y}, {like}, 1);
  for (int64_t dimension : {1, 2}) {
    HostTensor cube = random.normals(kF, {kRows, 47, 13}), other = random.normals(kF, {kRows, 47, 13});
    expectRowsAlone("softmax", {{"dimension", dimension}}, {cube}, {{kF, cube.shape}}, 1);
    expectRowsAlone("softmax_backward", {{"dimension", dimension}}, {cube, other}, {{kF, cube.shape}}, 1);
  }
  expectRowsAlone("layer_norm", {{"epsilon", 1e-5}}, {x, scale, bias}, {like, row, row}, 3);
  expectRowsAlone("layer_norm_backward", none, {x, scale, perRow, perRow, y}, {like, vector, vector}, 1);
  expectRowsAlone("rms_norm", {{"epsilon", 1e-5}}, {x, scale}, {like, row}, 2);
  expectRowsAlone("rms_norm_backward", none, {x, scale, perRow, y}, {like, vector}, 1);
  expectRowsAlone("cross_entropy", {{"ignore_index", 3}}, {x, labels}, {row, row}, 2);
  expectRowsAlone("cross_entropy_backward", {{"ignore_index", 3}}, {x, labels, perRow, perRow}, {like}, 1);
  expectRowsAlone("transpose", {{"permutation", {0, 2, 1}}}, {random.normals(kF, {kRows, 13, 47})},
                  {{kF, {kRows, 47, 13}}}, 1);
  expectRowsAlone("broadcast_in_dim", {{"broadcast_dimensions", {0}}}, {perRow}, {like}, 1);
  expectRowsAlone("reduce", {{"kind", "sum"}, {"dimensions", {1}}}, {x}, {row}, 1);
  HostTensor q = random.normals(kF, {kRows, 6, 4, 5}), k = random.normals(kF, {kRows, 6, 2, 5});
  ResultType sums{kF, {kRows, 4, 6}};
  Json causal = {{"scale", 0.4}, {"causal", true}};
  expectRowsAlone("attention", causal, {q, k, k}, {{kF, q.shape}, sums}, 2);
  std::vector<HostTensor> forward = runKernel("attention", causal, {q, k, k}, {{kF, q.shape}, sums});
  expectRowsAlone("attention_backward", causal, {q, k, k, forward[0], forward[1], q},
                  {{kF, q.shape}, {kF, k.shape}, {kF, k.shape}}, 3);
}

/// Sums over rows are compared with the sums of single columns.
TEST(ThreadTeam, SumsOverManyRowsAreThoseOfEachColumn) {
  Random random(6);
  HostTensor x = random.normals(DType::F32, {kRows, kWidth});
  HostTensor sums = runKernel("reduce", {{"kind", "sum"}, {"dimensions", {0}}}, {x}, {{DType::F32, {kWidth}}})[0];
  for (int64_t j = 0; j < kWidth; ++j) {
    HostTensor column{DType::F32, {kRows}, {}};
    for (int64_t i = 0; i < kRows; ++i)
      column.values.push_back(x.values[i * kWidth + j]);
    double sum = runKernel("reduce", {{"kind", "sum"}, {"dimensions", {0}}}, {column}, {{DType::F32, {}}})[0].values[0];
    ASSERT_NEAR(sums.values[j], sum, 1e-5) << "column " << j;
  }
}

/// Products of single batches, and a product larger than any block, are compared with a loop.
TEST(ThreadTeam, ProductsAreThoseOfTheirBlocks) {
  Random random(7);
  Json none = Json::array();
  expectRowsAlone("dot_general",
                  {{"lhs_batching", {0}}, {"rhs_batching", {0}}, {"lhs_contracting", {2}}, {"rhs_contracting", {2}}},
                  {random.normals(DType::F32, {kRows, 7, 19}), random.normals(DType::F32, {kRows, 11, 19})},
                  {{DType::F32, {kRows, 7, 11}}}, 1);
  expectRowsAlone("dot_general",
                  {{"lhs_batching", none}, {"rhs_batching", none}, {"lhs_contracting", {1}}, {"rhs_contracting", {1}}},
                  {random.normals(DType::F32, {kRows, 301}), random.normals(DType::F32, {1103, 301})},
                  {{DType::F32, {kRows, 1103}}}, 1);
}

} // namespace
} // namespace kerf::runtime::test
