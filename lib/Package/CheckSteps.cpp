// SPDX-License-Identifier: Apache-2.0
#include "CheckSteps.h"
#include "kerf/Package/FlatProgram.h"

#include <fmt/format.h>
#include <set>

namespace kerf::package {

namespace {
/// Limit on the streams of a stage: on a device whose streams are threads, each stream is a thread.
constexpr size_t kMostStreams = 32;

/// An entry of a stage's list of steps that begins or awaits one side of a transfer.
struct Message {
  FlatInstruction::Kind kind = FlatInstruction::Kind::Send;
  int64_t number = -1;
};

Status checkStreams(const StepList &list) {
  std::set<std::string_view> streams;
  for (const StepEntry &entry : list)
    streams.insert(entry.stream);
  if (streams.contains("compute"))
    return Error{"an entry names the stream 'compute'; leave the name out for the stream of kernels"};
  if (streams.size() > kMostStreams)
    return Error{fmt::format("it uses {} streams, but at most {} are allowed", streams.size(), kMostStreams)};
  return ok();
}

/// Checks that the stages cannot deadlock, by stepping each stage as far as possible: a receive requires that the
/// message has been sent, and the wait for a send requires that the message is being received. If all stages reach
/// their ends, no circular wait is possible at any speed, because everything awaited comes earlier in the order of
/// this walk.
Status checkMessages(const std::vector<std::vector<Message>> &stages, int64_t messages) {
  using Kind = FlatInstruction::Kind;
  std::vector<bool> sent(size_t(messages), false), received(size_t(messages), false);
  std::vector<size_t> at(stages.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < stages.size(); ++s)
      for (; at[s] < stages[s].size(); ++at[s], moved = true) {
        auto [kind, number] = stages[s][at[s]];
        if ((kind == Kind::Receive && !sent[size_t(number)]) || (kind == Kind::Sent && !received[size_t(number)]))
          break;
        if (kind == Kind::Send)
          sent[size_t(number)] = true;
        if (kind == Kind::Receive)
          received[size_t(number)] = true;
      }
  }
  for (size_t s = 0; s < stages.size(); ++s)
    if (at[s] < stages[s].size())
      return Error{fmt::format("program, steps: stage {} would wait forever for another stage to {} message {}", s,
                               stages[s][at[s]].kind == Kind::Receive ? "send" : "receive", stages[s][at[s]].number)};
  return ok();
}
} // namespace

Status checkSteps(const Program &program) {
  if (program.steps.size() != size_t(stagesOf(program)))
    return Error{
        fmt::format("program: it has {} stages, but {} lists of steps", stagesOf(program), program.steps.size())};
  const Expansion expansion = expand(program);
  std::vector<std::vector<Message>> messages(program.steps.size());
  for (size_t stage = 0; stage < program.steps.size(); ++stage) {
    if (Status status = checkStreams(program.steps[stage]); !status)
      return Error{fmt::format("program, steps of stage {}: {}", stage, status.error().message)};
    auto flat = flatten(program, expansion, int64_t(stage), program.steps[stage]);
    if (!flat)
      return flat.error();
    for (const FlatInstruction &instruction : flat->body)
      if (instruction.message >= 0)
        messages[stage].push_back({instruction.kind, instruction.message});
  }
  return checkMessages(messages, expansion.messages);
}

} // namespace kerf::package
