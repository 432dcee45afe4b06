// SPDX-License-Identifier: Apache-2.0
#include "StableHlo/HloOpText.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::frontend::hlo {

namespace {

/// The name of an attribute in the pretty form and in the generic form; the operation "" stands for all operations.
struct PrettyName {
  const char *op, *pretty, *generic;
};
constexpr PrettyName kPrettyNames[] = {
    {"stablehlo.broadcast_in_dim", "dims", "broadcast_dimensions"},
    {"stablehlo.transpose", "dims", "permutation"},
    {"stablehlo.reverse", "dims", "dimensions"},
    {"stablehlo.iota", "dim", "iota_dimension"},
    {"stablehlo.concatenate", "dim", "dimension"},
    {"stablehlo.pad", "low", "edge_padding_low"},
    {"stablehlo.pad", "high", "edge_padding_high"},
    {"stablehlo.pad", "interior", "interior_padding"},
    {"stablehlo.dynamic_slice", "sizes", "slice_sizes"},
    {"stablehlo.convolution", "stride", "window_strides"},
    {"stablehlo.convolution", "pad", "padding"},
    {"stablehlo.convolution", "lhs_dilate", "lhs_dilation"},
    {"stablehlo.convolution", "rhs_dilate", "rhs_dilation"},
    {"stablehlo.convolution", "reverse", "window_reversal"},
};

Attribute textAttribute(std::string text) {
  Attribute result;
  result.kind = Attribute::Kind::Text;
  result.text = std::move(text);
  return result;
}

Attribute listAttribute(const std::vector<int64_t> &numbers) {
  Attribute result;
  result.kind = Attribute::Kind::List;
  for (int64_t number : numbers) {
    Attribute one;
    one.kind = Attribute::Kind::Integer;
    one.integer = number;
    result.list.push_back(std::move(one));
  }
  return result;
}

} // namespace

Status OpParser::operandList(Operation &op, std::string_view close) {
  while (!s.take(close)) {
    if (!op.operands.empty())
      KERF_CHECK(s.expect(",", "between operands"));
    KERF_TRY(value, s.value());
    op.operands.push_back(std::move(value));
  }
  return ok();
}

/// Parses the types after the colon: `t` (for all operands and the result), `t, t`, `(t, t) -> t` or `t -> t`.
Status OpParser::signature(Operation &op) {
  KERF_CHECK(s.expect(":", "before the types of an op"));
  if (s.next() == '(')
    return s.functionType(op.operandTypes, op.resultTypes);
  KERF_TRY(list, s.types());
  if (s.take("->")) {
    op.operandTypes = std::move(list);
    if (s.take("(")) {
      KERF_TRY(results, s.types());
      op.resultTypes = std::move(results);
      return s.expect(")", "after the types of results");
    }
    KERF_TRY(one, s.type());
    op.resultTypes = {std::move(one)};
    return ok();
  }
  bool perValue = op.name == "stablehlo.optimization_barrier" || op.name == "stablehlo.while";
  if (perValue) {
    op.operandTypes = list;
    op.resultTypes = std::move(list);
  } else {
    op.resultTypes = {list.back()};
  }
  return ok();
}

Status OpParser::returned(Operation &op) {
  KERF_CHECK(attributesIfAny(op));
  if (s.next() != '%')
    return ok();
  do {
    KERF_TRY(value, s.value());
    op.operands.push_back(std::move(value));
  } while (s.take(","));
  KERF_CHECK(attributesIfAny(op));
  KERF_CHECK(s.expect(":", "before the types of what is returned"));
  KERF_TRY(list, s.types());
  op.operandTypes = std::move(list);
  return ok();
}

Status OpParser::call(Operation &op) {
  KERF_TRY(callee, s.symbol());
  op.attributes.emplace_back("callee", textAttribute(callee));
  KERF_CHECK(s.expect("(", "before a call's operands"));
  KERF_CHECK(operandList(op, ")"));
  KERF_CHECK(attributesIfAny(op));
  return signature(op);
}

Status OpParser::customCall(Operation &op) {
  KERF_TRY(target, s.symbol());
  op.attributes.emplace_back("call_target_name", textAttribute(target));
  KERF_CHECK(s.expect("(", "before a call's operands"));
  KERF_CHECK(operandList(op, ")"));
  KERF_CHECK(attributesIfAny(op));
  return signature(op);
}

