// SPDX-License-Identifier: Apache-2.0
#include "CompressionStates.h"
#include "Compression.h"
#include "TimeAxis.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

size_t CompressionStates::add(const std::string &name, const Shape &shape) {
  DimSharding ranks;
  int64_t count = 1;
  for (int axis = 0; axis < int(mesh.axes.size()); ++axis)
    if (axis != microbatchAxis(mesh) && axis != stageAxis(mesh)) {
      ranks.axes.push_back(wholeAxis(mesh, axis));
      count *= mesh.axes[size_t(axis)].size;
    }
  ranks.chunk = 1;
  Shape local{1}, global{count};
  local.insert(local.end(), shape.begin(), shape.end());
  global.insert(global.end(), shape.begin(), shape.end());
  Sharding sharding = Sharding::replicated(global.size());
  sharding.dims[0] = ranks;
  OpBuilder builder(main.getContext());
  auto f32 = builder.getF32Type();
  Value made = argument(RankedTensorType::get(local, f32), RankedTensorType::get(global, f32), "state", name,
                        ShardingAttr::fromSharding(main.getContext(), mesh, global, sharding));
  builder.setInsertionPointToStart(&main.front());
  Emitter emit{builder, made.getLoc()};
  states.push_back({made, emit.reshape(made, shape), {}});
  return states.size() - 1;
}

Value CompressionStates::find(StringRef kind, StringRef name) {
  auto fits = [&](unsigned index, StringRef attribute, StringRef wanted) {
    auto its = main.getArgAttrOfType<StringAttr>(index, attribute);
    return wanted.empty() || (its && its.getValue() == wanted);
  };
  for (BlockArgument argument : main.getArguments())
    if (unsigned index = argument.getArgNumber();
        fits(index, KerfDialect::kKindAttr, kind) && fits(index, KerfDialect::kNameAttr, name))
      return argument;
  return {};
}

Value CompressionStates::scalar(StringRef kind) {
  if (Value found = find(kind, ""))
    return found;
  auto type = RankedTensorType::get({}, IntegerType::get(main.getContext(), 64));
  return argument(type, type, kind, kind, ShardingAttr::fromSharding(main.getContext(), mesh, {}, Sharding()));
}

void CompressionStates::finish() {
  Operation *terminator = main.front().getTerminator();
  OpBuilder builder(terminator);
  Emitter emit{builder, terminator->getLoc()};
  Value skips;
  for (Operation &op : main.front())
    if (op.hasAttr(kSkipsStepAttr))
      skips = op.getResult(0);
  SmallVector<Value> results(terminator->getOperands());
  SmallVector<DictionaryAttr> attributes;
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    attributes.push_back(main.getResultAttrDict(i));
  for (const State &state : states) {
    Value value = emit.reshape(state.after, shapeOf(state.argument));
    if (skips)
      value = emit.select(emit.broadcast(skips, shapeOf(value), {}), state.argument, value);
    unsigned index = cast<BlockArgument>(state.argument).getArgNumber();
    main.setArgAttr(index, KerfDialect::kUpdatedByAttr, builder.getI64IntegerAttr(int64_t(results.size())));
    NamedAttrList described;
    for (StringRef name : {KerfDialect::kNameAttr, KerfDialect::kShardingAttr, KerfDialect::kGlobalTypeAttr})
      described.set(name, main.getArgAttr(index, name));
    attributes.push_back(described.getDictionary(main.getContext()));
    results.push_back(value);
  }
  terminator->setOperands(results);
  main.setFunctionType(builder.getFunctionType(main.front().getArgumentTypes(), ValueRange(results).getTypes()));
  main.setAllResultAttrs(attributes);
}

Value CompressionStates::argument(RankedTensorType local, RankedTensorType global, StringRef kind, StringRef name,
                                  Attribute sharding) {
  Builder builder(main.getContext());
  NamedAttrList described;
  described.set(KerfDialect::kKindAttr, builder.getStringAttr(kind));
  described.set(KerfDialect::kNameAttr, builder.getStringAttr(name));
  described.set(KerfDialect::kShardingAttr, sharding);
  described.set(KerfDialect::kGlobalTypeAttr, TypeAttr::get(global));
  unsigned index = main.getNumArguments();
  (void)main.insertArgument(index, local, described.getDictionary(main.getContext()),
                            NameLoc::get(builder.getStringAttr(name)));
  return main.getArgument(index);
}

} // namespace kerf
