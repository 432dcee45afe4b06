// SPDX-License-Identifier: Apache-2.0
// The error type of all code that does not use MLIR: a function returns either a value or one message for the user.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace kerf {

/// The exit code of the `kerf` process: success, faulty input, a request that no plan satisfies, or a failed internal
/// consistency check (docs/interface.md).
enum class ExitStatus { Ok = 0, BadInput = 1, Infeasible = 2, InternalCheck = 3 };

/// An error for the user. The message says what is wrong and where, gives the offending number next to the permitted
/// one, and names a way out.
struct Error {
  std::string message;                      // text for the user, without a trailing newline
  ExitStatus status = ExitStatus::BadInput; // exit code of the process if the error ends it
};

/// Either a value of type T or an Error. Typical use: `if (!result) return result.error();`, then `*result`.
template <typename T> class [[nodiscard]] Result {
public:
  /// Makes a result that holds a value.
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  /// Makes a result that holds an error.
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  /// Returns whether the result holds a value rather than an error.
  explicit operator bool() const { return state.index() == 0; }
  T &operator*() { return std::get<0>(state); }
  const T &operator*() const { return std::get<0>(state); }
  T *operator->() { return &std::get<0>(state); }
  const T *operator->() const { return &std::get<0>(state); }
  /// Returns the error; must not be called on a result that holds a value.
  const Error &error() const { return std::get<1>(state); }

private:
  std::variant<T, Error> state;
};

/// The empty value of a Result that only reports success.
struct Unit {};
/// Success, or an Error. A function that succeeds returns `ok()`.
using Status = Result<Unit>;
/// Returns the Status that means success.
inline Status ok() { return Unit{}; }

} // namespace kerf
