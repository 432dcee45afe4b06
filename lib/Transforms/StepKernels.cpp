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

/// A bias: broadcast, and of something that is not the same everywhere.
bool isBias(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  return broadcast && tensorType(broadcast.getOperand()).getRank() > 0 && isa<BlockArgument>(broadcast.getOperand());
}

bool isProduct(Value value) { return kernelClassOf(value.getDefiningOp()) == KernelClass::Product; }

bool isEpilogue(Operation *op) {
  return isa<AddOp>(op) && ((isProduct(op->getOperand(0)) && isBias(op->getOperand(1))) ||
                            (isProduct(op->getOperand(1)) && isBias(op->getOperand(0))));
}

/// A mask, which has queries and keys.
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
       (result.getResultNumber() > 0 && (rule == HalfRule::LikeFirst || isa<AttentionOp>(result.getOwner()))));
  return statistic ? std::max(types.bytes, kStatisticBytes) : types.bytes;
}

bool KernelBuilder::isVirtual(Operation *op) {
  if (op->hasTrait<MadeWhereRead>() || isEpilogue(op))
    return true;
  // A product reads its operands in any order.
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

/// The kernel after which the value is there; -1: from before.
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
    if (user == orOp || (user->hasTrait<OpTrait::IsTerminator>() && madeAgain.contains(value)))
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
  bool joins = last >= static_cast<int>(passBegin) && slots[last].pointwise;
  if (!joins) {
    last = static_cast<int>(slots.size());
    slots.emplace_back().pointwise = true;
  }
  // Kernels all of whose results only this one reads are part of it.
  for (Value operand : op->getOperands()) {
    int other = slotOf(operand);
    if (other < static_cast<int>(passBegin) || other == last || !slots[other].pointwise)
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
    if (slotOf(operand) == last || madeAgain.contains(operand))
      continue;
    double bytes = operandBytes(op, i);
    if (auto broadcast = operand.getDefiningOp<BroadcastInDimOp>()) { // read once, used many times
      operand = broadcast.getOperand();
      bytes = std::min(bytes, static_cast<double>(elementsOf(shapeOf(operand))) * elementBytes(operand, types));
    }
    slot.reads[operand] = bytes;
  }
  // What one kernel makes itself it does not read.
  slot.reads.remove_if([&](auto &read) { return slotOf(read.first) == last; });
  if (op->hasAttr(KerfDialect::kDropoutAttr))
    slot.extraBytes += kMaskBytes * elements(localShape(op, true, 0));
}

Kernel KernelBuilder::kernel(Operation *op, const char *what, KernelClass kernelClass, double bytes) const {
  Kernel kernel;
  kernel.name = nameOf(op) + what;
  kernel.cuts = cutsOf(op);
  kernel.work.kernelClass = kernelClass;
  kernel.work.bytes = bytes;
  kernel.work.flops = bytes / types.bytes; // about one an element: bytes decide
  kernel.work.dtype = types.other;
  return kernel;
}

Kernel KernelBuilder::product(Operation *op, const char *what, double m, double n, double k, double batch) const {
  Kernel kernel;
  kernel.name = nameOf(op) + what;
  kernel.cuts = cutsOf(op);
  kernel.work = {KernelClass::Product,
                 2 * batch * m * n * k,
                 types.bytes * batch * (m * k + k * n + m * n),
                 types.product,
                 1,
                 m,
                 n,
                 k,
                 batch};
  return kernel;
}

/// A convolution: `bytes` are those of operands and results once, since what a window reads again lies in a cache.
Kernel KernelBuilder::windowProduct(Operation *op, double bytes) const {
  Work sizes;
  cast<WorkOpInterface>(op).describe({localShape(op, false, 0), localShape(op, false, 1)}, {localShape(op, true, 0)},
                                     sizes);
  Kernel convolution = product(op, "", sizes.m, sizes.n, sizes.k, sizes.batch);
  convolution.work.bytes = bytes;
  return convolution;
}

/// Attention and its backward. Unfused: scores and context are products, with a masked softmax (and dropout) between
/// that passes through memory; the backward has four products. All but what lays heads side by side again is what
/// selective recomputation drops.
std::vector<Kernel> KernelBuilder::attention(Operation *op) const {
  bool backward = isa<AttentionBackwardOp>(op), causal = op->hasAttr("causal");
  Shape query = localShape(op, false, 0), key = localShape(op, false, 1), value = localShape(op, false, 2);
  double samples = static_cast<double>(query[0] * query[2]), s = static_cast<double>(query[1]),
         t = static_cast<double>(shapeOf(op->getOperand(1))[1]);
  // Ring attention: a kernel for each block of keys and values, which adds to what those before have left.
  double blocks = t / static_cast<double>(key[1]);
  double d = static_cast<double>(query[3]), e = static_cast<double>(value[3]);
  std::vector<Kernel> kernels;
  if (types.fusedAttention) {
    double bytes = 0;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      bytes += operandBytes(op, i) * (isMask(op, i) ? 1 : blocks);
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      bytes += resultBytes(op, i) * blocks;
    // The backward has five products where the forward has two (Dao 2023): scores again and the gradients of queries
    // and keys, of size d, and those of probabilities and values, of size e.
    double width = backward ? 3 * d + 2 * e : d + e;
    double flops = 2 * samples * s * t * width * (causal ? 0.5 : 1);
    Kernel fused = kernel(op, "", KernelClass::Attention, bytes);
    fused.work = {KernelClass::Attention,
                  flops,
                  bytes,
                  types.product == "f8" ? types.other : types.product,
                  blocks,
                  s,
                  t / blocks,
                  d,
                  samples};
    kernels.push_back(fused);
  } else {
    double scores = samples * s * t;
    auto forward =
        op->getParentOfType<ModuleOp>().walk([](AttentionOp one) { // a layer's backward drops what its forward drops
          return one->hasAttr(KerfDialect::kDropoutAttr) ? WalkResult::interrupt() : WalkResult::advance();
        });
    bool drops = forward.wasInterrupted();
    Kernel dropout = kernel(op, " dropout", KernelClass::Pointwise, (2 * types.bytes + kMaskBytes) * scores);
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
    if (!backward) // heads side by side again
      kernels.push_back(kernel(op, " merge", KernelClass::Movement, 2 * types.bytes * merged));
  }
  for (Kernel &one : kernels)
    one.again = one.work.kernelClass == KernelClass::Movement ? RunAgain::Full : RunAgain::Selective;
  return kernels;
}

