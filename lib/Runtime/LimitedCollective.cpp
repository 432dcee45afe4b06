// SPDX-License-Identifier: Apache-2.0
#include "LimitedCollective.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace kerf::runtime {

namespace {
bool isLimited(const package::FlatInstruction &instruction) {
  return instruction.source && instruction.source->attrs.contains(package::kBatches);
}
} // namespace

class CollectiveLimits::Limited : public BoundKernel {
public:
  Limited(std::unique_ptr<BoundKernel> collective, BatchSet its, std::vector<TensorView> results,
          const CollectiveLimits &limits)
      : collective(std::move(collective)), batches(std::move(its)), results(std::move(results)), limits(limits) {}

  Status launch(Stream &stream) override {
    if (batches.contains(limits.batch))
      return collective->launch(stream);
    for (const TensorView &result : results)
      if (Status status = stream.copy(result.data, limits.zeros.get(), result.bytes(), CopyKind::ToDevice); !status)
        return status;
    return ok();
  }

private:
  std::unique_ptr<BoundKernel> collective;
  BatchSet batches;
  std::vector<TensorView> results;
  const CollectiveLimits &limits;
};

Status CollectiveLimits::prepare(Device &device, const package::Program &program, const package::FlatProgram &flat,
                                 const ViewOf &viewOf) {
  for (const package::FlatInstruction &instruction : flat.body)
    if (isLimited(instruction)) {
      most = std::max(most, instruction.results.size());
      for (int result : instruction.results)
        zeroBytes = std::max(zeroBytes, viewOf(result).bytes());
    }
  if (!any())
    return ok();
  for (const package::FlatArg &arg : flat.args)
    if (program.args[arg.arg].kind == package::ArgKind::Step && viewOf(arg.value).dtype == DType::I64)
      batchArgument = viewOf(arg.value).data;
  if (!batchArgument)
    return Error{fmt::format("a collective has the attribute {}, but the program has no argument of kind step and type "
                             "i64; compile the model again",
                             package::kBatches)};
  auto memory = device.allocateHost(zeroBytes);
  if (!memory)
    return memory.error();
  zeros = std::move(*memory);
  std::memset(zeros.get(), 0, size_t(zeroBytes));
  return ok();
}

void CollectiveLimits::read(const TensorView &argument, const void *host) {
  if (argument.data == batchArgument)
    std::memcpy(&batch, host, sizeof batch);
}

Result<std::unique_ptr<BoundKernel>> CollectiveLimits::limited(std::unique_ptr<BoundKernel> collective,
                                                               const package::FlatInstruction &instruction,
                                                               const ViewOf &viewOf) const {
  if (!isLimited(instruction))
    return collective;
  auto batches = package::batchesOf(*instruction.source);
  if (!batches)
    return batches.error();
  std::vector<TensorView> results;
  for (int result : instruction.results)
    results.push_back(viewOf(result));
  return std::unique_ptr<BoundKernel>(
      std::make_unique<Limited>(std::move(collective), std::move(*batches), std::move(results), *this));
}

} // namespace kerf::runtime
