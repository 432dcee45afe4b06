// SPDX-License-Identifier: Apache-2.0
// Plans the phases of collectives (CollectivePhases.h) from instructions. A collective has at most two phases. In a
// bucket of collectives, all first phases send before any of them receives, and each second phase sends as soon as the
// first phase of its collective is done.
#include "kerf/Runtime/Cpu/Collectives.h"
#include "../Attributes.h"
#include "CollectivePhases.h"
#include "kerf/Support/Collectives.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <random>

namespace kerf::runtime {

namespace {
/// Largest tensor in bytes for which every rank of an all_reduce sends its whole tensor to every other rank, which
/// costs one latency instead of two. On two cores with threads, the measured break-even point lies between 2 and 16
/// KiB. The result has the same bits either way.
constexpr int64_t kSmallReduceBytes = 4096;

/// Assigns pieces of the scratch memory. The first `receiving` bytes are for the pieces that a phase needs while it
/// receives, and every phase reuses them. The bytes behind them are for data that is being sent. If `base` is null, the
/// sizes are only counted.
class Scratch {
public:
  Scratch(void *base, int64_t receiving) : base(static_cast<std::byte *>(base)), receiving(receiving) {}
  void beginPhase() { phaseBytes = 0; }
  /// Returns a piece that the present phase needs while it receives.
  std::byte *take(int64_t size) {
    std::byte *piece = base ? base + phaseBytes : nullptr;
    phaseBytes += aligned(size);
    largestPhaseBytes = std::max(largestPhaseBytes, phaseBytes);
    return piece;
  }
  /// Returns a piece for data that is being sent.
  std::byte *takeForSend(int64_t size) {
    std::byte *piece = base ? base + receiving + sending : nullptr;
    sending += aligned(size);
    return piece;
  }
  int64_t largestPhaseBytes = 0; // bytes that the phase with the largest need takes while it receives
  int64_t sending = 0;           // bytes for data that is being sent

private:
  static int64_t aligned(int64_t size) { return (size + 63) / 64 * 64; }
  std::byte *base;
  int64_t receiving, phaseBytes = 0;
};

/// Returns the elements of piece number `index` if `size` elements are cut into pieces of `chunk` elements.
int64_t pieceOf(int64_t size, int64_t chunk, int64_t index) {
  return std::clamp<int64_t>(size - index * chunk, 0, chunk);
}

/// Returns an index of `rank` dimensions that is `begin` in dimension `dim` and 0 elsewhere.
Shape at(size_t rank, size_t dim, int64_t begin) {
  Shape shape(rank, 0);
  if (rank)
    shape[dim] = begin;
  return shape;
}

/// The communicator of a collective, the first of its two tags, and the order of its sums. While only sizes are
/// computed, there is no communicator.
struct CollectiveContext {
  Communicator *communicator = nullptr;
  int64_t tag = 0;
  SumOrderSeed order;
};

/// Builds the phases of one collective.
class Builder {
public:
  Builder(const CollectiveContext &context, const KernelRequest &bind, std::vector<int64_t> members, Scratch &scratch)
      : context(context), members(std::move(members)), scratch(scratch), operand(bind.operands[0]),
        result(bind.results[0]), elementBytes(bytesOf(operand.dtype)) {
    int64_t self = package::realRank(bind.mesh, bind.rank);
    position = std::find(this->members.begin(), this->members.end(), self) - this->members.begin();
    plan.result = result;
  }

  PlannedCollective plan;
  /// Returns the number of ranks in the process group.
  int64_t groupSize() const { return int64_t(members.size()); }

