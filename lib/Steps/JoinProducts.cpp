// SPDX-License-Identifier: Apache-2.0
#include "JoinProducts.h"
#include "kerf/Package/JoinedInstruction.h"

#include <algorithm>

namespace kerf::steps {

namespace {
using package::EpilogueKind;
using package::FlatInstruction;
using package::FlatProgram;

class Joiner {
public:
  explicit Joiner(FlatProgram &flat)
      : flat(flat), uses(flat.values.size()), isResult(flat.values.size(), false), maker(flat.values.size(), -1),
        isMember(flat.body.size(), false) {
    for (size_t i = 0; i < flat.body.size(); ++i) {
      place.push_back(i);
      messagesBefore.push_back(messages);
      messages += flat.body[i].kind != FlatInstruction::Kind::Op;
      for (int operand : flat.body[i].operands)
        uses[size_t(operand)].push_back(i);
      for (int result : flat.body[i].results)
        maker[size_t(result)] = int64_t(i);
    }
    for (int result : flat.results)
      if (result >= 0)
        isResult[size_t(result)] = true;
  }

  int64_t run() {
    // The sums of a result belong to the product that makes it, so products with a chain come first.
    std::vector<std::vector<size_t>> groups(flat.body.size());
    for (auto find : {&Joiner::withChain, &Joiner::withSums})
      for (size_t i = 0; i < flat.body.size(); ++i) {
        if (!isProduct(flat.body[i]) || isMember[i])
          continue;
        groups[i] = (this->*find)(i);
        for (size_t member : groups[i]) {
          isMember[member] = true;
          place[member] = i;
        }
        if (!groups[i].empty())
          isMember[i] = true;
      }
    std::vector<FlatInstruction> body;
    int64_t count = 0;
    std::vector<bool> isMoved(flat.body.size(), false);
    for (const std::vector<size_t> &group : groups)
      for (size_t member : group)
        isMoved[member] = true;
    for (size_t i = 0; i < flat.body.size(); ++i) {
      if (isMoved[i])
        continue;
      if (groups[i].empty()) {
        body.push_back(std::move(flat.body[i]));
        continue;
      }
      std::vector<FlatInstruction> group = {std::move(flat.body[i])};
      for (size_t member : groups[i])
        group.push_back(std::move(flat.body[member]));
      body.push_back(package::joinedInstruction(flat.values, group));
      ++count;
    }
    flat.body = std::move(body);
    return count;
  }

private:
  static bool isProduct(const FlatInstruction &instruction) {
    return instruction.kind == FlatInstruction::Kind::Op && instruction.source->op == package::kProduct;
  }
  std::optional<package::ProductEpilogue> epilogueOf(std::initializer_list<size_t> members) const {
    std::vector<FlatInstruction> group;
    for (size_t member : members)
      group.push_back(flat.body[member]);
    return package::epilogueOf(flat.values, group);
  }

  /// Returns whether both instructions belong to one task, with no message between stages among those between them.
  bool isNear(size_t a, size_t b) const {
    const FlatInstruction &first = flat.body[a], &second = flat.body[b];
    return !isMember[b] && first.microbatch == second.microbatch && first.call == second.call &&
           first.source->task == second.source->task && messagesBefore[a] == messagesBefore[b];
  }
  /// Returns whether instruction `from` may run directly after the product at `to`, whose results it may read, or those
  /// of the instruction `also` that runs between both.
  bool mayMove(size_t from, size_t to, int64_t also = -1) const {
    if (!isNear(to, from))
      return false;
    if (from < to)
      return std::all_of(flat.body[from].results.begin(), flat.body[from].results.end(), [&](int result) {
        return std::all_of(uses[size_t(result)].begin(), uses[size_t(result)].end(),
                           [&](size_t user) { return place[user] > to; });
      });
    return std::all_of(flat.body[from].operands.begin(), flat.body[from].operands.end(), [&](int operand) {
      int64_t made = maker[size_t(operand)];
      return made < 0 || place[size_t(made)] <= to || made == also;
    });
  }

  /// Returns the instructions that read the product's result and its epilogue's; empty if there is no epilogue.
  std::vector<size_t> withChain(size_t at) {
    const std::vector<size_t> &users = uses[size_t(flat.body[at].results[0])];
    if (users.size() != 1 || isResult[size_t(flat.body[at].results[0])] || !mayMove(users[0], at))
      return {};
    size_t chain = users[0];
    auto epilogue = epilogueOf({at, chain});
    if (!epilogue || epilogue->kind == EpilogueKind::FactorSums)
      return {};
    if (epilogue->kind == EpilogueKind::GeluGradient)
      for (size_t sums : uses[size_t(epilogue->result)])
        if (epilogueOf({at, chain, sums}) && mayMove(sums, at, int64_t(chain)))
          return {chain, sums};
    return {chain};
  }

  /// Returns the instruction that sums a factor of the product; empty if there is none.
  std::vector<size_t> withSums(size_t at) {
    for (int factor : flat.body[at].operands)
      for (size_t sums : uses[size_t(factor)])
        if (sums != at)
          if (auto epilogue = epilogueOf({at, sums}))
            if (epilogue->kind == EpilogueKind::FactorSums && mayMove(sums, at))
              return {sums};
    return {};
  }

  FlatProgram &flat;
  std::vector<std::vector<size_t>> uses; // for each value: the instructions that read it
  std::vector<bool> isResult;            // for each value: whether it is a result of the step
  std::vector<int64_t> maker;            // for each value: the instruction that makes it; -1 for arguments
  std::vector<size_t> place;             // for each instruction: its position after the moves, or that of its product
  std::vector<int64_t> messagesBefore;   // for each instruction: the number of messages before it
  int64_t messages = 0;
  std::vector<bool> isMember; // for each instruction: whether it belongs to a group
};
} // namespace

int64_t joinProducts(FlatProgram &flat) { return Joiner(flat).run(); }

} // namespace kerf::steps
