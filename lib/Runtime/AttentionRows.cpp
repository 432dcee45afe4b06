// SPDX-License-Identifier: Apache-2.0
#include "AttentionRows.h"

#include <algorithm>
#include <map>

namespace kerf::runtime {

namespace {
using package::FlatInstruction;
using package::FlatProgram;
using RowPart = FlatInstruction::RowPart;

bool isOp(const FlatInstruction &instruction, std::string_view op) {
  return instruction.kind == FlatInstruction::Kind::Op && !instruction.kernel && instruction.parts.empty() &&
         instruction.others.empty() && instruction.source->op == op;
}
bool isAttention(const FlatInstruction &instruction) {
  return isOp(instruction, "attention") || isOp(instruction, "attention_backward");
}
constexpr size_t kInputs = 3; // queries, keys and values: the first operands of attention, and the gradients

int64_t productOf(const Shape &shape, size_t begin, size_t end) {
  int64_t all = 1;
  for (size_t d = begin; d < end; ++d)
    all *= shape[d];
  return all;
}

/// Elements of all rows of a value that lie side by side: `width` of them from `offset` on, in each of `rows` rows that
/// are `stride` elements apart.
struct Columns {
  int64_t rows = 0, offset = 0, width = 0, stride = 0;
};

/// Returns the part of a value that has the indices [begin, end) of one dimension.
Columns columnsOf(const Shape &whole, size_t dimension, int64_t begin, int64_t end) {
  int64_t inner = productOf(whole, dimension + 1, whole.size());
  return {productOf(whole, 0, dimension), begin * inner, (end - begin) * inner, whole[dimension] * inner};
}

class RowParts {
public:
  RowParts(FlatProgram &flat, int64_t alignment)
      : flat(flat), alignment(alignment), users(flat.values.size()), isResult(flat.values.size(), false),
        isRemoved(flat.body.size(), false) {
    for (size_t i = 0; i < flat.body.size(); ++i)
      for (int operand : flat.body[i].operands)
        users[size_t(operand)].push_back(i);
    for (int result : flat.results)
      if (result >= 0)
        isResult[size_t(result)] = true;
  }

  void run() {
    std::map<int, std::vector<Slice>> slicesOf; // by the sliced value
    for (size_t i = 0; i < flat.body.size(); ++i)
      if (isOp(flat.body[i], "slice"))
        if (auto slice = sliceAt(i))
          slicesOf[flat.body[i].operands[0]].push_back(std::move(*slice));
    for (const auto &[whole, slices] : slicesOf)
      readParts(whole, slices);
    for (FlatInstruction &instruction : flat.body)
      if (isOp(instruction, "attention_backward"))
        writeParts(instruction);
    std::vector<FlatInstruction> kept;
    for (size_t i = 0; i < flat.body.size(); ++i)
      if (!isRemoved[i])
        kept.push_back(std::move(flat.body[i]));
    flat.body = std::move(kept);
  }

private:
  /// A reader of a slice: an operand of an attention instruction.
  struct Reader {
    size_t instruction, operand;
  };
  /// A slice that only attention reads, directly or through reshapes.
  struct Slice {
    Columns columns;
    std::vector<Reader> readers;
    std::vector<size_t> instructions; // the slice and the reshapes
  };

  /// Returns whether attention can read or write a value as these columns.
  bool fits(int value, const Columns &columns) const {
    const package::Value &type = flat.values[size_t(value)];
    int64_t bytes = bytesOf(type.dtype);
    return type.shape.size() == 4 && columns.rows == type.shape[0] * type.shape[1] &&
           columns.width == type.shape[2] * type.shape[3] && columns.offset * bytes % alignment == 0 &&
           columns.stride * bytes % alignment == 0;
  }

  /// Collects the readers of a value; false if anything but attention reads it.
  bool collect(int value, Slice &slice) const {
    if (isResult[size_t(value)])
      return false;
    for (size_t user : users[size_t(value)]) {
      const FlatInstruction &instruction = flat.body[user];
      if (isOp(instruction, "reshape")) {
        slice.instructions.push_back(user);
        if (!collect(instruction.results[0], slice))
          return false;
        continue;
      }
      for (size_t o = 0; o < instruction.operands.size(); ++o) {
        if (instruction.operands[o] != value)
          continue;
        if (!isAttention(instruction) || o >= kInputs || !fits(value, slice.columns))
          return false;
        slice.readers.push_back({user, o});
      }
    }
    return true;
  }

