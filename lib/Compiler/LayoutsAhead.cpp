// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/LayoutsAhead.h"

#include <new>
#include <system_error>

namespace kerf {

LayoutsAhead::~LayoutsAhead() {
  {
    std::lock_guard lock(mutex);
    ends = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void LayoutsAhead::expect(std::span<const LayoutKey> layouts) {
  std::unique_lock lock(mutex);
  waiting.assign(layouts.rbegin(), layouts.rend());
  try {
    while (!waiting.empty() && static_cast<int>(threads.size()) < count)
      threads.emplace_back([this] { work(); });
  } catch (const std::system_error &) { // the system has no further thread: those that there are do the work
    count = static_cast<int>(threads.size());
  }
  changed.notify_all();
  if (layouts.empty())
    changed.wait(lock, [&] { return busy == 0; });
}

std::optional<LayoutKey> LayoutsAhead::take() {
  std::lock_guard lock(mutex);
  if (waiting.empty())
    return std::nullopt;
  LayoutKey next = waiting.back();
  waiting.pop_back();
  return next;
}

void LayoutsAhead::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ends || !waiting.empty(); });
    if (ends)
      return;
    LayoutKey next = waiting.back();
    waiting.pop_back();
    ++busy;
    lock.unlock();
    try {
      compute(next);
    } catch (const std::bad_alloc &) { // whoever asks for the layout computes it again, and reports what fails
    }
    lock.lock();
    if (--busy == 0)
      changed.notify_all();
  }
}

} // namespace kerf
