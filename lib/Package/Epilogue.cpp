// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/Addition.h"
#include "kerf/Package/JoinedInstruction.h"
#include "kerf/Package/Native.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::package {

namespace {
/// cuBLASLt wants rows of this many elements, or a multiple of it, where an epilogue has a second matrix.
constexpr int64_t kRowsOfKept = 8;

std::vector<int64_t> listOf(const Instruction &instruction, const char *name) {
  auto found = instruction.attrs.find(name);
  if (found == instruction.attrs.end() || !found->is_array())
    return {};
  std::vector<int64_t> list;
  for (const auto &item : *found)
    list.push_back(item.is_number_integer() ? item.get<int64_t>() : -1);
  return list;
}
bool isSum(const Instruction &reduce) {
  auto kind = reduce.attrs.find("kind");
  return kind != reduce.attrs.end() && *kind == "sum";
}
bool isTanhForm(const Instruction &gelu) {
  auto approximate = gelu.attrs.find("approximate");
  return approximate != gelu.attrs.end() && *approximate == true;
}

/// One op after the product with its operands and results as flat values, whether it is an instruction of its own or
/// part of a kernel.
struct Op {
  const Instruction *source = nullptr;
  std::vector<int> operands;
  int result = -1;
};

/// Returns the only op of an instruction; nothing if the instruction is a kernel of several ops.
std::optional<Op> onlyOp(const FlatInstruction &instruction) {
  if (instruction.results.size() != 1)
    return std::nullopt;
  if (!instruction.kernel)
    return Op{instruction.source, instruction.operands, instruction.results[0]};
  const Function &kernel = *instruction.kernel;
  if (kernel.body.size() != 1 || kernel.body[0].results != kernel.results)
    return std::nullopt;
  Op op{&kernel.body[0], {}, instruction.results[0]};
  for (int operand : kernel.body[0].operands) {
    auto argument = std::find(kernel.args.begin(), kernel.args.end(), operand);
    if (argument == kernel.args.end())
      return std::nullopt;
    op.operands.push_back(instruction.operands[size_t(argument - kernel.args.begin())]);
  }
  return op;
}

/// The sizes of a product of two matrices, whose result has the free dimensions of both factors.
struct Sizes {
  size_t rightRank = 0; // free dimensions of the right factor: the last ones of the result
  int64_t columns = 1;  // their elements
};

/// Returns the sizes of a product that can have an epilogue.
std::optional<Sizes> sizesOf(const std::vector<Value> &values, const FlatInstruction &product) {
  if (product.kind != FlatInstruction::Kind::Op || product.kernel || product.source->op != kProduct ||
      product.operands.size() != 2 || product.results.size() != 1 || product.sum >= 0 ||
      !listOf(*product.source, "lhs_batching").empty())
    return std::nullopt;
  const Value &right = values[size_t(product.operands[1])], &result = values[size_t(product.results[0])];
  bool typed = result.dtype == DType::F32 || result.dtype == DType::BF16 || result.dtype == DType::F16;
  size_t contracted = listOf(*product.source, "rhs_contracting").size();
  if (!typed || right.shape.size() <= contracted || right.shape.size() - contracted > result.shape.size())
    return std::nullopt;
  Sizes sizes{right.shape.size() - contracted};
  for (size_t d = result.shape.size() - sizes.rightRank; d < result.shape.size(); ++d)
    sizes.columns *= result.shape[d];
  return sizes;
}

bool sameTensor(const std::vector<Value> &values, int a, int b) {
  return values[size_t(a)].dtype == values[size_t(b)].dtype && values[size_t(a)].shape == values[size_t(b)].shape;
}

/// The terms of a sum that a kernel computes, as bits.
enum Terms : uint8_t { kNoTerm = 0, kProductTerm = 1, kBiasTerm = 2, kAddendTerm = 4 };

/// The work of a kernel that begins with the addition of a bias.
struct Biased {
  ProductEpilogue epilogue;
  int addend = -1; // the tensor of the product's shape that is added too
};

/// Returns the work of a kernel that adds a bias to the product, and perhaps a tensor of the product's shape, or
/// applies GELU to P + bias.
std::optional<Biased> biasOf(const std::vector<Value> &values, const Sizes &sizes, int product,
                             const FlatInstruction &chain) {
  if (!chain.kernel)
    return std::nullopt;
  const Function &kernel = *chain.kernel;
  std::vector<uint8_t> terms(kernel.values.size(), kNoTerm); // of each value of the kernel
  std::vector<int> argumentOf(kernel.values.size(), -1);     // the flat value, for arguments of the kernel
  for (size_t a = 0; a < kernel.args.size(); ++a) {
    argumentOf[size_t(kernel.args[a])] = chain.operands[a];
    if (chain.operands[a] == product)
      terms[size_t(kernel.args[a])] = kProductTerm;
  }
  ProductEpilogue epilogue{EpilogueKind::Bias, product};
  int addend = -1;
  const Instruction *broadcast = nullptr, *gelu = nullptr;
  int sum = -1; // the last sum, a value of the kernel
  for (const Instruction &op : kernel.body) {
    if (op.results.size() != 1 || gelu)
      return std::nullopt;
    int result = op.results[0];
    if (op.op == "broadcast_in_dim" && !broadcast && op.operands.size() == 1) {
      broadcast = &op;
      epilogue.bias = argumentOf[size_t(op.operands[0])];
      terms[size_t(result)] = kBiasTerm;
    } else if (op.op == "add" && op.operands.size() == 2) {
      for (int operand : op.operands) {
        if (terms[size_t(operand)] == kNoTerm) {
          addend = argumentOf[size_t(operand)];
          terms[size_t(operand)] = kAddendTerm;
        }
        if (terms[size_t(result)] & terms[size_t(operand)])
          return std::nullopt; // one tensor is added twice
        terms[size_t(result)] |= terms[size_t(operand)];
      }
      sum = result;
    } else if (op.op == "gelu" && op.operands == std::vector<int>{sum}) {
      gelu = &op;
    } else {
      return std::nullopt;
    }
  }
  uint8_t whole = sum < 0 ? uint8_t(kNoTerm) : terms[size_t(sum)];
  bool adds = whole == (kProductTerm | kBiasTerm) || (whole == (kProductTerm | kBiasTerm | kAddendTerm) && !gelu &&
                                                      addend >= 0 && sameTensor(values, addend, product));
  if (!adds || epilogue.bias < 0 || epilogue.bias == product)
    return std::nullopt;
  // The bias has the product's last dimensions, those of the right factor.
  const Value &to = values[size_t(product)], &its = values[size_t(epilogue.bias)];
  size_t first = to.shape.size() - sizes.rightRank;
  std::vector<int64_t> dims;
  for (size_t d = first; d < to.shape.size(); ++d)
    dims.push_back(int64_t(d));
  if (its.dtype != to.dtype || listOf(*broadcast, "broadcast_dimensions") != dims ||
      !std::equal(its.shape.begin(), its.shape.end(), to.shape.begin() + int64_t(first), to.shape.end()))
    return std::nullopt;

  auto resultOf = [&](int value) {
    auto found = std::find(kernel.results.begin(), kernel.results.end(), value);
    return found == kernel.results.end() ? -1 : chain.results[size_t(found - kernel.results.begin())];
  };
  epilogue.result = resultOf(sum);
  if (gelu) {
    if (!isTanhForm(*gelu))
      return std::nullopt;
    epilogue.kind = EpilogueKind::BiasGelu;
    epilogue.kept = resultOf(sum);
    epilogue.result = resultOf(gelu->results[0]);
    if (epilogue.kept >= 0 && sizes.columns % kRowsOfKept != 0)
      return std::nullopt;
  }
  bool isWhole = epilogue.result >= 0 && chain.results.size() == size_t(1 + (epilogue.kept >= 0)) &&
                 sameTensor(values, epilogue.result, product) &&
                 (epilogue.kept < 0 || sameTensor(values, epilogue.kept, product));
  return isWhole ? std::optional(Biased{epilogue, addend}) : std::nullopt;
}

/// Returns the addition of an instruction that adds another tensor of the same shape to the product.
std::optional<ProductAddition> plainAdditionOf(const std::vector<Value> &values, int product,
                                               const FlatInstruction &addition) {
  auto op = onlyOp(addition);
  if (!op || op->source->op != "add" || op->operands.size() != 2 || !sameTensor(values, op->result, product))
    return std::nullopt;
  size_t other = op->operands[0] == product ? 1 : 0;
  int addend = op->operands[other];
  if (op->operands[1 - other] != product || addend == product || !sameTensor(values, addend, product))
    return std::nullopt;
  return ProductAddition{product, addend, -1, op->result};
}

/// Returns the sums that an instruction computes of `of` over `dims`; -1 if it computes something else.
int sumsOf(const std::vector<Value> &values, const FlatInstruction &instruction, int of, std::vector<int64_t> dims,
           DType type) {
  auto reduce = onlyOp(instruction);
  if (!reduce || reduce->source->op != "reduce" || !isSum(*reduce->source) || reduce->operands != std::vector<int>{of})
    return -1;
  std::vector<int64_t> reduced = listOf(*reduce->source, "dimensions");
  std::sort(reduced.begin(), reduced.end());
  std::sort(dims.begin(), dims.end());
  return reduced == dims && values[size_t(reduce->result)].dtype == type ? reduce->result : -1;
}

std::optional<ProductEpilogue> geluGradientOf(const std::vector<Value> &values, const Sizes &sizes, int product,
                                              const FlatInstruction &gradient) {
  auto op = onlyOp(gradient);
  if (!op || op->source->op != "gelu_backward" || !isTanhForm(*op->source) || op->operands.size() != 2 ||
      op->operands[1] != product || op->operands[0] == product || sizes.columns % kRowsOfKept != 0 ||
      !sameTensor(values, op->operands[0], product) || !sameTensor(values, op->result, product))
    return std::nullopt;
  ProductEpilogue epilogue{EpilogueKind::GeluGradient, product, op->result};
  epilogue.kept = op->operands[0];
  return epilogue;
}

std::optional<ProductEpilogue> factorSumsOf(const std::vector<Value> &values, const FlatInstruction &product,
                                            const FlatInstruction &sums) {
  int result = product.results[0];
  for (bool left : {false, true}) {
    int factor = product.operands[left ? 0 : 1];
    std::vector<int64_t> dims = listOf(*product.source, left ? "lhs_contracting" : "rhs_contracting");
    int found = sumsOf(values, sums, factor, dims, values[size_t(result)].dtype);
    if (found < 0 || dims.size() == values[size_t(factor)].shape.size())
      continue;
    ProductEpilogue epilogue{EpilogueKind::FactorSums, result, result};
    epilogue.sums = found;
    epilogue.ofLeft = left;
    return epilogue;
  }
  return std::nullopt;
}
} // namespace

