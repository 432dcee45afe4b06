// SPDX-License-Identifier: Apache-2.0
// Plans collectives from instructions: each is at most two stages over boxes of its operand and result
// (CollectiveStages.h). Of several that are one, all first stages send before any receives, and each second stage sends
// as soon as its first is done.
#include "kerf/Runtime/Cpu/Collectives.h"
#include "../Attributes.h"
#include "CollectiveStages.h"
#include "kerf/Support/Collectives.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <random>

namespace kerf::runtime {

namespace {
/// Up to here an all_reduce lets every rank send all to all: one latency instead of two. Measured crossing on two cores
/// with threads lies between 2 and 16 KiB; the result has the same bits either way.
constexpr int64_t kSmallReduceBytes = 4096;

/// Hands out pieces of the scratch memory: first what a stage needs while it receives, which the next one takes over,
/// then what is being sent. With a null base it only counts.
class Scratch {
public:
  Scratch(void *base, int64_t receiving) : base(static_cast<std::byte *>(base)), receiving(receiving) {}
  void beginStage() { stage = 0; }
  std::byte *take(int64_t size) {
    std::byte *piece = base ? base + stage : nullptr;
    stage += aligned(size);
    mostOfStage = std::max(mostOfStage, stage);
    return piece;
  }
  std::byte *takeForSend(int64_t size) {
    std::byte *piece = base ? base + receiving + sending : nullptr;
    sending += aligned(size);
    return piece;
  }
  int64_t mostOfStage = 0, sending = 0;

private:
  static int64_t aligned(int64_t size) { return (size + 63) / 64 * 64; }
  std::byte *base;
  int64_t receiving, stage = 0;
};

/// How much of `size` lies in piece `index` of extent `chunk`.
int64_t pieceOf(int64_t size, int64_t chunk, int64_t index) {
  return std::clamp<int64_t>(size - index * chunk, 0, chunk);
}

Shape at(size_t rank, size_t dim, int64_t begin) {
  Shape shape(rank, 0);
  if (rank)
    shape[dim] = begin;
  return shape;
}

/// The communicator of a collective and the order of its sums. Without a communicator, only sizes are computed.
struct Way {
  Communicator *communicator = nullptr;
  int64_t tag = 0;
  SumOrder order;
};

class Builder {
public:
  Builder(const Way &way, const KernelRequest &bind, std::vector<int64_t> members, Scratch &scratch)
      : way(way), members(std::move(members)), scratch(scratch), operand(bind.operands[0]), result(bind.results[0]),
        elementBytes(bytesOf(operand.dtype)) {
    int64_t self = package::realRank(bind.mesh, bind.rank);
    position = std::find(this->members.begin(), this->members.end(), self) - this->members.begin();
    plan.result = result;
  }

  Member plan;
  int64_t ways() const { return int64_t(members.size()); }

  /// Cuts `shape` along `dim` into pieces of `chunk`; combines this rank's piece into the result of `resultShape` at
  /// `resultBegin`.
  void reduce(ReduceKind kind, const Shape &shape, size_t dim, int64_t chunk, const Shape &resultShape,
              int64_t resultBegin) {
    ReduceStage stage;
    open(stage, 0, operand.data);
    auto box = [&](int64_t index) {
      Shape counts = shape;
      counts[dim] = pieceOf(shape[dim], chunk, index);
      return packBox(shape, at(shape.size(), dim, counts[dim] ? index * chunk : 0), counts, elementBytes);
    };
    for (int64_t step = 1; step < ways(); ++step) {
      int64_t index = (position + step) % ways();
      send(stage, members[size_t(index)], box(index));
    }
    Shape counts = shape;
    counts[dim] = pieceOf(shape[dim], chunk, position);
    stage.members = summed();
    stage.elements = elementsOf(counts);
    stage.packOwn = box(position);
    stage.unpack = unpackBox(resultShape, at(shape.size(), dim, counts[dim] ? resultBegin : 0), counts, elementBytes);
    stage.reducer = Reducer(operand.dtype, kind);
    stage.result = static_cast<std::byte *>(result.data);
    int64_t bytes = stage.packOwn.bytes();
    stage.own = stage.packOwn.contiguous() ? nullptr : scratch.take(bytes);
    stage.received = scratch.take(bytes);
    stage.sum = stage.unpack.contiguous() ? nullptr : scratch.take(bytes);
    stage.wide = stage.reducer.wideBytes() ? scratch.take(stage.elements * stage.reducer.wideBytes()) : nullptr;
    plan.reduce = std::move(stage);
  }

