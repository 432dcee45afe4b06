// SPDX-License-Identifier: Apache-2.0
// Steps that the device has recorded, so that one call launches all of a step. The first steps are enqueued
// instruction by instruction: they give the times of the instructions, and they set up what is set up at first use.
#pragma once

#include "kerf/Runtime/Executor.h"

namespace kerf::runtime {

/// The recordings of one rank: of the whole step, and of each part of it that runs alone. All ranks must run the same
/// kinds of steps in the same order, and then all of them record a kind at the same time, or none does.
class StepRecordings {
public:
  StepRecordings(Device &device, Communicator &communicator) : device(device), communicator(communicator) {}

  /// Returns the recording of the kind `kind`, which is made now if it is due. `enqueue` enqueues a step of this kind
  /// without measuring it. Returns null if the step must be enqueued instruction by instruction.
  BoundKernel *find(StepKind kind, Stream &compute, const std::function<Status()> &enqueue);
  /// Counts a step that was enqueued instruction by instruction, and that had no error.
  void countEnqueued(StepKind kind) { ++enqueued[kind]; }
  /// From now on, no step is recorded or launched as a recording.
  void turnOff() { isOn = false; }
  /// Returns why steps are not recorded although the device can record; empty if there is no reason.
  const std::string &reason() const { return whyNot; }

private:
  bool isDue(StepKind kind) const;
  Device &device;
  Communicator &communicator;
  bool isOn = true;
  std::map<StepKind, int64_t> enqueued; // steps that were enqueued instruction by instruction
  std::map<StepKind, std::unique_ptr<BoundKernel>> recordings;
  std::string whyNot;
};

} // namespace kerf::runtime
