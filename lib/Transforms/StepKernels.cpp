// SPDX-License-Identifier: Apache-2.0
#include "StepKernels.h"

#include "kerf/Package/Package.h"
#include "kerf/Transforms/Work.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

constexpr double kStatisticBytes = 4; // f32
constexpr double kMaskBytes = 1;

double elements(const Shape &shape) { return static_cast<double>(elementsOf(shape)); }

/// Returns whether the value is a bias: the broadcast of an argument that is no scalar.
bool isBias(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  return broadcast && tensorType(broadcast.getOperand()).getRank() > 0 && isa<BlockArgument>(broadcast.getOperand());
}

bool isProduct(Value value) { return kernelClassOf(value.getDefiningOp()) == KernelClass::Product; }

bool isEpilogue(Operation *op) {
  return isa<AddOp>(op) && ((isProduct(op->getOperand(0)) && isBias(op->getOperand(1))) ||
                            (isProduct(op->getOperand(1)) && isBias(op->getOperand(0))));
}

/// Returns whether an operand of attention (or of its backward op) is the mask.
bool isMask(Operation *op, unsigned operand) {
  bool masked = op->getNumOperands() == (isa<AttentionBackwardOp>(op) ? 7 : 4);
  return masked && operand == 3;
}

std::string nameOf(Operation *op) {
  std::string node = nodeName(op->getLoc());
  return node.empty() ? op->getName().stripDialect().str() : node;
}

} // namespace

double elementBytes(Value value, const KernelTypes &types) {
  Type element = tensorType(value).getElementType();
  if (!isa<FloatType>(element))
    return static_cast<double>(bytesPerElement(value.getType()));
  auto result = dyn_cast<OpResult>(value);
  std::optional<HalfRule> rule = result ? halfRuleOf(result.getOwner()) : std::nullopt;
  bool statistic =
      result &&
      (isa<CrossEntropyOp>(result.getOwner()) ||
       (result.getResultNumber() > 0 && (rule == HalfRule::TypeOfFirst || isa<AttentionOp>(result.getOwner()))));
  return statistic ? std::max(types.bytes, kStatisticBytes) : types.bytes;
}

bool KernelBuilder::isVirtual(Operation *op) {
  if (op->hasTrait<FusesIntoUsers>() || isEpilogue(op))
    return true;
  // A product reads an operand with its dimensions in any order, so that a transpose before it costs nothing.
  return isa<TransposeOp>(op) && llvm::all_of(op->getUsers(), [](Operation *user) { return isa<DotGeneralOp>(user); });
}

double KernelBuilder::operandBytes(Operation *op, unsigned i) const {
  return elements(localShape(op, false, i)) * elementBytes(op->getOperand(i), types);
}

double KernelBuilder::resultBytes(Operation *op, unsigned i) const {
  return elements(localShape(op, true, i)) * elementBytes(op->getResult(i), types);
}

int KernelBuilder::resolve(int slot) const {
  while (slot >= 0 && slots[slot].mergedInto >= 0)
    slot = slots[slot].mergedInto;
  return slot;
}

/// Returns the slot of the kernel after which the value is available; -1 where it is available from the start.
int KernelBuilder::slotOf(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op)
    return -1;
  if (isVirtual(op)) {
    int last = -1;
    for (Value operand : op->getOperands())
      last = std::max(last, slotOf(operand));
    return last;
  }
  auto found = slotOfOp.find(op);
  return found == slotOfOp.end() ? -1 : resolve(found->second);
}

bool KernelBuilder::usedOutside(Value value, int slot, int orSlot, Operation *orOp) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (user == orOp || (user->hasTrait<OpTrait::IsTerminator>() && recomputedValues.contains(value)))
      return false;
    if (isVirtual(user))
      return llvm::any_of(user->getResults(), [&](Value view) { return usedOutside(view, slot, orSlot, orOp); });
    auto found = slotOfOp.find(user);
    int its = found == slotOfOp.end() ? -2 : resolve(found->second);
    return its != slot && its != orSlot;
  });
}