  /// Plans the reduction in which each rank combines one piece. `shape` is cut along `dim` into pieces of
  /// `chunk` elements. This rank's piece goes to index `resultBegin` along `dim` of the result, which has
  /// the shape `resultShape`.
  void reduce(ReduceKind kind, const Shape &shape, size_t dim, int64_t chunk, const Shape &resultShape,
              int64_t resultBegin) {
    ReducePhase phase;
    open(phase, 0, operand.data);
    auto box = [&](int64_t index) {
      Shape counts = shape;
      counts[dim] = pieceOf(shape[dim], chunk, index);
      return packBox(shape, at(shape.size(), dim, counts[dim] ? index * chunk : 0), counts, elementBytes);
    };
    for (int64_t step = 1; step < groupSize(); ++step) {
      int64_t index = (position + step) % groupSize();
      send(phase, members[size_t(index)], box(index));
    }
    Shape counts = shape;
    counts[dim] = pieceOf(shape[dim], chunk, position);
    phase.members = summationOrder();
    phase.elements = elementsOf(counts);
    phase.packOwn = box(position);
    phase.unpack = unpackBox(resultShape, at(shape.size(), dim, counts[dim] ? resultBegin : 0), counts, elementBytes);
    phase.reducer = Reducer(operand.dtype, kind);
    phase.result = static_cast<std::byte *>(result.data);
    int64_t bytes = phase.packOwn.bytes();
    phase.own = phase.packOwn.contiguous() ? nullptr : scratch.take(bytes);
    phase.received = scratch.take(bytes);
    phase.sum = phase.unpack.contiguous() ? nullptr : scratch.take(bytes);
    phase.wide = phase.reducer.wideBytes() ? scratch.take(phase.elements * phase.reducer.wideBytes()) : nullptr;
    plan.reduce = std::move(phase);
  }

  /// Plans the movement in which each rank sends one box to all others. The box of the rank at position i of the group
  /// has count(i) elements along `dim`, and goes to index i * chunk along `dim` of the result.
  template <typename Count>
  void gather(const void *source, const Shape &sourceShape, int64_t sourceBegin, const Shape &resultShape, size_t dim,
              int64_t chunk, Count count) {
    MovePhase phase;
    open(phase, 1, source);
    auto counts = [&](int64_t index) {
      Shape box = sourceShape;
      box[dim] = count(index);
      return box;
    };
    BoxCopy pack = packBox(sourceShape, at(sourceShape.size(), dim, sourceBegin), counts(position), elementBytes);
    std::byte *packed = pack.contiguous() ? nullptr : scratch.takeForSend(pack.bytes());
    int64_t most = 0;
    for (int64_t step = 0; step < groupSize(); ++step) {
      int64_t to = (position + step) % groupSize(), from = (position + groupSize() - step) % groupSize();
      if (step)
        phase.outgoing.push_back({members[size_t(to)], pack, packed});
      Shape box = counts(from), begin = at(box.size(), dim, from * chunk);
      BoxCopy unpack =
          step ? unpackBox(resultShape, begin, box, elementBytes)
               : BoxCopy(sourceShape, at(box.size(), dim, sourceBegin), resultShape, begin, box, elementBytes);
      if (step && !unpack.contiguous())
        most = std::max(most, unpack.bytes());
      if (step || source != result.data) // in an all_reduce, this rank's own piece is already in place
        phase.incoming.push_back({members[size_t(from)], unpack});
    }
    phase.received = scratch.take(most);
    phase.result = static_cast<std::byte *>(result.data);
    plan.move = std::move(phase);
  }

  void allReduce(ReduceKind kind) {
    int64_t elements = operand.elements();
    if (operand.bytes() <= kSmallReduceBytes || groupSize() == 1) {
      // Each rank combines the whole tensor by itself.
      ReducePhase phase;
      open(phase, 0, operand.data);
      BoxCopy whole = packBox({elements}, {0}, {elements}, elementBytes);
      for (int64_t step = 1; step < groupSize(); ++step)
        phase.outgoing.push_back({members[size_t((position + step) % groupSize())], whole, nullptr});
      phase.members = summationOrder();
      phase.elements = elements;
      phase.packOwn = phase.unpack = whole;
      phase.reducer = Reducer(operand.dtype, kind);
      phase.result = static_cast<std::byte *>(result.data);
      phase.received = scratch.take(operand.bytes());
      phase.wide = phase.reducer.wideBytes() ? scratch.take(elements * phase.reducer.wideBytes()) : nullptr;
      plan.reduce = std::move(phase);
      return;
    }
    int64_t chunk = (elements + groupSize() - 1) / groupSize();
    reduce(kind, {elements}, 0, chunk, {elements}, position * chunk);
    int64_t count = pieceOf(elements, chunk, position);
    gather(result.data, {elements}, count ? position * chunk : 0, {elements}, 0, chunk,
           [=](int64_t index) { return pieceOf(elements, chunk, index); });
  }

  void reduceScatter(ReduceKind kind, size_t dim) {
    int64_t chunk = result.shape[dim];
    reduce(kind, operand.shape, dim, chunk, result.shape, 0);
    plan.zeroFirst = pieceOf(operand.shape[dim], chunk, position) < chunk;
  }

