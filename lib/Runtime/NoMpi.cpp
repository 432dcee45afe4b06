// SPDX-License-Identifier: Apache-2.0
// Takes the place of MpiCommunicator.cpp in a build without MPI (the option KERF_MPI).
#include "kerf/Runtime/Communicator.h"

namespace kerf::runtime {

Result<std::unique_ptr<Communicator>> createMpiCommunicator() {
  return Error{"this process was started by mpirun or srun, but this Kerf was built without MPI; start the ranks with "
               "torchrun (docs/several-nodes.md), or build Kerf from its sources"};
}

} // namespace kerf::runtime