Status OpParser::constant(Operation &op) {
  KERF_CHECK(attributesIfAny(op));
  KERF_TRY(value, s.attribute());
  if (value.kind != Attribute::Kind::Constant)
    return s.error("a constant without dense<...>");
  op.resultTypes = value.outputs;
  op.attributes.emplace_back("value", std::move(value));
  return ok();
}

/// %x [0:1, 0:8:2]
Status OpParser::slice(Operation &op) {
  KERF_TRY(value, s.value());
  op.operands.push_back(std::move(value));
  KERF_CHECK(s.expect("[", "before a slice's ranges"));
  std::vector<int64_t> start, limit, strides;
  while (!s.take("]")) {
    if (!start.empty())
      KERF_CHECK(s.expect(",", "between ranges"));
    KERF_TRY(from, s.integer());
    KERF_CHECK(s.expect(":", "in a range"));
    KERF_TRY(to, s.integer());
    start.push_back(from);
    limit.push_back(to);
    strides.push_back(1);
    if (s.take(":")) {
      KERF_TRY(stride, s.integer());
      strides.back() = stride;
    }
  }
  op.attributes.emplace_back("start_indices", listAttribute(start));
  op.attributes.emplace_back("limit_indices", listAttribute(limit));
  op.attributes.emplace_back("strides", listAttribute(strides));
  KERF_CHECK(attributesIfAny(op));
  return signature(op);
}

/// (%x init: %c), (%y init: %d) applies stablehlo.add across dimensions = [1] : types
/// (%x init: %c) across dimensions = [1] : types reducer(%a: t, %b: t) { ... }
Status OpParser::reduce(Operation &op) {
  std::vector<std::string> inits;
  do {
    KERF_CHECK(s.expect("(", "before what is reduced"));
    KERF_TRY(value, s.value());
    KERF_CHECK(s.expect("init", "between an operand and its first value"));
    KERF_CHECK(s.expect(":", "after 'init'"));
    KERF_TRY(init, s.value());
    KERF_CHECK(s.expect(")", "after what is reduced"));
    op.operands.push_back(std::move(value));
    inits.push_back(std::move(init));
  } while (s.take(","));
  op.operands.insert(op.operands.end(), inits.begin(), inits.end());
  bool applies = s.take("applies");
  if (applies) {
    KERF_TRY(name, s.word("the op that reduces"));
    op.attributes.emplace_back("applies", textAttribute(name));
  }
  KERF_CHECK(s.expect("across", "before a reduction's dimensions"));
  KERF_CHECK(s.expect("dimensions", "after 'across'"));
  KERF_CHECK(s.expect("=", "after 'dimensions'"));
  KERF_TRY(dimensions, s.untypedAttribute());
  op.attributes.emplace_back("dimensions", std::move(dimensions));
  KERF_CHECK(attributesIfAny(op));
  KERF_CHECK(signature(op));
  return applies ? ok() : reducer(op);
}

/// reducer(%a0: t, %b0: t) (%a1: t, %b1: t) { ... }: the block's arguments are %a0, %a1, %b0, %b1.
Status OpParser::reducer(Operation &op) {
  KERF_CHECK(s.expect("reducer", "after a reduction's types"));
  std::vector<std::pair<std::string, Type>> first, second;
  do {
    for (auto *into : {&first, &second}) {
      KERF_CHECK(into == &first ? s.expect("(", "before a reducer's arguments")
                                : s.expect(",", "between a reducer's arguments"));
      KERF_TRY(name, s.value());
      KERF_CHECK(s.expect(":", "after an argument's name"));
      KERF_TRY(type, s.type());
      into->emplace_back(std::move(name), std::move(type));
    }
    KERF_CHECK(s.expect(")", "after a reducer's arguments"));
  } while (s.next() == '(');
  first.insert(first.end(), second.begin(), second.end());
  Region body;
  KERF_CHECK(region(body, std::move(first)));
  op.regions.push_back(std::move(body));
  return ok();
}