  void allGather(size_t dim) {
    int64_t chunk = operand.shape[dim], size = result.shape[dim];
    gather(operand.data, operand.shape, 0, result.shape, dim, chunk,
           [=](int64_t index) { return pieceOf(size, chunk, index); });
  }

  void allToAll(size_t dim, size_t otherDim) {
    MovePhase phase;
    open(phase, 1, operand.data);
    int64_t length = operand.shape[dim], cut = result.shape[otherDim];
    auto counts = [&](int64_t from, int64_t to) {
      Shape box = operand.shape;
      box[dim] = pieceOf(result.shape[dim], length, from);
      box[otherDim] = pieceOf(operand.shape[otherDim], cut, to);
      return box;
    };
    int64_t most = 0;
    for (int64_t step = 0; step < groupSize(); ++step) {
      int64_t to = (position + step) % groupSize(), from = (position + groupSize() - step) % groupSize();
      Shape sentBegin = at(operand.shape.size(), otherDim, to * cut),
            placedBegin = at(operand.shape.size(), dim, from * length);
      if (step == 0) {
        phase.incoming.push_back(
            {members[size_t(position)],
             BoxCopy(operand.shape, sentBegin, result.shape, placedBegin, counts(position, position), elementBytes)});
        continue;
      }
      send(phase, members[size_t(to)], packBox(operand.shape, sentBegin, counts(position, to), elementBytes));
      BoxCopy unpack = unpackBox(result.shape, placedBegin, counts(from, position), elementBytes);
      if (!unpack.contiguous())
        most = std::max(most, unpack.bytes());
      phase.incoming.push_back({members[size_t(from)], unpack});
    }
    phase.received = scratch.take(most);
    phase.result = static_cast<std::byte *>(result.data);
    plan.zeroFirst = pieceOf(operand.shape[otherDim], cut, position) < cut;
    plan.move = std::move(phase);
  }

  /// Plans ring_balance. The ranks' tensors together consist of 2 n halves along `dim`, where n is the group's size.
  /// Before, the rank at position p of the group has the halves 2p and 2p + 1. Afterwards, that rank has the halves p
  /// and 2n - 1 - p. With `inverse`, the halves move back.
  void balance(size_t dim, bool inverse) {
    MovePhase phase;
    open(phase, 1, operand.data);
    int64_t half = operand.shape[dim] / 2;
    struct Place {
      int64_t position, half;
    };
    auto inOrder = [](int64_t piece) { return Place{piece / 2, piece % 2}; };
    auto mirrored = [&](int64_t piece) {
      return piece < groupSize() ? Place{piece, 0} : Place{2 * groupSize() - 1 - piece, 1};
    };
    Shape counts = operand.shape;
    counts[dim] = half;
    int64_t most = 0;
    for (int64_t piece = 0; piece < 2 * groupSize(); ++piece) {
      Place from = inOrder(piece), to = mirrored(piece);
      if (inverse)
        std::swap(from, to);
      Shape begin = at(counts.size(), dim, from.half * half), placed = at(counts.size(), dim, to.half * half);
      if (from.position == position && to.position == position)
        phase.incoming.push_back(
            {members[size_t(position)], BoxCopy(operand.shape, begin, result.shape, placed, counts, elementBytes)});
      else if (from.position == position)
        send(phase, members[size_t(to.position)], packBox(operand.shape, begin, counts, elementBytes));
      else if (to.position == position) {
        BoxCopy unpack = unpackBox(result.shape, placed, counts, elementBytes);
        most = std::max(most, unpack.contiguous() ? 0 : unpack.bytes());
        phase.incoming.push_back({members[size_t(from.position)], unpack});
      }
    }
    phase.received = scratch.take(most);
    phase.result = static_cast<std::byte *>(result.data);
    plan.move = std::move(phase);
  }

