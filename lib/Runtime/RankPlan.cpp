// SPDX-License-Identifier: Apache-2.0
#include "RankPlan.h"
#include "AttentionRows.h"
#include "ExpandKernels.h"
#include "JoinInstructions.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kerf::runtime {

namespace {
class RankPlanner {
public:
  RankPlanner(const package::Program &program, int64_t rank, Device &device, const DeviceCode *code)
      : program(program), rank(rank), device(device), code(code) {}

  Result<RankPlan> run(const ExecutorOptions &options) {
    auto flattened = package::flatten(program, package::stageOf(program, rank));
    if (!flattened)
      return flattened.error();
    flat = std::move(*flattened);
    expandKernels(flat, code);
    joinInstructions(flat, device);
    usePartsOfRows(flat, device);
    auto planned = planBuffers(program, flat, options.reuseMemory ? Sharing::InPlace : Sharing::Views, device);
    if (!planned)
      return planned.error();
    buffers = std::move(*planned);
    placeInsideOfGroups(flat, device, buffers);
    int64_t end = int64_t(flat.body.size());
    if (!options.reuseMemory)
      for (Buffer &buffer : buffers.buffers)
        buffer.lifetime.begin = 0, buffer.lifetime.end = end;
    if (Status status = planScratch(options); !status)
      return status.error();
    placeAll();
    return std::move(plan);
  }

private:
  /// Adds a buffer for each instruction that needs scratch memory. The buffer is alive while the instruction runs.
  Status planScratch(const ExecutorOptions &options) {
    plan.scratchOf.assign(flat.body.size(), -1);
    // Scratch bytes by origin, of instructions alone, of products that are added to a sum, and of joined products. They
    // are the same in each microbatch.
    std::vector<int64_t> known(size_t(flat.origins), -1), knownAdded = known, knownJoined = known;
    // Scratch bytes of buckets, by the first collective's origin and the other collectives.
    std::map<std::pair<int, std::vector<const package::Instruction *>>, int64_t> knownBuckets;
    for (size_t i = 0; i < flat.body.size(); ++i) {
      const package::Instruction &instruction = *flat.body[i].source;
      if (flat.body[i].kind != FlatInstruction::Kind::Op || package::isView(flat, flat.body[i]) ||
          package::isHostCopy(instruction.op))
        continue;
      bool collective = package::isCollective(instruction.op);
      const std::vector<const package::Instruction *> others = laterBucketMembers(flat.body[i]);
      int origin = flat.body[i].origin;
      int64_t &bytes = flat.body[i].sum >= 0         ? knownAdded[size_t(origin)]
                       : !flat.body[i].parts.empty() ? knownJoined[size_t(origin)]
                       : others.empty()              ? known[size_t(origin)]
                                                     : knownBuckets.try_emplace({origin, others}, -1).first->second;
      if (bytes < 0) {
        KernelRequest request = kernelRequest(program, plan, i, rank, {}, code);
        auto needed = collective ? device.collectiveScratchBytes({request, 0, others}, collectiveOptions(options))
                                 : device.scratchBytes(request);
        if (!needed)
          return Error{fmt::format("{}: {}", instructionText(instruction), needed.error().message),
                       needed.error().status};
        bytes = *needed;
      }
      if (bytes == 0)
        continue;
      plan.scratchOf[i] = int(buffers.buffers.size());
      int64_t end = int64_t(flat.body.size());
      Lifetime lifetime{bytes, int64_t(i), collective ? buffers.firstWait[i] : int64_t(i)};
      buffers.buffers.push_back({BufferKind::Working, options.reuseMemory ? lifetime : Lifetime{bytes, 0, end}});
    }
    return ok();
  }

  int64_t bytesOfArgument(const FlatArg &arg) const {
    return buffers.buffers[size_t(buffers.bufferOf[size_t(arg.value)])].lifetime.bytes;
  }

