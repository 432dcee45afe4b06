// SPDX-License-Identifier: Apache-2.0
// The bytes of parameters, gradients and optimizer states, and the seconds of the optimizer's update.
#include "kerf/CostModel/Compute.h"
#include "kerf/CostModel/Simulator.h"
#include <algorithm>

using namespace kerf;

namespace {

/// Bytes per parameter element of one way of keeping the optimizer's states (megatron/core/optimizer of Megatron Core
/// 0.16.1: distrib_optimizer.py, cpu_offloading/hybrid_optimizer.py).
struct StatesRecord {
  double master, moment;         // bytes on the device: of the master weight, and of each moment
  double hostMaster, hostMoment; // the same in the host's memory
};
/// Indexed by OptimizerStates.
constexpr StatesRecord kStatesRecords[] = {{4, 4, 0, 0}, {2, 4, 0, 0}, {2, 2, 0, 0}, {0, 0, 4, 4}};
static_assert(std::size(kStatesRecords) == PlanWords<OptimizerStates>::words.size());

/// Bytes/s at which a device's share of the host reads and writes memory during an update. Estimate: the host of a DGX
/// A100 has 409.6 GB/s for 8 devices, of which an update reaches 0.45 (Ren et al. 2021, ZeRO-Offload, table 4: CPU-Adam
/// updates 10^10 parameters, 30 bytes each, in 2.57 s on the host of a DGX-2, with 256 GB/s).
constexpr double kHostUpdateBandwidth = 23e9;

} // namespace

double kerf::hostUpdateSeconds(const DeviceSpec &device, double elements, const StateBytes &bytes) {
  if (bytes.hostStates == 0 || elements == 0)
    return 0;
  constexpr double wide = 4; // gradients and weights are f32 in the host's memory
  double copies = (wide + bytes.weight) / hostBandwidth(device);
  // The update reads and writes states and reads the gradient; the copies write the gradient, and read and write
  // weights.
  double update = (2 * bytes.hostStates + 2 * wide + wide + bytes.weight) / kHostUpdateBandwidth;
  return elements * std::max(copies, update);
}

double kerf::updateSeconds(const DeviceSpec &device, double elements, const StateBytes &bytes,
                           const UpdateKernel &update) {
  // The trainer determines the accesses to the gradient. States are read and written. 16-bit weights are written after
  // the f32 master weights are read, or read and written together with the states.
  bool mixed = bytes.weight < 4, narrow = bytes.gradient < 4;
  bool widens = narrow && update.widensGradients && !bytes.readsWeights;
  double width = narrow && !widens ? bytes.gradient : std::max(4.0, bytes.gradient);
  double copied = widens ? bytes.gradient + width : 0;
  double accesses = update.gradientAccesses + (mixed ? update.scaleAccesses : 0);
  Work kernel;
  kernel.kernelClass = KernelClass::Pointwise;
  kernel.bytes = elements * (copied + accesses * width + 2 * bytes.states + bytes.weight +
                             (mixed && !bytes.readsWeights ? 4 : bytes.weight));
  return (kernel.bytes > 0 ? computeSeconds(device, kernel) : 0) + hostUpdateSeconds(device, elements, bytes);
}

StateBytes kerf::stateBytes(std::string_view dtype, std::string_view gradientDtype, double moments,
                            OptimizerStates states) {
  if (dtype == "f64")
    return {8, 8, 8 * moments};
  if (dtype == "f32")
    return {4, 4, 4 * moments};
  double weight = 2; // f8 training multiplies 8-bit copies of 16-bit weights
  const StatesRecord &kept = kStatesRecords[static_cast<size_t>(states)];
  return {weight, gradientDtype == "f32" ? 4.0 : 2.0, kept.master + kept.moment * moments,
          kept.hostMaster + kept.hostMoment * moments, states != OptimizerStates::Device};
}
