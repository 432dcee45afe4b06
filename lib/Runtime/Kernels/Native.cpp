// SPDX-License-Identifier: Apache-2.0
// A kernel of the package's own code as an instruction.
#include "kerf/Runtime/Native.h"
#include "Families.h"

namespace kerf::runtime::kernels {

Result<Planned> planNative(const BindRequest &request) {
  const NativeKernel &kernel = *request.native;
  std::vector<void *> buffers;
  for (const std::vector<TensorView> *views : {&request.operands, &request.results})
    for (const TensorView &view : *views)
      buffers.push_back(view.data);
  int64_t units = request.results[0].elements() == 0 ? 0 : kernel.space.units();
  int64_t unitsOfTask = rowsOfTask(kernel.space.elementsOfUnit());
  return Planned{[buffers = std::move(buffers), units, unitsOfTask, entry = kernel.entry, routines = kernel.routines,
                  team = request.team] {
    forPieces(team, units, unitsOfTask,
              [&](int64_t begin, int64_t end) { entry(buffers.data(), routines, begin, end); });
    return ok();
  }};
}

} // namespace kerf::runtime::kernels