  /// Adds bytes to the persistent memory and returns their offset.
  int64_t addPersistent(int64_t bytes) {
    const int64_t alignment = device.alignment(), offset = plan.memory.persistentBytes;
    plan.memory.persistentBytes += (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    return offset;
  }

  void placeAll() {
    std::vector<Lifetime> working, host;
    std::vector<size_t> workingIndex, hostIndex;
    plan.offsets.assign(buffers.buffers.size(), 0);
    for (size_t b = 0; b < buffers.buffers.size(); ++b) {
      const Buffer &buffer = buffers.buffers[b];
      if (buffer.kind == BufferKind::Working) {
        working.push_back(buffer.lifetime);
        workingIndex.push_back(b);
        continue;
      }
      if (buffer.kind == BufferKind::Host) {
        host.push_back(buffer.lifetime);
        hostIndex.push_back(b);
        continue;
      }
      plan.offsets[b] = addPersistent(buffer.lifetime.bytes);
    }
    for (const FlatArg &arg : flat.args)
      if (device.copiesBatchesAhead() && program.args[arg.arg].kind == package::ArgKind::Input)
        plan.ahead[arg.value] = addPersistent(bytesOfArgument(arg));
    BufferPlacement placement = placeBuffers(working, device.alignment());
    for (size_t w = 0; w < working.size(); ++w)
      plan.offsets[workingIndex[w]] = placement.offsets[w];
    plan.memory.arenaBytes = placement.bytes;
    BufferPlacement inHost = placeBuffers(host, device.alignment());
    for (size_t h = 0; h < host.size(); ++h)
      plan.offsets[hostIndex[h]] = inHost.offsets[h];
    plan.memory.hostBytes = inHost.bytes;
    reportMemory(working, workingIndex);
  }

  void reportMemory(const std::vector<Lifetime> &working, const std::vector<size_t> &workingIndex) {
    for (const FlatArg &arg : flat.args) {
      const int64_t bytes = bytesOfArgument(arg);
      switch (program.args[arg.arg].kind) {
      case package::ArgKind::Parameter:
      case package::ArgKind::Buffer:
      case package::ArgKind::Constant:
        plan.memory.parametersBytes += bytes;
        break;
      case package::ArgKind::State:
        plan.memory.statesBytes += bytes;
        break;
      default:
        plan.memory.inputsBytes += plan.ahead.count(arg.value) ? 2 * bytes : bytes;
        break;
      }
    }
    std::vector<bool> isGradient(buffers.buffers.size(), false);
    for (int gradient : package::gradientsOf(flat))
      isGradient[size_t(buffers.bufferOf[size_t(gradient)])] = true;
    std::vector<int64_t> live = liveBytes(working, int64_t(flat.body.size()) + 1, device.alignment());
    int64_t fullest = std::max_element(live.begin(), live.end()) - live.begin();
    plan.memory.peakLiveBytes = live[size_t(fullest)];
    for (size_t w = 0; w < working.size(); ++w)
      if (isGradient[workingIndex[w]] && working[w].begin <= fullest && fullest <= working[w].end)
        plan.memory.gradientsBytes += working[w].bytes;
    plan.memory.activationsBytes = plan.memory.peakLiveBytes - plan.memory.gradientsBytes;
  }

  const package::Program &program;
  int64_t rank;
  Device &device;
  const DeviceCode *code;
  RankPlan plan;
  FlatProgram &flat = plan.flat;
  BufferPlan &buffers = plan.buffers;
};
} // namespace

Result<RankPlan> planRank(const package::Program &program, int64_t rank, Device &device, const ExecutorOptions &options,
                          const DeviceCode *code) {
  return RankPlanner(program, rank, device, code).run(options);
}

CollectiveOptions collectiveOptions(const ExecutorOptions &options) { return {.ordered = options.deterministic}; }

std::vector<const package::Instruction *> laterBucketMembers(const FlatInstruction &instruction) {
  std::vector<const package::Instruction *> others;
  for (const FlatInstruction::Member &other : instruction.others)
    others.push_back(other.source);
  return others;
}

TensorView viewOf(const RankPlan &plan, int value, const BufferAddresses &addresses) {
  const package::Value &type = plan.flat.values[size_t(value)];
  int buffer = plan.buffers.bufferOf[size_t(value)];
  return {addresses.empty() ? nullptr : addresses[size_t(buffer)], type.dtype, type.shape};
}

namespace {
KernelRequest requestOf(const package::Program &program, const RankPlan &plan, const FlatInstruction &flat,
                        size_t instruction, int64_t rank, const BufferAddresses &addresses, const DeviceCode *code) {
  KernelRequest request{*flat.source, {}, {}, program.mesh, package::virtualRank(program, rank, flat.microbatch)};
  auto viewOfPart = [&](const FlatInstruction::RowPart &part, int whole) {
    TensorView view = viewOf(plan, whole, addresses);
    if (part.value < 0)
      return view;
    view.shape = plan.flat.values[size_t(part.value)].shape;
    view.rowStride = part.stride;
    if (view.data)
      view.data = static_cast<std::byte *>(view.data) + part.offset * bytesOf(view.dtype);
    return view;
  };
  for (size_t o = 0; o < flat.operands.size(); ++o)
    request.operands.push_back(
        viewOfPart(flat.operandParts.empty() ? FlatInstruction::RowPart() : flat.operandParts[o], flat.operands[o]));
  if (flat.resultParts.empty())
    for (int result : flat.results)
      request.results.push_back(viewOf(plan, result, addresses));
  for (const FlatInstruction::RowPart &part : flat.resultParts)
    request.results.push_back(viewOfPart(part, flat.results[0]));
  if (int scratch = plan.scratchOf[instruction]; !addresses.empty() && scratch >= 0)
    request.scratch = addresses[size_t(scratch)];
  request.function = flat.kernel;
  request.code = code;
  request.number = int64_t(instruction);
  if (!flat.parts.empty()) {
    auto epilogue = package::epilogueOf(plan.flat.values, flat.parts);
    auto view = [&](int value) { return value < 0 ? std::optional<TensorView>() : viewOf(plan, value, addresses); };
    request.epilogue = {epilogue->kind,       epilogue->ofLeft,     viewOf(plan, epilogue->result, addresses),
                        view(epilogue->bias), view(epilogue->kept), view(epilogue->sums)};
  }
  for (const FlatInstruction &part : flat.parts)
    request.parts.push_back(requestOf(program, plan, part, instruction, rank, addresses, code));
  return request;
}
} // namespace

KernelRequest kernelRequest(const package::Program &program, const RankPlan &plan, size_t instruction, int64_t rank,
                            const BufferAddresses &addresses, const DeviceCode *code) {
  return requestOf(program, plan, plan.flat.body[instruction], instruction, rank, addresses, code);
}

std::string streamOf(const RankPlan &plan, size_t instruction) {
  const std::string &stream = plan.flat.body[instruction].stream;
  return stream.empty() ? kComputeStream : stream;
}

Result<MemoryReport> planMemory(const package::Program &program, int64_t stage, const PlannedHardware &hardware) {
  if (stage < 0 || stage >= package::stagesOf(program))
    return Error{fmt::format("the program has no stage {}; give 0 to {}", stage, package::stagesOf(program) - 1)};
  auto device = createPlanningDevice(hardware);
  if (!device)
    return device.error();
  auto code = (*device)->loadCode(program, CodeUse::Plan);
  if (!code)
    return code.error();
  ExecutorOptions options;
  options.deterministic = hardware.deterministic;
  auto plan = planRank(program, package::rankOnStage(program, 0, stage), **device, options, code->get());
  if (!plan)
    return plan.error();
  return plan->memory;
}

} // namespace kerf::runtime
