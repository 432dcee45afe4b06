// SPDX-License-Identifier: Apache-2.0
#include "StableHlo/HloEvaluate.h"
#include "Common/Narrow.h"
#include "Common/WayOut.h"
#include "kerf/Dialect/Kerf/TextLocation.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace kerf::frontend::hlo {

namespace {

constexpr int64_t kMostOperations =
    1000000; // limit of evaluated operations; a train step of 96 layers has about 100,000
constexpr size_t kDeepestCalls = 100;

constexpr std::string_view kNarrowResults = "; only convert has results of such formats";

/// The operations whose result has the elements of the single operand.
bool moves(const Operation &op) {
  constexpr std::string_view kMoves[] = {"sdy.sharding_constraint", "stablehlo.broadcast_in_dim",
                                         "stablehlo.reshape",       "stablehlo.reverse",
                                         "stablehlo.slice",         "stablehlo.transpose"};
  return std::find(std::begin(kMoves), std::end(kMoves), op.name) != std::end(kMoves);
}
/// The operations that accept tensors of narrow formats, because their results have a wider type.
bool readsNarrow(const Operation &op) {
  return moves(op) || op.name == "stablehlo.convert" || op.name == "stablehlo.dot_general" ||
         op.name == "stablehlo.optimization_barrier";
}

bool isReturn(const Operation &op) { return op.name == "func.return" || op.name == "stablehlo.return"; }

/// Returns whether the custom call only annotates a sharding, which Kerf ignores and decides itself.
bool isSharding(const Operation &op) {
  const Attribute *target = op.name == "stablehlo.custom_call" ? op.find("call_target_name") : nullptr;
  return target && (target->text == "Sharding" || target->text == "SPMDFullToShardShape" ||
                    target->text == "SPMDShardToFullShape");
}

bool isControl(const Operation &op) {
  return op.name == "func.call" || op.name == "stablehlo.while" || op.name == "stablehlo.if" ||
         op.name == "stablehlo.case" || op.name == "stablehlo.composite" || isReturn(op) || isSharding(op);
}

/// Returns the function that a call or a composite calls.
const Attribute *calleeOf(const Operation &op) {
  return op.name == "func.call"             ? op.find("callee")
         : op.name == "stablehlo.composite" ? op.find("decomposition")
                                            : nullptr;
}

std::string baseName(const std::string &value) { return value.substr(0, value.find('#')); }

void addUses(const Operation &op, std::set<std::string> &names) {
  for (const std::string &operand : op.operands)
    names.insert(baseName(operand));
  for (const Region &region : op.regions)
    for (const Operation &inner : region.operations)
      addUses(inner, names);
}

/// Returns, for each operation of a region, whether the wanted results need it.
std::vector<bool> neededOps(const Region &region, const std::vector<bool> &wanted) {
  std::vector<bool> needed(region.operations.size(), false);
  std::set<std::string> names;
  for (size_t i = region.operations.size(); i-- > 0;) {
    const Operation &op = region.operations[i];
    if (isReturn(op)) {
      needed[i] = true;
      for (size_t k = 0; k < op.operands.size(); ++k)
        if (k < wanted.size() && wanted[k])
          names.insert(baseName(op.operands[k]));
      continue;
    }
    needed[i] = std::any_of(op.results.begin(), op.results.end(),
                            [&](const auto &result) { return names.count(result.first) != 0; });
    if (needed[i])
      addUses(op, names);
  }
  return needed;
}

/// Returns the parts of a name without JAX's transformations: "jit(f)/jvp(layer_0)/attn/dot_general" -> {"layer_0",
/// "attn", "dot_general"}.
std::vector<std::string> scopeParts(const std::string &location) {
  std::vector<std::string> parts;
  std::string part;
  int open = 0;
  auto finish = [&] {
    for (const char *transform : {"jit(", "pjit("})
      if (part.rfind(transform, 0) == 0)
        part.clear();
    while (!part.empty() && part.back() == ')' && part.find('(') != std::string::npos)
      part = part.substr(part.find('(') + 1, part.size() - part.find('(') - 2);
    if (!part.empty())
      parts.push_back(part);
    part.clear();
  };
  for (char c : location) {
    open += (c == '(') - (c == ')');
    if (c == '/' && open == 0)
      finish();
    else
      part += c;
  }
  finish();
  return parts;
}

/// Adds the position in the text to an error, unless a nested operation has already added its own.
Error at(const Operation &op, const Error &error) {
  if (error.message.rfind("line ", 0) == 0)
    return error;
  return withWayOut({fmt::format("{}: {}: {}", toText(op.place), op.name, error.message), error.status},
                    kWriteOperationDifferently);
}

} // namespace