/// (%a = %0, %b = %1) : t, t cond { ... } do { ... }
Status OpParser::loop(Operation &op) {
  std::vector<std::string> names;
  KERF_CHECK(s.expect("(", "before a loop's values"));
  while (!s.take(")")) {
    if (!names.empty())
      KERF_CHECK(s.expect(",", "between a loop's values"));
    KERF_TRY(name, s.value());
    KERF_CHECK(s.expect("=", "after a loop value's name"));
    KERF_TRY(value, s.value());
    names.push_back(std::move(name));
    op.operands.push_back(std::move(value));
  }
  if (!names.empty())
    KERF_CHECK(signature(op));
  if (op.resultTypes.size() != names.size())
    return s.error(fmt::format("a loop has {} values, but {} types", names.size(), op.resultTypes.size()));
  if (s.take("attributes"))
    KERF_CHECK(s.dictionary(op.attributes));
  for (const char *word : {"cond", "do"}) {
    KERF_CHECK(s.expect(word, "in a loop"));
    std::vector<std::pair<std::string, Type>> arguments;
    for (size_t i = 0; i < names.size(); ++i)
      arguments.emplace_back(names[i], op.resultTypes[i]);
    Region body;
    KERF_CHECK(region(body, std::move(arguments)));
    op.regions.push_back(std::move(body));
  }
  return ok();
}

/// (%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], ...} {...} : types
Status OpParser::convolution(Operation &op) {
  KERF_CHECK(s.expect("(", "before a convolution's operands"));
  KERF_CHECK(operandList(op, ")"));
  KERF_CHECK(s.expect("dim_numbers", "after a convolution's operands"));
  KERF_CHECK(s.expect("=", "after 'dim_numbers'"));
  for (const char *which : {"input_dimensions", "kernel_dimensions", "output_dimensions"}) {
    KERF_TRY(dims, s.attribute());
    op.attributes.emplace_back(which, std::move(dims));
    if (std::string_view(which) == "input_dimensions")
      KERF_CHECK(s.expect("x", "between a convolution's dimensions"));
    if (std::string_view(which) == "kernel_dimensions")
      KERF_CHECK(s.expect("->", "between a convolution's dimensions"));
  }
  if (s.take(",")) {
    KERF_CHECK(s.expect("window", "after a convolution's dimensions"));
    KERF_CHECK(s.expect("=", "after 'window'"));
    KERF_CHECK(s.dictionary(op.attributes));
  }
  KERF_CHECK(attributesIfAny(op));
  rename(op);
  return signature(op);
}

/// Parses operands, words, `name = attribute` and `name = attribute x attribute` in any order, up to the colon.
Status OpParser::loose(Operation &op) {
  bool parenthesis = false;
  while (s.next() != ':') {
    char c = s.next();
    if (c == '%') {
      KERF_TRY(value, s.value());
      op.operands.push_back(std::move(value));
    } else if (c == '{') {
      KERF_CHECK(s.dictionary(op.attributes));
    } else if (c == '"') {
      KERF_TRY(text, s.quoted());
      op.attributes.emplace_back("name", textAttribute(text));
    } else if (s.take(",")) {
    } else if (!parenthesis && s.take("(")) {
      parenthesis = true;
    } else if (parenthesis && s.take(")")) {
      parenthesis = false;
    } else if (s.nextIsWord()) {
      KERF_TRY(word, s.word("an attribute"));
      Attribute value;
      if (s.take("=")) {
        KERF_TRY(given, s.untypedAttribute());
        value = std::move(given);
        if (s.take("x")) {
          KERF_TRY(second, s.untypedAttribute());
          Attribute both;
          both.kind = Attribute::Kind::List;
          both.list = {std::move(value), std::move(second)};
          value = std::move(both);
        }
        op.attributes.emplace_back(word, std::move(value));
      } else {
        // compare LT, ..., SIGNED
        bool known = op.find("comparison_direction") != nullptr;
        op.attributes.emplace_back(known ? "compare_type" : "comparison_direction", textAttribute(word));
      }
    } else {
      return s.error(
          fmt::format("'{}' is not understood in {}", c ? std::string(1, c) : "the end of the text", op.name));
    }
  }
  return signature(op);
}

void OpParser::rename(Operation &op) {
  for (auto &[name, value] : op.attributes)
    for (const PrettyName &row : kPrettyNames)
      if (op.name == row.op && name == row.pretty)
        name = row.generic;
  if (op.name != "stablehlo.dot_general")
    return;
  Attribute numbers;
  numbers.kind = Attribute::Kind::Record;
  for (const char *kind : {"batching", "contracting"})
    if (const Attribute *pair = op.find(fmt::format("{}_dims", kind)); pair && pair->list.size() == 2) {
      numbers.record.emplace_back(fmt::format("lhs_{}_dimensions", kind), pair->list[0]);
      numbers.record.emplace_back(fmt::format("rhs_{}_dimensions", kind), pair->list[1]);
    }
  op.attributes.emplace_back("dot_dimension_numbers", std::move(numbers));
}