  /// Every member sends the same box; member i's lands at `begin(i)` along `dim`, `count(i)` long.
  template <typename Count>
  void gather(const void *source, const Shape &sourceShape, int64_t sourceBegin, const Shape &resultShape, size_t dim,
              int64_t chunk, Count count) {
    MoveStage stage;
    open(stage, 1, source);
    auto counts = [&](int64_t index) {
      Shape box = sourceShape;
      box[dim] = count(index);
      return box;
    };
    BoxCopy pack = packBox(sourceShape, at(sourceShape.size(), dim, sourceBegin), counts(position), elementBytes);
    std::byte *packed = pack.contiguous() ? nullptr : scratch.takeForSend(pack.bytes());
    int64_t most = 0;
    for (int64_t step = 0; step < ways(); ++step) {
      int64_t to = (position + step) % ways(), from = (position + ways() - step) % ways();
      if (step)
        stage.outgoing.push_back({members[size_t(to)], pack, packed});
      Shape box = counts(from), begin = at(box.size(), dim, from * chunk);
      BoxCopy unpack =
          step ? unpackBox(resultShape, begin, box, elementBytes)
               : BoxCopy(sourceShape, at(box.size(), dim, sourceBegin), resultShape, begin, box, elementBytes);
      if (step && !unpack.contiguous())
        most = std::max(most, unpack.bytes());
      if (step || source != result.data) // an all_reduce has its own piece in place already
        stage.incoming.push_back({members[size_t(from)], unpack});
    }
    stage.received = scratch.take(most);
    stage.result = static_cast<std::byte *>(result.data);
    plan.move = std::move(stage);
  }

  void allReduce(ReduceKind kind) {
    int64_t elements = operand.elements();
    if (operand.bytes() <= kSmallReduceBytes || ways() == 1) {
      // Everyone combines everything: pieces as large as the whole, at the same place.
      ReduceStage stage;
      open(stage, 0, operand.data);
      BoxCopy whole = packBox({elements}, {0}, {elements}, elementBytes);
      for (int64_t step = 1; step < ways(); ++step)
        stage.outgoing.push_back({members[size_t((position + step) % ways())], whole, nullptr});
      stage.members = summed();
      stage.elements = elements;
      stage.packOwn = stage.unpack = whole;
      stage.reducer = Reducer(operand.dtype, kind);
      stage.result = static_cast<std::byte *>(result.data);
      stage.received = scratch.take(operand.bytes());
      stage.wide = stage.reducer.wideBytes() ? scratch.take(elements * stage.reducer.wideBytes()) : nullptr;
      plan.reduce = std::move(stage);
      return;
    }
    int64_t chunk = (elements + ways() - 1) / ways();
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
    MoveStage stage;
    open(stage, 1, operand.data);
    int64_t length = operand.shape[dim], cut = result.shape[otherDim];
    auto counts = [&](int64_t from, int64_t to) {
      Shape box = operand.shape;
      box[dim] = pieceOf(result.shape[dim], length, from);
      box[otherDim] = pieceOf(operand.shape[otherDim], cut, to);
      return box;
    };
    int64_t most = 0;
    for (int64_t step = 0; step < ways(); ++step) {
      int64_t to = (position + step) % ways(), from = (position + ways() - step) % ways();
      Shape sentBegin = at(operand.shape.size(), otherDim, to * cut),
            placedBegin = at(operand.shape.size(), dim, from * length);
      if (step == 0) {
        stage.incoming.push_back(
            {members[size_t(position)],
             BoxCopy(operand.shape, sentBegin, result.shape, placedBegin, counts(position, position), elementBytes)});
        continue;
      }
      send(stage, members[size_t(to)], packBox(operand.shape, sentBegin, counts(position, to), elementBytes));
      BoxCopy unpack = unpackBox(result.shape, placedBegin, counts(from, position), elementBytes);
      if (!unpack.contiguous())
        most = std::max(most, unpack.bytes());
      stage.incoming.push_back({members[size_t(from)], unpack});
    }
    stage.received = scratch.take(most);
    stage.result = static_cast<std::byte *>(result.data);
    plan.zeroFirst = pieceOf(operand.shape[otherDim], cut, position) < cut;
    plan.move = std::move(stage);
  }

