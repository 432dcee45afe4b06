// SPDX-License-Identifier: Apache-2.0
// "Trace Event Format" (Google, 2016): complete events ("ph": "X") in microseconds, named processes and threads.
#include "Trace.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace kerf::runtime {

namespace {
using Json = nlohmann::ordered_json;
constexpr int64_t kTraceTag = 3;
constexpr double kMicroseconds = 1e6;

/// Gathers the bytes `mine` of all ranks on rank 0, in the order of the ranks. Returns an empty list on other ranks.
Result<std::vector<std::vector<std::byte>>> gathered(Communicator &communicator, std::span<const std::byte> mine) {
  std::vector<std::vector<std::byte>> all;
  uint64_t size = mine.size();
  if (communicator.rank() != 0) {
    for (std::span<const std::byte> bytes : {std::as_bytes(std::span(&size, 1)), mine})
      if (Status sent = communicator.startSend(bytes, 0, kTraceTag); !sent)
        return sent.error();
    if (Status sent = communicator.finishSends(kTraceTag); !sent)
      return sent.error();
    return all;
  }
  all.emplace_back(mine.begin(), mine.end());
  for (int64_t rank = 1; rank < communicator.size(); ++rank) {
    if (Status received = communicator.receive(std::as_writable_bytes(std::span(&size, 1)), rank, kTraceTag); !received)
      return received.error();
    if (Status received = communicator.receive(all.emplace_back(size), rank, kTraceTag); !received)
      return received.error();
  }
  return all;
}

/// Sets `value` on every rank to the smallest of the ranks' values.
Status shareLeast(Communicator &communicator, double &value) {
  auto all = gathered(communicator, std::as_bytes(std::span(&value, 1)));
  if (!all)
    return all.error();
  if (communicator.rank() != 0)
    return communicator.receive(std::as_writable_bytes(std::span(&value, 1)), 0, kTraceTag);
  for (const std::vector<std::byte> &bytes : *all) {
    double other = 0;
    std::memcpy(&other, bytes.data(), sizeof(other));
    value = std::min(value, other);
  }
  for (int64_t rank = 1; rank < communicator.size(); ++rank)
    if (Status sent = communicator.startSend(std::as_bytes(std::span(&value, 1)), rank, kTraceTag); !sent)
      return sent;
  return communicator.finishSends(kTraceTag);
}

/// Returns one rank's events as JSON text without the enclosing brackets. Times are relative to `start`.
std::string eventsOf(int64_t rank, int64_t stage, const std::vector<Span> &spans, const OverlapTimes &overlap,
                     double start) {
  std::map<std::string, int> threads = {{"compute", 0}};
  for (const Span &span : spans)
    threads.emplace(span.stream, int(threads.size()));
  std::string text;
  auto add = [&](const Json &event) {
    text += (text.empty() ? "" : ",\n") + event.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  add({{"ph", "M"},
       {"name", "process_name"},
       {"pid", rank},
       {"args", {{"name", fmt::format("rank {} of stage {}", rank, stage)}}}});
  add({{"ph", "M"},
       {"name", "process_labels"},
       {"pid", rank},
       {"args",
        {{"labels", fmt::format("communication {:.3f} ms, {:.3f} ms hidden, {:.3f} ms exposed", overlap.seconds * 1e3,
                                overlap.hiddenSeconds * 1e3, overlap.exposedSeconds() * 1e3)}}}});
  for (const auto &[name, thread] : threads)
    add({{"ph", "M"}, {"name", "thread_name"}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}});
  for (const Span &span : spans)
    add({{"ph", "X"},
         {"name", span.name},
         {"pid", rank},
         {"tid", threads.at(span.stream)},
         {"ts", (span.start - start) * kMicroseconds},
         {"dur", span.seconds * kMicroseconds},
         {"args", {{"op", span.op}, {"microbatch", span.microbatch}}}});
  return text;
}
} // namespace

Result<std::string> chromeTrace(Communicator &communicator, int64_t stage, const std::vector<Span> &spans,
                                const OverlapTimes &overlap) {
  double start = spans.empty() ? 0 : spans[0].start;
  for (const Span &span : spans)
    start = std::min(start, span.start);
  if (Status status = shareLeast(communicator, start); !status)
    return status.error();
  std::string mine = eventsOf(communicator.rank(), stage, spans, overlap, start);
  auto all = gathered(communicator, std::as_bytes(std::span(mine)));
  if (!all)
    return all.error();
  std::string text;
  for (const std::vector<std::byte> &events : *all)
    text += fmt::format("{}{}", text.empty() ? "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" : ",\n",
                        std::string_view(reinterpret_cast<const char *>(events.data()), events.size()));
  return text.empty() ? text : text + "\n]}\n";
}

} // namespace kerf::runtime
