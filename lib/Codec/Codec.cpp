// SPDX-License-Identifier: Apache-2.0
#include "kerf/Codec/Codec.h"
#include "ApplyToBlocks.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <iterator>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

constexpr std::string_view kLowRank = "powersgd";
constexpr const char *kCodecAttr = "kerf.codec";

/// A codec of Kerf: the name of its file in lib/Codec/codecs without the ending, and the file's text.
struct CodecSource {
  std::string_view name, text;
};
constexpr CodecSource kSources[] = {
#include "CodecTexts.inc"
};

/// A fact that the dictionary of a codec may state, and the field that holds it.
struct Fact {
  StringLiteral name;
  bool Codec::*field;
};
constexpr Fact kFacts[] = {
    {"biased", &Codec::biased},
    {"no_feedback", &Codec::noFeedback},
    {"momentum_first", &Codec::momentumFirst},
    {"masks_momentum", &Codec::masksMomentum},
    {"shared_key", &Codec::sharedKey},
    {"gathers", &Codec::gathers},
};

std::string typeText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

int64_t bytesOf(Type type) { return cast<RankedTensorType>(type).getNumElements() * bytesPerElement(type); }

/// Reads the dictionary `kerf.codec` of the codec's module.
Status readFacts(DictionaryAttr facts, Codec &codec) {
  auto block = facts ? facts.getAs<IntegerAttr>("block") : nullptr;
  if (!block || block.getInt() < 1)
    return Error{"the module needs the attribute kerf.codec = {block = N : i64} with N of at least 1, the number of "
                 "elements of a block"};
  codec.block = block.getInt();
  for (NamedAttribute fact : facts) {
    if (fact.getName() == "block")
      continue;
    const auto *known =
        std::find_if(std::begin(kFacts), std::end(kFacts), [&](const Fact &one) { return fact.getName() == one.name; });
    if (known == std::end(kFacts) || !isa<UnitAttr>(fact.getValue())) {
      std::string names;
      for (const Fact &one : kFacts)
        names += (names.empty() ? "" : ", ") + one.name.str();
      return Error{
          fmt::format("kerf.codec has '{}'; besides block there are the words {}", fact.getName().str(), names)};
    }
    codec.*known->field = true;
  }
  return ok();
}

Status checkBody(func::FuncOp function) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return Error{fmt::format("@{} needs a body of one block", function.getName().str())};
  for (Operation &op : function.front().without_terminator())
    if (!appliesToBlocks(&op))
      return Error{fmt::format("@{} has the op {}; a codec may have elementwise ops, constant, iota, broadcast_in_dim, "
                               "reduce, reshape, transpose, slice, concatenate, top_k, take_along, "
                               "take_along_backward, random, pack and unpack",
                               function.getName().str(), op.getName().getStringRef().str())};
  return ok();
}

/// Checks the types of the two functions, and counts the payload's bytes.
Status checkFunctions(Codec &codec) {
  MLIRContext *context = codec.encode.getContext();
  auto element = RankedTensorType::get({codec.block}, Float32Type::get(context));
  auto key = RankedTensorType::get({}, IntegerType::get(context, 32));
  ArrayRef<Type> from = codec.encode.getArgumentTypes(), payload = codec.encode.getResultTypes();
  if (from.empty() || from.size() > 2 || from[0] != element || (from.size() == 2 && from[1] != key) || payload.empty())
    return Error{fmt::format("@encode takes a block of type {}, and where it uses random numbers a key of type {}; it "
                             "returns the parts of the payload, at least one",
                             typeText(element), typeText(key))};
  SmallVector<Type> expected(payload);
  codec.encodeTakesKey = from.size() == 2;
  codec.decodeTakesKey = codec.decode.getNumArguments() == payload.size() + 1;
  if (codec.decodeTakesKey)
    expected.push_back(key);
  if (ArrayRef<Type>(expected) != codec.decode.getArgumentTypes() ||
      codec.decode.getResultTypes() != ArrayRef<Type>(element))
    return Error{fmt::format("@decode takes what @encode returns (and where it needs random numbers the key), and "
                             "returns a block of type {}",
                             typeText(element))};
  if (codec.decodeTakesKey && !codec.sharedKey)
    return Error{
        "@decode takes the key of random numbers, which the rank that decodes does not have; leave it out, or add "
        "the word shared_key"};
  for (Type type : payload)
    codec.blockBytes += bytesOf(type);
  for (func::FuncOp function : {codec.encode, codec.decode})
    if (Status status = checkBody(function); !status)
      return status;
  return ok();
}