  /// Halves of the tensors along `dim` go where their mirror images are, or back: of 2 `ways` halves in order, position
  /// p has 2p and 2p + 1 before, p and 2 ways - 1 - p after.
  void balance(size_t dim, bool inverse) {
    MoveStage stage;
    open(stage, 1, operand.data);
    int64_t half = operand.shape[dim] / 2;
    struct Place {
      int64_t position, half;
    };
    auto inOrder = [](int64_t piece) { return Place{piece / 2, piece % 2}; };
    auto mirrored = [&](int64_t piece) { return piece < ways() ? Place{piece, 0} : Place{2 * ways() - 1 - piece, 1}; };
    Shape counts = operand.shape;
    counts[dim] = half;
    int64_t most = 0;
    for (int64_t piece = 0; piece < 2 * ways(); ++piece) {
      Place from = inOrder(piece), to = mirrored(piece);
      if (inverse)
        std::swap(from, to);
      Shape begin = at(counts.size(), dim, from.half * half), placed = at(counts.size(), dim, to.half * half);
      if (from.position == position && to.position == position)
        stage.incoming.push_back(
            {members[size_t(position)], BoxCopy(operand.shape, begin, result.shape, placed, counts, elementBytes)});
      else if (from.position == position)
        send(stage, members[size_t(to.position)], packBox(operand.shape, begin, counts, elementBytes));
      else if (to.position == position) {
        BoxCopy unpack = unpackBox(result.shape, placed, counts, elementBytes);
        most = std::max(most, unpack.contiguous() ? 0 : unpack.bytes());
        stage.incoming.push_back({members[size_t(from.position)], unpack});
      }
    }
    stage.received = scratch.take(most);
    stage.result = static_cast<std::byte *>(result.data);
    plan.move = std::move(stage);
  }

  /// sourceOf[i]: the position whose tensor position i gets.
  void permute(const std::vector<int64_t> &sourceOf) {
    MoveStage stage;
    open(stage, 1, operand.data);
    Shape flat = {operand.elements()};
    BoxCopy whole = packBox(flat, {0}, flat, elementBytes);
    for (int64_t to = 0; to < ways(); ++to)
      if (to != position && sourceOf[size_t(to)] == position)
        stage.outgoing.push_back({members[size_t(to)], whole, nullptr});
    stage.incoming.push_back({members[size_t(sourceOf[size_t(position)])], whole});
    stage.result = static_cast<std::byte *>(result.data);
    plan.move = std::move(stage);
  }

private:
  /// The members in the order in which their values are added: the same on all ranks.
  std::vector<int64_t> summed() const {
    std::vector<int64_t> order = members;
    if (way.order) {
      std::mt19937_64 random(*way.order + uint64_t(way.tag));
      std::shuffle(order.begin(), order.end(), random);
    }
    return order;
  }
  void open(Stage &stage, int64_t tagOffset, const void *source) {
    scratch.beginStage();
    stage.communicator = way.communicator;
    stage.tag = way.tag + tagOffset;
    stage.source = static_cast<const std::byte *>(source);
  }
  void send(Stage &stage, int64_t peer, BoxCopy pack) {
    std::byte *packed = pack.contiguous() ? nullptr : scratch.takeForSend(pack.bytes());
    stage.outgoing.push_back({peer, std::move(pack), packed});
  }

  const Way &way;
  std::vector<int64_t> members;
  Scratch &scratch;
  const TensorView &operand, &result;
  int64_t elementBytes, position = 0;
};

Error bad(const package::Instruction &instruction, const std::string &what) {
  return {fmt::format("{}: {}", instruction.op, what)};
}

/// A dimension from the attribute `key`; the shapes must agree elsewhere (but for `except`).
Result<size_t> dimension(const KernelRequest &bind, const char *key, std::optional<size_t> except = std::nullopt) {
  auto dim = integerAttribute(bind.instruction, key);
  if (!dim)
    return dim.error();
  const Shape &from = bind.operands[0].shape, &to = bind.results[0].shape;
  if (*dim < 0 || size_t(*dim) >= from.size() || from.size() != to.size())
    return bad(bind.instruction,
               fmt::format("{} is {}, but it makes {} of {}", key, *dim, shapeText(to), shapeText(from)));
  for (size_t d = 0; d < from.size(); ++d)
    if (from[d] != to[d] && d != size_t(*dim) && d != except)
      return bad(bind.instruction,
                 fmt::format("it makes {} of {}: dimension {} must stay as it is", shapeText(to), shapeText(from), d));
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

/// For collective_permute: which position's tensor each position gets. Where several hold the same piece, those that
/// want it are spread over them, and a rank that holds what it wants keeps it.
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
                 "no rank of the group holds a piece that one wants: its axes don't cover before and after");
    const std::vector<int64_t> &sources = found->second;
    for (size_t i = 0; i < positions.size(); ++i) {
      bool keeps = std::find(sources.begin(), sources.end(), positions[i]) != sources.end();
      sourceOf[size_t(positions[i])] = keeps ? positions[i] : sources[i % sources.size()];
    }
  }
  return sourceOf;
}

