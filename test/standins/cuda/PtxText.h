// SPDX-License-Identifier: Apache-2.0
// Tokens, operands and statements of PTX text, and the builder that turns a statement into decoded instructions.
#pragma once

#include "PtxInst.h"

#include <map>
#include <unordered_map>

namespace kerf::standin::ptx {

/// Throws a ParseError that begins with the line number.
[[noreturn]] void failAt(uint32_t line, const std::string &text);

/// One token. Punctuation is a token of one character.
struct Token {
  enum class Kind : uint8_t { Word, Number, Text, Punctuation, End };
  Kind kind = Kind::End;
  std::string_view text;
  uint32_t line = 0;
};

/// Splits PTX text into tokens, without comments. The last token is of kind End.
std::vector<Token> tokenize(std::string_view text);

/// One operand of an instruction.
struct Operand {
  enum class Kind : uint8_t { Name, Integer, Float32, Float64, Address, Vector, Pair, Tuple };
  Kind kind = Kind::Name;
  std::string name;           // register, variable, label or function
  uint64_t bits = 0;          // value of a literal
  int64_t offset = 0;         // bytes added to an address or to a variable's address
  bool negated = false;       // `!%p`
  std::vector<Operand> parts; // elements of a vector, pair or tuple; the base of an address
};

/// Types of operands.
enum class Type : uint8_t {
  None,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  B8,
  B16,
  B32,
  B64,
  F16,
  BF16,
  F32,
  F64,
  F16x2,
  BF16x2,
  Pred
};

/// Returns the type with this name (`u32`), or None.
Type typeOf(std::string_view name);
/// Returns the width of a type in bytes; a predicate has one.
size_t bytesOf(Type type);
bool isSigned(Type type);
bool isFloat(Type type);

/// Returns whether `part` says only how memory is ordered or cached, which the interpreter need not know.
bool isMemoryQualifier(std::string_view part);

/// One instruction as text.
struct Statement {
  uint32_t line = 0;
  // The opcode, with all its parts, and these: `ld`, `global`, `b32`. They are in the PTX text.
  std::string_view opcode;
  std::vector<std::string_view> parts;
  std::vector<Type> types; // those of the parts that are types, in order
  std::vector<Operand> operands;
  std::string predicate; // name of the guarding predicate register, or empty
  bool negated = false;  // `@!%p`

  /// Returns whether the instruction has this part.
  bool has(std::string_view part) const {
    for (std::string_view each : parts)
      if (each == part)
        return true;
    return false;
  }
  /// Returns the last part that is a type, or None.
  Type type() const { return types.empty() ? Type::None : types.back(); }
};

/// The meaning of a name in a function: a register, a variable or a parameter.
struct Name {
  enum class Kind : uint8_t { Register, Local, EntryParameter };
  Kind kind = Kind::Register;
  int32_t slot = 0;         // of a register
  Place place;              // of a local variable or parameter
  bool isReadFirst = false; // a register that may be read before it is written
};

/// One step of a function's body, in the order of the text.
struct Step {
  enum class Kind : uint8_t { Open, Close, Name, Label, Statement }; // the first two are braces
  Kind kind = Kind::Statement;
  std::string name; // that is declared
  uint32_t line = 0;
  Name value;
  Statement statement;
};

/// Labels of branch tables, by the name of the table.
using BranchTables = std::unordered_map<std::string, std::vector<std::string>>;

/// Returns whether the first operand of a statement is written, and not read.
bool writesOperand(const Statement &statement);
/// Numbers the slots of the registers that the steps declare, from 0 on. Registers that are not in use at the same time
/// share one.
void shareSlots(std::deque<Step> &steps, const BranchTables &tables);

/// Turns the statements of one function into instructions.
class Builder {
public:
  Builder(Module &module, Function &function, const std::unordered_map<std::string, Variable *> &variables,
          const std::unordered_map<std::string, Function *> &functions);

  /// Declares a parameter of the function.
  void declare(const std::string &name, Name value);
  /// Reserves a slot with an initial content.
  int32_t newSlot(uint64_t content = 0);
  /// Reserves bytes in the function's frame of local memory.
  Place newLocal(size_t bytes, size_t alignment);
  /// Decodes the function's body. Fails if an instruction or a name is unknown.
  void build(std::deque<Step> steps, const BranchTables &tables);

  // The functions below are for the decoders of instruction families.

