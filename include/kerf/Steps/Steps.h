// SPDX-License-Identifier: Apache-2.0

// Makes the lists of steps that the ranks of a package run (StepList in kerf/Package/Package.h). The pipeline schedule
// gives the initial order, which passes then change one after the other. The result is stored in the package, so that
// the runtime decides nothing about order, streams or buckets.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Default size of a bucket in bytes. A link of 10 GB/s with a latency of 50 microseconds transfers half of this size
/// within its latency, so larger buckets gain little.
inline constexpr int64_t kBucketBytes = 1 << 20;

/// Options of the passes that change lists of steps.
struct StepOptions {
  /// Bytes that a bucket collects before it starts, for reductions of gradients and gathers of updated parameters. 0
  /// joins only collectives that are ready at the same moment. No value runs every collective alone, which the tests of
  /// buckets use as their reference.
  std::optional<int64_t> bucketBytes = kBucketBytes;
};

/// A pass over the list of steps of one pipeline stage. A pass changes order, buckets and streams, but not the values
/// that are computed.
struct StepPass {
  std::string_view name;        // e.g. "fill-buckets"
  std::string_view description; // one sentence for reports
  /// Runs the pass and returns how many instructions it moved, joined or marked.
  int64_t (*run)(package::FlatProgram &flat, const StepOptions &options);
  /// Returns the options that the pass uses as text, e.g. "bytes=1048576"; null for a pass without options.
  std::string (*options)(const StepOptions &options) = nullptr;
};
/// Returns all passes, in the order in which they run.
std::span<const StepPass> stepPasses();
/// Returns the names and options of all passes, e.g. "add-in-products,fill-buckets{bytes=1048576},...".
std::string stepPassesText(const StepOptions &options);

/// Several collectives that run as one.
struct Bucket {
  std::string op;          // op of the bucket's first collective, e.g. "all_reduce"
  std::string stream;      // stream on which the bucket runs; "": the stream of kernels
  int64_t collectives = 0; // number of collectives in the bucket
  int64_t bytes = 0;       // bytes, on one rank, of the operands of all these collectives together
};
/// Returns the buckets of a stage, in the order in which they start.
std::vector<Bucket> bucketsOf(const package::FlatProgram &flat);

/// How much the passes changed the list of steps of one pipeline stage.
struct StepPassCounts {
  /// For each pass: its name, and the number of instructions that it moved, joined or marked.
  std::vector<std::pair<std::string_view, int64_t>> changed;
  std::vector<Bucket> buckets; // buckets of the final list
};

/// Fills Program::steps and Program::stepPasses of a program that passes checkProgram. Returns for each stage how much
/// the passes changed its list. Fails if the program's schedule does not exist.
Result<std::vector<StepPassCounts>> makeSteps(package::Program &program, const StepOptions &options = {});

} // namespace kerf::steps
