// SPDX-License-Identifier: Apache-2.0
#include "StepGuard.h"
#include "Shards.h"
#include "kerf/Package/Accumulation.h"

namespace kerf::runtime {

namespace {
/// Returns whether no number has an exponent whose bits are all ones, which only infinities and NaN have.
template <typename Bits> bool exponentsAreFinite(const void *data, int64_t elements, Bits exponent) {
  const Bits *bits = static_cast<const Bits *>(data);
  int64_t nonfinite = 0; // no early return, so that the compiler vectorizes the loop
  for (int64_t i = 0; i < elements; ++i)
    nonfinite += (bits[i] & exponent) == exponent;
  return nonfinite == 0;
}
} // namespace

bool allFinite(const void *data, DType dtype, int64_t elements) {
  switch (dtype) {
  case DType::F64:
    return exponentsAreFinite<uint64_t>(data, elements, 0x7ff0000000000000);
  case DType::F32:
    return exponentsAreFinite<uint32_t>(data, elements, 0x7f800000);
  case DType::BF16:
    return exponentsAreFinite<uint16_t>(data, elements, 0x7f80);
  case DType::F16:
    return exponentsAreFinite<uint16_t>(data, elements, 0x7c00);
  default:
    return true;
  }
}

StepGuard::StepGuard(const package::Program &program, int64_t rank, Device &device,
                     const std::vector<ArgumentPiece> &pieces)
    : device(device) {
  for (const ArgumentPiece &piece : pieces) {
    const package::Arg &arg = program.args[piece.arg];
    if (arg.updatedBy < 0 || package::isAccumulator(arg)) // accumulated gradients start at zero in every step
      continue;
    Shard shard = shardOf(program.mesh, arg.shape, arg.sharding, package::virtualRank(program, rank, piece.microbatch));
    watched.push_back(
        {&arg, piece.tensor, packBox(shard.local, Shape(shard.local.size(), 0), shard.count, bytesOf(arg.dtype)), {}});
  }
}

Status StepGuard::snapshot() {
  for (Watched &each : watched) {
    each.kept.resize(size_t(each.tensor.bytes()));
    if (Status status = device.copyOut(each.kept.data(), each.tensor.data, each.tensor.bytes()); !status)
      return status;
  }
  return ok();
}

Status StepGuard::rollBack() {
  for (Watched &each : watched)
    if (Status status = device.copyIn(each.tensor.data, each.kept.data(), each.tensor.bytes()); !status)
      return status;
  return ok();
}

Result<std::string> StepGuard::firstNonfinite() {
  std::vector<std::byte> local, packed; // one tensor in host memory, with and without its padding
  for (const Watched &each : watched) {
    local.resize(size_t(each.tensor.bytes())), packed.resize(size_t(each.withoutPadding.bytes()));
    if (Status status = device.copyOut(local.data(), each.tensor.data, each.tensor.bytes()); !status)
      return status.error();
    each.withoutPadding.run(local.data(), packed.data());
    if (!allFinite(packed.data(), each.arg->dtype, each.withoutPadding.bytes() / bytesOf(each.arg->dtype)))
      return each.arg->name;
  }
  return std::string();
}

} // namespace kerf::runtime