  /// Plans the movement in which the rank at position i of the group gets the tensor of the rank
  /// at position sourceOf[i].
  void permute(const std::vector<int64_t> &sourceOf) {
    MovePhase phase;
    open(phase, 1, operand.data);
    Shape flat = {operand.elements()};
    BoxCopy whole = packBox(flat, {0}, flat, elementBytes);
    for (int64_t to = 0; to < groupSize(); ++to)
      if (to != position && sourceOf[size_t(to)] == position)
        phase.outgoing.push_back({members[size_t(to)], whole, nullptr});
    phase.incoming.push_back({members[size_t(sourceOf[size_t(position)])], whole});
    phase.result = static_cast<std::byte *>(result.data);
    plan.move = std::move(phase);
  }

private:
  /// Returns the ranks of the group in the order in which their values are added, which is the same on all ranks.
  std::vector<int64_t> summationOrder() const {
    std::vector<int64_t> order = members;
    if (context.order) {
      std::mt19937_64 random(*context.order + uint64_t(context.tag));
      std::shuffle(order.begin(), order.end(), random);
    }
    return order;
  }
  /// Begins a phase that sends boxes of `source`.
  void open(Phase &phase, int64_t tagOffset, const void *source) {
    scratch.beginPhase();
    phase.communicator = context.communicator;
    phase.tag = context.tag + tagOffset;
    phase.source = static_cast<const std::byte *>(source);
  }
  /// Adds a box that the phase sends to rank `peer`.
  void send(Phase &phase, int64_t peer, BoxCopy pack) {
    std::byte *packed = pack.contiguous() ? nullptr : scratch.takeForSend(pack.bytes());
    phase.outgoing.push_back({peer, std::move(pack), packed});
  }

