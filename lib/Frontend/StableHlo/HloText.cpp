// SPDX-License-Identifier: Apache-2.0
// Parses the module and the functions of StableHLO text, in the pretty form and in the generic form.
#include "StableHlo/HloOpText.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::frontend::hlo {

namespace {

class Parser {
public:
  explicit Parser(std::string_view text) : s(text), ops(s) {}
  Result<Module> run();

private:
  Status modulePart(Module &module);
  Status function(Module &module);
  Status genericFunction(Operation &op, Module &module);

  Scanner s;
  OpParser ops;
};

Attribute emptyRecord() {
  Attribute result;
  result.kind = Attribute::Kind::Record;
  return result;
}

/// func.func public @main(%arg0: t {attributes}, ...) -> (t {attributes}) attributes {...} { ... }
Status Parser::function(Module &module) {
  Function f;
  f.place = s.place();
  for (const char *visibility : {"public", "private", "nested"})
    if (s.take(visibility))
      break;
  KERF_TRY(name, s.symbol());
  f.name = name;
  KERF_CHECK(s.expect("(", "before a function's arguments"));
  std::vector<std::pair<std::string, Type>> blockArguments;
  while (!s.take(")")) {
    if (!f.arguments.empty())
      KERF_CHECK(s.expect(",", "between a function's arguments"));
    Argument argument;
    argument.attributes = emptyRecord();
    if (s.next() == '%') { // a declaration has types only
      KERF_TRY(value, s.value());
      argument.name = value;
      KERF_CHECK(s.expect(":", "after an argument's name"));
    }
    KERF_TRY(type, s.type());
    argument.type = std::move(type);
    if (s.next() == '{')
      KERF_CHECK(s.dictionary(argument.attributes.record));
    KERF_TRY(location, s.location());
    argument.location = location;
    blockArguments.emplace_back(argument.name, argument.type);
    f.arguments.push_back(std::move(argument));
  }
  if (s.take("->")) {
    bool several = s.take("(");
    while (!several || !s.take(")")) {
      if (several && !f.resultTypes.empty())
        KERF_CHECK(s.expect(",", "between a function's results"));
      KERF_TRY(type, s.type());
      f.resultTypes.push_back(std::move(type));
      f.resultAttributes.push_back(emptyRecord());
      if (!several)
        break;
      if (s.next() == '{')
        KERF_CHECK(s.dictionary(f.resultAttributes.back().record));
    }
  }
  if (s.take("attributes")) {
    Attribute ignored;
    KERF_CHECK(s.dictionary(ignored.record));
  }
  f.hasBody = s.next() == '{';
  if (f.hasBody)
    KERF_CHECK(ops.region(f.body, std::move(blockArguments)));
  module.functions.push_back(std::move(f));
  return ok();
}

/// "func.func"() <{function_type = ..., sym_name = "main", arg_attrs = [...]}> ({ ^bb0(...): ... }) : () -> ()
Status Parser::genericFunction(Operation &op, Module &module) {
  Function f;
  f.place = op.place;
  const Attribute *name = op.find("sym_name"), *type = op.find("function_type");
  if (!name || !type || type->kind != Attribute::Kind::Function || op.regions.size() != 1)
    return Error{fmt::format("{}: a function lacks sym_name, function_type or a body", toText(op.place))};
  f.name = name->text;
  f.body = std::move(op.regions[0]);
  f.hasBody = !f.body.operations.empty();
  f.resultTypes = type->outputs;
  f.resultAttributes.assign(f.resultTypes.size(), emptyRecord());
  if (f.hasBody && f.body.arguments.size() != type->inputs.size())
    return Error{fmt::format("{}: @{} has {} arguments, but its type has {}", toText(op.place), f.name,
                             f.body.arguments.size(), type->inputs.size())};
  for (const auto &[value, argumentType] : f.body.arguments)
    f.arguments.push_back({value, argumentType, emptyRecord(), ""});
  if (const Attribute *given = op.find("arg_attrs"))
    for (size_t i = 0; i < std::min(given->list.size(), f.arguments.size()); ++i)
      f.arguments[i].attributes = given->list[i];
  if (const Attribute *given = op.find("res_attrs"))
    for (size_t i = 0; i < std::min(given->list.size(), f.resultTypes.size()); ++i)
      f.resultAttributes[i] = given->list[i];
  module.functions.push_back(std::move(f));
  return ok();
}

/// Parses one element of a module, or the module itself.
Status Parser::modulePart(Module &module) {
  Scanner::Level level(s);
  KERF_CHECK(s.checkDepth());
  if (s.next() == '#' || s.next() == '!')
    return s.alias();
  Place start = s.place();
  if (s.next() == '"') {
    Operation op;
    op.place = start;
    KERF_CHECK(ops.generic(op));
    KERF_TRY(ignored, s.location());
    (void)ignored;
    if (op.name == "func.func")
      return genericFunction(op, module);
    if (op.name != "builtin.module" || op.regions.size() != 1)
      return ok(); // sdy.mesh and similar declarations
    for (Operation &inner : op.regions[0].operations)
      if (inner.name == "func.func")
        KERF_CHECK(genericFunction(inner, module));
    return ok();
  }
  KERF_TRY(word, s.word("a function"));
  if (word == "func.func" || word == "func") {
    KERF_CHECK(function(module));
  } else if (word == "sdy.mesh") { // @mesh = <["x"=2]>
    KERF_TRY(name, s.symbol());
    (void)name;
    KERF_CHECK(s.expect("=", "in a mesh"));
    KERF_TRY(ignored, s.attribute());
    (void)ignored;
  } else if (word == "module" || word == "builtin.module") {
    if (s.next() == '@') {
      KERF_TRY(name, s.symbol());
      (void)name;
    }
    if (s.take("attributes")) {
      Attribute ignored;
      KERF_CHECK(s.dictionary(ignored.record));
    }
    KERF_CHECK(s.expect("{", "before the functions of a module"));
    while (!s.take("}")) {
      if (s.atEnd())
        return s.error("the module is not closed at the end of the text");
      KERF_CHECK(modulePart(module));
    }
  } else {
    return Error{fmt::format("{}: '{}' stands where a function is expected", toText(start), word)};
  }
  KERF_TRY(location, s.location());
  (void)location;
  return ok();
}

/// Replaces aliases of locations by their names, after parsing, because their definitions stand at the end of the text.
void resolveLocations(const std::map<std::string, std::string> &locations, std::string &location) {
  for (int hops = 0; hops < kMaxJsonNesting && !location.empty() && location[0] == '#'; ++hops) {
    auto found = locations.find(location);
    location = found == locations.end() ? "" : found->second;
  }
  if (!location.empty() && location[0] == '#')
    location.clear();
}

void resolveLocations(const std::map<std::string, std::string> &locations, Region &region) {
  for (Operation &op : region.operations) {
    resolveLocations(locations, op.location);
    for (Region &inner : op.regions)
      resolveLocations(locations, inner);
  }
}

Result<Module> Parser::run() {
  Module module;
  while (!s.atEnd()) {
    if (s.nextIs("{-#")) // resources
      break;
    KERF_CHECK(modulePart(module));
  }
  for (size_t i = 0; i < module.functions.size(); ++i)
    if (module.find(module.functions[i].name) != &module.functions[i])
      return Error{
          fmt::format("{}: there are two functions @{}", toText(module.functions[i].place), module.functions[i].name)};
  for (Function &function : module.functions) {
    resolveLocations(s.locations, function.body);
    for (Argument &argument : function.arguments)
      resolveLocations(s.locations, argument.location);
  }
  return module;
}

} // namespace

const Attribute *Operation::find(std::string_view name) const {
  for (const auto &[key, value] : attributes)
    if (key == name)
      return &value;
  return nullptr;
}

const Function *Module::find(std::string_view name) const {
  auto it = std::find_if(functions.begin(), functions.end(), [&](const Function &f) { return f.name == name; });
  return it == functions.end() ? nullptr : &*it;
}

Result<Module> parse(std::string_view text) { return Parser(text).run(); }

} // namespace kerf::frontend::hlo
