// SPDX-License-Identifier: Apache-2.0
// Everything about a rank's step that needs no memory: its instructions, and where each of their buffers will lie.
#pragma once

#include "BufferPlan.h"
#include "Place.h"
#include "kerf/Runtime/CollectiveBackend.h"
#include "kerf/Runtime/Executor.h"

namespace kerf::runtime {

struct RankPlan {
  FlatProgram flat;
  BufferPlan buffers;           // of values, then of scratch
  std::vector<int> scratchOf;   // buffer of each instruction's scratch, or -1
  std::vector<int64_t> offsets; // of each buffer, in the arena or in what persists
  MemoryReport memory;
};

Result<RankPlan> planRank(const package::Program &program, int64_t rank, Device &device, const ExecutorOptions &options,
                          const DeviceCode *code);

/// Where each buffer lies; none while there is no memory.
using Memories = std::vector<std::byte *>;

/// Returns the members of a bucket after the first: collectives that run as one.
std::vector<const package::Instruction *> othersOf(const FlatInstruction &instruction);

TensorView viewOf(const RankPlan &plan, int value, const Memories &memories);
/// `code`: of a device that has some.
KernelRequest kernelRequest(const package::Program &program, const RankPlan &plan, size_t instruction, int64_t rank,
                            const Memories &memories, const DeviceCode *code);

inline constexpr const char *kComputeStream = "compute";
/// The stream that the program's list gives an instruction.
std::string streamOf(const RankPlan &plan, size_t instruction);

} // namespace kerf::runtime