bool KernelBuilder::isStored(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op || isVirtual(op))
    return false;
  int slot = slotOf(value);
  return slot < 0 || !slots[slot].pointwise || usedOutside(value, slot, slot, nullptr);
}

void KernelBuilder::addPointwise(Operation *op) {
  int last = -1;
  for (Value operand : op->getOperands())
    last = std::max(last, slotOf(operand));
  bool joins = last >= static_cast<int>(passBegin) && slots[last].pointwise &&
               llvm::none_of(op->getOperands(), [&](Value operand) { return needsReduction(operand, last); });
  if (!joins) {
    last = static_cast<int>(slots.size());
    slots.emplace_back().pointwise = true;
  }
  // A kernel whose results are read by this kernel only is fused into it.
  for (Value operand : op->getOperands()) {
    int other = slotOf(operand);
    if (other < static_cast<int>(passBegin) || other == last || !slots[other].pointwise || slots[other].reduces)
      continue;
    bool alone = llvm::all_of(slots[other].members, [&](Operation *member) {
      return llvm::all_of(member->getResults(), [&](Value result) { return !usedOutside(result, other, last, op); });
    });
    if (!alone)
      continue;
    Slot &from = slots[other], &to = slots[last];
    to.members.insert_range(from.members);
    for (auto &[value, bytes] : from.reads)
      to.reads[value] = bytes;
    to.extraBytes += from.extraBytes;
    from.mergedInto = last;
  }
  Slot &slot = slots[last];
  slot.members.insert(op);
  slotOfOp[op] = last;
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    Value operand = op->getOperand(i);
    if (slotOf(operand) == last || recomputedValues.contains(operand))
      continue;
    double bytes = operandBytes(op, i);
    if (auto broadcast = operand.getDefiningOp<BroadcastInDimOp>()) { // read once from memory, used for all copies
      operand = broadcast.getOperand();
      bytes = std::min(bytes, static_cast<double>(elementsOf(shapeOf(operand))) * elementBytes(operand, types));
    }
    slot.reads[operand] = bytes;
  }
  // Values that the fused kernel computes itself are not read from memory.
  slot.reads.remove_if([&](auto &read) { return slotOf(read.first) == last; });
  if (op->hasAttr(KerfDialect::kDropoutAttr))
    slot.extraBytes += kMaskBytes * elements(localShape(op, true, 0));
}

/// Returns whether the value depends on a reduction that the kernel `slot` completes only at its end.
bool KernelBuilder::needsReduction(Value value, int slot) const {
  Operation *op = value.getDefiningOp();
  if (!op || !slots[size_t(slot)].reduces)
    return false;
  if (isVirtual(op))
    return llvm::any_of(op->getOperands(), [&](Value operand) { return needsReduction(operand, slot); });
  return isa<ReduceOp>(op) && slotOf(value) == slot;
}

/// Makes a reduction part of the pointwise kernel that computes its operand. Returns false where there is none.
bool KernelBuilder::joinsPointwise(ReduceOp reduce) {
  int slot = slotOf(reduce.getOperand());
  if (!types.fusesReductions || slot < static_cast<int>(passBegin) || !slots[size_t(slot)].pointwise ||
      needsReduction(reduce.getOperand(), slot))
    return false;
  slots[size_t(slot)].members.insert(reduce);
  slots[size_t(slot)].reduces = true;
  slotOfOp[reduce] = slot;
  return true;
}

KernelWork KernelBuilder::kernel(Operation *op, const char *what, KernelClass kernelClass, double bytes) const {
  KernelWork kernel;
  kernel.name = nameOf(op) + what;
  kernel.cuts = cutsOf(op);
  kernel.work.kernelClass = kernelClass;
  kernel.work.bytes = bytes;
  kernel.work.flops = bytes / types.bytes; // about one for each element; the bytes determine the time
  kernel.work.dtype = types.other;
  return kernel;
}

