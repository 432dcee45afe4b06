// SPDX-License-Identifier: Apache-2.0
#include "kerf/Steps/Steps.h"
#include "AddInProducts.h"
#include "Buckets.h"
#include "EarlyUpdates.h"
#include "GatherAhead.h"
#include "HostCopies.h"
#include "JoinProducts.h"
#include "Streams.h"
#include "Unroll.h"
#include "kerf/Package/ProgramSchedule.h"

#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::steps {

namespace {
using package::FlatProgram;

std::string bucketText(const StepOptions &options) {
  return options.bucketBytes ? fmt::format("bytes={}", *options.bucketBytes) : "off";
}

constexpr std::array<StepPass, 8> kPasses = {{
    {"add-in-products", "lets products add to the sums over microbatches of their results",
     [](FlatProgram &flat, const StepOptions &) { return addInProducts(flat); }},
    {"join-products",
     "joins products with a bias, an addition, GELU, its gradient, or sums, for devices that compute them in one call",
     [](FlatProgram &flat, const StepOptions &) { return joinProducts(flat); }},
    {"fill-buckets", "joins collectives of a stream that no instruction waits for yet",
     [](FlatProgram &flat, const StepOptions &options) {
       return options.bucketBytes ? fillBuckets(flat, *options.bucketBytes) : 0;
     },
     bucketText},
    {"gather-ahead", "gathers a layer's parameters together, while the layer before runs",
     [](FlatProgram &flat, const StepOptions &options) { return options.bucketBytes ? gatherAhead(flat) : 0; },
     [](const StepOptions &options) { return options.bucketBytes ? std::string() : std::string("off"); }},
    {"copy-beside", "overlaps copies to and from the host with the next layer",
     [](FlatProgram &flat, const StepOptions &) { return overlapHostCopies(flat); }},
    {"move-updates-ahead", "updates a parameter once its gradient is ready and its old value has been read",
     [](FlatProgram &flat, const StepOptions &) { return moveUpdatesAhead(flat); }},
    {"choose-streams", "puts collectives that are not waited for at once on a stream beside kernels",
     [](FlatProgram &flat, const StepOptions &) { return chooseStreams(flat); }},
    {"await-messages", "waits for another stage's message where the message is first read",
     [](FlatProgram &flat, const StepOptions &) { return awaitMessages(flat); }},
}};

Result<StepPassCounts> makeStage(package::Program &program, const package::Expansion &expansion,
                                 const std::optional<StepOrder> &order, int64_t stage, const StepOptions &options) {
  // The passes treat a received value as available at once. The last pass inserts the waits.
  package::StepList list;
  for (package::StepEntry &entry : unroll(program, expansion, order, stage)) {
    bool receives = entry.kind == package::StepEntry::Kind::Receive;
    list.push_back(entry);
    if (receives) {
      entry.kind = package::StepEntry::Kind::Received;
      list.push_back(std::move(entry));
    }
  }
  auto flat = flatten(program, expansion, stage, list);
  if (!flat)
    return flat.error();
  std::erase_if(flat->body, [](const package::FlatInstruction &instruction) {
    return instruction.kind == package::FlatInstruction::Kind::Received;
  });
  StepPassCounts figures;
  for (const StepPass &pass : kPasses)
    figures.changed.emplace_back(pass.name, pass.run(*flat, options));
  figures.buckets = bucketsOf(*flat);
  program.steps.push_back(stepListOf(*flat));
  return figures;
}
} // namespace

std::span<const StepPass> stepPasses() { return kPasses; }

std::string stepPassesText(const StepOptions &options) {
  std::vector<std::string> names;
  for (const StepPass &pass : kPasses) {
    std::string its = pass.options ? pass.options(options) : "";
    names.push_back(its.empty() ? std::string(pass.name) : fmt::format("{}{{{}}}", pass.name, its));
  }
  return fmt::format("{}", fmt::join(names, ","));
}

std::vector<Bucket> bucketsOf(const FlatProgram &flat) {
  std::vector<Bucket> buckets;
  for (const package::FlatInstruction &instruction : flat.body) {
    if (instruction.others.empty())
      continue;
    Bucket bucket{instruction.source->op, instruction.stream, int64_t(instruction.others.size()) + 1};
    for (int operand : instruction.operands) {
      const package::Value &value = flat.values[size_t(operand)];
      bucket.bytes += elementsOf(value.shape) * bytesOf(value.dtype);
    }
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

Result<std::vector<StepPassCounts>> makeSteps(package::Program &program, const StepOptions &options) {
  std::optional<StepOrder> order;
  if (program.schedule) {
    auto schedule = package::scheduleOf(program);
    if (!schedule)
      return schedule.error();
    order = stepOrder(std::move(*schedule));
  }
  const package::Expansion expansion = expand(program);
  program.steps.clear();
  program.stepPasses = stepPassesText(options);
  std::vector<StepPassCounts> figures;
  for (int64_t stage = 0; stage < package::stagesOf(program); ++stage) {
    auto made = makeStage(program, expansion, order, stage, options);
    if (!made)
      return made.error();
    figures.push_back(std::move(*made));
  }
  return figures;
}

} // namespace kerf::steps
