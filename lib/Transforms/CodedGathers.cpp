// SPDX-License-Identifier: Apache-2.0
#include "CodedGathers.h"
#include "GradientBlocks.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// Finds the arguments of functions that are parameters of the model.
class Parameters {
public:
  explicit Parameters(ModuleOp module) {
    module.walk([&](CallOp call) { calls[call.getCallee()].push_back(call); });
  }

  /// Returns whether the value is a parameter, or its elements in another type.
  bool contains(Value value) const {
    while (auto convert = value.getDefiningOp<ConvertOp>())
      value = convert.getOperand();
    auto argument = dyn_cast<BlockArgument>(value);
    auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
    if (!function)
      return false;
    if (function.getName() == KerfDialect::kEntryName) {
      auto kind = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
      return kind && kind.getValue() == "parameter";
    }
    auto found = calls.find(function.getName());
    return found != calls.end() && llvm::all_of(found->second, [&](CallOp call) {
             return contains(call->getOperand(argument.getArgNumber()));
           });
  }

private:
  llvm::StringMap<SmallVector<CallOp>> calls;
};

/// Returns whether the gather's tensor is one that is worth a codec: a matrix of floating numbers that is not small.
bool isLargeMatrix(RankedTensorType whole) {
  return whole.getRank() > 1 && isa<FloatType>(whole.getElementType()) &&
         whole.getNumElements() * int64_t(sizeof(float)) >= kLeastBytesCoded;
}

void sendCodes(AllGatherOp gather, WaitOp wait, const Codec &codec, const GradientBlocks &blocks) {
  OpBuilder builder(gather);
  Emitter emit{builder, gather.getLoc()};
  SmallVector<Value> sent = encodeBlocks(builder, emit.loc, codec, blocks.partToBlocks(emit, gather.getOperand()), {});
  SmallVector<Value> pending, arrived;
  for (Value part : sent) {
    int64_t count = tensorType(part).getNumElements();
    auto type = RankedTensorType::get({blocks.parts * count}, tensorType(part).getElementType());
    pending.push_back(AllGatherOp::create(builder, emit.loc, PendingType::get(builder.getContext(), type),
                                          emit.reshape(part, {count}), gather.getAxesAttr(),
                                          builder.getI64IntegerAttr(0), gather.getStreamAttr(), gather.getCauseAttr()));
  }
  builder.setInsertionPoint(wait);
  for (auto [part, start] : llvm::zip(sent, pending)) {
    Shape shape = shapeOf(part);
    shape[0] *= blocks.parts;
    auto type = cast<PendingType>(start.getType()).getTensor();
    arrived.push_back(emit.reshape(WaitOp::create(builder, emit.loc, type, start), shape));
  }
  wait.getResult().replaceAllUsesWith(
      blocks.wholeFromBlocks(emit, decodeBlocks(builder, emit.loc, codec, arrived, {})));
  wait->erase();
  gather->erase();
}

} // namespace

LogicalResult codeGathers(ModuleOp module) {
  auto name = module->getAttrOfType<StringAttr>(kGatherCodecAttr);
  if (!name)
    return success();
  auto codec = findCodec(module, name.str());
  if (!codec)
    return module.emitError() << codec.error().message;
  Parameters parameters(module);
  SmallVector<AllGatherOp> gathers;
  module.walk([&](AllGatherOp gather) {
    if (parameters.contains(gather.getOperand()) && gather->hasOneUse())
      gathers.push_back(gather);
  });
  for (AllGatherOp gather : gathers) {
    auto wait = dyn_cast<WaitOp>(*gather->user_begin());
    if (!wait || !isLargeMatrix(tensorType(wait.getResult())))
      continue;
    int64_t ranks = 1;
    for (const AxisRef &axis : axesFromFlat(gather.getAxes()))
      ranks *= axis.size;
    GradientBlocks blocks(tensorType(wait.getResult()), ranks, int64_t(gather.getDim()), codec->block);
    if (!blocks.isPart(gather.getOperand()))
      return gather.emitOpError() << "gathers shards of type " << tensorType(gather.getOperand())
                                  << ", which are no equal parts of " << tensorType(wait.getResult())
                                  << "; leave out <compress-gathers>";
    sendCodes(gather, wait, *codec, blocks);
  }
  module->removeAttr(kGatherCodecAttr);
  return success();
}

} // namespace kerf
