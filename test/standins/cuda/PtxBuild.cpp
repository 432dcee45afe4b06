// SPDX-License-Identifier: Apache-2.0
// Turns operands into slots and statements into instructions: everything that is not particular to one instruction.
#include "PtxText.h"

#include <algorithm>
#include <bit>

namespace kerf::standin::ptx {

namespace {

struct SpecialRegister {
  std::string_view name;
  int32_t slot;
};
constexpr SpecialRegister kSpecial[] = {
    {"%tid.x", kTid},
    {"%tid.y", kTid + kWarp},
    {"%tid.z", kTid + 2 * kWarp},
    {"%ntid.x", kNtid},
    {"%ntid.y", kNtid + kWarp},
    {"%ntid.z", kNtid + 2 * kWarp},
    {"%ctaid.x", kCtaid},
    {"%ctaid.y", kCtaid + kWarp},
    {"%ctaid.z", kCtaid + 2 * kWarp},
    {"%nctaid.x", kNctaid},
    {"%nctaid.y", kNctaid + kWarp},
    {"%nctaid.z", kNctaid + 2 * kWarp},
    {"%laneid", kLaneId},
    {"%warpid", kWarpId},
    {"%nwarpid", kNwarpId},
    {"%lanemask_eq", kMaskEq},
    {"%lanemask_le", kMaskLe},
    {"%lanemask_lt", kMaskLt},
    {"%lanemask_ge", kMaskGe},
    {"%lanemask_gt", kMaskGt},
    {"%smid", kSmId},
    {"%nsmid", kNsmId},
    {"%gridid", kZero},
    {"%dynamic_smem_size", kDynamicBytes},
    {"%total_smem_size", kTotalShared},
};

/// Returns the bits that a literal has as a value of `type`.
uint64_t literalBits(const Operand &operand, Type type) {
  if (operand.kind == Operand::Kind::Float32 && type == Type::F64)
    return std::bit_cast<uint64_t>(double(std::bit_cast<float>(uint32_t(operand.bits))));
  if (operand.kind == Operand::Kind::Float64 && type != Type::F64 && type != Type::B64)
    return std::bit_cast<uint32_t>(float(std::bit_cast<double>(operand.bits)));
  return operand.bits;
}

} // namespace

Builder::Builder(Module &module, Function &function, const std::unordered_map<std::string, Variable *> &variables,
                 const std::unordered_map<std::string, Function *> &functions)
    : function(function), module(module), variables(variables), functions(functions) {
  scopes.emplace_back();
  function.image.assign(kFixedSlots, 0);
}

void Builder::declare(const std::string &name, Name value) { scopes.back()[name] = value; }

int32_t Builder::newSlot(uint64_t content) {
  function.image.push_back(content);
  return int32_t(function.image.size() - 1) * kWarp;
}

Place Builder::newLocal(size_t bytes, size_t alignment) {
  size_t offset = (function.localBytes + alignment - 1) / alignment * alignment;
  function.localBytes = offset + bytes;
  return {offset, bytes};
}

void Builder::label(const std::string &name, uint32_t line) {
  if (!labels.emplace(name, function.code.size()).second)
    failAt(line, "label " + name + " is declared twice");
}

void Builder::declareRegister(const Step &step) {
  // A register that may be read before it is written can share its slot: the other registers of the slot are in use
  // only after its last use.
  auto [entry, isNew] = registerSlots.try_emplace(step.value.slot, 0);
  if (isNew)
    entry->second = newSlot();
  if (step.value.isReadFirst)
    function.image[size_t(entry->second / kWarp)] = kPoison;
  Name value = step.value;
  value.slot = entry->second;
  declare(step.name, value);
}

const Name *Builder::find(const std::string &name) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto found = scope->find(name); found != scope->end())
      return &found->second;
  return nullptr;
}

int32_t Builder::constant(uint64_t bits) {
  auto [entry, isNew] = constants.try_emplace(bits, 0);
  if (isNew)
    entry->second = newSlot(bits);
  return entry->second;
}

Inst &Builder::emit(Handler handler, int32_t d, int32_t a, int32_t b, int32_t c, int32_t e) {
  if (!handler)
    fail("this type is not supported here");
  Inst inst;
  inst.handler = handler;
  inst.d = d, inst.a = a, inst.b = b, inst.c = c, inst.e = e;
  inst.line = current ? current->line : 0;
  function.code.push_back(inst);
  return function.code.back();
}

const int32_t *Builder::list(std::vector<int32_t> slots) {
  return function.lists.emplace_back(std::move(slots)).data();
}