/// Along a dimension, `pieces` of every rank hold all of `whole`.
Status covers(const KernelRequest &bind, const Builder &builder, int64_t pieces, int64_t whole) {
  if (pieces * builder.ways() >= whole)
    return ok();
  return bad(bind.instruction, fmt::format("{} pieces of {} do not make {} (it makes {} of {})", builder.ways(), pieces,
                                           whole, shapeText(bind.results[0].shape), shapeText(bind.operands[0].shape)));
}

// The collectives: each checks its attributes and shapes and says what moves. `members`: the ranks of the group.
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
  for (int64_t i = 0; i < builder.ways(); ++i)
    sourceOf.push_back((i + builder.ways() - 1) % builder.ways());
  builder.permute(sourceOf);
  return ok();
}

Status buildRingBalance(const KernelRequest &bind, const Members &, Builder &builder) {
  auto dim = dimension(bind, "dim");
  if (!dim)
    return dim.error();
  const Shape &from = bind.operands[0].shape;
  if (from[*dim] % 2 != 0)
    return bad(bind.instruction, fmt::format("it halves dimension {} of {}", *dim, shapeText(from)));
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
    return bad(bind.instruction, record ? "CPU ranks cannot run it" : "is not a collective");
  const Shape &from = bind.operands[0].shape, &to = bind.results[0].shape;
  if (record->keepsShape && from != to)
    return bad(bind.instruction, fmt::format("it makes {} of {}: the shape must stay", shapeText(to), shapeText(from)));
  return row->build(bind, members, builder);
}

Result<Member> buildMember(const Way &way, const KernelRequest &bind, Scratch &scratch) {
  if (bind.operands.size() != 1 || bind.results.size() != 1 || bind.operands[0].dtype != bind.results[0].dtype)
    return bad(bind.instruction, "it takes one operand and gives one result of the same element type");
  auto axes = axesAttribute(bind.instruction, "axes", bind.mesh);
  if (!axes)
    return axes.error();
  std::vector<int64_t> members = groupOf(bind.mesh, *axes, bind.rank), ranks = members;
  for (int64_t &rank : ranks)
    rank = package::realRank(bind.mesh, rank);
  Builder builder(way, bind, ranks, scratch);
  if (Status status = buildOp(bind, members, builder); !status)
    return status.error();
  return std::move(builder.plan);
}

Result<CollectivePlan> build(const CollectiveRequest &request, const Way &way, Scratch &scratch) {
  const KernelRequest &all = request.bind;
  CollectivePlan plan;
  plan.communicator = way.communicator;
  plan.tag = request.tag;
  if (request.others.empty()) {
    auto member = buildMember(way, all, scratch);
    if (!member)
      return member.error();
    plan.members.push_back(std::move(*member));
    return plan;
  }
  for (size_t i = 0; i <= request.others.size(); ++i) {
    KernelRequest one{i == 0 ? all.instruction : *request.others[i - 1], {}, {}, all.mesh, all.rank, all.scratch};
    one.operands.push_back(all.operands[i]);
    one.results.push_back(all.results[i]);
    auto member = buildMember(way, one, scratch);
    if (!member)
      return member.error();
    plan.members.push_back(std::move(*member));
  }
  return plan;
}

/// Of what stages need while they receive, and of all.
Result<std::pair<int64_t, int64_t>> countScratch(CollectiveRequest request) {
  request.bind.scratch = nullptr;
  Scratch scratch(nullptr, 0);
  if (auto built = build(request, {}, scratch); !built)
    return built.error();
  return std::pair(scratch.mostOfStage, scratch.mostOfStage + scratch.sending);
}
} // namespace

Result<Kernel> bindCollective(const CollectiveRequest &request, Communicator &communicator, const SumOrder &order) {
  auto bytes = countScratch(request);
  if (!bytes)
    return bytes.error();
  Scratch scratch(request.bind.scratch, bytes->first);
  auto built = build(request, {&communicator, request.tag, order}, scratch);
  if (!built)
    return built.error();
  auto plan = std::make_shared<const CollectivePlan>(std::move(*built));
  return Kernel([plan] { return plan->run(); });
}

Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request) {
  auto bytes = countScratch(request);
  if (!bytes)
    return bytes.error();
  return bytes->second;
}

} // namespace kerf::runtime
