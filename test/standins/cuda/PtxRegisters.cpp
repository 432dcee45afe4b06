// SPDX-License-Identifier: Apache-2.0
// Lets registers share slots. PTX text has a register for each value, hundreds in a kernel, of which few are in use at
// a time. With few slots a warp's frame stays in the processor's cache.
//
// A register is in use at a statement if a later one may read what it holds there. That is found from the end of each
// block of statements to its beginning, block by block until nothing changes:
//   in(block) = reads(block) + (out(block) - writes(block)), out(block) = the sum of in(successor).
// From the first to the last statement where a register is in use it has a slot of its own.
#include "PtxText.h"

#include <algorithm>
#include <queue>

namespace kerf::standin::ptx {

namespace {

/// A set of registers.
class Registers {
public:
  explicit Registers(size_t count) : words((count + 63) / 64) {}
  bool contains(size_t i) const { return words[i / 64] >> (i % 64) & 1; }
  void insert(size_t i) { words[i / 64] |= uint64_t(1) << (i % 64); }
  /// Calls `action(i)` for each register of the set.
  template <class Action> void forEach(Action action) const {
    for (size_t i = 0; i < words.size(); ++i)
      for (uint64_t word = words[i]; word; word &= word - 1)
        action(i * 64 + size_t(std::countr_zero(word)));
  }
  /// Adds the registers of `in` that are not in `without`. Returns whether there were new ones.
  bool add(const Registers &in, const Registers *without = nullptr) {
    uint64_t added = 0;
    for (size_t i = 0; i < words.size(); ++i) {
      uint64_t more = in.words[i] & ~(without ? without->words[i] : 0) & ~words[i];
      words[i] |= more;
      added |= more;
    }
    return added != 0;
  }

private:
  std::vector<uint64_t> words;
};

/// Statements that are executed one after the other.
struct Block {
  size_t begin = 0, end = 0; // numbers of statements
  std::vector<size_t> successors;
  Registers reads, writes, in, out; // `reads` holds what is read before the block has written it
};

/// First and last statement where a register is in use.
struct Use {
  size_t first = SIZE_MAX, last = 0;
  void include(size_t statement) {
    first = std::min(first, statement);
    last = std::max(last, statement);
  }
};

/// Finds where the registers of one function are in use.
class Analysis {
public:
  Analysis(std::deque<Step> &steps, const BranchTables &tables);
  void share();

private:
  void findBlocks(const BranchTables &tables);
  void noteOperands(const Statement &statement, size_t number, Block &block);
  void noteOperand(const Operand &operand, size_t number, bool isWritten, bool isCertain, Block &block);
  void spread();

