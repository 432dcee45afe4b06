// SPDX-License-Identifier: Apache-2.0
// Reads the structure of PTX text: variables, functions, parameters, and the statements of a function's body.
#include "PtxText.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace kerf::standin::ptx {

namespace {

/// The attributes before a variable's or function's name.
struct Declaration {
  Type type = Type::None;
  size_t alignment = 0, vector = 1;
  std::string name;
  size_t count = 1;   // elements; 0 for an array of unknown size
  uint32_t range = 0; // of `%r<13>`
};

/// Parses one module.
class Parser {
public:
  Parser(std::string_view text, Module &module) : tokens(tokenize(text)), module(module) {}
  void run();

private:
  const Token &peek(size_t ahead = 0) const { return tokens[std::min(at + ahead, tokens.size() - 1)]; }
  const Token &next() { return tokens[std::min(at++, tokens.size() - 1)]; }
  bool is(std::string_view text, size_t ahead = 0) const {
    const Token &token = peek(ahead);
    return token.text.size() == text.size() && token.text[0] == text[0] && token.text == text &&
           token.kind != Token::Kind::Text;
  }
  bool accept(std::string_view text) { return is(text) && (++at, true); }
  void expect(std::string_view text) {
    if (!accept(text))
      fail("expected `" + std::string(text) + "` but found `" + std::string(peek().text) + "`");
  }
  [[noreturn]] void fail(const std::string &text) const { failAt(peek().line, text); }
  std::string word() {
    if (peek().kind != Token::Kind::Word)
      fail("expected a name but found `" + std::string(peek().text) + "`");
    return std::string(next().text);
  }
  void skipLine() {
    uint32_t line = peek().line;
    while (peek().kind != Token::Kind::End && peek().line == line)
      ++at;
  }
  void skipStatement() {
    while (peek().kind != Token::Kind::End && !accept(";"))
      ++at;
  }
  uint64_t unsignedNumber() {
    Operand value = literal();
    return value.bits;
  }

  Operand literal();
  Operand operand();
  Operand simpleOperand();
  Declaration declaration();
  void initializer(Variable &variable, const Declaration &shape);
  void initialElement(Variable &variable, size_t width, Type type);
  void moduleVariable(Space space, bool external);
  void functionHead(bool isEntry);
  std::vector<Place> parameterList(Function &function, Builder *builder);
  void body(Builder &builder);
  void bodyDirective(Builder &builder);
  void bodyStatement();
  void labelOrTable();

  std::vector<Token> tokens;
  size_t at = 0;
  std::deque<Step> steps; // of the function that is being read
  BranchTables tables;
  Module &module;
  std::unordered_map<std::string, Variable *> variables;
  std::unordered_map<std::string, Function *> functions;
};

Operand Parser::literal() {
  Operand result;
  result.kind = Operand::Kind::Integer;
  bool negative = accept("-");
  if (peek().kind != Token::Kind::Number)
    fail("expected a number but found `" + std::string(peek().text) + "`");
  std::string text(next().text);
  auto digits = [&](int base, size_t skip) {
    uint64_t value = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + skip, end, value, base);
    if (error != std::errc() || (stop != end && std::string_view(stop, size_t(end - stop)) != "U"))
      fail("`" + text + "` is not a number");
    return value;
  };
  if (text.starts_with("0f") || text.starts_with("0F")) {
    result.kind = Operand::Kind::Float32;
    result.bits = digits(16, 2) ^ (negative ? 0x80000000u : 0);
    return result;
  }
  if (text.starts_with("0d") || text.starts_with("0D")) {
    result.kind = Operand::Kind::Float64;
    result.bits = digits(16, 2) ^ (negative ? uint64_t(1) << 63 : 0);
    return result;
  }
  if (text.starts_with("0x") || text.starts_with("0X"))
    result.bits = digits(16, 2);
  else if (text.find_first_of(".eE") != std::string::npos) {
    result.kind = Operand::Kind::Float64;
    result.bits = std::bit_cast<uint64_t>(negative ? -std::stod(text) : std::stod(text));
    return result;
  } else if (text.starts_with("0b") || text.starts_with("0B"))
    result.bits = digits(2, 2);
  else
    result.bits = text.size() > 1 && text[0] == '0' ? digits(8, 1) : digits(10, 0);
  if (negative)
    result.bits = 0 - result.bits;
  return result;
}

Operand Parser::operand() {
  Operand result = simpleOperand();
  if (!accept("|"))
    return result;
  Operand pair;
  pair.kind = Operand::Kind::Pair;
  pair.parts = {std::move(result), simpleOperand()};
  return pair;
}

