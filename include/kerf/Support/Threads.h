// SPDX-License-Identifier: Apache-2.0
// Work that several threads share.
#pragma once

#include <functional>

namespace kerf {

/// Runs `work` on this thread and, at the same time, on others: on as many threads as this machine has processors, but
/// at most `most`. Returns when all have ended. Where the system starts fewer threads, these do all the work, so `work`
/// has to take its next piece from a counter. An exception of `work` is rethrown here.
void onThreads(unsigned most, const std::function<void()> &work);

} // namespace kerf
