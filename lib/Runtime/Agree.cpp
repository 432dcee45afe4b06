// SPDX-License-Identifier: Apache-2.0
#include "kerf/Runtime/Communicator.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <string>
#include <vector>

namespace kerf::runtime {

namespace {
constexpr int64_t kSizeTag = 0, kTextTag = 1;

/// Sends this rank's text to all ranks, and receives all ranks' texts in the order of the ranks.
Status exchangeTexts(Communicator &communicator, const std::string &mine, const uint64_t &mineSize,
                     std::vector<std::string> &texts) {
  for (int64_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer == communicator.rank())
      continue;
    if (Status sent = communicator.startSend(std::as_bytes(std::span(&mineSize, 1)), peer, kSizeTag); !sent)
      return sent;
    if (Status sent = mineSize ? communicator.startSend(std::as_bytes(std::span(mine)), peer, kTextTag) : ok(); !sent)
      return sent;
  }
  for (int64_t peer = 0; peer < communicator.size(); ++peer) {
    std::string &text = texts.emplace_back(mine);
    if (peer == communicator.rank())
      continue;
    uint64_t size = 0;
    if (Status received = communicator.receive(std::as_writable_bytes(std::span(&size, 1)), peer, kSizeTag); !received)
      return received;
    text.resize(size);
    if (Status received = size ? communicator.receive(std::as_writable_bytes(std::span(text)), peer, kTextTag) : ok();
        !received)
      return received;
  }
  return ok();
}
} // namespace

Status agree(Communicator &communicator, const Status &status) {
  std::string mine = status ? "" : char('0' + int(status.error().status)) + status.error().message;
  uint64_t mineSize = mine.size();
  std::vector<std::string> texts;
  Status exchanged = exchangeTexts(communicator, mine, mineSize, texts);
  for (int64_t tag : {kSizeTag, kTextTag})
    if (Status sent = communicator.finishSends(tag); !sent && exchanged)
      exchanged = sent;
  if (!exchanged)
    return exchanged;
  auto first = std::find_if(texts.begin(), texts.end(), [](const std::string &text) { return !text.empty(); });
  if (first == texts.end())
    return ok();
  Error error{first->substr(1), ExitStatus(first->front() - '0')};
  if (std::any_of(texts.begin(), texts.end(), [&](const std::string &text) { return text != *first; }))
    error.message = fmt::format("rank {}: {}", first - texts.begin(), error.message);
  return error;
}

} // namespace kerf::runtime
