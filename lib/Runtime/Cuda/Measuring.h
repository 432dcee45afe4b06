// SPDX-License-Identifier: Apache-2.0
// The choice among the ways in which a library of NVIDIA computes something: each is run on memory of its own, so that
// no tensor of the program changes, and the choice is kept for the process, so that equal layers measure once.
#pragma once

#include "Context.h"

namespace kerf::runtime::cuda {

/// Fewest multiplications for a measurement: something smaller takes less time than its launch.
inline constexpr double kLeastMeasured = 1 << 26;

/// The memory, the stream and the events of a measurement.
class Bench {
public:
  /// Allocates pieces of memory of these sizes. Every element holds a small number in each floating type. Fails where
  /// the GPU has too little memory left.
  static Result<std::unique_ptr<Bench>> create(const std::shared_ptr<Context> &context,
                                               const std::vector<int64_t> &bytes);
  ~Bench();
  Bench(const Bench &) = delete;

  /// Returns the address of a piece; null if it has 0 bytes.
  void *memory(size_t piece) const { return pieces[piece].get(); }
  /// Returns the number of the call that takes the least time: the first one, unless another one gains at least 2 %.
  /// Calls that fail are left out. Fails if all of them do.
  Result<size_t> fastest(const std::vector<LibraryCall> &calls) const;

private:
  explicit Bench(std::shared_ptr<Context> context) : context(std::move(context)) {}
  Result<float> millisecondsOf(const LibraryCall &call, int runs) const;
  Result<float> measure(const LibraryCall &call, float best) const;
  std::shared_ptr<Context> context;
  std::vector<std::shared_ptr<std::byte>> pieces; // freed after the stream, which is synchronized
  std::unique_ptr<CudaStream> stream;
  DriverEvent start = nullptr, end = nullptr;
};

/// A model of GPU, as far as the driver tells models apart.
struct GpuModel {
  int major = 0, minor = 0, processors = 0;
  auto operator<=>(const GpuModel &) const = default;
};
Result<GpuModel> modelOf(const Context &context);

/// The choices of a process, for each problem on each model of GPU. Ranks that are threads wait for the first one that
/// measures a problem, and then find what it has chosen.
template <typename Problem, typename Choice> class Choices {
public:
  /// Returns the choice for a problem, which `measure()` makes the first time.
  template <typename F> Result<Choice> find(const Context &context, const Problem &problem, F measure) {
    auto model = modelOf(context);
    if (!model)
      return model.error();
    std::pair key(*model, problem);
    std::lock_guard lock(mutex);
    if (auto found = chosen.find(key); found != chosen.end())
      return found->second;
    Result<Choice> best = measure();
    if (best)
      chosen.emplace(std::move(key), *best);
    return best;
  }

private:
  std::mutex mutex;
  std::map<std::pair<GpuModel, Problem>, Choice> chosen;
};

} // namespace kerf::runtime::cuda