Operand Parser::simpleOperand() {
  Operand result;
  auto elements = [&](std::string_view close) {
    while (!accept(close)) {
      result.parts.push_back(operand());
      if (!is(close))
        expect(",");
    }
  };
  if (accept("!")) {
    result.name = word();
    result.negated = true;
  } else if (accept("{")) {
    result.kind = Operand::Kind::Vector;
    elements("}");
  } else if (accept("(")) {
    result.kind = Operand::Kind::Tuple;
    elements(")");
  } else if (accept("[")) {
    Operand base = simpleOperand();
    result.kind = Operand::Kind::Address;
    result.offset = base.offset;
    base.offset = 0;
    result.parts.push_back(std::move(base));
    expect("]");
  } else if (peek().kind == Token::Kind::Number || is("-")) {
    result = literal();
  } else {
    result.name = word();
    if (accept("+") || is("-")) {
      result.offset = int64_t(literal().bits);
    }
  }
  return result;
}

Declaration Parser::declaration() {
  Declaration result;
  while (peek().kind == Token::Kind::Word && peek().text[0] == '.') {
    std::string text = word();
    // The tokenizer joins directives with following dots only without a blank, so that each is one word here.
    if (text == ".align")
      result.alignment = unsignedNumber();
    else if (text == ".v2" || text == ".v4")
      result.vector = text == ".v2" ? 2 : 4;
    else if (Type type = typeOf(std::string_view(text).substr(1)); type != Type::None)
      result.type = type;
    else if (text == ".ptr" || text == ".global" || text == ".shared" || text == ".const" || text == ".local")
      continue; // what a pointer parameter points to
    else
      fail("unknown attribute " + text);
  }
  if (result.type == Type::None)
    fail("a declaration without a known type");
  result.name = word();
  if (accept("<")) {
    result.range = uint32_t(unsignedNumber());
    expect(">");
  }
  while (accept("[")) {
    result.count *= is("]") ? 0 : unsignedNumber();
    expect("]");
  }
  if (result.alignment == 0)
    result.alignment = bytesOf(result.type) * result.vector;
  return result;
}

void Parser::initialElement(Variable &variable, size_t width, Type type) {
  uint64_t bits = 0;
  if (peek().kind == Token::Kind::Word) {
    Relocation relocation;
    bool generic = accept("generic");
    if (generic)
      expect("(");
    Operand symbol = simpleOperand();
    if (generic)
      expect(")");
    if (accept("+"))
      symbol.offset += int64_t(literal().bits);
    relocation.offset = variable.initial.size();
    relocation.bytes = width;
    relocation.symbol = symbol.name;
    relocation.addend = symbol.offset;
    if (width != 8)
      fail("an address that is not 64 bits wide");
    variable.relocations.push_back(relocation);
  } else {
    Operand value = literal();
    bits = value.bits;
    if (value.kind == Operand::Kind::Float64 && type == Type::F32)
      bits = std::bit_cast<uint32_t>(float(std::bit_cast<double>(bits)));
  }
  for (size_t byte = 0; byte < width; ++byte)
    variable.initial.push_back(std::byte(bits >> (8 * byte)));
}

void Parser::initializer(Variable &variable, const Declaration &shape) {
  size_t width = bytesOf(shape.type);
  if (!accept("{")) {
    initialElement(variable, width, shape.type);
    return;
  }
  int depth = 1;
  while (depth > 0) {
    if (accept("{"))
      ++depth;
    else if (accept("}"))
      --depth;
    else if (!accept(","))
      initialElement(variable, width, shape.type);
  }
}

void Parser::moduleVariable(Space space, bool external) {
  do {
    Declaration shape = declaration();
    auto variable = std::make_unique<Variable>();
    variable->name = shape.name;
    variable->space = space;
    variable->alignment = shape.alignment;
    variable->bytes = bytesOf(shape.type) * shape.vector * shape.count;
    if (accept("="))
      initializer(*variable, shape);
    if (variable->bytes == 0)
      variable->bytes = variable->initial.size();
    if (external && space == Space::Shared)
      variable->dynamic = true;
    else if (external)
      fail("variable " + shape.name + " is declared but defined nowhere");
    if (variable->initial.size() > variable->bytes)
      fail("more initial values than variable " + shape.name + " has elements");
    variables[shape.name] = variable.get();
    module.variables.push_back(std::move(variable));
  } while (accept(","));
  expect(";");
}