KernelWork KernelBuilder::product(Operation *op, const char *what, double m, double n, double k, double batch) const {
  KernelWork kernel;
  kernel.name = nameOf(op) + what;
  kernel.cuts = cutsOf(op);
  double factorBytes = types.hasEightBitFactors(op) ? kEightBitBytes : types.bytes;
  kernel.work = {KernelClass::Product,
                 2 * batch * m * n * k,
                 batch * (factorBytes * (m * k + k * n) + types.bytes * m * n),
                 types.hasEightBitFactors(op) ? "f8" : types.product,
                 1,
                 m,
                 n,
                 k,
                 batch};
  return kernel;
}

/// Returns the kernel of a convolution. `bytes` counts each element of operands and results once, because repeated
/// reads of overlapping windows hit a cache.
KernelWork KernelBuilder::windowProduct(Operation *op, double bytes) const {
  Work sizes;
  cast<WorkOpInterface>(op).describe({localShape(op, false, 0), localShape(op, false, 1)}, {localShape(op, true, 0)},
                                     sizes);
  KernelWork convolution = product(op, "", sizes.m, sizes.n, sizes.k, sizes.batch);
  convolution.work.bytes = bytes;
  return convolution;
}

/// Returns the kernels of attention or of its backward op. Unfused attention has two products (scores and context) with
/// a masked softmax and dropout between them, which read and write the scores in memory; its backward has four
/// products. Selective recomputation runs all of these again, except for the kernel that merges the heads.
std::vector<KernelWork> KernelBuilder::attention(Operation *op) const {
  bool backward = isa<AttentionBackwardOp>(op), causal = op->hasAttr("causal");
  Shape query = localShape(op, false, 0), key = localShape(op, false, 1), value = localShape(op, false, 2);
  double samples = static_cast<double>(query[0] * query[2]), s = static_cast<double>(query[1]),
         t = static_cast<double>(shapeOf(op->getOperand(1))[1]);
  // Ring attention has one kernel for each block of keys and values, which updates the result of the kernels before it.
  double blocks = t / static_cast<double>(key[1]);
  double d = static_cast<double>(query[3]), e = static_cast<double>(value[3]);
  std::vector<KernelWork> kernels;
  if (types.fusedAttention) {
    double bytes = 0;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      bytes += operandBytes(op, i) * (isMask(op, i) ? 1 : blocks);
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      bytes += resultBytes(op, i) * blocks;
    // The backward has five products where the forward has two (Dao 2023): the recomputed scores and the gradients of
    // queries and keys, of size d, and the gradients of probabilities and values, of size e.
    double width = backward ? 3 * d + 2 * e : d + e;
    double flops = 2 * samples * s * t * width * (causal ? 0.5 : 1);
    KernelWork fused = kernel(op, "", KernelClass::Attention, bytes);
    fused.work = {KernelClass::Attention, flops, bytes, types.product, blocks, s, t / blocks, d, samples};
    kernels.push_back(fused);
  } else {
    double scores = samples * s * t;
    // A backward op carries no kerf.dropout, so the forward ops of the module tell whether there is dropout.
    auto forward = op->getParentOfType<ModuleOp>().walk([](AttentionOp one) {
      return one->hasAttr(KerfDialect::kDropoutAttr) ? WalkResult::interrupt() : WalkResult::advance();
    });
    bool drops = forward.wasInterrupted();
    KernelWork dropout = kernel(op, " dropout", KernelClass::Pointwise, (2 * types.bytes + kMaskBytes) * scores);
    double merged = samples * s * e;
    if (!backward) {
      kernels.push_back(product(op, " scores", s, t, d, samples));
      kernels.push_back(kernel(op, " softmax", KernelClass::Reduction, 2 * types.bytes * scores));
      if (drops)
        kernels.push_back(dropout);
      kernels.push_back(product(op, " context", s, e, t, samples));
    } else {
      kernels = {product(op, " probabilities' gradient", s, t, e, samples),
                 product(op, " values' gradient", t, e, s, samples)};
      if (drops)
        kernels.push_back(dropout);
      kernels.push_back(kernel(op, " softmax's gradient", KernelClass::Reduction, 3 * types.bytes * scores));
      kernels.push_back(product(op, " queries' gradient", s, d, t, samples));
      kernels.push_back(product(op, " keys' gradient", t, d, s, samples));
    }
    if (!backward) // the transpose that merges the heads
      kernels.push_back(kernel(op, " merge", KernelClass::Movement, 2 * types.bytes * merged));
  }
  for (KernelWork &one : kernels)
    one.recomputedBy = one.work.kernelClass == KernelClass::Movement ? RecomputeModes::Others : types.coreModes();
  return kernels;
}