std::optional<ProductEpilogue> epilogueOf(const std::vector<Value> &values, std::span<const FlatInstruction> group) {
  if (group.size() < 2 || group.size() > 3)
    return std::nullopt;
  auto sizes = sizesOf(values, group[0]);
  if (!sizes || group[1].kind != FlatInstruction::Kind::Op)
    return std::nullopt;
  int product = group[0].results[0];
  auto epilogue = geluGradientOf(values, *sizes, product, group[1]);
  if (group.size() == 3) {
    if (!epilogue || group[2].kind != FlatInstruction::Kind::Op)
      return std::nullopt;
    const Value &result = values[size_t(epilogue->result)];
    std::vector<int64_t> rows;
    for (size_t d = 0; d + sizes->rightRank < result.shape.size(); ++d)
      rows.push_back(int64_t(d));
    epilogue->sums = sumsOf(values, group[2], epilogue->result, rows, result.dtype);
    return epilogue->sums >= 0 ? epilogue : std::nullopt;
  }
  if (!epilogue)
    if (auto biased = biasOf(values, *sizes, product, group[1]))
      epilogue = biased->epilogue;
  if (!epilogue)
    if (auto addition = plainAdditionOf(values, product, group[1]))
      epilogue = ProductEpilogue{EpilogueKind::Bias, product, addition->result};
  return epilogue ? epilogue : factorSumsOf(values, group[0], group[1]);
}

