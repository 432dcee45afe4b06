// SPDX-License-Identifier: Apache-2.0
// The search for tandem repeats: candidates are runs of equal kinds at equal distance; then every rotation of a
// candidate is checked for its dataflow.
#include "Repeats.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace {
/// A layer of fewer ops is not worth a function, because the call costs as much as it saves.
constexpr int64_t kLeastOps = 4;
/// The number of candidates that are checked, the most promising first. Real models need one or two.
constexpr size_t kMostCandidates = 64;

/// A run: ops i and i + period are of one kind, for `length` ops from `start` on.
struct Run {
  int64_t start, period, length;
  int64_t end() const { return start + length + period; }
  int64_t mostSaved() const { return (length + period) / period * period - period; }
};

/// Returns the attribute `kerf.trainable` of a parameter (null where it has none), or nothing where `value`
/// is no parameter.
std::optional<Attribute> trainableMark(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto function = argument ? dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp()) : FunctionOpInterface();
  if (!function)
    return std::nullopt;
  auto kind = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
  if (!kind || kind.getValue() != "parameter")
    return std::nullopt;
  return function.getArgAttr(argument.getArgNumber(), KerfDialect::kTrainableAttr);
}

/// The criteria by which rotations are compared, in this order.
struct Score {
  int64_t crossing, saved, scope;
  bool beginsElementwise; // the first op could be one kernel with the end of the segment before it
  bool operator<(const Score &o) const {
    return std::tuple(crossing, -saved, -scope, beginsElementwise) <
           std::tuple(o.crossing, -o.saved, -o.scope, o.beginsElementwise);
  }
};

class Searcher {
public:
  explicit Searcher(const OpSequence &sequence);
  std::optional<Repeat> search() const;

private:
  std::vector<Run> candidates() const;
  std::optional<Repeat> bestRotation(const Run &run) const;
  Repeat longestConsistent(Repeat repeat) const;
  bool consistent(int64_t segment, int64_t period) const;
  std::optional<int64_t> crossing(const Repeat &repeat) const;
  int64_t scopeAgreement(const Repeat &repeat) const;

  const OpSequence &sequence;
  /// producers[i][j]: the position of the op that defines operand j of op i, or -1.
  std::vector<SmallVector<int64_t, 4>> producers;
  /// users[i][r]: the positions of the ops that use result r of op i. The end of the sequence stands for `return`.
  std::vector<SmallVector<std::vector<int64_t>, 1>> users;
};

Searcher::Searcher(const OpSequence &sequence) : sequence(sequence) {
  int64_t size = static_cast<int64_t>(sequence.ops.size());
  for (Operation *op : sequence.ops) {
    auto &row = producers.emplace_back();
    for (Value operand : op->getOperands())
      row.push_back(sequence.definedAt(operand));
    auto &uses = users.emplace_back();
    for (Value result : op->getResults()) {
      auto &list = uses.emplace_back();
      for (Operation *user : result.getUsers())
        list.push_back(user->hasTrait<OpTrait::IsTerminator>() ? size : sequence.definedAt(user->getResult(0)));
    }
  }
}

std::vector<Run> Searcher::candidates() const {
  std::vector<Run> runs;
  const std::vector<int> &kinds = sequence.kinds;
  int64_t size = static_cast<int64_t>(kinds.size());
  for (int64_t period = kLeastOps; 2 * period <= size; ++period)
    for (int64_t i = 0, start = 0; i + period <= size; ++i) {
      if (i + period < size && kinds[i] == kinds[i + period])
        continue;
      if (i - start >= period)
        runs.push_back({start, period, i - start});
      start = i + 1;
    }
  std::sort(runs.begin(), runs.end(), [](const Run &a, const Run &b) {
    return std::tuple(-a.mostSaved(), a.period, a.start) < std::tuple(-b.mostSaved(), b.period, b.start);
  });
  if (runs.size() > kMostCandidates)
    runs.resize(kMostCandidates);
  return runs;
}

