// SPDX-License-Identifier: Apache-2.0
// Makes the lists of steps that a package's ranks run (kerf/Package/Package.h, StepList): the schedule gives the order,
// then passes change it, one after the other. What is decided here is in the package, and the runtime decides nothing.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// A link of 10 GB/s and 50 microseconds passes half of it in its latency.
inline constexpr int64_t kBucketBytes = 1 << 20;

struct StepOptions {
  /// Reductions of gradients, and gathers of what the step leaves behind, are put together until they have so many
  /// bytes; 0: only what is ready at the same moment. Nothing: every collective alone, the oracle of the buckets'
  /// tests.
  std::optional<int64_t> bucketBytes = kBucketBytes;
};

/// A change of one stage's list. What it leaves reads and makes the same values.
struct StepPass {
  std::string_view name, what;
  /// Returns how many instructions it has moved, joined or marked.
  int64_t (*run)(package::FlatProgram &flat, const StepOptions &options);
  /// Returns the options that the pass obeys, "bytes=1048576"; null for a pass without.
  std::string (*options)(const StepOptions &options) = nullptr;
};
/// In the order in which they run.
std::span<const StepPass> stepPasses();
/// "fill-buckets{bytes=1048576},gather-ahead,...".
std::string stepPassesText(const StepOptions &options);

/// Several collectives that are one.
struct Bucket {
  std::string op, stream; // op: of the first; stream: "" where it is waited for at once
  int64_t collectives = 0, bytes = 0;
};
std::vector<Bucket> bucketsOf(const package::FlatProgram &flat);

/// Counts of the changes that the passes made to a stage's list.
struct StepFigures {
  std::vector<std::pair<std::string_view, int64_t>> changed; // by pass: what StepPass::run returned
  std::vector<Bucket> buckets;
};

/// Fills the lists of a program that passes checkProgram without them, and Program::stepPasses. Returns what was done
/// to the list of each stage.
Result<std::vector<StepFigures>> makeSteps(package::Program &program, const StepOptions &options = {});

} // namespace kerf::steps