void Builder::fail(const std::string &text) const {
  failAt(current ? current->line : 0, (current ? "`" + std::string(current->opcode) + "`: " : std::string()) + text);
}

void Builder::expect(size_t operands) const {
  if (current->operands.size() != operands)
    fail("has " + std::to_string(current->operands.size()) + " operands, expected " + std::to_string(operands));
}

void Builder::allow(std::initializer_list<std::string_view> parts) const {
  for (size_t i = 1; i < current->parts.size(); ++i)
    if (std::string_view part = current->parts[i];
        typeOf(part) == Type::None && std::find(parts.begin(), parts.end(), part) == parts.end())
      fail("`." + std::string(part) + "` is not supported");
}

int32_t Builder::destination(const Operand &operand) {
  if (!writes)
    fail("is listed as one that writes no operand");
  if (operand.kind != Operand::Kind::Name || operand.negated)
    fail("the destination is not a register");
  if (operand.name == "_")
    return newSlot();
  const Name *name = find(operand.name);
  if (!name || name->kind != Name::Kind::Register)
    fail("unknown register " + operand.name);
  return name->slot;
}

int32_t Builder::source(const Operand &operand, Type type) {
  using Kind = Operand::Kind;
  if (operand.kind == Kind::Integer || operand.kind == Kind::Float32 || operand.kind == Kind::Float64) {
    uint64_t bits = literalBits(operand, type);
    if (flush && type == Type::F32 && (bits & 0x7F800000) == 0)
      bits &= 0x80000000;
    return constant(bits);
  }
  if (operand.kind != Kind::Name)
    fail("an operand has an unknown form");
  if (writes && &operand == &current->operands[0])
    fail("is listed as one that writes its first operand");
  int32_t slot = -1;
  if (const Name *name = find(operand.name)) {
    if (name->kind == Name::Kind::Register) {
      slot = name->slot;
    } else if (name->kind == Name::Kind::EntryParameter) {
      slot = constant(kParamWindow + name->place.offset + operand.offset);
    } else {
      slot = newSlot();
      emit(addressOfLocal, slot, int32_t(name->place.offset + operand.offset));
    }
  }
  for (const SpecialRegister &special : kSpecial)
    if (slot < 0 && special.name == operand.name)
      slot = special.slot;
  auto variable = variables.find(operand.name);
  if (slot < 0 && variable != variables.end() && variable->second->dynamic) {
    slot = newSlot();
    emit(addressOfDynamicShared, slot, int32_t(operand.offset));
  } else if (slot < 0 && variable != variables.end()) {
    auto [entry, isNew] = addresses.try_emplace({variable->second, operand.offset}, 0);
    if (isNew) {
      entry->second = newSlot();
      function.fixups.push_back({entry->second, variable->second, operand.offset});
      if (variable->second->space == Space::Shared)
        variable->second->users.push_back(function.index);
    }
    slot = entry->second;
  }
  if (auto callee = functions.find(operand.name); slot < 0 && callee != functions.end())
    slot = constant(kCodeWindow + uint64_t(callee->second->index));
  if (slot < 0)
    fail("unknown name " + operand.name);
  int32_t result = slot;
  if (operand.negated) {
    result = newSlot();
    emit(notPredicate, result, slot);
  } else if (flush && type == Type::F32) {
    result = newSlot();
    emit(flushSubnormal, result, slot);
  }
  return result;
}

int32_t Builder::address(const Operand &operand, int32_t *offset, Space *space) {
  if (operand.kind != Operand::Kind::Address || operand.parts.size() != 1)
    fail("expected an address in brackets");
  const Operand &base = operand.parts.front();
  int64_t bytes = operand.offset;
  if (bytes != int32_t(bytes))
    fail("the offset of an address exceeds 32 bits");
  *offset = int32_t(bytes);
  if (base.kind == Operand::Kind::Integer)
    return constant(base.bits);
  if (base.kind != Operand::Kind::Name)
    fail("the base of an address is neither a register nor a variable");
  const Name *name = find(base.name);
  if (name && name->kind == Name::Kind::Local) {
    *offset += int32_t(name->place.offset);
    *space = Space::Local;
    return kLocalBase;
  }
  if (name && name->kind == Name::Kind::EntryParameter) {
    *offset += int32_t(name->place.offset);
    *space = Space::Param;
    return constant(0);
  }
  if (*space == Space::Param)
    *space = Space::Generic; // addresses of parameters are generic ones in registers
  return source(base, Type::B64);
}

void Builder::branchTo(const std::string &label) {
  jumps.push_back({function.code.size(), label, current ? current->line : 0});
}