mlir::Location Evaluator::locationOf(const Operation &op) const {
  std::vector<std::string> scope;
  std::string node = op.results.empty() ? op.name : op.results.front().first;
  std::vector<std::string> parts = scopeParts(op.location);
  for (size_t i = 0; i < path.size(); ++i)
    if (parts.empty() || path[i].rfind("loop.", 0) == 0)
      scope.push_back(path[i]);
  if (!parts.empty()) {
    node = parts.back();
    scope.insert(scope.end(), parts.begin(), parts.end() - 1);
  }
  std::string name = scope.empty() ? node : fmt::format("{}/{}", fmt::join(scope, "."), node);
  auto place = mlir::FileLineColLoc::get(b.builder.getStringAttr(ir::kTextLocation), unsigned(op.place.line),
                                         unsigned(op.place.column));
  return mlir::NameLoc::get(b.builder.getStringAttr(name), place);
}

Status Evaluator::checkOperations(const Function &function, const std::vector<bool> &wanted) {
  struct Refused {
    Place first;
    int count = 0;
    std::string target;
  };
  std::map<std::string, Refused> refused;
  std::set<std::string> seen;
  std::vector<const Function *> open{&function};
  auto visit = [&](auto &self, const Operation &op) -> void {
    if (const Attribute *callee = calleeOf(op))
      if (const Function *target = module.find(callee->text); target && seen.insert(target->name).second)
        open.push_back(target);
    if (!isControl(op) && !findHandler(op.name)) {
      std::string name = op.name;
      if (const Attribute *target = name == "stablehlo.custom_call" ? op.find("call_target_name") : nullptr)
        name += " @" + target->text;
      Refused &entry = refused[name];
      if (entry.count++ == 0)
        entry.first = op.place;
      return; // operations inside of an unsupported operation are not checked
    }
    for (const Region &region : op.regions)
      for (const Operation &inner : region.operations)
        self(self, inner);
  };
  for (size_t i = 0; i < open.size(); ++i) {
    const Region &body = open[i]->body;
    std::vector<bool> needed = i == 0 ? neededOps(body, wanted) : std::vector<bool>(body.operations.size(), true);
    for (size_t k = 0; k < needed.size(); ++k)
      if (needed[k])
        visit(visit, body.operations[k]);
  }
  if (refused.empty())
    return ok();
  std::vector<std::string> items;
  for (const auto &[name, entry] : refused) {
    std::string_view way = unsupportedHint(name.substr(0, name.find(' ')));
    items.push_back(fmt::format("{} ({}{}{}{})", name, toText(entry.first),
                                entry.count > 1 ? fmt::format(" and {} more", entry.count - 1) : "",
                                way.empty() ? "" : "; ", way));
  }
  bool one = items.size() == 1;
  return Error{fmt::format("{} operation{} of this program {} not supported: {}; write the function without {} "
                           "(docs/stablehlo.md lists what is read)",
                           items.size(), one ? "" : "s", one ? "is" : "are", fmt::join(items, ", "),
                           one ? "it" : "them")};
}

Result<Terms> Evaluator::run(const Function &function, const Terms &arguments, const std::vector<bool> &wanted) {
  if (!function.hasBody)
    return Error{fmt::format("{}: @{} has no body", toText(function.place), function.name)};
  return region(function.body, arguments, nullptr, &wanted);
}

Result<Term> Evaluator::lookup(const std::string &name, const Scope &scope) const {
  size_t mark = name.find('#');
  size_t index = mark == std::string::npos ? 0 : size_t(std::strtoull(name.c_str() + mark + 1, nullptr, 10));
  std::string base = baseName(name);
  for (const Scope *s = &scope; s; s = s->parent) {
    auto found = s->values.find(base);
    if (found == s->values.end())
      continue;
    if (index >= found->second.size())
      return Error{fmt::format("it reads {}, but {} has {} values", name, base, found->second.size())};
    return found->second[index];
  }
  return Error{fmt::format("it reads {}, which no operation before it computes", name)};
}