  const CollectiveContext &context;
  std::vector<int64_t> members;
  Scratch &scratch;
  const TensorView &operand, &result;
  int64_t elementBytes, position = 0;
};

Error bad(const package::Instruction &instruction, const std::string &what) {
  return {fmt::format("{}: {}; compile the package again", instruction.op, what)};
}

/// Returns the dimension that the attribute `key` names. Fails unless the shapes of operand and result agree in all
/// other dimensions but `except`.
Result<size_t> dimension(const KernelRequest &bind, const char *key, std::optional<size_t> except = std::nullopt) {
  auto dim = integerAttribute(bind.instruction, key);
  if (!dim)
    return dim.error();
  const Shape &from = bind.operands[0].shape, &to = bind.results[0].shape;
  if (*dim < 0 || size_t(*dim) >= from.size() || from.size() != to.size())
    return bad(bind.instruction,
               fmt::format("the attribute {} is {}, which does not fit the operand {} and the result {}", key, *dim,
                           shapeText(from), shapeText(to)));
  for (size_t d = 0; d < from.size(); ++d)
    if (from[d] != to[d] && d != size_t(*dim) && d != except)
      return bad(bind.instruction,
                 fmt::format("the operand {} and the result {} differ in dimension {}, which must stay the same",
                             shapeText(from), shapeText(to), d));
  return size_t(*dim);
}

Result<ReduceKind> reduceKind(const package::Instruction &instruction) {
  for (ReduceKind kind : {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min}) {
    constexpr const char *kNames[] = {"sum", "max", "min"};
    if (auto found = instruction.attrs.find("kind"); found != instruction.attrs.end() && *found == kNames[size_t(kind)])
      return kind;
  }
  return bad(instruction, "its attribute kind must be \"sum\", \"max\" or \"min\"");
}

/// Computes, for collective_permute, the position in the group from which each position gets its new piece. A rank that
/// already holds its new piece keeps it. If several ranks hold the same piece, the ranks that need the piece are
/// distributed among them.
Result<std::vector<int64_t>> permutation(const KernelRequest &bind, const std::vector<int64_t> &members) {
  auto before = layoutAttribute(bind.instruction, "before", bind.mesh),
       after = layoutAttribute(bind.instruction, "after", bind.mesh);
  if (!before)
    return before.error();
  if (!after)
    return after.error();
  if (before->size() != after->size())
    return bad(bind.instruction, fmt::format("before has {} dimensions, after {}", before->size(), after->size()));
  auto piece = [&](const std::vector<std::vector<AxisRef>> &layout, int64_t rank) {
    std::vector<int64_t> piece;
    for (const std::vector<AxisRef> &axes : layout)
      piece.push_back(position(bind.mesh, axes, rank));
    return piece;
  };
  std::map<std::vector<int64_t>, std::vector<int64_t>> holders, seekers;
  for (size_t i = 0; i < members.size(); ++i) {
    holders[piece(*before, members[i])].push_back(int64_t(i));
    seekers[piece(*after, members[i])].push_back(int64_t(i));
  }
  std::vector<int64_t> sourceOf(members.size());
  for (const auto &[wanted, positions] : seekers) {
    auto found = holders.find(wanted);
    if (found == holders.end())
      return bad(bind.instruction,
                 "a rank needs a piece that no rank of the group holds: the attribute axes does not cover the axes of "
                 "before and after");
    const std::vector<int64_t> &sources = found->second;
    for (size_t i = 0; i < positions.size(); ++i) {
      bool keeps = std::find(sources.begin(), sources.end(), positions[i]) != sources.end();
      sourceOf[size_t(positions[i])] = keeps ? positions[i] : sources[i % sources.size()];
    }
  }
  return sourceOf;
}

/// Checks that pieces of `pieces` elements on all ranks of the group hold at least `whole` elements of a dimension.
Status covers(const KernelRequest &bind, const Builder &builder, int64_t pieces, int64_t whole) {
  if (pieces * builder.groupSize() >= whole)
    return ok();
  return bad(bind.instruction,
             fmt::format("{} pieces of {} elements do not cover {} (the operand is {}, the result {})",
                         builder.groupSize(), pieces, whole, shapeText(bind.operands[0].shape),
                         shapeText(bind.results[0].shape)));
}

// One function for each collective: it checks the attributes and shapes and builds the phases. `members` are the ranks
// of the process group.
using Members = std::vector<int64_t>;

Status buildAllReduce(const KernelRequest &bind, const Members &, Builder &builder) {
  auto kind = reduceKind(bind.instruction);
  if (!kind)
    return kind.error();
  builder.allReduce(*kind);
  return ok();
}

Status buildPermute(const KernelRequest &bind, const Members &members, Builder &builder) {
  auto sourceOf = permutation(bind, members);
  if (!sourceOf)
    return sourceOf.error();
  builder.permute(*sourceOf);
  return ok();
}

Status buildRingShift(const KernelRequest &, const Members &, Builder &builder) {
  std::vector<int64_t> sourceOf;
  for (int64_t i = 0; i < builder.groupSize(); ++i)
    sourceOf.push_back((i + builder.groupSize() - 1) % builder.groupSize());
  builder.permute(sourceOf);
  return ok();
}

Status buildRingBalance(const KernelRequest &bind, const Members &, Builder &builder) {
  auto dim = dimension(bind, "dim");
  if (!dim)
    return dim.error();
  const Shape &from = bind.operands[0].shape;
  if (from[*dim] % 2 != 0)
    return bad(bind.instruction,
               fmt::format("dimension {} of {} has an odd size and cannot be halved", *dim, shapeText(from)));
  auto inverse = bind.instruction.attrs.find("inverse");
  builder.balance(*dim, inverse != bind.instruction.attrs.end() && *inverse == true);
  return ok();
}

Status buildAllGather(const KernelRequest &bind, const Members &, Builder &builder) {
  auto dim = dimension(bind, "dim");
  if (!dim)
    return dim.error();
  if (Status status = covers(bind, builder, bind.operands[0].shape[*dim], bind.results[0].shape[*dim]); !status)
    return status;
  builder.allGather(*dim);
  return ok();
}

Status buildReduceScatter(const KernelRequest &bind, const Members &, Builder &builder) {
  auto dim = dimension(bind, "dim");
  if (!dim)
    return dim.error();
  auto kind = reduceKind(bind.instruction);
  if (!kind)
    return kind.error();
  if (Status status = covers(bind, builder, bind.results[0].shape[*dim], bind.operands[0].shape[*dim]); !status)
    return status;
  builder.reduceScatter(*kind, *dim);
  return ok();
}

Status buildAllToAll(const KernelRequest &bind, const Members &, Builder &builder) {
  std::optional<size_t> except;
  if (auto other = bind.instruction.attrs.find("other_dim");
      other != bind.instruction.attrs.end() && other->is_number_integer() && other->get<int64_t>() >= 0)
    except = other->get<size_t>();
  auto dim = dimension(bind, "dim", except);
  if (!dim)
    return dim.error();
  auto otherDim = dimension(bind, "other_dim", *dim);
  if (!otherDim)
    return otherDim.error();
  if (*otherDim == *dim)
    return bad(bind.instruction, fmt::format("dim and other_dim are both {}", *dim));
  const Shape &from = bind.operands[0].shape, &to = bind.results[0].shape;
  if (Status status = covers(bind, builder, from[*dim], to[*dim]); !status)
    return status;
  if (Status status = covers(bind, builder, to[*otherDim], from[*otherDim]); !status)
    return status;
  builder.allToAll(*dim, *otherDim);
  return ok();
}

/// A collective's row in the table.
struct Row {
  std::string_view op;
  Status (*build)(const KernelRequest &bind, const Members &members, Builder &builder);
};
constexpr Row kRows[] = {
    {"all_reduce", buildAllReduce},     {"all_gather", buildAllGather},       {"reduce_scatter", buildReduceScatter},
    {"all_to_all", buildAllToAll},      {"collective_permute", buildPermute}, {"ring_shift", buildRingShift},
    {"ring_balance", buildRingBalance},
};

Status buildOp(const KernelRequest &bind, const Members &members, Builder &builder) {
  const CollectiveOp *record = findCollective(bind.instruction.op);
  auto row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row &r) { return r.op == bind.instruction.op; });
  if (!record || row == std::end(kRows))
    return bad(bind.instruction, record ? "ranks on a CPU cannot run this collective" : "is not a collective");
  const Shape &from = bind.operands[0].shape, &to = bind.results[0].shape;
  if (record->keepsShape && from != to)
    return bad(bind.instruction, fmt::format("the operand {} and the result {} must have the same shape",
                                             shapeText(from), shapeText(to)));
  return row->build(bind, members, builder);
}