/// Returns whether the segment at `segment` and the next one take every operand from the same position of themselves,
/// or both from outside. A trainable parameter and a frozen one are not the same.
bool Searcher::consistent(int64_t segment, int64_t period) const {
  int64_t next = segment + period;
  for (int64_t i = segment; i < next; ++i)
    for (size_t j = 0; j < producers[i].size(); ++j) {
      int64_t here = producers[i][j] - segment, there = producers[i + period][j] - next;
      Value operand = sequence.ops[i]->getOperand(j), nextOperand = sequence.ops[i + period]->getOperand(j);
      if (here < 0 && there < 0) {
        std::optional<Attribute> mark = trainableMark(operand), nextMark = trainableMark(nextOperand);
        if (mark && nextMark && *mark != *nextMark)
          return false;
      } else if (here != there ||
                 cast<OpResult>(operand).getResultNumber() != cast<OpResult>(nextOperand).getResultNumber()) {
        return false;
      }
    }
  return true;
}

Repeat Searcher::longestConsistent(Repeat repeat) const {
  Repeat best = {repeat.start, repeat.period, 1};
  Repeat current = best;
  for (int64_t k = 0; k + 1 < repeat.count; ++k) {
    int64_t segment = repeat.start + k * repeat.period;
    if (consistent(segment, repeat.period))
      ++current.count;
    else
      current = {segment + repeat.period, repeat.period, 1};
    if (current.count > best.count)
      best = current;
  }
  return best;
}

/// Returns the number of values that cross the border of a segment: values of the segment that others use, and values
/// it uses that the segment before it does not. Returns nothing where some segment uses no result of its predecessor,
/// because such segments are parallel branches, not layers.
std::optional<int64_t> Searcher::crossing(const Repeat &repeat) const {
  std::set<std::pair<int64_t, int64_t>> results;
  size_t taken = 0;
  for (int64_t k = 0; k < repeat.count; ++k) {
    int64_t segment = repeat.start + k * repeat.period;
    std::set<std::pair<int64_t, unsigned>> values;
    bool usesPredecessor = false;
    for (int64_t i = segment; i < segment + repeat.period; ++i) {
      for (size_t r = 0; r < users[i].size(); ++r)
        for (int64_t user : users[i][r])
          if (user >= segment + repeat.period)
            results.insert({i - segment, static_cast<int64_t>(r)});
      for (size_t j = 0; k > 0 && j < producers[i].size(); ++j) {
        Value value = sequence.ops[i]->getOperand(j);
        if (producers[i][j] < 0 || producers[i][j] >= segment ||
            value == sequence.ops[i - repeat.period]->getOperand(j))
          continue;
        usesPredecessor |= producers[i][j] >= segment - repeat.period;
        values.insert({producers[i][j], cast<OpResult>(value).getResultNumber()});
      }
    }
    if (k > 0 && !usesPredecessor)
      return std::nullopt;
    taken = std::max(taken, values.size());
  }
  return static_cast<int64_t>(results.size() + taken);
}

/// Returns the sum, over the segments, of the length of the module scope that all their ops share.
int64_t Searcher::scopeAgreement(const Repeat &repeat) const {
  int64_t sum = 0;
  for (int64_t k = 0; k < repeat.count; ++k) {
    const std::vector<int> *common = nullptr;
    size_t length = 0;
    for (int64_t i = repeat.start + k * repeat.period; i < repeat.start + (k + 1) * repeat.period; ++i) {
      const std::vector<int> &scope = sequence.scopes[i];
      if (scope.empty())
        continue;
      if (!common) {
        common = &scope;
        length = scope.size();
      }
      length = std::min(length, scope.size());
      length = std::mismatch(scope.begin(), scope.begin() + length, common->begin()).first - scope.begin();
    }
    sum += static_cast<int64_t>(length);
  }
  return sum;
}

