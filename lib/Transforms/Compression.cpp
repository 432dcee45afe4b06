// SPDX-License-Identifier: Apache-2.0
#include "Compression.h"

#include "mlir/IR/Builders.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace mlir;

namespace kerf {

DictionaryAttr CompressedSync::toAttr(MLIRContext *context) const {
  Builder builder(context);
  return builder.getDictionaryAttr({builder.getNamedAttr("parameter", builder.getStringAttr(parameter)),
                                    builder.getNamedAttr("codec", builder.getStringAttr(codec)),
                                    builder.getNamedAttr("scheme", builder.getStringAttr(scheme)),
                                    builder.getNamedAttr("error_feedback", builder.getBoolAttr(feedback)),
                                    builder.getNamedAttr("momentum", builder.getF64FloatAttr(momentum)),
                                    builder.getNamedAttr("hierarchy", builder.getBoolAttr(hierarchy)),
                                    builder.getNamedAttr("pieces", builder.getI64IntegerAttr(pieces)),
                                    builder.getNamedAttr("first_batch", builder.getI64IntegerAttr(firstBatch)),
                                    builder.getNamedAttr("mean", builder.getStringAttr(mean)),
                                    builder.getNamedAttr("mean_decay", builder.getF64FloatAttr(meanDecay))});
}

CompressedSync CompressedSync::fromAttr(DictionaryAttr attr) {
  auto text = [&](StringRef name) {
    auto its = attr.getAs<StringAttr>(name);
    return its ? its.str() : std::string();
  };
  auto feedback = attr.getAs<BoolAttr>("error_feedback"), hierarchy = attr.getAs<BoolAttr>("hierarchy");
  auto real = [&](StringRef name) {
    auto its = attr.getAs<FloatAttr>(name);
    return its ? its.getValueAsDouble() : 0;
  };
  auto number = [&](StringRef name, int64_t otherwise) {
    auto its = attr.getAs<IntegerAttr>(name);
    return its ? its.getInt() : otherwise;
  };
  return {text("parameter"),   text("codec"),
          text("scheme"),      feedback && feedback.getValue(),
          real("momentum"),    hierarchy && hierarchy.getValue(),
          number("pieces", 1), number("first_batch", 0),
          text("mean"),        real("mean_decay")};
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