  /// Returns the slot that holds an operand, for an instruction that reads it as `type`.
  int32_t source(const Operand &operand, Type type);
  /// Returns the slot that an operand names as destination.
  int32_t destination(const Operand &operand);
  /// Returns the slot of a constant.
  int32_t constant(uint64_t bits);
  /// Returns the slot that holds an address's base; `*offset` receives the constant bytes to be added.
  int32_t address(const Operand &operand, int32_t *offset, Space *space);
  /// Looks a name up; returns null if it is no register, local variable or parameter.
  const Name *find(const std::string &name) const;
  /// Appends an instruction.
  Inst &emit(Handler handler, int32_t d = 0, int32_t a = 0, int32_t b = 0, int32_t c = 0, int32_t e = 0);
  /// Keeps a list of slots for as long as the function lives.
  const int32_t *list(std::vector<int32_t> slots);
  /// Makes the instruction that is emitted next branch to a label, by its distance in field `a` .
  void branchTo(const std::string &label);
  /// Appends a branch table's jump.
  void branchByTable(const Operand &table, int32_t indexSlot);
  /// Returns a description of a call.
  CallSite &callSite(const Statement &statement);
  /// Fails with a text about the current statement.
  [[noreturn]] void fail(const std::string &text) const;
  /// Fails unless the statement has this number of operands.
  void expect(size_t operands) const;
  /// Fails if the statement has a part, beside its name and types, that is not listed.
  void allow(std::initializer_list<std::string_view> parts) const;

  Function &function;

private:
  struct Jump {
    size_t inst;
    std::string label;
    uint32_t line;
  };
  struct TableJump {
    size_t inst;
    std::string table;
    uint32_t line;
  };
  void label(const std::string &name, uint32_t line);
  void declareRegister(const Step &step);
  void add(const Statement &statement);
  void decode(const Statement &statement);
  void finish(const BranchTables &tables);
  Place argumentPlace(const Operand &operand) const;

  Module &module;
  const std::unordered_map<std::string, Variable *> &variables;
  const std::unordered_map<std::string, Function *> &functions;
  std::vector<std::unordered_map<std::string, Name>> scopes;
  std::unordered_map<uint64_t, int32_t> constants;
  std::map<std::pair<const Variable *, int64_t>, int32_t> addresses;
  std::unordered_map<std::string, size_t> labels;
  std::unordered_map<int32_t, int32_t> registerSlots; // by the number that `shareSlots` has given
  std::vector<Jump> jumps;
  std::vector<TableJump> tableJumps;
  const Statement *current = nullptr;
  bool writes = false; // the statement's first operand is written
  bool flush = false;  // the statement has `.ftz`
};

// Decoders of instruction families. Each returns false if the instruction is not of its family, and fails if it is
// but has a form that the interpreter does not know.
bool decodeInteger(Builder &builder, const Statement &statement);
bool decodeBits(Builder &builder, const Statement &statement);
bool decodeFloat(Builder &builder, const Statement &statement);
bool decodeHalf(Builder &builder, const Statement &statement);
bool decodeCompare(Builder &builder, const Statement &statement);
bool decodeConvert(Builder &builder, const Statement &statement);
bool decodeMove(Builder &builder, const Statement &statement);
bool decodeMemory(Builder &builder, const Statement &statement);
bool decodeAtomic(Builder &builder, const Statement &statement);
bool decodeControl(Builder &builder, const Statement &statement);

// Handlers that several families use. They are chosen for the processor when the program starts.
/// Replaces a subnormal f32 by zero of the same sign: slot `d` from slot `a`.
extern const Handler flushSubnormal;
/// Branches: the distance is in field `a`, the predicate in field `b`.
extern const Handler branchAlways, branchIf, branchIfNot, branchIndexed;
/// Compute an address in slot `d`: field `a` is added to the frame's local or dynamic shared memory.
extern const Handler addressOfLocal, addressOfDynamicShared;
/// Copies slot `a` to slot `d`.
extern const Handler copySlot;
/// Inverts a predicate.
extern const Handler notPredicate;

/// Rounding modes of PTX.
enum class Rounding : uint8_t { NearestEven, Zero, Down, Up, NearestAway };

/// Rounds `value` to a binary floating-point format and returns its bits. Subnormal results are exact, too large ones
/// become infinity or the largest number as the mode says. `exponentBits` 5 and `fractionBits` 10 is f16.
uint64_t encodeFloat(double value, int exponentBits, int fractionBits, Rounding rounding);
/// Returns the value of an f16 or bf16.
float halfToFloat(uint16_t bits);
float bfloatToFloat(uint16_t bits);

} // namespace kerf::standin::ptx
