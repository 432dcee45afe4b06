// SPDX-License-Identifier: Apache-2.0
// Loads PTX text as LLVM's NVPTX back end writes it, and runs its kernels on the CPU by interpretation.
// An instruction that the interpreter does not know is an error when the text is loaded, with its line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::standin::ptx {

constexpr int kWarp = 32; // threads of a warp

/// Error in PTX text. Its message begins with the line number.
class ParseError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A state space of PTX. Constant variables live in device memory, as global ones do.
enum class Space : uint8_t { Generic, Global, Shared, Local, Param, Const };

/// Places an address of another variable into a variable's initial bytes.
struct Relocation {
  size_t offset = 0;  // bytes from the beginning of the variable that holds the address
  size_t bytes = 8;   // width of the stored address
  std::string symbol; // name of the variable that the address points to
  int64_t addend = 0; // bytes added to the address
};

/// A variable of a module: global, constant or shared.
struct Variable {
  std::string name;
  Space space = Space::Global;
  size_t bytes = 0;
  size_t alignment = 1;
  std::vector<std::byte> initial; // the first bytes of the variable; the rest is zero
  std::vector<Relocation> relocations;
  uint64_t address = 0;   // device address of a global or constant variable, set before `Module::link`
  bool dynamic = false;   // an `.extern .shared` array, whose size a launch gives
  std::vector<int> users; // indices of the functions that name a shared variable
};

/// A parameter of a kernel: its place in the buffer of arguments.
struct Parameter {
  size_t offset = 0;
  size_t bytes = 0;
};

struct Function;
class TrafficCounter;

/// One loaded PTX text.
class Module {
public:
  Module();
  ~Module();

  /// Parses `text`. Throws ParseError where the text is wrong or holds something unknown.
  static std::unique_ptr<Module> parse(std::string_view text);

  /// Puts the addresses of variables into the code, after the caller has set `address` of global and constant ones.
  void link();

  /// Returns the kernel with this name, or null if there is none.
  const Function *entry(std::string_view name) const;

  /// Returns the variable with this name, or null if there is none.
  Variable *variable(std::string_view name);

  /// Returns the bytes of `variable` with the addresses of other variables filled in.
  std::vector<std::byte> image(const Variable &variable);

  std::vector<std::unique_ptr<Variable>> variables;
  std::vector<std::unique_ptr<Function>> functions;
};

/// Returns the parameters of a kernel, in order.
const std::vector<Parameter> &parametersOf(const Function &kernel);
/// Returns the bytes of the buffer that holds all arguments of a kernel.
size_t parameterBytesOf(const Function &kernel);
/// Returns the bytes of shared memory that a kernel declares, without the dynamic part.
size_t staticSharedBytesOf(const Function &kernel);
/// Returns the most threads a block of this kernel may have (`.maxntid`, or 1024).
uint32_t maxThreadsOf(const Function &kernel);
/// Returns the bytes of local memory that one thread of the kernel uses, without calls.
size_t localBytesOf(const Function &kernel);
/// Returns the kernel's name.
const std::string &nameOf(const Function &kernel);
/// Returns the number of registers that the kernel declares, at most 255.
int registersOf(const Function &kernel);

/// One live allocation of the device: device addresses and where their bytes lie in the host's memory.
struct Region {
  uint64_t address = 0;
  uint64_t bytes = 0;
  std::byte *host = nullptr;
};

/// Size of a grid or of a block.
struct Extent {
  uint32_t x = 1, y = 1, z = 1;
};

/// How the lanes of a warp run: together while they execute the same instructions, or each one alone until it waits for
/// others. Kernels without races do the same in both ways; tests compare them.
enum class Lanes : uint8_t { Together, Alone };

/// The arguments of one launch of a kernel.
struct Launch {
  Extent grid, block;
  uint32_t dynamicSharedBytes = 0;
  std::span<const std::byte> arguments; // laid out as `parametersOf` says
  /// Finds the live allocation that holds a device address; returns false if there is none.
  std::function<bool(uint64_t address, Region &region)> find;
  /// Counts the launch's accesses to global memory; null if nobody asks for them.
  TrafficCounter *traffic = nullptr;
  Lanes lanes = Lanes::Together;
};

/// Numbers of CUresult that a launch can end with.
enum class FaultCode : int { IllegalAddress = 700, Misaligned = 716, LaunchTimeout = 702, LaunchFailed = 719 };

/// Error of a launch, with a text that names the instruction's line.
struct Fault {
  FaultCode code = FaultCode::LaunchFailed;
  std::string text;
};

/// Runs a kernel to its end on the calling thread. Returns the fault that ended it early, or nothing.
/// Adds the number of executed instructions to `*instructions` unless the pointer is null.
std::optional<Fault> run(const Function &kernel, const Launch &launch, uint64_t *instructions = nullptr);

} // namespace kerf::standin::ptx
