// SPDX-License-Identifier: Apache-2.0
// How a room without MLIR says that something failed: the value, or one message for the user.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace kerf {

/// What the process returns to the shell (docs/interface.md).
enum class ExitStatus { Ok = 0, BadInput = 1, Infeasible = 2, InternalCheck = 3 };

/// One message: what, where, both numbers, the way out.
struct Error {
  std::string message;
  ExitStatus status = ExitStatus::BadInput;
};

/// A T, or an Error. `if (!r) return r.error();`
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state.index() == 0; }
  T &operator*() { return std::get<0>(state); }
  const T &operator*() const { return std::get<0>(state); }
  T *operator->() { return &std::get<0>(state); }
  const T *operator->() const { return &std::get<0>(state); }
  const Error &error() const { return std::get<1>(state); }

private:
  std::variant<T, Error> state;
};

struct Unit {};
/// Success, or an Error. `return ok();`
using Status = Result<Unit>;
inline Status ok() { return Unit{}; }

} // namespace kerf