std::vector<Place> Parser::parameterList(Function &function, Builder *builder) {
  std::vector<Place> places;
  expect("(");
  while (!accept(")")) {
    if (!accept(".param") && !accept(".reg"))
      fail("expected a parameter");
    Declaration shape = declaration();
    size_t bytes = bytesOf(shape.type) * shape.vector * shape.count;
    if (function.isEntry) {
      size_t offset = (function.parameterBytes + shape.alignment - 1) / shape.alignment * shape.alignment;
      function.parameterBytes = offset + bytes;
      places.push_back({offset, bytes});
      function.parameters.push_back({offset, bytes});
      builder->declare(shape.name, {Name::Kind::EntryParameter, 0, places.back()});
    } else if (builder) {
      places.push_back(builder->newLocal(bytes, std::max<size_t>(shape.alignment, 8)));
      builder->declare(shape.name, {Name::Kind::Local, 0, places.back()});
    }
    if (!is(")"))
      expect(",");
  }
  return places;
}

void Parser::functionHead(bool isEntry) {
  size_t resultsAt = at;
  bool hasResults = is("(");
  if (hasResults)
    while (!accept(")"))
      ++at;
  std::string name = word();
  Function *&known = functions[name];
  if (!known) {
    module.functions.push_back(std::make_unique<Function>());
    known = module.functions.back().get();
    known->name = name;
    known->index = int(module.functions.size()) - 1;
    known->module = &module;
  }
  Function &function = *known;
  function.isEntry = isEntry;
  size_t parametersAt = at;
  if (is("(")) // what follows the parameters decides whether this is a definition
    while (!accept(")"))
      ++at;
  while (!is("{") && !is(";")) {
    if (peek().kind == Token::Kind::End)
      fail("the text ends inside of the declaration of " + name);
    if (is(".maxntid") || is(".reqntid")) {
      ++at;
      function.maxThreads = uint32_t(unsignedNumber());
      while (accept(","))
        function.maxThreads *= uint32_t(unsignedNumber());
    } else {
      ++at; // .minnctapersm, .noreturn and the like
    }
  }
  size_t bodyAt = at;
  if (accept(";"))
    return;
  if (function.isDefined)
    fail("function " + name + " is defined twice");
  function.isDefined = true;
  Builder builder(module, function, variables, functions);
  at = resultsAt;
  if (hasResults)
    function.returned = parameterList(function, &builder);
  at = parametersAt;
  if (is("("))
    function.incoming = parameterList(function, &builder);
  at = bodyAt;
  body(builder);
}

void Parser::body(Builder &builder) {
  expect("{");
  int depth = 1;
  steps.clear();
  tables.clear();
  auto brace = [&](Step::Kind kind) { steps.emplace_back().kind = kind; };
  while (depth > 0) {
    if (peek().kind == Token::Kind::End)
      fail("the text ends inside of function " + builder.function.name);
    if (accept("{")) {
      brace(Step::Kind::Open);
      ++depth;
    } else if (accept("}")) {
      if (--depth > 0)
        brace(Step::Kind::Close);
    } else if (accept(";")) {
      continue;
    } else if (peek().text[0] == '.' && peek().kind == Token::Kind::Word) {
      bodyDirective(builder);
    } else if (is(":", 1)) {
      labelOrTable();
    } else {
      bodyStatement();
    }
  }
  builder.build(std::move(steps), tables);
}

void Parser::labelOrTable() {
  uint32_t line = peek().line;
  std::string name = word();
  expect(":");
  if (accept(".branchtargets")) {
    std::vector<std::string> targets;
    do
      targets.push_back(word());
    while (accept(","));
    expect(";");
    tables[name] = std::move(targets);
  } else if (is(".callprototype")) {
    skipStatement();
  } else {
    Step &step = steps.emplace_back();
    step.kind = Step::Kind::Label;
    step.name = std::move(name);
    step.line = line;
  }
}