std::optional<ProductAddition> additionOf(const std::vector<Value> &values, std::span<const FlatInstruction> group) {
  auto sizes = group.size() == 2 ? sizesOf(values, group[0]) : std::nullopt;
  if (!sizes || group[1].kind != FlatInstruction::Kind::Op)
    return std::nullopt;
  int product = group[0].results[0];
  if (auto biased = biasOf(values, *sizes, product, group[1]); biased && biased->addend >= 0)
    return ProductAddition{product, biased->addend, biased->epilogue.bias, biased->epilogue.result};
  return plainAdditionOf(values, product, group[1]);
}

FlatInstruction joinedInstruction(const std::vector<Value> &values, std::span<const FlatInstruction> group) {
  auto epilogue = epilogueOf(values, group);
  FlatInstruction made = group[0];
  made.joined = 0;
  made.operands.clear();
  made.results.clear();
  std::vector<int> own;
  for (const FlatInstruction &part : group) {
    for (int operand : part.operands)
      if (std::find(own.begin(), own.end(), operand) == own.end())
        made.operands.push_back(operand);
    for (int result : part.results) {
      own.push_back(result);
      if (result != epilogue->product || result == epilogue->result)
        made.results.push_back(result);
    }
  }
  made.parts.assign(group.begin(), group.end());
  made.parts[0].joined = 0;
  return made;
}

Status checkGroups(const FlatProgram &flat) {
  std::vector<int> uses(flat.values.size(), 0);
  for (const FlatInstruction &instruction : flat.body)
    for (int operand : instruction.operands)
      ++uses[size_t(operand)];
  for (int result : flat.results)
    if (result >= 0)
      ++uses[size_t(result)];
  for (size_t i = 0; i < flat.body.size(); ++i) {
    if (flat.body[i].joined == 0)
      continue;
    int product = flat.body[i].origin;
    auto epilogue = epilogueOf(flat.values, std::span(flat.body).subspan(i, size_t(flat.body[i].joined) + 1));
    if (!epilogue)
      return Error{
          fmt::format("the instructions that are joined with instruction {} ({}) are no epilogue of a product; "
                      "run them one by one",
                      product, flat.body[i].source->op)};
    if (epilogue->product != epilogue->result && uses[size_t(epilogue->product)] != 1)
      return Error{fmt::format("{} instructions use the result of the product {}, which is joined with one of them and "
                               "not stored; run them one by one",
                               uses[size_t(epilogue->product)], product)};
  }
  return ok();
}

} // namespace kerf::package