/// Returns the rotation with the best score among those that lose at most one segment; of equal ones, the first.
std::optional<Repeat> Searcher::bestRotation(const Run &run) const {
  std::vector<Repeat> rotations;
  int64_t mostSaved = 0;
  for (int64_t start = run.start; start < run.start + run.period && run.end() - start >= 2 * run.period; ++start) {
    Repeat repeat = longestConsistent({start, run.period, (run.end() - start) / run.period});
    mostSaved = std::max(mostSaved, repeat.savedOps());
    if (repeat.count >= 2)
      rotations.push_back(repeat);
  }
  std::optional<Repeat> best;
  Score bestScore{};
  for (const Repeat &repeat : rotations) {
    if (repeat.savedOps() + run.period < mostSaved)
      continue;
    std::optional<int64_t> values = crossing(repeat);
    if (!values || (best && *values > bestScore.crossing))
      continue;
    Score score{*values, repeat.savedOps(), scopeAgreement(repeat),
                sequence.ops[size_t(repeat.start)]->hasTrait<OpTrait::Elementwise>()};
    if (!best || score < bestScore) {
      best = repeat;
      bestScore = score;
    }
  }
  return best;
}

std::optional<Repeat> Searcher::search() const {
  std::optional<Repeat> best;
  for (const Run &run : candidates()) {
    if (best && run.mostSaved() <= best->savedOps())
      break;
    std::optional<Repeat> found = bestRotation(run);
    if (found && (!best || found->savedOps() > best->savedOps()))
      best = found;
  }
  return best;
}

/// Returns the properties that must agree between two layers: uniqued pointers of an op's name, attributes and types.
std::vector<const void *> kindKey(Operation *op) {
  std::vector<const void *> key = {op->getName().getAsOpaquePointer(), op->getAttrDictionary().getAsOpaquePointer()};
  for (Type type : op->getOperandTypes())
    key.push_back(type.getAsOpaquePointer());
  for (Type type : op->getResultTypes())
    key.push_back(type.getAsOpaquePointer());
  return key;
}
} // namespace

std::string kerf::moduleScope(Location location) {
  std::string name = nodeName(location);
  size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

OpSequence::OpSequence(Block &block) {
  std::map<std::vector<const void *>, int> kindNumbers;
  std::map<std::string, int> scopeNumbers;
  llvm::DenseSet<Operation *> dependent;
  int nextKind = 0;
  for (Operation &op : block.without_terminator()) {
    bool isCall = isa<CallOp>(op);
    bool depends = isCall || llvm::any_of(op.getOperands(), [&](Value operand) {
                     return trainableMark(operand) || dependent.contains(operand.getDefiningOp());
                   });
    // A call is a layer that was found before. It gets a kind of its own, so that no segment contains it.
    int kind = isCall ? nextKind : kindNumbers.try_emplace(kindKey(&op), nextKind).first->second;
    nextKind += kind == nextKind;
    if (!depends) {
      invariantKinds[&op] = kind;
      continue;
    }
    dependent.insert(&op);
    positions[&op] = static_cast<int64_t>(ops.size());
    ops.push_back(&op);
    kinds.push_back(kind);
    auto &scope = scopes.emplace_back();
    std::string name = moduleScope(op.getLoc());
    SmallVector<StringRef> parts;
    StringRef(name).split(parts, '.', -1, /*KeepEmpty=*/false);
    for (StringRef part : parts)
      scope.push_back(scopeNumbers.try_emplace(part.str(), static_cast<int>(scopeNumbers.size())).first->second);
  }
}

int64_t OpSequence::definedAt(Value value) const {
  auto found = positions.find(value.getDefiningOp());
  return found == positions.end() ? -1 : found->second;
}

std::optional<Repeat> kerf::findRepeat(const OpSequence &sequence) { return Searcher(sequence).search(); }