void Parser::bodyDirective(Builder &builder) {
  auto declare = [&](std::string name, Name value) {
    Step &step = steps.emplace_back();
    step.kind = Step::Kind::Name;
    step.name = std::move(name);
    step.value = value;
  };
  std::string directive = word();
  if (directive == ".loc" || directive == ".file") {
    --at;
    skipLine();
  } else if (directive == ".pragma") {
    skipStatement();
  } else if (directive == ".reg") {
    do {
      Declaration shape = declaration();
      for (uint32_t i = 0; i < std::max(shape.range, 1u); ++i)
        declare(shape.range ? shape.name + std::to_string(i) : shape.name, {Name::Kind::Register, 0, {}});
      builder.function.registers += int(std::max(shape.range, 1u));
    } while (accept(","));
    expect(";");
  } else if (directive == ".local" || directive == ".param") {
    do {
      Declaration shape = declaration();
      size_t bytes = bytesOf(shape.type) * shape.vector * shape.count;
      Place place = builder.newLocal(bytes, std::max<size_t>(shape.alignment, 8));
      declare(shape.name, {Name::Kind::Local, 0, place});
    } while (accept(","));
    expect(";");
  } else if (directive == ".shared" || directive == ".global" || directive == ".const") {
    Space space = directive == ".shared" ? Space::Shared : directive == ".const" ? Space::Const : Space::Global;
    moduleVariable(space, false);
  } else {
    fail("unknown directive " + directive);
  }
}

void Parser::bodyStatement() {
  Statement &statement = steps.emplace_back().statement;
  if (accept("@")) {
    statement.negated = accept("!");
    statement.predicate = word();
  }
  statement.line = peek().line;
  if (peek().kind != Token::Kind::Word)
    fail("expected an instruction but found `" + std::string(peek().text) + "`");
  statement.opcode = next().text;
  statement.parts.reserve(6);
  statement.operands.reserve(4);
  for (size_t begin = 0; begin <= statement.opcode.size();) {
    size_t end = std::min(statement.opcode.find('.', begin), statement.opcode.size());
    statement.parts.push_back(statement.opcode.substr(begin, end - begin));
    if (Type type = typeOf(statement.parts.back()); type != Type::None)
      statement.types.push_back(type);
    begin = end + 1;
  }
  while (!accept(";")) {
    statement.operands.push_back(operand());
    if (!is(";"))
      expect(",");
  }
}

void Parser::run() {
  bool external = false;
  while (peek().kind != Token::Kind::End) {
    std::string directive = word();
    if (directive == ".version" || directive == ".target" || directive == ".file" || directive == ".loc") {
      --at;
      skipLine();
    } else if (directive == ".address_size") {
      if (unsignedNumber() != 64)
        fail("only 64-bit addresses are supported");
    } else if (directive == ".visible" || directive == ".weak" || directive == ".extern" || directive == ".common") {
      external = directive == ".extern";
    } else if (directive == ".entry" || directive == ".func") {
      functionHead(directive == ".entry");
      external = false;
    } else if (directive == ".global" || directive == ".const" || directive == ".shared") {
      moduleVariable(directive == ".global"  ? Space::Global
                     : directive == ".const" ? Space::Const
                                             : Space::Shared,
                     external);
      external = false;
    } else if (directive == ".section") {
      while (!accept("}"))
        ++at;
    } else if (directive == ".pragma") {
      skipStatement();
    } else {
      --at;
      fail("unknown directive " + directive);
    }
  }
}

/// Gives shared variables their offsets. Those that several functions use come first and lie at the same place in
/// all kernels; each kernel's own ones follow.
void placeShared(Module &module) {
  auto place = [](Variable &variable, size_t &end) {
    size_t alignment = std::max<size_t>(variable.alignment, 1);
    end = (end + alignment - 1) / alignment * alignment;
    variable.address = end;
    end += variable.bytes;
  };
  auto owner = [&](const Variable &variable) -> Function * {
    std::set<int> users(variable.users.begin(), variable.users.end());
    Function *function = users.size() == 1 ? module.functions[size_t(*users.begin())].get() : nullptr;
    return function && function->isEntry ? function : nullptr;
  };
  size_t common = 0;
  for (auto &variable : module.variables)
    if (variable->space == Space::Shared && !variable->dynamic && !variable->users.empty() && !owner(*variable))
      place(*variable, common);
  for (auto &function : module.functions)
    function->sharedBytes = common;
  for (auto &variable : module.variables)
    if (variable->space == Space::Shared && !variable->dynamic)
      if (Function *function = owner(*variable))
        place(*variable, function->sharedBytes);
}

} // namespace

Module::Module() = default;
Module::~Module() = default;

std::unique_ptr<Module> Module::parse(std::string_view text) {
  auto module = std::make_unique<Module>();
  Parser(text, *module).run();
  for (const auto &function : module->functions)
    for (const CallSite &site : function->calls)
      if (site.callee && !site.callee->isDefined)
        throw ParseError("line 1: function " + site.callee->name + " is called but defined nowhere");
  placeShared(*module);
  return module;
}

} // namespace kerf::standin::ptx
