// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <omp.h>

namespace kerf::runtime::kernels {

/// oneDNN's OpenMP team would have a thread per core in every rank. A rank's threads are its own: each one that calls
/// oneDNN is a team by itself, and nothing spins.
class OneThread {
public:
  OneThread() : before(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before); }
  OneThread(const OneThread &) = delete;
  OneThread &operator=(const OneThread &) = delete;

private:
  int before;
};

} // namespace kerf::runtime::kernels
