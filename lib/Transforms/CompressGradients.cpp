// SPDX-License-Identifier: Apache-2.0
// kerf-compress-gradients (device level): the collectives of gradients with a codec send payloads instead of numbers.
#include "GradientExchange.h"
#include "kerf/Transforms/Passes.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_COMPRESSGRADIENTS
#include "kerf/Transforms/Passes.h.inc"

namespace {

struct CompressGradients : impl::CompressGradientsBase<CompressGradients> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto main = module.lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
    if (!main)
      return;
    SmallVector<std::pair<Operation *, DictionaryAttr>> compressed;
    for (Operation &op : main.front())
      if (auto how = op.getAttrOfType<DictionaryAttr>(kCompressionAttr))
        compressed.push_back({&op, how});
    if (compressed.empty())
      return;
    Mesh mesh = meshOf(module);
    CompressionStates states(main, mesh);
    std::vector<std::unique_ptr<GradientExchange>> exchanges;
    for (auto &[start, attr] : compressed) {
      CompressedSync how = CompressedSync::fromAttr(attr);
      auto codec = findCodec(module, how.codec);
      if (!codec) {
        start->emitError() << codec.error().message;
        return signalPassFailure();
      }
      if (how.feedback && start->hasAttr(KerfDialect::kEachMicrobatchAttr)) {
        start->emitError()
            << "the gradient of '" << how.parameter << "' is scattered in each microbatch, where codec " << how.codec
            << " cannot keep error feedback; use a codec without it, such as int8, or optimizer sharding "
               "0 or 1";
        return signalPassFailure();
      }
      ExchangeContext context{mesh, states, int64_t(exchanges.size())};
      exchanges.push_back(codec->rank ? createLowRankExchange(start, how, context, *codec)
                                      : createCodedExchange(start, how, context, std::move(*codec)));
    }
    emit(exchanges);
    states.finish();
    module->removeAttr(kCodecTextsAttr);
  }

private:
  /// The second part of an exchange comes after the first part of the next one, so that its messages travel meanwhile.
  static void emit(std::vector<std::unique_ptr<GradientExchange>> &exchanges) {
    for (size_t i = 0; i <= exchanges.size(); ++i) {
      if (i < exchanges.size()) {
        OpBuilder builder(exchanges[i]->replaced());
        exchanges[i]->send(builder);
      }
      if (i == 0)
        continue;
      Operation *place = exchanges[i - 1]->firstUser();
      if (i < exchanges.size() && exchanges[i]->replaced()->isBeforeInBlock(place))
        place = exchanges[i]->replaced();
      OpBuilder builder(place);
      exchanges[i - 1]->add(builder);
    }
    for (auto &exchange : exchanges) {
      OpBuilder builder(exchange->firstUser());
      exchange->receive(builder);
    }
  }
};

} // namespace
} // namespace kerf
