// SPDX-License-Identifier: Apache-2.0
#include "Exchanges.h"
#include "../Attributes.h"
#include "../Cpu/CollectivePhases.h"

#include <algorithm>

namespace kerf::runtime {

namespace {
/// Hands out scratch memory. With a null base the bytes are only counted. Every phase begins at the base again, because
/// the work of a stream is done in order.
class Scratch {
public:
  Scratch(void *base, int64_t alignment) : alignment(alignment), base(static_cast<std::byte *>(base)) {}
  std::byte *take(int64_t bytes) {
    std::byte *piece = base ? base + used : nullptr;
    used += aligned(bytes);
    most = std::max(most, used);
    return piece;
  }
  void beginPhase() { used = 0; }
  int64_t mostBytes() const { return most; }
  int64_t aligned(int64_t bytes) const { return (bytes + alignment - 1) / alignment * alignment; }
  const int64_t alignment;

private:
  std::byte *base;
  int64_t used = 0, most = 0;
};

/// The rounds of one phase of all collectives of a bucket: the reductions and the movements without a reduction, or the
/// movements behind the reductions.
class PhasePlanner {
public:
  PhasePlanner(Scratch &scratch, int64_t self) : scratch(scratch), self(self) { scratch.beginPhase(); }

  std::vector<ExchangeRound> rounds;

  /// Chooses the collective that is planned next: its number in the bucket, its ranks, and the bytes of a piece.
  void begin(size_t number, const Members &ranks, int64_t bytes) {
    group = number;
    members = &ranks;
    pieceBytes = bytes;
  }
  /// Fills the result with zeros before the first round.
  void fillWithZeros(const TensorView &result) { round(0).before.emplace_back(ZeroStep{result}); }

  void addMove(const MovePhase &phase) {
    addSends(phase);
    for (const MovePhase::Incoming &in : phase.incoming) {
      if (in.peer == self) {
        if (in.unpack.bytes() > 0)
          copy(round(0).after, in.unpack, {0, in.unpack.bytes()}, DenseSide::None, phase.source, phase.result);
        continue;
      }
      bool straight = in.unpack.contiguous();
      std::byte *received = straight ? nullptr : scratch.take(std::min(pieceBytes, in.unpack.bytes()));
      eachPiece(in.unpack.bytes(), [&](ExchangeRound &round, ByteRange range) {
        std::byte *to = straight ? phase.result + in.unpack.toOffset() + range.begin : received;
        round.receives.push_back({to, range.bytes(), positionOf(in.peer), group});
        if (!straight)
          copy(round.after, in.unpack, range, DenseSide::Source, received, phase.result);
      });
    }
  }

  void addReduce(const ReducePhase &phase, DType dtype) {
    addSends(phase);
    const int64_t bytes = phase.packOwn.bytes(), apart = scratch.aligned(std::min(pieceBytes, bytes));
    if (phase.elements == 0)
      return;
    bool isPacked = !phase.packOwn.contiguous(), isUnpacked = !phase.unpack.contiguous();
    std::byte *received = scratch.take(apart * int64_t(phase.members.size()));
    std::byte *packed = isPacked ? scratch.take(apart) : nullptr, *sum = isUnpacked ? scratch.take(apart) : nullptr;
    eachPiece(bytes, [&](ExchangeRound &round, ByteRange range) {
      const std::byte *own = isPacked ? packed : phase.source + phase.packOwn.fromOffset() + range.begin;
      if (isPacked)
        copy(round.before, phase.packOwn, range, DenseSide::Target, phase.source, packed);
      std::byte *to = isUnpacked ? sum : phase.result + phase.unpack.toOffset() + range.begin;
      AddStep add{phase.reducer.kind(),          dtype, int32_t(phase.members.size()), 0, own, received, apart, to,
                  range.bytes() / bytesOf(dtype)};
      for (size_t i = 0; i < phase.members.size(); ++i)
        if (phase.members[i] == self)
          add.own = int32_t(i);
        else
          round.receives.push_back({received + int64_t(i) * apart, range.bytes(), positionOf(phase.members[i]), group});
      round.after.emplace_back(add);
      if (isUnpacked)
        copy(round.after, phase.unpack, range, DenseSide::Source, sum, phase.result);
    });
  }

private:
  ExchangeRound &round(size_t number) {
    if (rounds.size() <= number)
      rounds.resize(number + 1);
    return rounds[number];
  }
  int positionOf(int64_t rank) const {
    return int(std::find(members->begin(), members->end(), rank) - members->begin());
  }
  /// Calls visit(round, range) for each piece of a box of `bytes` bytes. The sender and the receiver of a box cut it in
  /// the same way, and the n-th piece goes in the n-th round.
  template <typename F> void eachPiece(int64_t bytes, F visit) {
    for (int64_t begin = 0, number = 0; begin < bytes; begin += pieceBytes, ++number)
      visit(round(size_t(number)), ByteRange{begin, std::min(begin + pieceBytes, bytes)});
  }
  static void copy(std::vector<ExchangeStep> &steps, const BoxCopy &box, ByteRange range, DenseSide dense,
                   const std::byte *from, std::byte *to) {
    for (BoxPart &part : partsOf(box, range, dense))
      steps.emplace_back(CopyStep{std::move(part), from, to});
  }
  void addSends(const Phase &phase) {
    const Outgoing *last = nullptr; // the last box that was packed
    std::byte *packed = nullptr;
    for (const Outgoing &out : phase.outgoing) {
      bool straight = out.pack.contiguous();
      bool isNew = !straight && !(last && packAlike(last->pack, out.pack)); // an all_gather sends one box to all
      if (isNew)
        packed = scratch.take(std::min(pieceBytes, out.pack.bytes()));
      eachPiece(out.pack.bytes(), [&](ExchangeRound &round, ByteRange range) {
        if (isNew)
          copy(round.before, out.pack, range, DenseSide::Target, phase.source, packed);
        auto *data = straight ? const_cast<std::byte *>(phase.source) + out.pack.fromOffset() + range.begin : packed;
        round.sends.push_back({data, range.bytes(), positionOf(out.peer), group});
      });
      if (isNew)
        last = &out;
    }
  }

