// SPDX-License-Identifier: Apache-2.0
// Calls, bound to their memory and ready to be enqueued.
#pragma once

#include "Context.h"

namespace kerf::runtime::ascend {

/// A call of an operator with the objects of its arguments. The first of the operator's two calls is made once, where
/// the executor that it gives can be used again and again; otherwise it is made for each launch.
class BoundOperator {
public:
  static Result<std::unique_ptr<BoundOperator>> bind(const std::shared_ptr<Context> &context, const OperatorCall &call);
  ~BoundOperator();
  BoundOperator(const BoundOperator &) = delete;
  Status launch(AscendStream &stream);

private:
  BoundOperator(std::shared_ptr<Context> context, const Operator &one) : context(std::move(context)), one(one) {}
  Status makeHandles(const std::vector<Argument> &arguments);
  /// Makes the first call.
  Status prepare();
  std::shared_ptr<Context> context;
  const Operator &one;
  OperatorFunctions functions;
  std::vector<Handle> handles;
  std::vector<std::string> texts; // that handles point to
  void *executor = nullptr;
  uint64_t workspaceBytes = 0;
  bool isRepeatable = false;
};

/// One thing to enqueue.
using Launch = std::variant<std::unique_ptr<BoundOperator>, CopyCall, ClearCall, std::unique_ptr<HostCall>>;

/// Binds calls. Fails where an operator is missing or does not take its arguments.
Result<std::vector<Launch>> launchesOf(const std::shared_ptr<Context> &context, std::vector<Call> calls);
/// Enqueues the launches, one after the other.
Status launchAll(std::vector<Launch> &launches, AscendStream &stream);

} // namespace kerf::runtime::ascend