Result<Terms> Evaluator::region(const Region &region, const Terms &arguments, const Scope *parent,
                                const std::vector<bool> *wanted) {
  if (region.arguments.size() != arguments.size())
    return Error{fmt::format("a block with {} arguments gets {} values", region.arguments.size(), arguments.size())};
  Scope scope;
  scope.parent = parent;
  for (size_t i = 0; i < arguments.size(); ++i)
    scope.values[region.arguments[i].first] = {arguments[i]};
  std::vector<bool> needed = wanted ? neededOps(region, *wanted) : std::vector<bool>(region.operations.size(), true);
  for (size_t i = 0; i < region.operations.size(); ++i) {
    const Operation &op = region.operations[i];
    if (isReturn(op)) {
      Terms returned;
      for (size_t k = 0; k < op.operands.size(); ++k) {
        if (wanted && (k >= wanted->size() || !(*wanted)[k])) {
          returned.emplace_back();
          continue;
        }
        auto value = lookup(op.operands[k], scope);
        if (!value)
          return at(op, value.error());
        returned.push_back(*value);
      }
      return returned;
    }
    if (!needed[i])
      continue;
    if (Status status = operation(op, scope); !status)
      return at(op, status.error());
  }
  return Error{"a region returns nothing"};
}

Status Evaluator::checkTypes(const std::vector<Type> &types, const Terms &terms, const char *which) const {
  if (types.size() != terms.size())
    return Error{fmt::format("it has {} {}s, but the text has types for {}", terms.size(), which, types.size())};
  for (size_t i = 0; i < types.size(); ++i) {
    KERF_TRY(said, tensorType(types[i], b.floatType()));
    const NarrowFormat *narrow = terms[i].narrow;
    if (said.dtype != terms[i].dtype || said.shape != terms[i].shape || said.narrow != narrow)
      return Error{fmt::format("its {} {} is {} {}, but the text says {}{}", which, i,
                               narrow ? narrow->hloName : toString(terms[i].dtype), shapeText(terms[i].shape),
                               types[i].text, said.narrow && !narrow ? kNarrowResults : "")};
  }
  return ok();
}

Status Evaluator::operation(const Operation &op, Scope &scope) {
  if (++operations > kMostOperations)
    return Error{fmt::format(
        "the program has more than {} operations after its loops are unrolled and its calls inlined", kMostOperations)};
  Terms operands;
  for (const std::string &name : op.operands) {
    KERF_TRY(value, lookup(name, scope));
    operands.push_back(value);
  }
  if (!op.operandTypes.empty())
    KERF_CHECK(checkTypes(op.operandTypes, operands, "operand"));
  KERF_TRY(values, results(op, operands, scope));
  KERF_CHECK(checkTypes(op.resultTypes, values, "result"));
  size_t next = 0;
  for (const auto &[name, count] : op.results) {
    Terms &into = scope.values[name];
    into.clear();
    for (int i = 0; i < count && next < values.size(); ++i)
      into.push_back(values[next++]);
  }
  return ok();
}

Result<Terms> Evaluator::results(const Operation &op, const Terms &operands, const Scope &scope) {
  if (calleeOf(op) || op.name == "func.call")
    return call(op, operands);
  if (op.name == "stablehlo.while")
    return loop(op, operands, scope);
  if (op.name == "stablehlo.if" || op.name == "stablehlo.case")
    return branch(op, operands, scope);
  if (isSharding(op))
    return operands;
  return plain(op, operands);
}

Result<Terms> Evaluator::plain(const Operation &op, const Terms &operands) {
  const OpHandler *handler = findHandler(op.name);
  if (!handler)
    return Error{"it is not supported"};
  int count = int(operands.size());
  if (count < handler->minOperands || count > handler->maxOperands) {
    if (op.name == "stablehlo.scatter")
      return Error{fmt::format("a scatter into {} tensors at once is not supported", (count - 1) / 2)};
    return Error{
        fmt::format("it has {} operands, but {} to {} are needed", count, handler->minOperands, handler->maxOperands)};
  }
  Node node{op, b, operands, {}};
  for (const Type &type : op.resultTypes) {
    KERF_TRY(said, tensorType(type, b.floatType()));
    KERF_CHECK(checkShape(said.shape));
    node.results.push_back(said);
  }
  if (node.results.empty() && op.name != "stablehlo.optimization_barrier")
    return Error{"the text gives no type of its result"};
  for (const Term &operand : operands)
    if (operand.narrow && !readsNarrow(op))
      return Error{fmt::format("it reads {}; convert it to f32 first", operand.narrow->hloName)};
  b.setLocation(locationOf(op));
  auto made = handler->evaluate(node);
  if (made && moves(op))
    for (Term &term : *made)
      term.narrow = operands[0].narrow;
  return made;
}