  Scratch &scratch;
  int64_t self; // number of this rank
  size_t group = 0;
  const Members *members = nullptr;
  int64_t pieceBytes = 0;
};

/// Returns, for each collective of a bucket, the ranks of its process group.
Result<std::vector<Members>> groupsOf(const CollectiveRequest &request) {
  const KernelRequest &bind = request.bind;
  std::vector<const package::Instruction *> instructions = {&bind.instruction};
  instructions.insert(instructions.end(), request.others.begin(), request.others.end());
  std::vector<Members> groups;
  for (const package::Instruction *instruction : instructions) {
    auto axes = axesAttribute(*instruction, "axes", bind.mesh);
    if (!axes)
      return axes.error();
    groups.push_back(groupOf(bind.mesh, *axes, bind.rank));
    for (int64_t &rank : groups.back())
      rank = package::realRank(bind.mesh, rank);
  }
  return groups;
}

const package::Instruction &instructionOf(const CollectiveRequest &request, size_t number) {
  return number == 0 ? request.bind.instruction : *request.others[number - 1];
}

/// Returns the bytes of a piece of the boxes of a collective, which depend on nothing that differs between its ranks.
int64_t pieceBytesOf(const CollectiveOptions &options, int64_t alignment, size_t ranks, size_t collectives) {
  int64_t bytes = options.receivedBytes / int64_t(ranks * collectives);
  return std::max(bytes / alignment * alignment, alignment);
}

/// Returns whether the movement of a collective needs no scratch memory on any rank, because all of its boxes are
/// contiguous. It is not cut into pieces.
bool movesContiguously(const package::Instruction &instruction) {
  return instruction.op == "all_reduce" || instruction.op == "collective_permute" || instruction.op == "ring_shift";
}
} // namespace

Result<ExchangePlan> planExchanges(const CollectiveRequest &request, const CollectiveOptions &options,
                                   int64_t alignment,
                                   const std::function<bool(size_t i, const CheckedCollective &)> &isNative) {
  auto groups = groupsOf(request);
  if (!groups)
    return groups.error();
  auto phases = planCollective(request);
  if (!phases)
    return phases.error();
  ExchangePlan plan;
  plan.groups = std::move(*groups);
  std::vector<bool> native;
  for (size_t c = 0; c < plan.groups.size(); ++c)
    native.push_back(isNative(c, {instructionOf(request, c), request.bind.operands[c], request.bind.results[c],
                                  int64_t(plan.groups[c].size())}));
  Scratch scratch(request.bind.scratch, alignment);
  const int64_t self = package::realRank(request.bind.mesh, request.bind.rank);
  for (bool behindReductions : {false, true}) {
    PhasePlanner planner(scratch, self);
    for (size_t c = 0; c < plan.groups.size(); ++c) {
      const PlannedCollective &one = phases->collectives[c];
      if (native[c])
        continue;
      int64_t pieceBytes = pieceBytesOf(options, alignment, plan.groups[c].size(), plan.groups.size());
      planner.begin(c, plan.groups[c], pieceBytes);
      if (one.zeroFirst && !behindReductions)
        planner.fillWithZeros(one.result);
      if (one.reduce && !behindReductions)
        planner.addReduce(*one.reduce, one.result.dtype);
      if (!one.move || one.reduce.has_value() != behindReductions)
        continue;
      if (movesContiguously(instructionOf(request, c)))
        planner.begin(c, plan.groups[c], std::max<int64_t>(request.bind.operands[c].bytes(), 1));
      planner.addMove(*one.move);
    }
    std::move(planner.rounds.begin(), planner.rounds.end(), std::back_inserter(plan.rounds));
  }
  bool hasNative = std::find(native.begin(), native.end(), true) != native.end();
  if (plan.rounds.empty() && hasNative)
    plan.rounds.emplace_back();
  plan.scratchBytes = scratch.mostBytes();
  return plan;
}

} // namespace kerf::runtime