  std::optional<Slice> sliceAt(size_t i) const {
    const FlatInstruction &slice = flat.body[i];
    const Shape &whole = flat.values[size_t(slice.operands[0])].shape;
    auto list = [&](const char *name) { return slice.source->attrs.at(name).get<std::vector<int64_t>>(); };
    std::vector<int64_t> start = list("start"), limit = list("limit"), strides = list("strides");
    size_t dimension = whole.size();
    for (size_t d = 0; d < whole.size(); ++d) {
      if (start[d] == 0 && limit[d] == whole[d] && strides[d] == 1)
        continue;
      if (dimension < whole.size() || strides[d] != 1)
        return std::nullopt;
      dimension = d;
    }
    if (dimension == whole.size())
      return std::nullopt;
    Slice found{columnsOf(whole, dimension, start[dimension], limit[dimension]), {}, {i}};
    return collect(slice.results[0], found) ? std::optional(std::move(found)) : std::nullopt;
  }

  /// Lets attention read the slices of a value where they lie, if they are all of it.
  void readParts(int whole, const std::vector<Slice> &slices) {
    int64_t width = 0;
    for (const Slice &slice : slices)
      width += slice.columns.width;
    if (width < slices[0].columns.stride)
      return; // the value would live on for less than all of it
    for (const Slice &slice : slices) {
      for (const Reader &reader : slice.readers) {
        FlatInstruction &instruction = flat.body[reader.instruction];
        instruction.operandParts.resize(instruction.operands.size());
        int &operand = instruction.operands[reader.operand];
        instruction.operandParts[reader.operand] = {operand, slice.columns.offset, slice.columns.stride};
        operand = whole;
      }
      for (size_t removed : slice.instructions)
        isRemoved[removed] = true;
    }
  }

  /// Lets attention write its gradients where a concatenation would copy them.
  void writeParts(FlatInstruction &attention) {
    std::vector<size_t> removed;
    std::vector<int> copied; // the gradients as the concatenation reads them
    for (int value : attention.results) {
      for (;;) {
        if (isResult[size_t(value)] || users[size_t(value)].size() != 1)
          return;
        const FlatInstruction &user = flat.body[users[size_t(value)][0]];
        removed.push_back(users[size_t(value)][0]);
        if (!isOp(user, "reshape"))
          break;
        value = user.results[0];
      }
      if (!isOp(flat.body[removed.back()], "concatenate"))
        return;
      copied.push_back(value);
    }
    const FlatInstruction &concatenation = flat.body[removed.back()];
    if (copied.size() != kInputs || concatenation.operands.size() != kInputs)
      return;
    auto dimension = size_t(concatenation.source->attrs.at("dimension").get<int64_t>());
    const int whole = concatenation.results[0];
    std::vector<RowPart> parts(kInputs);
    int64_t begin = 0;
    for (int operand : concatenation.operands) {
      int64_t end = begin + flat.values[size_t(operand)].shape[dimension];
      auto found = std::find(copied.begin(), copied.end(), operand);
      if (found == copied.end())
        return;
      auto number = size_t(found - copied.begin());
      Columns columns = columnsOf(flat.values[size_t(whole)].shape, dimension, begin, end);
      if (!fits(attention.results[number], columns))
        return;
      parts[number] = {attention.results[number], columns.offset, columns.stride};
      begin = end;
    }
    attention.resultParts = std::move(parts);
    attention.results = {whole};
    for (size_t i : removed)
      isRemoved[i] = true;
  }

  FlatProgram &flat;
  int64_t alignment;
  std::vector<std::vector<size_t>> users; // for each value: the instructions that read it
  std::vector<bool> isResult;             // for each value: whether it is a result of the step
  std::vector<bool> isRemoved;            // for each instruction
};
} // namespace

void usePartsOfRows(FlatProgram &flat, const Device &device) {
  if (int64_t alignment = device.rowPartAlignment(); alignment > 0)
    RowParts(flat, alignment).run();
}

} // namespace kerf::runtime