std::vector<KernelWork> KernelBuilder::kernelsOf(Operation *op) const {
  double bytes = 0;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    bytes += operandBytes(op, i);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    bytes += resultBytes(op, i);
  bool narrow = types.bytes < kStatisticBytes;
  return llvm::TypeSwitch<Operation *, std::vector<KernelWork>>(op)
      .Case([&](DotGeneralOp dot) -> std::vector<KernelWork> {
        Shape lhs = localShape(op, false, 0), rhs = localShape(op, false, 1);
        double batch = 1, k = 1;
        for (int64_t dim : dot.getLhsBatching())
          batch *= static_cast<double>(lhs[dim]);
        for (int64_t dim : dot.getLhsContracting())
          k *= static_cast<double>(lhs[dim]);
        return {product(op, "", elements(lhs) / (batch * k), elements(rhs) / (batch * k), k, batch)};
      })
      .Case([&](CrossEntropyOp) -> std::vector<KernelWork> {
        if (types.fusedLoss)
          return {kernel(op, "", KernelClass::Reduction, bytes)};
        // The passes over the logits are those of Megatron-LM's vocabulary-parallel cross entropy, in f32: a conversion
        // (where logits are narrower), a read for the maximum, and a read and a write for the exponentials.
        double logits = elements(localShape(op, false, 0)), wide = std::max(types.bytes, kStatisticBytes);
        return {kernel(op, "", KernelClass::Reduction, logits * ((narrow ? types.bytes + wide : 0) + 3 * wide))};
      })
      .Case([&](CrossEntropyBackwardOp) -> std::vector<KernelWork> {
        if (types.fusedLoss)
          return {kernel(op, "", KernelClass::Reduction, bytes)};
        double logits = elements(localShape(op, false, 0)), wide = std::max(types.bytes, kStatisticBytes);
        return {kernel(op, "", KernelClass::Reduction, logits * ((narrow ? types.bytes + wide : 0) + 2 * wide))};
      })
      .Case([&](EmbeddingBackwardOp) -> std::vector<KernelWork> { // zeros the table, then reads and writes rows
        return {kernel(op, " rows", KernelClass::Gather, 3 * operandBytes(op, 1)),
                kernel(op, " table", KernelClass::Pointwise, resultBytes(op, 0))};
      })
      .Default([&](Operation *) -> std::vector<KernelWork> {
        KernelClass kernelClass = kernelClassOf(op);
        if (kernelClass == KernelClass::Attention)
          return attention(op);
        if (kernelClass == KernelClass::Product)
          return {windowProduct(op, bytes)};
        if (kernelClass == KernelClass::Gather && op->hasTrait<PicksElements>()) // reads as many bytes as it writes
          return {kernel(op, "", kernelClass, 2 * resultBytes(op, 0))};
        return {kernel(op, "", kernelClass, bytes)};
      });
}

void KernelBuilder::addUnfused(Operation *op, std::vector<KernelWork> kernels) {
  slotOfOp[op] = static_cast<int>(slots.size());
  Slot &slot = slots.emplace_back();
  slot.members.insert(op);
  slot.kernels = std::move(kernels);
}

/// Returns whether a product reads the operand without a copy where its factors have 8 bits: the contracted dimensions
/// are the last ones.
static bool endsWithContracted(Value operand, ArrayRef<int64_t> contracting) {
  int64_t first = tensorType(operand).getRank() - static_cast<int64_t>(contracting.size());
  return llvm::all_of(contracting, [&](int64_t dim) { return dim >= first; });
}