  std::vector<const Statement *> statements;
  std::vector<Name *> registers;
  std::unordered_map<std::string_view, size_t> numbers; // of registers, by name
  std::unordered_map<std::string_view, size_t> labels;  // numbers of the statements that they precede
  bool hasInnerRegisters = false;
  std::vector<Block> blocks;
  std::vector<Use> uses;
};

Analysis::Analysis(std::deque<Step> &steps, const BranchTables &tables) {
  int depth = 0;
  for (Step &step : steps) {
    depth += step.kind == Step::Kind::Open ? 1 : step.kind == Step::Kind::Close ? -1 : 0;
    if (step.kind == Step::Kind::Statement) {
      statements.push_back(&step.statement);
    } else if (step.kind == Step::Kind::Label) {
      labels.emplace(step.name, statements.size());
    } else if (step.kind == Step::Kind::Name && step.value.kind == Name::Kind::Register) {
      hasInnerRegisters |= depth > 0;
      numbers.insert_or_assign(step.name, registers.size());
      registers.push_back(&step.value);
    }
  }
  uses.resize(registers.size());
  findBlocks(tables);
}

void Analysis::findBlocks(const BranchTables &tables) {
  auto isJump = [](const Statement &s) { return s.parts[0] == "bra" || s.parts[0] == "brx"; };
  auto isEnd = [](const Statement &s) {
    return s.parts[0] == "ret" || s.parts[0] == "exit" || s.parts[0] == "trap" || s.parts[0] == "brkpt";
  };
  std::vector<size_t> begins = {0, statements.size()};
  for (const auto &[name, statement] : labels)
    begins.push_back(statement);
  for (size_t i = 0; i < statements.size(); ++i)
    if (isJump(*statements[i]) || isEnd(*statements[i]))
      begins.push_back(i + 1);
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  auto blockAt = [&](size_t statement) {
    return size_t(std::lower_bound(begins.begin(), begins.end(), statement) - begins.begin());
  };
  const Registers none(registers.size());
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    Block block{begins[i], begins[i + 1], {}, none, none, none, none};
    for (size_t number = block.begin; number < block.end; ++number)
      noteOperands(*statements[number], number, block);
    const Statement &last = *statements[block.end - 1];
    auto jumpTo = [&](const std::string &label) {
      if (auto target = labels.find(label); target != labels.end())
        block.successors.push_back(blockAt(target->second));
    };
    if (last.parts[0] == "bra" && !last.operands.empty())
      jumpTo(last.operands[0].name);
    if (last.parts[0] == "brx" && last.operands.size() == 2)
      if (auto table = tables.find(last.operands[1].name); table != tables.end())
        std::for_each(table->second.begin(), table->second.end(), jumpTo);
    if (!last.predicate.empty() || (!isJump(last) && !isEnd(last)))
      block.successors.push_back(i + 1);
    blocks.push_back(std::move(block));
  }
}

void Analysis::noteOperand(const Operand &operand, size_t number, bool isWritten, bool isCertain, Block &block) {
  for (const Operand &part : operand.parts)
    noteOperand(part, number, isWritten, isCertain, block);
  auto found = operand.kind == Operand::Kind::Name ? numbers.find(operand.name) : numbers.end();
  if (found == numbers.end())
    return;
  uses[found->second].include(number);
  if (!isWritten && !block.writes.contains(found->second))
    block.reads.insert(found->second);
  if (isWritten && isCertain)
    block.writes.insert(found->second);
}

void Analysis::noteOperands(const Statement &statement, size_t number, Block &block) {
  size_t written = writesOperand(statement) ? 1 : 0;
  if (!statement.predicate.empty()) {
    Operand predicate;
    predicate.name = statement.predicate;
    noteOperand(predicate, number, false, true, block);
  }
  for (size_t i = written; i < statement.operands.size(); ++i)
    noteOperand(statement.operands[i], number, false, true, block);
  if (written && !statement.operands.empty())
    noteOperand(statement.operands[0], number, true, statement.predicate.empty(), block);
}

/// Finds `in` and `out` of all blocks, and adds the blocks' beginnings and ends to the uses.
void Analysis::spread() {
  for (Block &block : blocks)
    block.in.add(block.reads);
  for (bool changes = true; changes;) {
    changes = false;
    for (size_t i = blocks.size(); i-- > 0;) {
      Block &block = blocks[i];
      for (size_t next : block.successors)
        if (next < blocks.size())
          block.out.add(blocks[next].in);
      changes |= block.in.add(block.out, &block.writes);
    }
  }
  for (const Block &block : blocks) {
    block.in.forEach([&](size_t i) { uses[i].include(block.begin); });
    block.out.forEach([&](size_t i) { uses[i].include(block.end - 1); });
  }
}

void Analysis::share() {
  if (hasInnerRegisters) { // a name may mean several registers, so that the sets above are not right
    for (size_t i = 0; i < registers.size(); ++i) {
      registers[i]->slot = int32_t(i);
      registers[i]->isReadFirst = true;
    }
    return;
  }
  spread();
  std::vector<size_t> order;
  for (size_t i = 0; i < registers.size(); ++i) {
    registers[i]->slot = 0; // stays for registers that no statement names
    registers[i]->isReadFirst = !blocks.empty() && blocks[0].in.contains(i);
    if (uses[i].first != SIZE_MAX)
      order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return uses[a].first < uses[b].first; });
  using Busy = std::pair<size_t, int32_t>; // until which statement, and the slot
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  int32_t slots = 0;
  for (size_t i : order) {
    int32_t slot = slots;
    if (!busy.empty() && busy.top().first < uses[i].first) {
      slot = busy.top().second;
      busy.pop();
    } else {
      ++slots;
    }
    registers[i]->slot = slot;
    busy.push({uses[i].last, slot});
  }
}

} // namespace

bool writesOperand(const Statement &s) {
  static constexpr std::string_view kOnlyRead[] = {
      "st",    "red",    "bra",   "brx",      "call",      "ret",       "exit",           "trap",
      "brkpt", "membar", "fence", "prefetch", "prefetchu", "nanosleep", "griddepcontrol", "pmevent"};
  std::string_view name = s.parts[0];
  if (name == "bar" || name == "barrier")
    return s.has("red");
  return std::find(std::begin(kOnlyRead), std::end(kOnlyRead), name) == std::end(kOnlyRead);
}

void shareSlots(std::deque<Step> &steps, const BranchTables &tables) { Analysis(steps, tables).share(); }

} // namespace kerf::standin::ptx