std::vector<Kernel> KernelBuilder::kernelsOf(Operation *op) const {
  double bytes = 0;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    bytes += operandBytes(op, i);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    bytes += resultBytes(op, i);
  bool narrow = types.bytes < kStatisticBytes;
  return llvm::TypeSwitch<Operation *, std::vector<Kernel>>(op)
      .Case([&](DotGeneralOp dot) -> std::vector<Kernel> {
        Shape lhs = localShape(op, false, 0), rhs = localShape(op, false, 1);
        double batch = 1, k = 1;
        for (int64_t dim : dot.getLhsBatching())
          batch *= static_cast<double>(lhs[dim]);
        for (int64_t dim : dot.getLhsContracting())
          k *= static_cast<double>(lhs[dim]);
        return {product(op, "", elements(lhs) / (batch * k), elements(rhs) / (batch * k), k, batch)};
      })
      .Case([&](CrossEntropyOp) -> std::vector<Kernel> {
        // In f32: converted (where logits are narrower), the maximum read, exponentials read and written (Megatron-LM's
        // vocabulary-parallel cross entropy).
        double logits = elements(localShape(op, false, 0)), wide = std::max(types.bytes, kStatisticBytes);
        return {kernel(op, "", KernelClass::Reduction, logits * ((narrow ? types.bytes + wide : 0) + 3 * wide))};
      })
      .Case([&](CrossEntropyBackwardOp) -> std::vector<Kernel> {
        double logits = elements(localShape(op, false, 0)), wide = std::max(types.bytes, kStatisticBytes);
        return {kernel(op, "", KernelClass::Reduction, logits * ((narrow ? types.bytes + wide : 0) + 2 * wide))};
      })
      .Case([&](EmbeddingBackwardOp) -> std::vector<Kernel> { // reads and writes rows of a table of zeros
        return {kernel(op, " rows", KernelClass::Gather, 3 * operandBytes(op, 1)),
                kernel(op, " table", KernelClass::Pointwise, resultBytes(op, 0))};
      })
      .Default([&](Operation *) -> std::vector<Kernel> {
        KernelClass kernelClass = kernelClassOf(op);
        if (kernelClass == KernelClass::Attention)
          return attention(op);
        if (kernelClass == KernelClass::Product)
          return {windowProduct(op, bytes)};
        if (kernelClass == KernelClass::Gather && op->hasTrait<PicksElements>()) // no more is read than written
          return {kernel(op, "", kernelClass, 2 * resultBytes(op, 0))};
        return {kernel(op, "", kernelClass, bytes)};
      });
}

void KernelBuilder::addOwn(Operation *op, std::vector<Kernel> kernels) {
  slotOfOp[op] = static_cast<int>(slots.size());
  Slot &slot = slots.emplace_back();
  slot.members.insert(op);
  slot.kernels = std::move(kernels);
}

void KernelBuilder::add(Operation *op) {
  if (isVirtual(op))
    return;
  KernelClass kernelClass = cast<WorkOpInterface>(op).getKernelClass();
  // An operator that places elements (a pad, a concatenation) is part of the kernel that makes them.
  if (kernelClass == KernelClass::Pointwise || (kernelClass == KernelClass::Movement && !isa<TransposeOp>(op)))
    return addPointwise(op);
  addOwn(op, kernelsOf(op));
}

void KernelBuilder::addNormBackward(Operation *op, PassWork &weights) {
  // Inputs: x and dy read, dx written. Weights: x and dy read again.
  unsigned gradient = op->getNumOperands() - 1;
  double x = operandBytes(op, 0), dy = operandBytes(op, gradient);
  addOwn(op, {kernel(op, "", KernelClass::Reduction, x + dy + resultBytes(op, 0))});
  weights.kernels.push_back(kernel(op, " weights", KernelClass::Reduction, x + dy));
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
    if (runAgain.empty())
      continue;
    RunAgain soonest = RunAgain::Never; // of the ops that are one kernel
    for (Operation *member : slot.members)
      if (auto its = runAgain.find(member); its != runAgain.end())
        soonest = std::min(soonest, its->second);
    for (size_t k = begin; k < pass.kernels.size(); ++k)
      pass.kernels[k].again = soonest;
  }
  passBegin = slots.size();
}

Kernel KernelBuilder::pointwiseKernel(int number) const {
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