Status fill(Codec &codec) {
  ModuleOp module = codec.module->get();
  codec.name = module.getName().value_or("").str();
  if (codec.name.empty())
    return Error{"the module needs a name, which is the codec's: module @name"};
  if (Status status = readFacts(module->getAttrOfType<DictionaryAttr>(kCodecAttr), codec); !status)
    return status;
  codec.encode = module.lookupSymbol<func::FuncOp>("encode");
  codec.decode = module.lookupSymbol<func::FuncOp>("decode");
  if (!codec.encode || !codec.decode)
    return Error{fmt::format("the module has no function @{}; add it", codec.encode ? "decode" : "encode")};
  return checkFunctions(codec);
}

} // namespace

std::vector<std::string> codecNames() {
  std::vector<std::string> names;
  for (const CodecSource &source : kSources)
    names.emplace_back(source.name);
  names.emplace_back(kLowRank);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<Codec> lowRankCodec(std::string_view name) {
  constexpr int64_t kUsualRank = 4, kLargestRank = 64; // Vogels et al. use 1 to 4
  if (!name.starts_with(kLowRank))
    return std::nullopt;
  Codec codec;
  codec.name = name;
  codec.biased = true;
  codec.rank = kUsualRank;
  name.remove_prefix(kLowRank.size());
  if (name.empty())
    return codec;
  auto [end, code] = std::from_chars(name.data() + 1, name.data() + name.size(), codec.rank);
  if (name[0] != '-' || code != std::errc() || end != name.data() + name.size() || codec.rank < 1 ||
      codec.rank > kLargestRank)
    return std::nullopt;
  return codec;
}

std::string_view codecText(std::string_view name) {
  for (const CodecSource &source : kSources)
    if (source.name == name)
      return source.text;
  return "";
}

Result<Codec> readCodec(MLIRContext &context, std::string_view text, const std::string &file) {
  std::string complaint;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (complaint.empty())
      llvm::raw_string_ostream(complaint) << diagnostic.getLocation() << ": " << diagnostic.str();
    return success();
  });
  Codec codec;
  auto module = parseSourceString<ModuleOp>(StringRef(text.data(), text.size()), &context, file);
  if (!module)
    return Error{fmt::format("{}: the codec cannot be read: {}", file, complaint)};
  codec.module = std::make_shared<OwningOpRef<ModuleOp>>(std::move(module));
  if (Status status = fill(codec); !status)
    return Error{fmt::format("{}: {}", file, status.error().message)};
  return codec;
}

SmallVector<Value> encodeBlocks(OpBuilder &builder, Location loc, const Codec &codec, Value blocks, Value key) {
  SmallVector<BlockValue> arguments{{blocks, true}};
  if (codec.encodeTakesKey)
    arguments.push_back({key, false});
  return applyToBlocks(builder, loc, codec.encode, arguments, shapeOf(blocks)[0], codec.sharedKey);
}

Value decodeBlocks(OpBuilder &builder, Location loc, const Codec &codec, ValueRange payload, Value key) {
  SmallVector<BlockValue> arguments;
  for (Value part : payload)
    arguments.push_back({part, true});
  if (codec.decodeTakesKey)
    arguments.push_back({key, false});
  return applyToBlocks(builder, loc, codec.decode, arguments, shapeOf(payload[0])[0], codec.sharedKey)[0];
}

} // namespace kerf
