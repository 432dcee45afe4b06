// SPDX-License-Identifier: Apache-2.0
// The plan of a rank's step that can be made without memory: the rank's instructions, and the offset of each
// of their buffers.
#pragma once

#include "BufferPlan.h"
#include "InstructionText.h"
#include "kerf/Runtime/CollectiveBackend.h"
#include "kerf/Runtime/Executor.h"
#include <map>

namespace kerf::runtime {

/// A rank's instructions and memory layout.
struct RankPlan {
  FlatProgram flat;             // the instructions
  BufferPlan buffers;           // the buffers of values, followed by the buffers of scratch memory
  std::vector<int> scratchOf;   // for each instruction: index of its scratch buffer, or -1 if it needs none
  std::vector<int64_t> offsets; // for each buffer: byte offset within the memory of its BufferKind
  std::map<int, int64_t> ahead; // inputs by flat value -> byte offset of the memory for the next batch, behind all
                                // buffers of the persistent memory; empty if the device does not copy batches ahead
  MemoryReport memory;
};

/// Plans the step of rank `rank`. `code` holds the compiled kernels that the device has loaded (null: none); the ops of
/// other kernels run one by one. Fails where the device cannot run an instruction.
Result<RankPlan> planRank(const package::Program &program, int64_t rank, Device &device, const ExecutorOptions &options,
                          const DeviceCode *code);

/// Returns what an executor with these options requires of a rank's collectives.
CollectiveOptions collectiveOptions(const ExecutorOptions &options);

/// The address of each buffer of a RankPlan; empty while no memory is allocated.
using BufferAddresses = std::vector<std::byte *>;

/// Returns the instructions of a bucket's collectives after the first; empty for an instruction that is no bucket.
std::vector<const package::Instruction *> laterBucketMembers(const FlatInstruction &instruction);

/// Returns the local tensor of flat value `value`. Its address is null if `addresses` is empty.
TensorView viewOf(const RankPlan &plan, int value, const BufferAddresses &addresses);
/// Returns the request to bind instruction number `instruction` of the flat program. `code` holds the device's compiled
/// kernels, null where there are none.
KernelRequest kernelRequest(const package::Program &program, const RankPlan &plan, size_t instruction, int64_t rank,
                            const BufferAddresses &addresses, const DeviceCode *code);

/// Name of the stream that runs kernels.
inline constexpr const char *kComputeStream = "compute";
/// Returns the name of the stream that the program assigns to instruction number `instruction`.
std::string streamOf(const RankPlan &plan, size_t instruction);

} // namespace kerf::runtime
