// SPDX-License-Identifier: Apache-2.0
#include "StepRecordings.h"

namespace kerf::runtime {

namespace {
constexpr int64_t kEnqueuedFirst = 2; // steps before the first recorded one: the first of them is slower than usual
} // namespace

/// Returns whether enough steps were enqueued instruction by instruction. A batch is recorded from the step on from
/// which its step is recorded, so that the measured times are those of whole steps.
bool StepRecordings::isDue(StepKind kind) const {
  auto found = enqueued.find(kind == StepKind::Batch ? StepKind::Step : kind);
  return isOn && found != enqueued.end() && found->second >= kEnqueuedFirst;
}

BoundKernel *StepRecordings::find(StepKind kind, Stream &compute, const std::function<Status()> &enqueue) {
  if (!isDue(kind))
    return nullptr;
  if (auto found = recordings.find(kind); found != recordings.end())
    return found->second.get();
  auto recorded = device.record(compute, enqueue);
  if (recorded && !*recorded) {
    turnOff();
    return nullptr;
  }
  // NCCL and its like want a collective to be recorded by all of its ranks or by none.
  Status agreed = agree(communicator, recorded ? ok() : Status(recorded.error()));
  if (!agreed) {
    whyNot = agreed.error().message;
    turnOff();
    return nullptr;
  }
  return recordings.emplace(kind, std::move(*recorded)).first->second.get();
}

} // namespace kerf::runtime