Result<PlannedCollective> buildCollective(const CollectiveContext &context, const KernelRequest &bind,
                                          Scratch &scratch) {
  if (bind.operands.size() != 1 || bind.results.size() != 1 || bind.operands[0].dtype != bind.results[0].dtype)
    return bad(bind.instruction, "it takes one operand and gives one result of the same element type");
  if (DType its = bind.operands[0].dtype;
      (its == DType::F8E4M3FN || its == DType::F8E5M2) && bind.instruction.attrs.contains("kind"))
    return bad(bind.instruction, "8-bit floats can be moved, but not combined");
  auto axes = axesAttribute(bind.instruction, "axes", bind.mesh);
  if (!axes)
    return axes.error();
  std::vector<int64_t> members = groupOf(bind.mesh, *axes, bind.rank), ranks = members;
  for (int64_t &rank : ranks)
    rank = package::realRank(bind.mesh, rank);
  Builder builder(context, bind, ranks, scratch);
  if (Status status = buildOp(bind, members, builder); !status)
    return status.error();
  return std::move(builder.plan);
}

Result<CollectivePlan> build(const CollectiveRequest &request, const CollectiveContext &context, Scratch &scratch) {
  const KernelRequest &all = request.bind;
  CollectivePlan plan;
  plan.communicator = context.communicator;
  plan.tag = request.tag;
  if (request.others.empty()) {
    auto member = buildCollective(context, all, scratch);
    if (!member)
      return member.error();
    plan.collectives.push_back(std::move(*member));
    return plan;
  }
  for (size_t i = 0; i <= request.others.size(); ++i) {
    KernelRequest one{i == 0 ? all.instruction : *request.others[i - 1], {}, {}, all.mesh, all.rank, all.scratch};
    one.operands.push_back(all.operands[i]);
    one.results.push_back(all.results[i]);
    auto member = buildCollective(context, one, scratch);
    if (!member)
      return member.error();
    plan.collectives.push_back(std::move(*member));
  }
  return plan;
}

/// Returns the bytes of scratch memory that phases need while they receive, and the bytes of all scratch memory.
Result<std::pair<int64_t, int64_t>> countScratch(CollectiveRequest request) {
  request.bind.scratch = nullptr;
  Scratch scratch(nullptr, 0);
  if (auto built = build(request, {}, scratch); !built)
    return built.error();
  return std::pair(scratch.largestPhaseBytes, scratch.largestPhaseBytes + scratch.sending);
}
} // namespace

Result<CollectivePlan> planCollective(const CollectiveRequest &request, Communicator *communicator,
                                      const SumOrderSeed &order) {
  auto bytes = countScratch(request);
  if (!bytes)
    return bytes.error();
  Scratch scratch(request.bind.scratch, bytes->first);
  return build(request, {communicator, request.tag, order}, scratch);
}

Result<Kernel> bindCollective(const CollectiveRequest &request, Communicator &communicator, const SumOrderSeed &order) {
  auto planned = planCollective(request, &communicator, order);
  if (!planned)
    return planned.error();
  auto plan = std::make_shared<const CollectivePlan>(std::move(*planned));
  return Kernel([plan] { return plan->run(); });
}

Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request) {
  auto bytes = countScratch(request);
  if (!bytes)
    return bytes.error();
  return bytes->second;
}

} // namespace kerf::runtime
