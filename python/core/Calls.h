// SPDX-License-Identifier: Apache-2.0
// The parts that all functions of the Python module share: errors as exceptions, and calls that Python can interrupt.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include <nanobind/nanobind.h>

#include <chrono>
#include <functional>

namespace kerf::python {

namespace nb = nanobind;

/// An error of the libraries on its way to Python, where it becomes one of the exceptions of kerf.errors.
struct KerfError : std::runtime_error {
  explicit KerfError(const Error &error) : std::runtime_error(error.message), status(error.status) {}
  ExitStatus status;
};

/// Returns the value of a result. Throws its error.
template <typename T> T take(Result<T> result) {
  if (!result)
    throw KerfError(result.error());
  return std::move(*result);
}
inline void take(const Status &status) {
  if (!status)
    throw KerfError(status.error());
}

/// Returns a message in which each setting "<name>" is written as the keyword argument "name=".
std::string asKeywords(const std::string &message);
/// Returns each of the messages in that form.
std::vector<std::string> asKeywords(std::vector<std::string> messages);

/// Raises KerfError as an exception of kerf.errors.
void registerErrors();

/// The progress of a search, as a Python function takes it: the step seconds of the best plan so far (0: none) and the
/// lower bound. If it returns false, the search ends with the best plan so far.
using Progress = std::function<bool(double best, double bound)>;

/// Tells Python of the progress of a search, and asks Python whether the search has to end. The calls come from a
/// thread that does not hold the GIL.
class Watch {
public:
  explicit Watch(Progress progress) : progress(std::move(progress)) {}
  /// Returns whether Ctrl-C was pressed, or the progress function asked for the end of the search. Looks for Ctrl-C at
  /// most twenty times a second, because that needs the GIL.
  bool stop();
  /// Passes the progress on to Python.
  void tell(double best, double bound);
  /// Throws the exception that the progress function has raised, if any.
  void rethrow() const;
  /// Returns whether Ctrl-C or the progress function ended the search.
  bool interrupted() const { return stopped; }

private:
  Progress progress;
  std::chrono::steady_clock::time_point looked = {};
  std::exception_ptr raised;
  bool stopped = false;
};

void addQuestions(nb::module_ &module);
void addTraining(nb::module_ &module);
void addCommandLines(nb::module_ &module);

} // namespace kerf::python