Result<Terms> Evaluator::call(const Operation &op, const Terms &operands) {
  const Attribute *callee = calleeOf(op);
  const Function *function = callee ? module.find(callee->text) : nullptr;
  if (!function || !function->hasBody)
    return Error{fmt::format("there is no function @{} with a body", callee ? callee->text : "")};
  if (path.size() >= kDeepestCalls)
    return Error{fmt::format(
        "calls have more than {} levels of nesting, because @{} calls itself or loops are nested too deeply",
        kDeepestCalls, function->name)};
  path.push_back(function->name);
  auto results = region(function->body, operands, nullptr, nullptr);
  path.pop_back();
  return results;
}

Result<Terms> Evaluator::loop(const Operation &op, Terms values, const Scope &scope) {
  if (op.regions.size() != 2)
    return Error{fmt::format("a loop needs a condition and a body, but this loop has {} regions", op.regions.size())};
  if (path.size() >= kDeepestCalls)
    return Error{fmt::format("calls and loops have more than {} levels of nesting", kDeepestCalls)};
  for (int64_t round = 0;; ++round) {
    KERF_TRY(condition, region(op.regions[0], values, &scope, nullptr));
    if (condition.size() != 1 || condition[0].dtype != DType::Bool || elementsOf(condition[0].shape) != 1)
      return Error{"its condition is not a single boolean"};
    if (!condition[0].isConstant())
      return Error{"its condition depends on inputs or parameters; only loops with a known number of iterations are "
                   "supported (lax.scan, lax.fori_loop with constant bounds)"};
    if (allElementsEqual(*condition[0].literal, 0))
      return values;
    if (++operations > kMostOperations)
      return Error{fmt::format("after {} iterations the program has more than {} operations", round, kMostOperations)};
    path.push_back(fmt::format("loop.{}", round));
    auto next = region(op.regions[1], values, &scope, nullptr);
    path.pop_back();
    if (!next)
      return next.error();
    KERF_CHECK(checkTypes(op.resultTypes, *next, "value"));
    values = std::move(*next);
  }
}

/// Evaluates a branch. With a known predicate only one branch is evaluated; otherwise all are evaluated and one result
/// is selected, which is possible because branches have no side effects.
Result<Terms> Evaluator::branch(const Operation &op, const Terms &operands, const Scope &scope) {
  size_t count = op.regions.size();
  if (operands.size() != 1 || elementsOf(operands[0].shape) != 1 || isFloat(operands[0].dtype) || count < 1)
    return Error{"it needs one integer or boolean that selects a branch"};
  bool isIf = op.name == "stablehlo.if";
  if (isIf && (count != 2 || operands[0].dtype != DType::Bool))
    return Error{fmt::format("it has {} branches, but a predicate of type {}", count, toString(operands[0].dtype))};
  const Term &chooser = operands[0];
  if (chooser.isConstant()) {
    KERF_TRY(values, frontend::integersOf(*chooser.literal));
    int64_t index = isIf ? 1 - values[0] : values[0];
    // An index out of range selects the last branch.
    if (index < 0 || index >= int64_t(count))
      index = int64_t(count) - 1;
    return region(op.regions[size_t(index)], {}, &scope, nullptr);
  }
  KERF_TRY(scalar, b.reshape(chooser, {}));
  KERF_TRY(chosen, region(op.regions[count - 1], {}, &scope, nullptr));
  for (size_t i = count - 1; i-- > 0;) {
    KERF_TRY(other, region(op.regions[i], {}, &scope, nullptr));
    if (other.size() != chosen.size())
      return Error{
          fmt::format("its branches return {} and {} values, which must be equal", other.size(), chosen.size())};
    b.setLocation(locationOf(op));
    Term here = scalar;
    if (!isIf) {
      KERF_TRY(same, b.compare(Order::Equal, scalar, b.integer(scalar.dtype, int64_t(i))));
      here = same;
    }
    for (size_t k = 0; k < chosen.size(); ++k) {
      if (other[k].shape != chosen[k].shape)
        return Error{fmt::format("its branches return {} and {}, which must be equal", shapeText(other[k].shape),
                                 shapeText(chosen[k].shape))};
      KERF_TRY(selected, b.select(here, other[k], chosen[k]));
      chosen[k] = selected;
    }
  }
  return chosen;
}

} // namespace kerf::frontend::hlo