/// Returns the kernels that make the 8-bit factors of a product: for a factor that no earlier product has quantized,
/// one that finds the largest absolute value and one that rounds; and a copy of a factor whose contracted dimensions
/// are not contiguous.
std::vector<KernelWork> KernelBuilder::factorKernels(DotGeneralOp product) {
  std::vector<KernelWork> kernels;
  for (unsigned i = 0; i < 2; ++i) {
    Value factor = product->getOperand(i);
    double count = elements(localShape(product, false, i));
    if (types.eightBit->quantized.contains(factor) && quantized.insert(factor).second) {
      kernels.push_back(kernel(product, " magnitude of a factor", KernelClass::Reduction, types.bytes * count));
      kernels.push_back(
          kernel(product, " 8-bit factor", KernelClass::Pointwise, (types.bytes + kEightBitBytes) * count));
    }
    if (!endsWithContracted(factor, i == 0 ? product.getLhsContracting() : product.getRhsContracting()))
      kernels.push_back(kernel(product, " copy of a factor", KernelClass::Movement, 2 * kEightBitBytes * count));
  }
  return kernels;
}

static bool hasPointwiseKernel(Operation *op) {
  auto work = dyn_cast<WorkOpInterface>(op);
  return work && work.getKernelClass() == KernelClass::Pointwise && !KernelBuilder::isVirtual(op);
}

/// Returns whether `op`, GELU of a product and a bias or the gradient of GELU, has become a part of the product's
/// kernel, which then also writes the result of GELU or reads its operand (kerf/Package/Epilogue.h says when).
bool KernelBuilder::joinsProduct(Operation *op) {
  constexpr int64_t kColumns = 8; // the library's kernels keep or read the operand of GELU in rows of such multiples
  bool backward = isa<GeluBackwardOp>(op);
  if (!types.joinsProducts || !op->hasAttr("approximate") || tensorType(op->getResult(0)).getRank() == 0 ||
      localShape(op, true, 0).back() % kColumns != 0 || llvm::any_of(op->getUsers(), hasPointwiseKernel))
    return false;
  Value from = op->getOperand(backward ? 1 : 0);
  if (!backward) { // P + bias, where P is the product
    Operation *add = from.getDefiningOp();
    if (!add || !isEpilogue(add))
      return false;
    from = add->getOperand(isProduct(add->getOperand(0)) ? 0 : 1);
  }
  Operation *product = from.getDefiningOp();
  auto found = slotOfOp.find(product);
  if (!isa_and_nonnull<DotGeneralOp>(product) || !product->hasOneUse() || types.hasEightBitFactors(product) ||
      found == slotOfOp.end() || found->second < static_cast<int>(passBegin))
    return false;
  Slot &slot = slots[found->second];
  slot.kernels.back().work.bytes += backward ? operandBytes(op, 0) : resultBytes(op, 0);
  slot.members.insert(op);
  slotOfOp[op] = found->second;
  return true;
}

/// Returns whether the reduction is the gradient of a bias that the product for the weight's gradient computes too: the
/// sums of a factor over the dimensions that the product contracts (kerf/Package/Epilogue.h).
static bool isFactorSum(ReduceOp reduce) {
  Value factor = reduce.getOperand();
  return reduce.getKind() == ReduceKindIR::sum && llvm::any_of(factor.getUsers(), [&](Operation *user) {
           auto dot = dyn_cast<DotGeneralOp>(user);
           return dot && ((dot.getLhs() == factor && dot.getLhsContracting() == reduce.getDimensions()) ||
                          (dot.getRhs() == factor && dot.getRhsContracting() == reduce.getDimensions()));
         });
}