Status OpParser::pretty(Operation &op) {
  KERF_TRY(word, s.word("an op"));
  op.name = word;
  if (word == "return")
    op.name = "func.return";
  if (word == "call")
    op.name = "func.call";
  if (op.name == "func.return" || op.name == "stablehlo.return")
    return returned(op);
  if (op.name == "func.call")
    return call(op);
  if (op.name == "stablehlo.custom_call")
    return customCall(op);
  if (op.name == "stablehlo.constant")
    return constant(op);
  if (op.name == "stablehlo.slice")
    return slice(op);
  if (op.name == "stablehlo.reduce")
    return reduce(op);
  if (op.name == "stablehlo.while")
    return loop(op);
  if (op.name == "stablehlo.convolution")
    return convolution(op);
  if (op.name == "sdy.sharding_constraint") { // %x <@mesh, [{"x"}]> : t
    KERF_TRY(value, s.value());
    op.operands.push_back(std::move(value));
    KERF_TRY(ignored, s.attribute());
    (void)ignored;
    return signature(op);
  }
  KERF_CHECK(loose(op));
  rename(op);
  return ok();
}

/// "name"(operands) <{properties}> ({region}, {region}) {attributes} : (types) -> types
Status OpParser::generic(Operation &op) {
  KERF_TRY(name, s.quoted());
  op.name = name;
  KERF_CHECK(s.expect("(", "before an op's operands"));
  KERF_CHECK(operandList(op, ")"));
  if (s.next() == '[')
    return s.error("branches between blocks are not supported");
  if (s.take("<")) {
    KERF_CHECK(s.dictionary(op.attributes));
    KERF_CHECK(s.expect(">", "after an op's properties"));
  }
  if (s.take("("))
    do {
      Region body;
      KERF_CHECK(region(body));
      op.regions.push_back(std::move(body));
      if (s.take(")"))
        break;
    } while (s.take(","));
  KERF_CHECK(attributesIfAny(op));
  KERF_CHECK(s.expect(":", "before the types of an op"));
  return s.functionType(op.operandTypes, op.resultTypes);
}

Status OpParser::operation(std::vector<Operation> &into) {
  Operation op;
  op.place = s.place();
  if (s.next() == '%') {
    do {
      KERF_TRY(name, s.value());
      int64_t count = 1;
      if (s.take(":")) {
        KERF_TRY(several, s.count(1, 1 << 20, "the number of an op's results"));
        count = several;
      }
      op.results.emplace_back(std::move(name), int(count));
    } while (s.take(","));
    KERF_CHECK(s.expect("=", "between results and their op"));
  }
  KERF_CHECK(s.next() == '"' ? generic(op) : pretty(op));
  KERF_TRY(location, s.location());
  op.location = location;
  size_t values = 0;
  for (const auto &[name, count] : op.results)
    values += size_t(count);
  bool terminator = op.name == "func.return" || op.name == "stablehlo.return";
  if (!terminator && !op.results.empty() && values != op.resultTypes.size())
    return Error{
        fmt::format("{}: {} has {} results, but {} types", toText(op.place), op.name, values, op.resultTypes.size())};
  into.push_back(std::move(op));
  return ok();
}

Status OpParser::blockHeader(Region &into) {
  KERF_CHECK(s.expect("^", "before a block"));
  KERF_TRY(label, s.word("a block's name"));
  (void)label;
  if (s.take("(")) {
    while (!s.take(")")) {
      if (!into.arguments.empty())
        KERF_CHECK(s.expect(",", "between a block's arguments"));
      KERF_TRY(name, s.value());
      KERF_CHECK(s.expect(":", "after an argument's name"));
      KERF_TRY(type, s.type());
      KERF_TRY(ignored, s.location());
      (void)ignored;
      into.arguments.emplace_back(std::move(name), std::move(type));
    }
  }
  return s.expect(":", "after a block's name");
}

Status OpParser::region(Region &into, std::vector<std::pair<std::string, Type>> arguments) {
  Scanner::Level level(s);
  KERF_CHECK(s.checkDepth());
  into.arguments = std::move(arguments);
  KERF_CHECK(s.expect("{", "before a region"));
  if (s.next() == '^')
    KERF_CHECK(blockHeader(into));
  while (!s.take("}")) {
    if (s.atEnd())
      return s.error("a region is not closed at the end of the text");
    if (s.next() == '^')
      return s.error("a region of several blocks is not supported");
    KERF_CHECK(operation(into.operations));
  }
  return ok();
}

} // namespace kerf::frontend::hlo
