// SPDX-License-Identifier: Apache-2.0
#include "Calls.h"
#include "kerf/Compiler/JobSettings.h"
#include "kerf/Compiler/SavedJob.h"
#include "kerf/Support/Settings.h"

#include <algorithm>

namespace kerf::python {

namespace {

/// Returns the keyword argument of a setting, or nothing if the Python package has none of that name.
std::optional<std::string> keywordOf(std::string_view name, std::string_view value) {
  static const std::map<std::string_view, const char *> other = {{"for", "trainer"},
                                                                 {"from", "start"},
                                                                 {"metric", "metrics"},
                                                                 {"group", "groups"},
                                                                 {"lr-schedule", "lr_schedule"},
                                                                 {"search", "search"},
                                                                 {"budget", "budget"},
                                                                 {"top", "top"},
                                                                 {"ranks", "ranks"},
                                                                 {"cluster", "cluster"},
                                                                 {"model", "model"},
                                                                 {"plan", "plan"},
                                                                 {"what-if", "what_if"},
                                                                 {"op", "op"},
                                                                 {"constraints", "constraints"},
                                                                 {"device", "device"},
                                                                 {"threads", "threads"},
                                                                 {"on-nan", "on_nan"}};
  static constexpr std::string_view kFlags[] = {"all-ranks", "accept-folded", "no-recognition", "nesterov"};
  const std::vector<std::string> &settings = jobSettingNames();
  std::string keyword;
  if (auto found = other.find(name); found != other.end())
    keyword = found->second;
  else if (std::find(settings.begin(), settings.end(), name) != settings.end())
    keyword = name;
  else
    return std::nullopt;
  std::replace(keyword.begin(), keyword.end(), '-', '_');
  if (std::find(std::begin(kFlags), std::end(kFlags), name) != std::end(kFlags))
    return keyword + "=True";
  keyword += "=";
  const bool number = !value.empty() && value.find_first_not_of("0123456789.") == value.npos;
  return value.empty() ? keyword : number ? keyword + std::string(value) : keyword + "'" + std::string(value) + "'";
}

/// Returns the message with options that it spells as on the command line ("--momentum") as keyword arguments.
std::string withoutOptions(std::string_view message) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-";
  std::string text;
  for (size_t open; (open = message.find("--")) != message.npos;) {
    const size_t end = std::min(message.find_first_not_of(kLetters, open + 2), message.size());
    const bool inWord = open > 0 && kLetters.find(message[open - 1]) != kLetters.npos;
    auto keyword = inWord ? std::nullopt : keywordOf(message.substr(open + 2, end - open - 2), "");
    text += message.substr(0, keyword ? open : end);
    text += keyword.value_or("");
    message.remove_prefix(end);
  }
  return text.append(message);
}

/// Makes the exception of kerf.errors for an error the current one.
void raise(const KerfError &error) {
  nb::object type = nb::module_::import_("kerf.errors")
                        .attr(error.status == ExitStatus::Infeasible      ? "InfeasibleError"
                              : error.status == ExitStatus::InternalCheck ? "InternalError"
                                                                          : "InputError");
  std::string message = asKeywords(error.what());
  PyErr_SetObject(type.ptr(), nb::str(message.c_str(), message.size()).ptr());
}

} // namespace

std::string asKeywords(const std::string &message) { return withoutOptions(spellSettings(message, keywordOf)); }

std::vector<std::string> asKeywords(std::vector<std::string> messages) {
  for (std::string &message : messages)
    message = asKeywords(message);
  return messages;
}

void registerErrors() {
  nb::register_exception_translator([](const std::exception_ptr &thrown, void *) {
    try {
      std::rethrow_exception(thrown);
    } catch (const KerfError &error) {
      raise(error);
    }
  });
}

bool Watch::stop() {
  auto now = std::chrono::steady_clock::now();
  if (stopped || now - looked < std::chrono::milliseconds(50))
    return stopped;
  looked = now;
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0)
    return false;
  // Ctrl-C ends the search with the best plan so far. Another exception, of a signal handler of the user's, goes on.
  nb::python_error error;
  if (!error.matches(PyExc_KeyboardInterrupt))
    raised = std::make_exception_ptr(std::move(error));
  return stopped = true;
}

void Watch::tell(double best, double bound) {
  if (!progress || stopped)
    return;
  nb::gil_scoped_acquire gil;
  try {
    stopped = !progress(best, bound);
  } catch (nb::python_error &error) {
    raised = std::make_exception_ptr(std::move(error));
    stopped = true;
  }
}

void Watch::rethrow() const {
  if (raised)
    std::rethrow_exception(raised);
}

} // namespace kerf::python