void KernelBuilder::add(Operation *op) {
  if (isVirtual(op))
    return;
  if (auto reduce = dyn_cast<ReduceOp>(op); reduce && types.joinsProducts && isFactorSum(reduce))
    return addUnfused(op, {});
  if (isa<GeluOp, GeluBackwardOp>(op) && joinsProduct(op))
    return;
  if (auto reduce = dyn_cast<ReduceOp>(op); reduce && joinsPointwise(reduce))
    return;
  if (types.hasEightBitFactors(op)) {
    std::vector<KernelWork> kernels = factorKernels(cast<DotGeneralOp>(op)), its = kernelsOf(op);
    kernels.insert(kernels.end(), its.begin(), its.end());
    return addUnfused(op, std::move(kernels));
  }
  KernelClass kernelClass = cast<WorkOpInterface>(op).getKernelClass();
  // An op that only places elements (a pad, a concatenation) is fused into the kernel that computes them.
  if (kernelClass == KernelClass::Pointwise || (kernelClass == KernelClass::Movement && !isa<TransposeOp>(op)))
    return addPointwise(op);
  addUnfused(op, kernelsOf(op));
}

void KernelBuilder::addNormBackward(Operation *op, PassWork &weights) {
  // One kernel reads x and dy and writes dx; a second one reads x and dy for the gradients of the weights.
  unsigned gradient = op->getNumOperands() - 1;
  double x = operandBytes(op, 0), dy = operandBytes(op, gradient);
  addUnfused(op, {kernel(op, "", KernelClass::Reduction, x + dy + resultBytes(op, 0))});
  weights.kernels.push_back(kernel(op, " weights", KernelClass::Reduction, x + dy));
}

RecomputeModes KernelBuilder::modesOf(Operation *op) const {
  if (!recomputedByOf.empty())
    return recomputedByOf.lookup(op);
  return pointwiseOps.contains(op) ? RecomputeModes::Pointwise : RecomputeModes::Others;
}

/// Sets the modes under which the kernels of a slot run again. An op that a product computes along with its own result
/// gets a kernel of its own where it is recomputed and the product is not.
void KernelBuilder::addRecomputation(const Slot &slot, llvm::MutableArrayRef<KernelWork> kernels,
                                     PassWork &pass) const {
  const bool pinned = !recomputedByOf.empty();
  RecomputeModes modes = pinned ? RecomputeModes::Never : RecomputeModes::Others;
  SmallVector<Operation *> joined; // with a product
  for (Operation *member : slot.members)
    if (!slot.pointwise && member != slot.members.front() && !kernels.empty())
      joined.push_back(member);
    else
      modes = modes | modesOf(member);
  if (pinned || modes != RecomputeModes::Others) // otherwise the kernels have the modes of their op
    for (KernelWork &one : kernels)
      one.recomputedBy = modes;
  for (Operation *op : joined)
    if (RecomputeModes alone = without(modesOf(op), modes); alone != RecomputeModes::Never) {
      KernelWork again = kernel(op, "", KernelClass::Pointwise, operandBytes(op, 0) + resultBytes(op, 0));
      again.recomputedBy = alone;
      again.onlyRecomputes = true;
      pass.kernels.push_back(std::move(again));
    }
}

void KernelBuilder::endPass(PassWork &pass) {
  for (size_t s = passBegin; s < slots.size(); ++s) {
    const Slot &slot = slots[s];
    if (slot.mergedInto >= 0)
      continue;
    size_t begin = pass.kernels.size();
    if (slot.pointwise)
      pass.kernels.push_back(pointwiseKernel(static_cast<int>(s)));
    else
      pass.kernels.insert(pass.kernels.end(), slot.kernels.begin(), slot.kernels.end());
    addRecomputation(slot, llvm::MutableArrayRef(pass.kernels).drop_front(begin), pass);
  }
  passBegin = slots.size();
}

KernelWork KernelBuilder::pointwiseKernel(int number) const {
  const Slot &slot = slots[number];
  double bytes = slot.extraBytes;
  for (auto &[value, read] : slot.reads)
    bytes += read;
  for (Operation *member : slot.members)
    for (unsigned i = 0; i < member->getNumResults(); ++i)
      if (usedOutside(member->getResult(i), number, number, nullptr))
        bytes += resultBytes(member, i);
  return kernel(slot.members.back(), "", KernelClass::Pointwise, bytes);
}

} // namespace kerf
