// SPDX-License-Identifier: Apache-2.0
#include "Compression.h"

#include "mlir/IR/Builders.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

DictionaryAttr CompressedSync::toAttr(MLIRContext *context) const {
  Builder builder(context);
  SmallVector<NamedAttribute> values;
  for (const auto &[name, value] : settings)
    values.push_back(builder.getNamedAttr(name, builder.getF64FloatAttr(value)));
  return builder.getDictionaryAttr({builder.getNamedAttr("parameter", builder.getStringAttr(parameter)),
                                    builder.getNamedAttr("codec", builder.getStringAttr(codec)),
                                    builder.getNamedAttr("scheme", builder.getStringAttr(scheme)),
                                    builder.getNamedAttr("error_feedback", builder.getBoolAttr(feedback)),
                                    builder.getNamedAttr("momentum", builder.getF64FloatAttr(momentum)),
                                    builder.getNamedAttr("momentum_state", builder.getStringAttr(momentumState)),
                                    builder.getNamedAttr("hierarchy", builder.getBoolAttr(hierarchy)),
                                    builder.getNamedAttr("pieces", builder.getI64IntegerAttr(pieces)),
                                    builder.getNamedAttr("first_batch", builder.getI64IntegerAttr(firstBatch)),
                                    builder.getNamedAttr("optimizer", builder.getStringAttr(optimizer)),
                                    builder.getNamedAttr("settings", builder.getDictionaryAttr(values)),
                                    builder.getNamedAttr("rate", builder.getStringAttr(rate)),
                                    builder.getNamedAttr("rate_factor", builder.getF64FloatAttr(rateFactor))});
}

CompressedSync CompressedSync::fromAttr(DictionaryAttr attr) {
  auto text = [&](StringRef name) {
    auto its = attr.getAs<StringAttr>(name);
    return its ? its.str() : std::string();
  };
  auto feedback = attr.getAs<BoolAttr>("error_feedback"), hierarchy = attr.getAs<BoolAttr>("hierarchy");
  auto real = [&](StringRef name, double otherwise) {
    auto its = attr.getAs<FloatAttr>(name);
    return its ? its.getValueAsDouble() : otherwise;
  };
  auto number = [&](StringRef name, int64_t otherwise) {
    auto its = attr.getAs<IntegerAttr>(name);
    return its ? its.getInt() : otherwise;
  };
  SettingValues settings;
  if (auto values = attr.getAs<DictionaryAttr>("settings"))
    for (NamedAttribute value : values)
      settings[value.getName().str()] = cast<FloatAttr>(value.getValue()).getValueAsDouble();
  return {.parameter = text("parameter"),
          .codec = text("codec"),
          .scheme = text("scheme"),
          .feedback = feedback && feedback.getValue(),
          .momentum = real("momentum", 0),
          .momentumState = text("momentum_state"),
          .hierarchy = hierarchy && hierarchy.getValue(),
          .pieces = number("pieces", 1),
          .firstBatch = number("first_batch", 0),
          .optimizer = text("optimizer"),
          .settings = settings,
          .rate = text("rate"),
          .rateFactor = real("rate_factor", 1)};
}

SumBatches sumBatches(const CompressedSync &how) {
  if (how.optimizer.empty())
    return codedFrom(how.firstBatch);
  return findOptimizer(how.optimizer)->codedMean->batches(how.settings, how.firstBatch);
}

Value isIn(Emitter &emit, Value batch, const BatchSet &batches) {
  auto compared = [&](Value x, int64_t number, Comparison direction) {
    return emit.compare(x, emit.splat(number, x), direction);
  };
  auto both = [&](Value x, Value y) -> Value { return AndOp::create(emit.builder, emit.loc, x.getType(), x, y); };
  Value any;
  for (const BatchRange &range : batches.ranges) {
    Value in;
    auto also = [&](Value more) { in = in ? both(in, more) : more; };
    if (range.end != INT64_MAX)
      also(compared(batch, range.end, Comparison::LT));
    if (range.begin > 0 || !in)
      also(compared(batch, range.begin, Comparison::GE));
    if (range.run < range.every) {
      Value passed = emit.subtract(batch, emit.splat(range.begin, batch)), every = emit.splat(range.every, batch);
      Value ofPeriod = emit.subtract(passed, emit.multiply(emit.divide(passed, every), every));
      also(compared(ofPeriod, range.run, Comparison::LT));
    }
    any = any ? OrOp::create(emit.builder, emit.loc, in.getType(), any, in).getResult() : in;
  }
  return any;
}

Result<Codec> findCodec(ModuleOp module, const std::string &name) {
  if (auto texts = module->getAttrOfType<DictionaryAttr>(kCodecTextsAttr))
    if (auto text = texts.getAs<StringAttr>(name))
      return readCodec(*module.getContext(), text.getValue(), name);
  if (auto codec = lowRankCodec(name))
    return std::move(*codec);
  std::string_view text = codecText(name);
  if (text.empty())
    return Error{
        fmt::format("there is no codec '{}'; there are {}, and those of <codec>", name, fmt::join(codecNames(), ", "))};
  return readCodec(*module.getContext(), text, name);
}

} // namespace kerf