void Builder::branchByTable(const Operand &table, int32_t indexSlot) {
  tableJumps.push_back({function.code.size(), table.name, current->line});
  emit(branchIndexed, 0, 0, indexSlot);
}

Place Builder::argumentPlace(const Operand &operand) const {
  const Name *name = find(operand.name);
  if (!name || name->kind != Name::Kind::Local)
    fail("argument " + operand.name + " is not a `.param` variable");
  return name->place;
}

CallSite &Builder::callSite(const Statement &statement) {
  CallSite site;
  size_t at = 0;
  const auto &operands = statement.operands;
  if (!operands.empty() && operands[0].kind == Operand::Kind::Tuple) {
    for (const Operand &result : operands[0].parts)
      site.results.push_back(argumentPlace(result));
    ++at;
  }
  if (at >= operands.size() || operands[at].kind != Operand::Kind::Name)
    fail("names no function");
  const std::string &target = operands[at++].name;
  if (auto callee = functions.find(target); callee != functions.end()) {
    site.callee = callee->second;
    if (site.callee->isEntry)
      fail("calls a kernel");
  } else {
    const Name *name = find(target);
    if (!name || name->kind != Name::Kind::Register)
      fail("calls the unknown function " + target);
    site.pointer = name->slot;
  }
  if (at < operands.size() && operands[at].kind == Operand::Kind::Tuple)
    for (const Operand &argument : operands[at].parts)
      site.arguments.push_back(argumentPlace(argument));
  return function.calls.emplace_back(std::move(site));
}

void Builder::decode(const Statement &statement) {
  using Decoder = bool (*)(Builder &, const Statement &);
  constexpr Decoder kDecoders[] = {decodeMemory, decodeControl, decodeMove,    decodeHalf,    decodeInteger,
                                   decodeFloat,  decodeBits,    decodeCompare, decodeConvert, decodeAtomic};
  for (Decoder decoder : kDecoders)
    if (decoder(*this, statement))
      return;
  fail("unknown instruction");
}

void Builder::add(const Statement &statement) {
  current = &statement;
  writes = writesOperand(statement);
  flush = statement.has("ftz");
  size_t skip = function.code.size();
  bool branches = statement.parts[0] == "bra";
  if (!statement.predicate.empty() && !branches) {
    const Name *name = find(statement.predicate);
    if (!name || name->kind != Name::Kind::Register)
      fail("unknown predicate " + statement.predicate);
    emit(statement.negated ? branchIf : branchIfNot, 0, 0, name->slot);
  }
  decode(statement);
  const auto &types = statement.types;
  if (flush && !types.empty() && types[0] == Type::F32 && statement.parts[0] != "setp" && statement.parts[0] != "set") {
    int32_t slot = destination(statement.operands.at(0));
    emit(flushSubnormal, slot, slot);
  }
  if (!statement.predicate.empty() && !branches)
    function.code[skip].a = int32_t(function.code.size() - skip);
  current = nullptr;
}

void Builder::build(std::deque<Step> steps, const BranchTables &tables) {
  shareSlots(steps, tables);
  for (const Step &step : steps) {
    switch (step.kind) {
    case Step::Kind::Open:
      scopes.emplace_back();
      break;
    case Step::Kind::Close:
      scopes.pop_back();
      break;
    case Step::Kind::Name:
      step.value.kind == Name::Kind::Register ? declareRegister(step) : declare(step.name, step.value);
      break;
    case Step::Kind::Label:
      label(step.name, step.line);
      break;
    case Step::Kind::Statement:
      add(step.statement);
      break;
    }
  }
  finish(tables);
}

void Builder::finish(const BranchTables &tables) {
  emit(returnFromCall); // for execution that runs past the last instruction
  auto distance = [&](size_t from, const std::string &label, uint32_t line) {
    auto target = labels.find(label);
    if (target == labels.end())
      failAt(line, "unknown label " + label);
    return int32_t(int64_t(target->second) - int64_t(from));
  };
  for (const Jump &jump : jumps)
    function.code[jump.inst].a = distance(jump.inst, jump.label, jump.line);
  for (const TableJump &jump : tableJumps) {
    auto table = tables.find(jump.table);
    if (table == tables.end())
      failAt(jump.line, "unknown branch table " + jump.table);
    std::vector<int32_t> distances;
    for (const std::string &label : table->second)
      distances.push_back(distance(jump.inst, label, jump.line));
    function.code[jump.inst].d = int32_t(distances.size());
    function.code[jump.inst].list = list(std::move(distances));
  }
}

} // namespace kerf::standin::ptx
