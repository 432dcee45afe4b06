// SPDX-License-Identifier: Apache-2.0
// A scope in which OpenMP, and with it oneDNN, runs on the calling thread alone.
#pragma once

#include <omp.h>

namespace kerf::runtime::kernels {

/// Limits OpenMP on the calling thread to one thread for the lifetime of the object. Without it, oneDNN's OpenMP
/// team would have one spinning thread per core in every rank, while each rank shares its work among the threads of
/// its own ThreadTeam.
class SingleThreadScope {
public:
  SingleThreadScope() : before(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreadScope() { omp_set_num_threads(before); }
  SingleThreadScope(const SingleThreadScope &) = delete;
  SingleThreadScope &operator=(const SingleThreadScope &) = delete;

private:
  int before;
};

} // namespace kerf::runtime::kernels
