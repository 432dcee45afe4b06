// SPDX-License-Identifier: Apache-2.0
// kerf explain: prints why a plan was chosen, and how two plans differ.
#include "Options.h"
#include "kerf/Compiler/ExplainJob.h"

#include <fmt/core.h>

namespace kerf::tool {

namespace {

struct ExplainCommand {
  std::string plan, other, op, trainer;
  std::vector<std::string> whatIf;
  bool json = false;

  int run() {
    auto saved = readPlan(plan);
    if (!saved)
      return fail(saved.error());
    ExplainRequest request{plan, std::move(*saved), other, std::nullopt, op, {whatIf, trainer}};
    if (!other.empty()) {
      auto read = readPlan(other);
      if (!read)
        return fail(read.error());
      request.other = std::move(*read);
    }
    request.onSearchBegin = [](const std::string &what) { fmt::print(stderr, "searching: {}\n", what); };
    request.stop = isInterrupted;
    auto context = createContext();
    auto answer = explain(*context, request);
    if (!answer)
      return fail(answer.error());
    if (json)
      fmt::print("{}\n", answer->json.dump(2));
    else
      fmt::print("{}", answer->text);
    return 0;
  }
};

} // namespace

void addExplainCommand(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<ExplainCommand>(app, "explain",
                                                   "Explain why a plan was chosen, or how two plans differ.\n"
                                                   "Example: kerf explain plan.json --op attn.c_proj",
                                                   status);
  sub->add_option("PLAN", command->plan, "plan to explain: plan.json, as `kerf plan -o` wrote it")->required();
  sub->add_option("OTHER", command->other, "second plan.json; the output is the differences between the two plans");
  sub->add_option("--op", command->op,
                  "explain only the operators whose name matches this glob pattern (plans of --search placement)");
  sub->add_option(
      "--what-if", command->whatIf,
      "find the best plan after scaling one quantity of the job (plans of --search whole): a quantity, * or /, and a "
      "number above 0, such as \"infiniband.bandwidth*2\", \"device.memory*1.5\", \"ranks/2\" or "
      "\"global_batch*2\" (repeatable)");
  addTrainer(*sub, command->trainer);
  sub->add_flag("--json", command->json, "print JSON instead of text");
}

} // namespace kerf::tool
